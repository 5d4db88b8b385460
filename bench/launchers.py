#!/usr/bin/env python3
"""Compares the time of a training step for two kinds of ranks: processes of `mpirun`, and threads of one process (`--ranks 2`).

    bench/launchers.py [--model gpt|llama] [--rounds 9] [--steps 8]

Runs the model of bench/train_step.py on dp=2, then on tp=2, with 1 thread per rank. Each round runs both kinds; the kind
that runs first alternates. Prints the median step time of each kind, and the median and quartiles of the ratio of processes to threads
in a round. The ratios cancel the drift of the machine.
"""
import argparse
import pathlib
import statistics
import tempfile

import train_step
from safetensors.torch import save_file

MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "2"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["gpt", "llama"], default="gpt")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=8)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        archive = train_step.export(arguments.model, folder, train_step.LAYERS)
        save_file(train_step.draw(train_step.BATCH * (arguments.steps + 3)), folder / "data.safetensors")
        print("| | --ranks 2, ms | mpirun -n 2, ms | ratio (quartiles) |\n|---|---|---|---|")
        for mesh in ["dp=2", "tp=2"]:
            program, _ = train_step.compile_model(folder, archive, mesh, mesh.replace("=", "-"))
            threads, processes = [], []
            for turn in range(arguments.rounds):
                launches = [(threads, ["--ranks", "2"], []), (processes, [], MPIRUN)]
                for times, flags, launcher in launches if turn % 2 else reversed(launches):
                    steps = train_step.run_ours(folder, [*launcher, program, *flags], arguments.steps, threads=1)
                    times.append(1e3 * statistics.median(steps))
            low, middle, high = statistics.quantiles([b / a for a, b in zip(threads, processes)], n=4)
            print(f"| {arguments.model} {mesh} | {statistics.median(threads):.0f} | {statistics.median(processes):.0f} "
                  f"| {middle:.3f} ({low:.3f} to {high:.3f}) |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
