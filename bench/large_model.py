#!/usr/bin/env python3
"""Measures the time and memory of ps-compile for a model of 175B parameters on 1,024 and on 16,384 ranks.

    bench/large_model.py [--layers 96] [--hidden 12288] [--heads 96] [--precision bf16] [--zero 3] [--rounds 3] [--model FILE.pt2]

Compiles a GPT-2 of this shape without weights (the export takes a minute and 2 GB) on tp=8, pp=8 and dp=16 or dp=256, with 64 micro-batches of
one sample of 2048 tokens per rank: megatron+sp, ZeRO, selective recompute and reduced precision. Prints medians of alternating runs, for the plan
alone and for the whole compile, and the planned bytes per rank. All figures should be independent of dp, except for the optimizer state per rank.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import train_step

ROOT = pathlib.Path(__file__).resolve().parents[1]
PLAN = ["--sharding-policy", "megatron+sp", "--recompute", "selective", "--micro-batches", "64", "--schedule", "1f1b",
        "--init", "normal(0.02)", "--weights", "none", "--explain"]  # fmt: skip


def export(folder, arguments):
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": arguments.hidden, "n_head": arguments.heads,
              "n_layer": arguments.layers, "n_positions": 2048, "vocab_size": 51200, "use_cache": False}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "parashard.export", f"hf:{folder}", "--meta", "--batch", "2", "--seq", "2048", "-o", folder / "model.pt2"],
        check=True, capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT / "python-bindings")})  # fmt: skip
    print(f"export: {time.perf_counter() - start:.0f} s")
    return folder / "model.pt2"


def compile_once(model, folder, dp, flags):
    """Returns (wall-clock seconds, processor seconds, bytes of memory) and the output."""
    command = [train_step.BIN / "ps-compile", model, "-o", folder / "program", "--mesh", f"dp={dp},tp=8,pp=8", "--batch", str(dp), *PLAN, *flags]
    start = time.perf_counter()
    with open(folder / "output", "w+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        output.seek(0)
        text = output.read()
    if status:
        sys.exit(text[-2000:])
    return (wall, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024), text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("layers", 96), ("hidden", 12288), ("heads", 96), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--zero", default="3")
    parser.add_argument("--model", type=pathlib.Path, help="use this exported model instead of exporting one")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = arguments.model or export(folder, arguments)
        plan = ["--precision", arguments.precision, "--zero", arguments.zero]
        for name, flags in (("plan alone", [*plan, "--no-codegen"]), ("whole", plan)):
            runs = {16: [], 256: []}
            for _ in range(arguments.rounds):
                for dp, found in runs.items():
                    found.append(compile_once(model, folder, dp, flags))
            for dp, found in runs.items():
                wall, processor, memory = (statistics.median(run[0][i] for run in found) for i in range(3))
                largest = max(int(size) for size in re.findall(r"memory of a rank[^:]*: (\d+) MiB", found[0][1]))
                print(f"{64 * dp:6} ranks, {name}: {wall:.2f} s, {processor:.2f} s of processor time, {memory / 1e9:.2f} GB; {largest} MiB per rank")
            ratio = statistics.median(large[0][1] / small[0][1] for small, large in zip(*runs.values()))
            print(f"processor time, 16384 / 1024 ranks: {ratio:.3f} (median of {arguments.rounds} pairs)")


if __name__ == "__main__":
    main()
