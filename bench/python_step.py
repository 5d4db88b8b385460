#!/usr/bin/env python3
"""Compares a step of PyTorch's loop over a compiled model with the same step in one call of the runtime.

    bench/python_step.py [--pairs 10]

The 14M GPT of bench/train_step.py, on one rank x 2 threads and on dp=2 x 1 thread. Prints medians of ratios over pairs of steps in
turn: step drive and autograd drive, each to `psrt_step` of the program of the step drive.
"""
import argparse
import importlib.util
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
spec = importlib.util.spec_from_file_location("train_step", ROOT / "bench/train_step.py")
train_step = importlib.util.module_from_spec(spec)
spec.loader.exec_module(train_step)  # starts this script again in the virtual environment, if necessary
sys.path.insert(0, str(train_step.BIN.parent / "python"))

import torch  # noqa: E402

import parashard  # noqa: E402


def adamw(module):
    return torch.optim.AdamW(module.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)


def time_loop(model, optimizer, batch):
    """Returns the seconds of a step of PyTorch's loop."""
    begin = time.perf_counter()
    optimizer.zero_grad()
    loss = model(**batch)[0]
    loss.backward()
    optimizer.step()
    loss.item()
    return time.perf_counter() - begin


def time_call(model, batch):
    """Returns the seconds of a step in one call."""
    begin = time.perf_counter()
    model._program.run_step(batch)
    return time.perf_counter() - begin


def measure(mesh, threads, pairs):
    module, batch = train_step.make_model("gpt"), train_step.draw(train_step.BATCH)
    made = {drive: parashard.parallelize(mesh, module, adamw, example=batch, drive=drive, threads=threads) for drive in ("step", "autograd")}
    ratios = {drive: [] for drive in made}
    for number in range(pairs + 1):
        for drive, (model, optimizer) in made.items():
            call = time_call(made["step"][0], batch)
            ratio = time_loop(model, optimizer, batch) / call
            if number:  # the first steps also bind the programs
                ratios[drive].append(ratio)
    for drive, found in ratios.items():
        print(f"{mesh} x {threads} threads, {drive} drive: {statistics.median(found):.3f} x (median of {pairs} pairs, {min(found):.3f} to {max(found):.3f})")
    for model, _ in made.values():
        model.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10, help="pairs of steps of each drive (default 10)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for mesh, threads in (("dp=1", 2), ("dp=2", 1)):
        measure(mesh, threads, options.pairs)


if __name__ == "__main__":
    main()
