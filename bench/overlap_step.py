#!/usr/bin/env python3
"""Compares training steps on tp=2 with and without overlap of collectives and matmuls (--overlap 1, 2, 4 and off).

    bench/overlap_step.py [--model gpt|llama] [--rounds 5] [--steps 6] [--overlap off,1,2,4] [--policy megatron,megatron+sp]

Runs the model of bench/train_step.py as two processes of `mpirun` with 1 thread each, with `megatron` and `megatron+sp`, in
alternating order. Prints the median step time for each value of --overlap, and the median and quartiles of its ratios to the
adjacent runs with the first value (`off`). Also prints, from a trace of rank 0: the time of the collectives over tp per step,
and how long collectives occupied the rank's thread.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

import train_step
from launchers import MPIRUN
from safetensors.torch import save_file

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather")


def compile_model(folder, archive, policy, overlap):
    out = folder / f"{policy}-{overlap}"
    flags = ["--mesh", "tp=2", "--sharding-policy", policy, "--overlap", overlap, "--optimizer", train_step.OPTIMIZER]
    subprocess.run([train_step.BIN / "ps-compile", archive, "-o", out, *flags], check=True)
    return out


def read_trace(folder, program, steps=4):
    """Returns the medians over steps of (ms of collectives, ms for which they occupied the rank's thread)."""
    trace = folder / "trace.json"
    subprocess.run(
        [*MPIRUN, program, "--threads", "1", "--data", folder / "data.safetensors", "--steps", str(steps), "--trace", trace, "--quiet"],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    took, held = [0.0] * steps, [0.0] * steps
    started = set()  # collectives whose time is counted by their event on tid 1
    events = [e for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X" and e["pid"] == 0]
    for event in events:
        if event["tid"] == 1 and event["args"].get("axes") == "tp":
            took[event["args"]["step"]] += event["dur"] / 1e3
            started.add((event["args"]["step"], event["args"]["in"], event["name"]))
    for event in events:
        if event["tid"] != 0 or event["cat"] != "collective":
            continue
        step = event["args"]["step"]
        held[step] += event["dur"] / 1e3
        if event["name"] in COLLECTIVES and event["args"].get("axes") == "tp" and (step, event["args"]["in"], event["name"]) not in started:
            took[step] += event["dur"] / 1e3
    return statistics.median(took[1:]), statistics.median(held[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["gpt", "llama"], default="gpt")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--overlap", default="off,1,2,4", help="values to compare; ratios are relative to the first")
    parser.add_argument("--policy", default="megatron,megatron+sp")
    arguments = parser.parse_args()
    overlaps = arguments.overlap.split(",")
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        archive = train_step.export(arguments.model, folder, train_step.LAYERS)
        save_file(train_step.draw(train_step.BATCH * (arguments.steps + 3)), folder / "data.safetensors")
        print(f"| {arguments.model}, tp=2, mpirun, 1 thread per rank | ms per step | ratio to the first (quartiles) | collectives, ms | thread occupied, ms |\n"
              "|---|---|---|---|---|", flush=True)  # fmt: skip
        for policy in arguments.policy.split(","):
            programs = {overlap: compile_model(folder, archive, policy, overlap) for overlap in overlaps}
            times = {overlap: [] for overlap in overlaps}
            for turn in range(arguments.rounds):
                for overlap in overlaps if turn % 2 else reversed(overlaps):
                    steps = train_step.run_ours(folder, [*MPIRUN, programs[overlap]], arguments.steps, threads=1)
                    times[overlap].append(1e3 * statistics.median(steps))
            for overlap in overlaps:
                low, middle, high = statistics.quantiles([a / b for a, b in zip(times[overlap], times[overlaps[0]])], n=4)
                took, held = read_trace(folder, programs[overlap])
                print(f"| {policy}, {overlap} | {statistics.median(times[overlap]):.0f} | {middle:.3f} ({low:.3f} to {high:.3f}) "
                      f"| {took:.1f} | {held:.1f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
