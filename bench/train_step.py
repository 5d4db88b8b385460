#!/usr/bin/env python3
"""Compares a training step of a 14M-parameter model with torch.compile, in alternating runs.

    bench/train_step.py [--model gpt|llama] [--precision fp32|bf16] [--rounds 3] [--steps 20]

The model has 6 layers, width 384, 6 heads, 256 tokens, batch 8, vocabulary 8192, tied embeddings, AdamW and float32. Prints
medians:
- Our program on one rank x 2 threads, and on dp=2 and tp=2 x 1 thread.
- PyTorch on 2 threads, and with DDP (gloo) on 2 processes.
- The rate of oneDNN on the model's shapes, and the rates of the step's matmuls and of the whole step as fractions of this rate.
- The compile time.

With bf16, PyTorch runs under autocast, and our float32 step is printed for comparison.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
VENV = pathlib.Path(os.environ.get("PARASHARD_VENV", ROOT / "build/venv"))
BIN = pathlib.Path(os.environ.get("PARASHARD_BIN", ROOT / "build/release/bin"))
if pathlib.Path(sys.prefix).resolve() != VENV.resolve() and (VENV / "bin/python").exists():
    os.execv(VENV / "bin/python", [str(VENV / "bin/python"), *sys.argv])
if importlib.util.find_spec("torch") is None:
    sys.exit("bench/train_step.py: PyTorch is missing; run scripts/install-deps --tests, or set PARASHARD_VENV to an environment that has it")

import torch  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

LAYERS, WIDTH, HEADS, TIME, BATCH, VOCABULARY = 6, 384, 6, 256, 8, 8192
SINGLE = "1 rank x 2 threads, fp32"
HIDDEN = {"gpt": 4 * WIDTH, "llama": 1024}
OPTIMIZER = "adamw(lr=3e-4,betas=(0.9,0.95),weight_decay=0.1)"
# With the allocator's defaults, PyTorch's large temporaries cause page faults on every call.
PEER_ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": "4000000000",
    "MALLOC_TRIM_THRESHOLD_": "20000000000",
    "MALLOC_TOP_PAD_": "268435456",
}


def make_model(kind, layers=LAYERS):
    """Returns the module to measure, in train mode."""
    torch.manual_seed(0)
    if kind == "gpt":
        spec = importlib.util.spec_from_file_location("gpt_model", ROOT / "examples/gpt/model.py")
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # torch.compile imports it by name
        spec.loader.exec_module(module)
        return module.GPT(VOCABULARY, TIME, WIDTH, layers, HEADS).train()
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=HIDDEN[kind], num_hidden_layers=layers,
        num_attention_heads=HEADS, num_key_value_heads=HEADS, max_position_embeddings=TIME, use_cache=False,
        tie_word_embeddings=True, attn_implementation="sdpa",
    )  # fmt: skip
    return LlamaForCausalLM(config).train()


def draw(samples):
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, VOCABULARY, (samples, TIME + 1), generator=generator)
    return {"input_ids": tokens[:, :-1].contiguous(), "labels": tokens[:, 1:].contiguous()}


def linear_layers(kind):
    """Returns (count, in, out) of the contractions with weights."""
    hidden = HIDDEN[kind]
    mlp = [(LAYERS, WIDTH, hidden)] * (2 if kind == "llama" else 1) + [(LAYERS, hidden, WIDTH)]
    return [(4 * LAYERS, WIDTH, WIDTH), *mlp, (1, WIDTH, VOCABULARY)]


def model_flops(kind):
    """Returns the flops of a step: 6 per token and weight of a contraction, and 3 x the two matmuls of attention, halved because attention is causal."""
    tokens = BATCH * TIME
    weights = sum(count * a * b for count, a, b in linear_layers(kind))
    return 6 * weights * tokens + 3 * LAYERS * (4 * tokens * TIME * WIDTH) // 2


# ---- PyTorch, in separate processes -------------------------------------------------------------------------------


def peer(kind, precision, steps, threads, ranks):
    """Prints the seconds of each step of torch.compile as JSON, without the first three. With `ranks` > 1, uses DDP, and each rank gets a part of the batch."""
    torch.set_num_threads(threads)
    model = make_model(kind)
    if ranks > 1:
        torch.distributed.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    compiled = torch.compile(model)
    data = draw(BATCH // ranks)
    seconds = []
    for _ in range(steps + 3):
        start = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
            outputs = compiled(**data)
        loss = outputs[0] if isinstance(outputs, tuple) else outputs.loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    if ranks == 1 or torch.distributed.get_rank() == 0:
        print(json.dumps(seconds[3:]))


def run_peer(kind, precision, steps, threads, ranks):
    base = [sys.executable] if ranks == 1 else [
        sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}",
    ]  # fmt: skip
    command = [*base, __file__, "--model", kind, "--precision", precision, "--steps", str(steps), "--peer", f"{threads},{ranks}"]
    environment = {**os.environ, **PEER_ENVIRONMENT, "OMP_NUM_THREADS": str(threads), "PARASHARD_VENV": sys.prefix}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"PyTorch failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


# ---- ours ----------------------------------------------------------------------------------------------------------


def compile_model(folder, archive, mesh, name, precision="fp32"):
    """Returns (the program, the seconds of ps-compile)."""
    out = folder / name
    start = time.perf_counter()
    flags = ["--mesh", mesh, "--optimizer", OPTIMIZER, "--precision", precision]
    subprocess.run([BIN / "ps-compile", archive, "-o", out, *flags], check=True)
    return out, time.perf_counter() - start


def run_ours(folder, command, steps, threads):
    """Runs `command`, and returns the seconds of each step from its --log, without the first three steps."""
    log = folder / "log.jsonl"
    log.unlink(missing_ok=True)
    subprocess.run(
        [*command, "--threads", str(threads), "--data", folder / "data.safetensors", "--steps", str(steps + 3), "--log", log,
         "--quiet"],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [line["step_ms"] / 1e3 for line in lines if "step_ms" in line][3:]


def traced_rate(folder, program):
    """Returns the GF/s of the matmuls within a step, on one rank x 2 threads. Uses the best step, as `contraction-rate` uses its
    best round."""
    trace = folder / "trace.json"
    subprocess.run(
        [program, "--ranks", "1", "--threads", "2", "--data", folder / "data.safetensors", "--steps", "6", "--trace", trace,
         "--quiet"], check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    events = json.loads(trace.read_text())
    events = events["traceEvents"] if isinstance(events, dict) else events
    steps = {}  # flops, microseconds
    for event in events:
        if event.get("cat") == "matmul":
            flops, duration = steps.get(event["args"]["step"], (0, 0))
            steps[event["args"]["step"]] = flops + event["args"]["flops"], duration + event["dur"]
    return max(flops / duration for flops, duration in steps.values()) / 1e3


def start_time(folder, program):
    """Returns the startup time in seconds: from the start of the process to the end of its first step, minus the time of the step."""
    log = folder / "start.jsonl"
    start = time.perf_counter()
    subprocess.run(
        [program, "--ranks", "1", "--threads", "2", "--data", folder / "data.safetensors", "--steps", "1", "--log", log,
         "--quiet"], check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    whole = time.perf_counter() - start
    return whole - json.loads(log.read_text().splitlines()[0])["step_ms"] / 1e3


def contraction_rate(kind, precision):
    """Returns the GF/s with 2 threads: (oneDNN on the model's shapes, the processor's float32 peak)."""
    shapes = [str(n) for count, a, b in linear_layers(kind) for n in (count, BATCH * TIME, a, b)]
    typed = ["bf16"] if precision == "bf16" else []
    done = subprocess.run([BIN / "contraction-rate", *typed, "2", *shapes], check=True, capture_output=True, text=True)
    return tuple(map(float, done.stdout.split()))


def export(kind, folder, layers):
    data = draw(BATCH)
    program = torch.export.export(make_model(kind, layers), (), data)
    if kind == "llama":
        program = program.run_decompositions({})
    path = folder / f"{kind}-{layers}.pt2"
    torch.export.save(program, path)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["gpt", "llama"], default="gpt")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    parser.add_argument("--no-peer", action="store_true", help="measure only our own programs")
    arguments = parser.parse_args()
    if arguments.peer:
        return peer(arguments.model, arguments.precision, arguments.steps, *map(int, arguments.peer.split(",")))

    kind, steps, precision = arguments.model, arguments.steps, arguments.precision
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        archive = export(kind, folder, LAYERS)
        data = draw(BATCH * (steps + 3))
        save_file(data, folder / "data.safetensors")
        layouts = {"1 rank x 2 threads": ("dp=1", 1, 2), "dp=2 x 1 thread": ("dp=2", 2, 1), "tp=2 x 1 thread": ("tp=2", 2, 1)}
        programs = {name: compile_model(folder, archive, mesh, re.sub(r"\W", "-", name), precision)[0]
                    for name, (mesh, _, _) in layouts.items()}  # fmt: skip
        if precision != "fp32":
            layouts[SINGLE] = ("dp=1", 1, 2)
            programs[SINGLE] = compile_model(folder, archive, "dp=1", "single")[0]
        deep = export(kind, folder, 8 * LAYERS)
        compiling = [(compile_model(folder, archive, "dp=1", "few", precision)[1], compile_model(folder, deep, "dp=1", "deep", precision)[1])
                     for _ in range(5)]  # fmt: skip
        peers = {} if arguments.no_peer else {"torch.compile, 2 threads": (2, 1), "DDP (gloo), 2 x 1 thread": (1, 2)}
        times = {name: [] for name in [*layouts, *peers]}
        rates = []
        for _ in range(arguments.rounds):
            for name, (_, ranks, threads) in layouts.items():
                times[name] += run_ours(folder, [programs[name], "--ranks", str(ranks)], steps, threads)
            for name, (threads, ranks) in peers.items():
                times[name] += run_peer(kind, precision, steps, threads, ranks)
            rates.append((*contraction_rate(kind, precision), traced_rate(folder, programs["1 rank x 2 threads"])))
        starting = statistics.median(start_time(folder, programs["1 rank x 2 threads"]) for _ in range(3))

    print(f"| {kind}, {precision}, {model_flops(kind) / 1e9:.0f} GF per step | ms per step (median) |\n|---|---|")
    median = {name: statistics.median(values) for name, values in times.items()}
    for name, value in median.items():
        print(f"| {name} | {1e3 * value:.1f} |")
    ours = median["1 rank x 2 threads"]
    rate, peak, _ = map(statistics.median, zip(*rates))
    matmuls = statistics.median(ours / alone for alone, _, ours in rates)
    kept = model_flops(kind) / ours / 1e9
    print(f"\noneDNN on the model's shapes {rate:.0f} GF/s; the step's matmuls run at {matmuls:.0%} of this rate, "
          f"model flops are {kept:.0f} GF/s = {kept / rate:.0%}")  # fmt: skip
    fastest = model_flops(kind) / peak / 1e9
    if precision == "fp32":
        print(f"the processor's peak is {peak:.0f} GF/s, so no step can take less than {1e3 * fastest:.0f} ms")
    else:
        print(f"{median[SINGLE] / ours:.2f} x our own float32 step")
    if peers and precision == "fp32":
        print(f"a step at this peak would be {median['torch.compile, 2 threads'] / fastest:.2f} x as fast as torch.compile")
    if peers:
        print(f"{median['torch.compile, 2 threads'] / ours:.2f} x as fast as torch.compile; "
              f"{median['DDP (gloo), 2 x 1 thread'] / median['dp=2 x 1 thread']:.2f} x as fast as DDP")  # fmt: skip
    few, many = map(statistics.median, zip(*compiling))
    ratio = statistics.median(b / a for a, b in compiling)
    print(f"ps-compile {few:.1f} s; with {8 * LAYERS} layers {many:.1f} s ({ratio:.2f} x); startup {starting:.2f} s")


if __name__ == "__main__":
    main()
