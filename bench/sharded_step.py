#!/usr/bin/env python3
"""Compares training steps on two ranks: ZeRO-3, plain data parallelism, and FSDP2 (gloo).

    bench/sharded_step.py [--model gpt|llama] [--rounds 5] [--steps 8]

Runs the model of bench/train_step.py in float32 with 1 thread per rank, in alternating order. Our programs run on dp=2 with
--zero 0 and 3, as threads of one process and as two processes of `mpirun`. FSDP2 uses torch.distributed.fsdp.fully_shard and
torch.compile on each block, as torchtitan does. Prints the median step times, and the medians and quartiles of the ratios of
adjacent runs.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import train_step
from launchers import MPIRUN
import torch
from safetensors.torch import save_file

RANKS = 2
OURS = {"dp=2": ("0", []), "ZeRO-3": ("3", []), "dp=2, mpirun": ("0", MPIRUN), "ZeRO-3, mpirun": ("3", MPIRUN)}
PEER = "FSDP2 (gloo)"
RATIOS = [("ZeRO-3", "dp=2", 1.15), ("ZeRO-3, mpirun", "dp=2, mpirun", 1.15), (PEER, "ZeRO-3, mpirun", None)]


def peer(kind, steps):
    """Runs FSDP2 on this rank's share of the batch. Prints the seconds of each step as JSON."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (RANKS,))
    model = train_step.make_model(kind)
    for block in model.blocks if kind == "gpt" else model.model.layers:
        block.compile()
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    data, seconds = train_step.draw(train_step.BATCH // RANKS), []
    for _ in range(steps + 3):
        start = time.perf_counter()
        outputs = model(**data)
        loss = outputs[0] if isinstance(outputs, tuple) else outputs.loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    if torch.distributed.get_rank() == 0:
        print(json.dumps(seconds[3:]))


def run_peer(kind, steps):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}", __file__,
               "--model", kind, "--steps", str(steps), "--peer"]  # fmt: skip
    environment = {**os.environ, **train_step.PEER_ENVIRONMENT, "OMP_NUM_THREADS": "1", "PARASHARD_VENV": sys.prefix}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"FSDP2 failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def compile_model(folder, archive, zero):
    out = folder / f"zero-{zero}"
    flags = ["--mesh", f"dp={RANKS}", "--zero", zero, "--optimizer", train_step.OPTIMIZER]
    subprocess.run([train_step.BIN / "ps-compile", archive, "-o", out, *flags], check=True)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["gpt", "llama"], default="gpt")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--no-peer", action="store_true", help="measure only our own programs")
    arguments = parser.parse_args()
    kind, steps = arguments.model, arguments.steps
    if arguments.peer:
        return peer(kind, steps)
    names = [*OURS, *([] if arguments.no_peer else [PEER])]
    times = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        archive = train_step.export(kind, folder, train_step.LAYERS)
        save_file(train_step.draw(train_step.BATCH * (steps + 3)), folder / "data.safetensors")
        programs = {zero: compile_model(folder, archive, zero) for zero in ["0", "3"]}

        def run(name):
            if name == PEER:
                return run_peer(kind, steps)
            zero, launcher = OURS[name]
            flags = [] if launcher else ["--ranks", str(RANKS)]
            return train_step.run_ours(folder, [*launcher, programs[zero], *flags], steps, threads=1)

        for turn in range(arguments.rounds):
            for name in names if turn % 2 else reversed(names):
                times[name].append(1e3 * statistics.median(run(name)))
    print(f"| {kind}, 1 thread per rank | ms per step (median) |\n|---|---|")
    for name in names:
        print(f"| {name} | {statistics.median(times[name]):.0f} |")
    print("\n| | ratio of adjacent runs (quartiles) | goal |\n|---|---|---|")
    for over, under, goal in RATIOS:
        if over in times:
            low, middle, high = statistics.quantiles([a / b for a, b in zip(times[over], times[under])], n=4)
            print(f"| {over} / {under} | {middle:.3f} ({low:.3f} to {high:.3f}) | {f'at most {goal}' if goal else 'above 1'} |")


if __name__ == "__main__":
    main()
