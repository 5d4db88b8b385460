"""Stages that compare results with PyTorch, with the CPU target, with plain loops, or with a second run."""
import math
import re
import socket
import subprocess

from . import machine
from .cases import PARITY, RANKS, STAGE_SECONDS, STEPS, TESTS
from .checks import worst_difference
from .tensors import read_tensors


def conformance(checks):
    """Runs the runtime's unit tests on this driver: every library call, copies, and communication among ranks on one GPU."""
    path = f"{checks.folder}:{checks.environment.get('LD_LIBRARY_PATH', '')}"
    for test in TESTS:
        def check():
            done = checks.start(test, "--gtest_filter=-ThreadPool*:NarrowFloat*", PSRT_TEST_TARGET=checks.said["target"], LD_LIBRARY_PATH=path)
            passed, skipped = (len(re.findall(rf"^\[ +{word} \] \S+ \(", done.stdout, re.M)) for word in ["OK", "SKIPPED"])
            failed = sorted(set(re.findall(r"^\[  FAILED  \] (\w[\w/]*\.[\w/]+)", done.stdout, re.M)))
            figures = {"passed": passed, "skipped": skipped, "failed": ",".join(failed)[:300] or "none"}
            return done.returncode == 0, figures if done.returncode in (0, 1) else {**figures, "status": done.returncode, "said": done.stderr[-300:]}
        if checks.has(test):
            checks.attempt(test, check)


# ---- ops -----------------------------------------------------------------------------------------------------------


def worst_case(found, wanted):
    """Returns [(error / allowed error, name)] of the tensors, largest first. Compares only the elements that `wanted` contains."""
    errors = []
    for name, about in wanted.items():
        values = found.get(name)
        ours = [values[place] for place in about["places"]] if values and len(values) == about["count"] else []
        if len(ours) != len(about["values"]) or not all(map(math.isfinite, ours)):
            errors.append((float("inf"), name))
        elif about["by"] == "norm":
            error = math.dist(ours, about["values"]) / max(math.hypot(*about["values"]), 1e-30)
            errors.append((error / about["allowed"], name))
        else:
            errors.append((max(abs(a - b) for a, b in zip(ours, about["values"])) / about["allowed"], name))
    return sorted(errors, reverse=True)


def ops(checks):
    """Values and gradients of every op equal PyTorch's in float64: small ops with special values, and large ops in f32 and bf16."""
    for name, about in checks.said["ops"].items():
        def check():
            gradients = checks.folder / "gradients.safetensors"
            gradients.unlink(missing_ok=True)
            weights = ("--weights", about["weights"]) if about["weights"] else ()
            lines, _ = checks.train(name, about["data"], 1, "--gradients", gradients, *weights)
            found = {key.removeprefix("grad."): value for key, value in read_tensors(gradients).items()}
            values = {key: [value] for key, value in lines[0].items() if isinstance(value, (int, float))}
            errors = worst_case(found, about["gradients"]) + worst_case(values, about["values"])
            bad = sorted((error, case) for error, case in errors if not error <= 1)
            worst = max(errors)
            figures = {"compared": len(errors), "worst_of_allowed": float(worst[0]), "worst": worst[1]}
            return not bad, {**figures, "wrong": ",".join(f"{case}({error:.2g})" for error, case in reversed(bad))[:600]} if bad else figures
        checks.attempt(name, check)


# ---- training ------------------------------------------------------------------------------------------------------


def parity(checks):
    """Losses of 20 steps equal the losses of the CPU target: small models and two larger ones, in f32 (TF32 off), bf16 and fp16."""
    for name in filter(checks.has, PARITY):
        checks.attempt(name, lambda: checks.losses(name, 1e-4 if name.endswith("fp32") else 2e-2))


def ranks(checks):
    """Losses of several ranks on one GPU equal the losses of the CPU target."""
    for name in filter(checks.has, RANKS):
        checks.attempt(name, lambda: checks.losses(name, 1e-4, "--comm", "local"))


def nccl(checks):
    """With several GPUs: losses of ranks with one GPU each, as threads and as processes. With one GPU: the error about missing GPUs."""
    count = int(checks.environment.get("PSRT_FAKE_DEVICES", "1")) if checks.rehearsal else machine.count_gpus()
    for name in filter(checks.has, RANKS):
        size = math.prod(int(axis.split("=")[1]) for axis in RANKS[name][1].split(","))
        if size <= count:
            checks.attempt(f"{name} threads", lambda: checks.losses(name, 1e-4, "--comm", "nccl"))
            checks.attempt(f"{name} processes", lambda: run_processes(checks, name, size))
    if count < 2 and checks.has("gpt2-dp2"):
        def refused():
            done = checks.start("gpt2-dp2", "--comm", "nccl", "--data", checks.said["programs"]["gpt2-dp2"]["data"], timeout=60)
            good = done.returncode == 3 and "one GPU per rank, but there are 2 ranks" in done.stderr
            return good, {"gpus": count, "said": done.stderr.strip()[:200]}
        checks.attempt("too few GPUs", refused)


def run_processes(checks, name, ranks):
    """Runs each rank as a process with torchrun's variables, and compares the losses."""
    wanted, losses = checks.said["programs"][name], checks.folder / "processes.txt"
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        place = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(one.getsockname()[1])}
    line = [checks.folder / name, "--data", wanted["data"], "--steps", str(STEPS), "--losses", losses, "--quiet"]
    started = [subprocess.Popen(line, cwd=checks.folder, env={**checks.environment, **place, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                                stderr=subprocess.PIPE, text=True) for rank in range(ranks)]  # fmt: skip
    try:
        ends = [(process.communicate(timeout=max(1, min(STAGE_SECONDS, checks.left())))[1], process.returncode) for process in started]
    finally:
        for process in started:
            process.kill()
    if any(status for _, status in ends):
        return False, {"said": ends[0][0].strip()[-300:]}
    worst = worst_difference([float(line) for line in losses.read_text().split()], wanted["losses"])
    return worst <= 1e-4, {"worst_loss": worst}


def repeat(checks):
    """Losses of two runs are bitwise equal, also if one of them resumes from a checkpoint."""
    for name in filter(checks.has, ["gpt_dropout-fp32", "gpt-bf16", "gpt_middle-bf16"]):
        data = checks.said["programs"][name]["data"]

        def train(steps, *flags):
            return [line["loss"] for line in checks.train(name, data, steps, *flags)[0]]
        def check():
            unbroken = train(STEPS)
            saved = f"{name}.saved"
            again = train(STEPS // 2, "--save", saved) + train(STEPS, "--load", saved)
            same = [train(STEPS) == unbroken, again == unbroken]
            return all(same), {"steps": len(unbroken), "again": same[0], "from_checkpoint": same[1]}
        checks.attempt(name, check)
