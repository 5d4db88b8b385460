#!/usr/bin/env python3
"""Compares predicted steps with measured ones on this machine, for many plans of a 14M-parameter model on two ranks.

    bench/plan_steps.py [--model gpt|llama] [--steps 4] [--rounds 3] [--cluster cpu] [--most N] [--memory-share 0.6]

The plans are all combinations of mesh, sharding policy, ZeRO stage, recomputation, schedule and micro-batches that compile. --most N measures a random
sample of at most N plans. Each round measures all plans once, in random order; the fastest step of all rounds counts. Prints:
- Each plan with its predicted and measured time.
- The errors of the predictions.
- Kendall's tau over the pairs of plans whose measured times differ by more than 5 %.
- How much slower the plan that ps-plan chooses is than the best measured plan.

With --memory-share, ps-plan may use only this fraction of the memory of the plan that it chooses without a limit. No other program should run on the machine.
"""
import argparse
import itertools
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

import train_step

torch = train_step.torch
GLOBAL_BATCH, RANKS = 8, 2
PRINTED = ["mesh", "sharding-policy", "zero", "recompute", "schedule", "batch", "micro-batches"]


def list_plans():
    """Returns the plans, as lists of flags of ps-compile."""
    batches = {size: ["--batch", str(size), "--micro-batches", str(GLOBAL_BATCH // size)] for size in (1, 2, 4, 8)}
    modes = [["--recompute", mode] for mode in ("none", "selective", "full")]
    stages = [["--mesh", "dp=2", "--zero", str(stage)] for stage in range(4)]
    policies = [["--mesh", "tp=2", "--sharding-policy", policy] for policy in ("megatron", "megatron+sp")]
    schedules = [("gpipe", 1), ("1f1b", 1), ("1f1b-eager", 1), ("zb-h1", 1), ("interleaved", 2), ("zb-v", 2)]
    pipelines = [["--mesh", "pp=2", "--schedule", name, "--num-chunks", str(chunks)] for name, chunks in schedules]
    plans = []
    for parts, sizes in ((stages, (2, 4, 8)), (policies, (1, 2, 4, 8)), (pipelines, (1, 2, 4))):
        plans += [[*part, *mode, *batches[size]] for part, mode, size in itertools.product(parts, modes, sizes)]
    return plans


def export(kind, folder):
    archive = folder / f"{kind}.pt2"
    if kind == "llama":  # parashard.export makes the batch dynamic
        train_step.make_model(kind).save_pretrained(folder / "llama")
        command = [sys.executable, "-m", "parashard.export", f"hf:{folder / 'llama'}", "--batch", "2", "--seq", str(train_step.TIME), "-o", archive]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PYTHONPATH": str(train_step.ROOT / "python-bindings")})
        return archive
    batch = torch.export.Dim("batch", min=1, max=4096)
    inputs = train_step.draw(train_step.BATCH)
    program = torch.export.export(train_step.make_model(kind), tuple(inputs.values()), dynamic_shapes={name: {0: batch} for name in inputs})
    torch.export.save(program, archive)
    return archive


def run(tool, *arguments):
    done = subprocess.run([train_step.BIN / tool, *map(str, arguments)], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def predict(archive, plan, cluster):
    price = run("ps-plan", archive, "--predict", "--cluster", cluster, "--optimizer", train_step.OPTIMIZER, *plan)
    return json.loads(price) if price else None


def measure(folder, programs, steps, rounds):
    """Returns the seconds of the fastest step of each program over all rounds. Other programs on the machine only slow steps down."""
    seconds = [float("inf") for _ in programs]
    order = list(range(len(programs)))
    for _ in range(rounds):
        random.shuffle(order)
        for i in order:
            seconds[i] = min([seconds[i], *train_step.run_ours(folder, [programs[i], "--ranks", str(RANKS)], steps, 1)])
    return seconds


def kendall(rows):
    """Returns (Kendall's tau, number of pairs), for the pairs of rows (predicted, measured) whose measured times differ by more than 5 %."""
    signs = [(a[0] - b[0]) * (a[1] - b[1]) > 0 for a, b in itertools.combinations(rows, 2) if max(a[1], b[1]) > 1.05 * min(a[1], b[1])]
    return (2 * sum(signs) / len(signs) - 1 if signs else float("nan")), len(signs)


def search(folder, archive, cluster, *flags):
    """Returns the plan that ps-plan chooses, as flags of ps-compile."""
    path = folder / "searched.json"
    constraints = ["--cluster", f"{cluster}:{RANKS}", "--global-batch", GLOBAL_BATCH, "--optimizer", train_step.OPTIMIZER]
    if run("ps-plan", archive, *constraints, "-o", path, *flags) is None:
        raise SystemExit("ps-plan found no plan")
    return ["--plan", str(path)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["gpt", "llama"], default="gpt")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cluster", default="cpu")
    parser.add_argument("--most", type=int, default=1000)
    parser.add_argument("--memory-share", type=float)
    options = parser.parse_args()
    random.seed(0)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        archive = export(options.model, folder)
        torch_data = train_step.draw(GLOBAL_BATCH * (options.steps + 4))
        train_step.save_file(torch_data, folder / "data.safetensors")
        chosen = search(folder, archive, options.cluster)
        if options.memory_share:
            limit = int(options.memory_share * json.loads((folder / "searched.json").read_text())["predicted"]["memory_bytes"])
            chosen = search(folder, archive, options.cluster, "--memory", limit)
        plans = list_plans()
        plans = [chosen, *random.sample(plans, min(options.most, len(plans)))]
        kept, prices, programs = [], [], []
        for i, plan in enumerate(plans):
            price, program = predict(archive, plan, options.cluster), folder / f"program{i}"
            if price is None or (options.memory_share and i and price["memory_bytes"] > limit):
                continue
            if run("ps-compile", archive, "-o", program, "--cluster", options.cluster, "--optimizer", train_step.OPTIMIZER, *plan) is not None:
                kept.append(plan), prices.append(price), programs.append(program)
        measured = measure(folder, programs, options.steps, options.rounds)
        rows = [(price["step_s"], seconds) for price, seconds in zip(prices, measured)]
        for plan, (predicted, seconds) in sorted(zip(kept, rows), key=lambda row: row[1][1]):
            print(f"{1e3 * seconds:8.1f} ms measured {1e3 * predicted:8.1f} ms predicted {predicted / seconds - 1:+7.1%}  {' '.join(plan)}")
        errors = sorted(abs(predicted / seconds - 1) for predicted, seconds in rows)
        tau, pairs = kendall(rows)
        print(f"{len(rows)} plans: median error {statistics.median(errors):.1%}, 90 % within {errors[int(0.9 * len(errors))]:.1%}, worst {errors[-1]:.1%}")
        print(f"Kendall's tau over {pairs} pairs that differ by 5 %: {tau:.2f}")
        searched = {key: value for key, value in json.loads((folder / "searched.json").read_text()).items() if key in PRINTED}
        print(f"the plan of ps-plan takes {measured[0] / min(measured) - 1:.1%} longer than the best measured one: {searched}")


if __name__ == "__main__":
    main()
