"""Stages that measure steps: compared with torch.compile, and with programs of the same model but other flags."""
import array
import contextlib
import itertools
import json
import os
import pathlib
import random
import select
import statistics
import subprocess
import sys
import time

from .cases import BENCHES, COMPARED, SPARE_TOKENS, WAYS
from .machine import Watch, ask_gpu

PEER = pathlib.Path(__file__).with_name("peer.py")
PAIRS = 3
WARM_UP = 5  # first steps, which are not measured
TOKENS = ("--data-type", "uint16")
FASTER = 1.0  # minimum speed relative to torch.compile
MATMUL_PART = 0.55  # minimum flops per second, as a fraction of the matmul rate
LOSSES_ALIKE = 2e-2  # maximum relative difference of losses between programs that round differently


class Peer:
    """The PyTorch program (peer.py), which is started once and measures steps on request."""

    numbers = itertools.count()

    def __init__(self, checks, spec):
        self.checks, self.said, self.errors = checks, b"", checks.folder / f"peer-{next(self.numbers)}.txt"
        self.compiled = None  # seconds in which the peer compiled its model, when known
        with self.errors.open("w") as errors:  # without -P, kernels.py of this folder would hide a package that transformers imports
            self.process = subprocess.Popen([sys.executable, "-P", PEER, json.dumps(spec)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.returncode is None:
            self.process.kill()
            self.process.communicate()

    def hear(self):
        """Waits for the peer's next line of JSON, and returns its contents."""
        while True:
            while b"\n" in self.said:
                line, self.said = self.said.split(b"\n", 1)
                if line.startswith(b"{"):
                    return json.loads(line)
            if not select.select([self.process.stdout], [], [], max(1, self.checks.left()))[0]:
                raise subprocess.TimeoutExpired("the peer", int(self.checks.left()))
            part = os.read(self.process.stdout.fileno(), 1 << 16)
            if not part:
                raise RuntimeError("the peer ended: " + " ".join(self.errors.read_text().split())[-400:])
            self.said += part

    def wait_until_ready(self):
        if self.compiled is None:
            self.compiled = self.hear()["ready"]

    def measure(self):
        self.process.stdin.write(b"measure\n")
        self.process.stdin.flush()
        return self.hear()


def start_peers(checks, stages):
    """Starts the peers of all bench stages at once, so that they compile their models while other stages run."""
    for name, bench in checks.benches.items():
        if f"bench-{name}" in stages:
            checks.peers[name] = Peer(checks, bench.spec())


def wait_for_peers(checks):
    """Waits until no peer compiles, since this would disturb measurements. A stage that uses a failed peer reports the failure."""
    for peer in checks.peers.values():
        with contextlib.suppress(RuntimeError, subprocess.TimeoutExpired):
            peer.wait_until_ready()


def find_rates(checks):
    """Returns the GPU's rates of matmuls and copies, which are measured once per run."""
    if "rates" not in checks.machine:
        with Peer(checks, {"kind": "rates"}) as peer:
            checks.machine["rates"] = peer.hear()
    return checks.machine["rates"]


def draw_tokens(checks, bench, steps=40):
    """Writes a file of tokens for `steps` steps. The tokens are also valid for GPT-2's unpadded vocabulary."""
    data = checks.folder / "tokens.bin"
    tokens = range(bench.vocabulary - SPARE_TOKENS)
    data.write_bytes(array.array("H", random.Random(1).choices(tokens, k=bench.time * bench.batch * steps + 1)).tobytes())
    return data


def time_steps(checks, program, data, *flags, steps=25, **environment):
    """Returns (median seconds of a step, the lines of the log, the text on stderr)."""
    lines, said = checks.train(program, data, steps, *TOKENS, *flags, **environment)
    return statistics.median(line["step_ms"] for line in lines[WARM_UP:]) / 1e3, lines, said


def compare(checks, name):
    """Measures the compiled program and the peer in turn, up to PAIRS times. The speedup is the median of the ratios of these pairs."""
    bench = checks.benches[name]
    data, pairs, clocks = draw_tokens(checks, bench), [], []
    with checks.peers.pop(name, None) or Peer(checks, bench.spec()) as peer:
        peer.wait_until_ready()
        compiled, started = peer.compiled, time.monotonic()
        for _ in range(PAIRS):
            with Watch() as watch:
                ours = time_steps(checks, name, data)
            clocks.append(watch.clock())
            with Watch() as watch:
                theirs = peer.measure()
            clocks.append(watch.clock())
            pairs.append((ours[0], theirs["seconds"], ours[1][-1].get("flops_s", 0.0), theirs["bytes"]))
            if checks.left() < 1.3 * (time.monotonic() - started) / len(pairs):
                break
    ratio = statistics.median(theirs / ours for ours, theirs, *_ in pairs)
    times = [statistics.median(column) for column in list(zip(*pairs))[:2]]
    figures = {"times": ratio, "ours_ms": 1e3 * times[0], "torch_ms": 1e3 * times[1], "pairs": len(pairs), "torch_gb": pairs[0][3] / 1e9,
               "torch_compile_s": compiled,
               "tokens_s": bench.batch * bench.time / times[0], "flops_s": statistics.median(pair[2] for pair in pairs), "clocks": clocks,
               "each": pairs, "temperature": ask_gpu(["temperature.gpu"]).get("temperature.gpu")}  # fmt: skip
    return ratio >= FASTER or checks.rehearsal, figures


def make_bench(name):
    def bench(checks):
        if name not in checks.benches:
            return
        found = {}

        def faster():
            good, figures = compare(checks, name)
            found.update(figures)
            return good, figures

        def part():
            rate = find_rates(checks)["matmul_flops"]
            share = found["flops_s"] / rate
            return share >= MATMUL_PART or checks.rehearsal, {"of_matmul_rate": share, "asked": MATMUL_PART, "matmul_flops": rate}

        checks.attempt("against torch.compile", faster)
        if found:
            checks.attempt("part of the matmul rate", part)

    bench.__doc__ = f"A step of {name} in bf16: time compared with torch.compile, and flops per second compared with the matmul rate."
    return bench


STAGES = {f"bench-{name}": make_bench(name) for name in BENCHES}


# ---- programs of one model with different flags -------------------------------------------------------------------------------------------


def ways(checks):
    """Speedups from padding a vocabulary of 50257 rows to 50272, from GELUs in matmul epilogues, and from fp8 matmuls."""
    def compare_ways(first, second, is_asked):
        data, times, losses = draw_tokens(checks, checks.benches[WAYS[first].bench]), [], []
        for _ in range(PAIRS):
            runs = [time_steps(checks, program, data) for program in [first, second]]
            times.append([seconds for seconds, *_ in runs])
            losses = [[line["loss"] for line in lines] for _, lines, _ in runs]
        worst = max(abs(a - b) / abs(b) for a, b in zip(*losses, strict=True))
        ratio = statistics.median(other / one for one, other in times)
        one, other = (1e3 * statistics.median(column) for column in zip(*times))
        good = worst <= LOSSES_ALIKE and (ratio >= FASTER or checks.rehearsal or not is_asked)
        return good, {"times": ratio, f"{first}_ms": one, f"{second}_ms": other, "worst_loss": worst}

    for what, (first, second, is_asked) in COMPARED.items():
        if checks.has(first) and checks.has(second):
            checks.attempt(what, lambda: compare_ways(first, second, is_asked))


def attention(checks):
    """Steps with each implementation of attention: the measured choice, cuDNN, cuDNN with nondeterministic engines, and the fallback kernels."""
    if "gpt2-124m" not in checks.benches:
        return
    always = {"PSRT_ALGORITHM_TIMING": "0"}
    kinds = {"chosen": {}, "cudnn": always, "any": {**always, "PSRT_NONDETERMINISTIC": "1"}, "own": {**always, "PSRT_CUDNN": "off"}}

    def check():
        data = draw_tokens(checks, checks.benches["gpt2-124m"])
        found, notes = {kind: [] for kind in kinds}, set()
        for _ in range(PAIRS):
            for kind, more in kinds.items():
                seconds, lines, said = time_steps(checks, "gpt2-124m", data, **more)
                found[kind].append((seconds, [line["loss"] for line in lines]))
                notes |= {line for line in said.splitlines() if line.startswith("note: ") and kind == "cudnn"}
        own = found["own"][0][1]
        worst = max(abs(a - b) / abs(b) for kind in ["chosen", "cudnn", "any"] for a, b in zip(found[kind][0][1], own, strict=True))
        times = {f"{kind}_ms": 1e3 * statistics.median(seconds for seconds, _ in runs) for kind, runs in found.items()}
        return worst <= LOSSES_ALIKE, {**times, "worst_loss": worst, "said": " ".join(sorted(notes))[:600] or "nothing"}
    checks.attempt("cuDNN and own", check)
