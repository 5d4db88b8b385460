#!/usr/bin/env python3
"""Measures the time of ps-compile for the model of train_step.py and for a model with 8 times its layers.

    bench/compile_time.py [--rounds 9] [--layers 6,48] [flags of ps-compile...]

Runs of the two models alternate. Prints the median wall-clock and processor seconds of each model. Also prints the ratio of the two models' times (the
median over the rounds).
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import train_step


def compile_once(archive, out, flags):
    """Returns the (wall-clock, processor) seconds of one ps-compile and its child processes."""
    before, start = os.times(), time.perf_counter()
    command = [train_step.BIN / "ps-compile", archive, "-o", out, "--optimizer", train_step.OPTIMIZER, *flags]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    wall, after = time.perf_counter() - start, os.times()
    return wall, after.children_user + after.children_system - before.children_user - before.children_system


def measure(kind, layers, rounds, flags):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        archives = [train_step.export(kind, folder, n) for n in layers]
        for archive in archives:  # loads the files into the page cache
            compile_once(archive, folder / "out", flags)
        seconds = [[compile_once(archive, folder / "out", flags) for archive in archives] for _ in range(rounds)]
    for clock, name in enumerate(("wall clock", "processor")):
        medians = [statistics.median(pair[i][clock] for pair in seconds) for i in range(len(layers))]
        ratio = statistics.median(pair[-1][clock] / pair[0][clock] for pair in seconds)
        each = ", ".join(f"{n} layers {median:.2f} s" for n, median in zip(layers, medians))
        print(f"{kind:6} {name:10} {each}: {ratio:.2f} x")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--layers", default="6,48")
    arguments, flags = parser.parse_known_args()
    for kind in ("gpt", "llama"):
        measure(kind, [int(n) for n in arguments.layers.split(",")], arguments.rounds, flags)


if __name__ == "__main__":
    main()
