#!/usr/bin/env python3
"""Measures the compile time of a pipeline's plan: partitioning, schedule, verification and memory, without code generation.

    bench/plan_time.py [--rounds 7] [--layers 96]

Compiles a GPT with 96 tiny layers on pp=16 with two chunks and 128 micro-batches, for 2 and for 8192 data-parallel ranks in
alternating runs. A micro-batch has one sample per data-parallel rank. The layers are tiny because compile time depends on their
number, not on their width. Prints medians, and whether the two modules differ only in numbers, such as the size of the mesh.
"""
import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import train_step
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "test/python"))
import models

FLAGS = ["--num-chunks", "2", "--schedule", "interleaved", "--micro-batches", "128", "--split-method", "flops"]


def export(path, layers):
    model = models.gpt(batch=2, layers=layers)
    batch = torch.export.Dim("batch", min=2, max=65536)
    shapes = {name: {0: batch} for name in model.inputs}
    torch.export.save(torch.export.export(model.module, (), dict(model.inputs), dynamic_shapes=shapes), path)


def plan(folder, dp, pp, out, flags=()):
    """Compiles to level `placed`. Returns (wall-clock seconds, processor seconds, the output)."""
    before, start = os.times(), time.perf_counter()
    done = subprocess.run(
        [train_step.BIN / "ps-compile", folder / "gpt.pt2", "-o", folder / out, "--mesh", f"pp={pp},dp={dp}", "--batch", str(dp), *FLAGS,
         "--stop-after", "placed", "--weights", "none", *flags], check=True, capture_output=True, text=True)  # fmt: skip
    wall, after = time.perf_counter() - start, os.times()
    return wall, after.children_user + after.children_system - before.children_user - before.children_system, done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--layers", type=int, default=96)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        export(folder / "gpt.pt2", arguments.layers)
        runs = {dp: [] for dp in (2, 8192)}
        for _ in range(arguments.rounds):
            for dp, times in runs.items():
                times.append(plan(folder, dp, 16, f"{dp}.mlir"))
        for dp, times in runs.items():
            wall, processor = (statistics.median(run[i] for run in times) for i in (0, 1))
            print(f"pp=16, dp={dp}: {wall:.2f} s, {processor:.2f} s of processor time")
        ratio = statistics.median(large[1] / small[1] for small, large in zip(*runs.values()))
        print(f"processor time, 8192 / 2 ranks: {ratio:.3f} (median of {arguments.rounds} pairs)")
        print("seconds per level, pp=16, dp=2:", *re.findall(r".*seconds.*|.* s$", plan(folder, 2, 16, "2.mlir", ["--verbose"])[2], re.M), sep="\n  ")
        texts = [(folder / f"{dp}.mlir").read_text() for dp in runs]
        lines = [text.count("\n") for text in texts]
        print(f"lines of the modules: {lines[0]}, {lines[1]}; equal except for numbers:", len({re.sub(r"\d+", "N", text) for text in texts}) == 1)


if __name__ == "__main__":
    main()
