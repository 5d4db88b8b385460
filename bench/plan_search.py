#!/usr/bin/env python3
"""Measures the time that ps-plan takes, and compares the estimates of its search with compiled programs.

    bench/plan_search.py [--models 8,70,405] [--rounds 3]
    bench/plan_search.py --estimates

Exports Llama 3 of 8B, 70B and 405B parameters without weights, with 8192 tokens per sample, and searches plans for 64, 1,024 and 16,384 H100s with
global batches of 128, 1,024 and 2,048 samples, with an empty cache. Then repeats each search with this cache: first unchanged, then with one
additional constraint at a time. Prints medians of the wall-clock and processor seconds, and the best plan. With --estimates: searches plans for a GPT
under many constraints, and prints the errors of the estimated time and memory of the plans that ps-plan compiles.
"""
import argparse
import itertools
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import train_step

ROOT = pathlib.Path(__file__).resolve().parents[1]
LLAMA = {  # hidden size, intermediate size, layers, heads; ranks, samples per step
    8: (4096, 14336, 32, 32, 64, 128),
    70: (8192, 28672, 80, 64, 1024, 1024),
    405: (16384, 53248, 126, 128, 16384, 2048),
}
AGAIN = [(), ("--memory", "60GB"), ("--mesh", "tp=1"), ("--recompute", "selective"), ("--zero", "1"), ("--schedule", "1f1b")]
SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1}
BYTES = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def export(folder, size):
    hidden, intermediate, layers, heads, _, _ = LLAMA[size]
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": hidden, "intermediate_size": intermediate,
              "num_attention_heads": heads, "num_key_value_heads": 8, "num_hidden_layers": layers, "vocab_size": 128256,
              "max_position_embeddings": 8192, "rope_theta": 500000.0, "use_cache": False, "tie_word_embeddings": False}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    subprocess.run(
        [sys.executable, "-m", "parashard.export", f"hf:{folder}", "--meta", "--batch", "2", "--seq", "8192", "-o", folder / "model.pt2"],
        check=True, capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT / "python-bindings")})  # fmt: skip
    return folder / "model.pt2"


def search(cache, model, ranks, batch, *flags):
    """Returns (wall-clock seconds, processor seconds, the output)."""
    before, start = os.times(), time.perf_counter()
    command = [train_step.BIN / "ps-plan", model, "--cluster", f"h100-sxm:{ranks}", "--global-batch", str(batch), "--time-limit", "600", *flags]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "XDG_CACHE_HOME": str(cache)})
    wall, after = time.perf_counter() - start, os.times()
    return wall, after.children_user + after.children_system - before.children_user - before.children_system, done.stdout


def measure_search(sizes, rounds):
    for size in sizes:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            model = export(folder, size)
            flags = [model, *LLAMA[size][4:], "--precision", "bf16", "--init", "normal(0.02)"]
            runs, again = [], {constraint: [] for constraint in AGAIN}
            for number in range(rounds):
                runs.append(search(folder / f"cache-{number}", *flags))
                for constraint, times in again.items():
                    shutil.copytree(folder / f"cache-{number}", folder / "copy")
                    times.append(search(folder / "copy", *flags, *constraint))
                    shutil.rmtree(folder / "copy")
        print(f"{size}B on {LLAMA[size][4]} ranks: {describe(runs)}")
        for constraint, times in again.items():
            print(f"  again{''.join(f' {word}' for word in constraint)}: {describe(times)}")
        print(runs[0][2], flush=True)


def describe(runs):
    wall, processor = (statistics.median(run[i] for run in runs) for i in (0, 1))
    return f"{wall:.1f} s, {processor:.1f} s of processor time"


def read_plans(text):
    """Returns (seconds, estimated seconds, bytes, estimated bytes) of each plan that was compiled."""
    rows = re.findall(r"^ +([\d.]+) (us|ms|s) +(\d+) (\w+) +([\d.]+) (us|ms|s), (\d+) (\w+) ", text, re.M)
    return [(float(r[0]) * SECONDS[r[1]], float(r[4]) * SECONDS[r[5]], int(r[2]) * BYTES[r[3]], int(r[6]) * BYTES[r[7]]) for r in rows]


def measure_estimates():
    sys.path.insert(0, str(ROOT / "test/python"))
    import models

    with tempfile.TemporaryDirectory() as name:
        archive = pathlib.Path(name) / "gpt.pt2"
        models.gpt_dynamic(layers=12, width=1024, length=512, vocabulary=8192, heads=16).export(archive)
        plans = []
        meshes = ["dp=8", "tp=8", "dp=2,tp=4", "pp=2,dp=4", "pp=4,tp=2", "pp=2,dp=2,tp=2", "dp=2,pp=4"]
        for mesh, recompute, zero in itertools.product(meshes, ["none", "selective", "full"], ["0", "1", "3"]):
            if zero != "0" and "dp" not in mesh:
                continue
            flags = ["--mesh", mesh, "--recompute", recompute, "--zero", zero, "--precision", "bf16"]
            plans += read_plans(search(pathlib.Path(name) / "cache", archive, 8, 64, *flags)[2])
    for kind, (exact, estimate) in {"time": (0, 1), "memory": (2, 3)}.items():
        errors = sorted(abs(plan[estimate] / plan[exact] - 1) for plan in plans)
        print(f"{kind} of {len(plans)} plans: median error {100 * statistics.median(errors):.1f} %, 90 % within "
              f"{100 * errors[int(0.9 * len(errors))]:.1f} %, worst {100 * errors[-1]:.1f} %")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="8,70,405")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--estimates", action="store_true")
    arguments = parser.parse_args()
    if arguments.estimates:
        measure_estimates()
    else:
        measure_search([int(size) for size in arguments.models.split(",")], arguments.rounds)


if __name__ == "__main__":
    main()
