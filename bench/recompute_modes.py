#!/usr/bin/env python3
"""Compares training steps with the modes of --recompute: `none`, `selective` and `full`.

    bench/recompute_modes.py [--model gpt|llama] [--precision fp32|bf16] [--rounds 5] [--steps 6]

Runs the model of bench/train_step.py on one rank x 2 threads. Each round runs all modes, one after the other. Prints the median step times,
the medians and quartiles of their ratios to the run of `none` in the same round, and the planned memory.
"""
import argparse
import pathlib
import re
import statistics
import subprocess
import tempfile

from train_step import BATCH, draw, export, BIN, LAYERS, OPTIMIZER, run_ours, save_file

MODES = ["none", "selective", "full"]


def memory_of(program):
    """Returns the memory per rank that --info prints."""
    info = subprocess.run([program, "--info"], check=True, capture_output=True, text=True).stdout
    return re.search(r"^memory +(.+?) per rank", info, re.M)[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["gpt", "llama"], default="gpt")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        archive = export(arguments.model, folder, LAYERS)
        save_file(draw(BATCH * (arguments.steps + 3)), folder / "data.safetensors")
        programs = {}
        for mode in MODES:
            programs[mode] = folder / mode
            subprocess.run([BIN / "ps-compile", archive, "-o", programs[mode], "--mesh", "dp=1", "--optimizer", OPTIMIZER,
                            "--recompute", mode, "--precision", arguments.precision], check=True)  # fmt: skip
        times = [{mode: statistics.median(run_ours(folder, [programs[mode]], arguments.steps, 2)) for mode in MODES}
                 for _ in range(arguments.rounds)]  # fmt: skip
        print("| --recompute | ms per step | ratio to none (quartiles) | memory per rank |\n|---|---|---|---|")
        for mode in MODES:
            low, middle, high = statistics.quantiles([round[mode] / round["none"] for round in times], n=4)
            print(f"| {mode} | {1e3 * statistics.median(round[mode] for round in times):.0f} | {middle:.3f} ({low:.3f} to {high:.3f}) "
                  f"| {memory_of(programs[mode])} |")  # fmt: skip


if __name__ == "__main__":
    main()
