#!/usr/bin/env python3
"""Compares a step of a two-stage pipeline with its prediction and with torch.distributed.pipelining.

    bench/pipeline_step.py [--rounds 3] [--steps 20]

Runs the 14M GPT of bench/train_step.py on pp=2 with 8 micro-batches of one sample and 1 thread per rank, for two cuts and two
schedules. The prediction is made before the measured runs:
- A traced run of the same program, in which both ranks compute, gives the median times of each stage's phases and of the update.
- A round trip of a message between two processes gives the time of a hop.
- The simulator (`ps-timeline --schedule`) combines these times.

Measures our program with ranks as threads and as processes (`mpirun`), and PyTorch with two processes (gloo). PyTorch's model has
the same cut, and PyTorch's schedule has the same name. Runs alternate; figures are medians.
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
import torch
from launchers import MPIRUN
from safetensors.torch import save_file

MICRO_BATCHES = 8
CUTS = ["flops", "blocks.2"]  # values of --split-method
SCHEDULES = {"1f1b": "Schedule1F1B", "gpipe": "ScheduleGPipe"}


# ---- PyTorch, in separate processes -------------------------------------------------------------------------------


class Stage(torch.nn.Module):
    """Some of the model's layers, including the embeddings before the first layer and the head after the last one. The head
    has its own weight, because torch.distributed.pipelining does not support weights tied across stages."""

    def __init__(self, gpt, first, last):
        super().__init__()
        self.layers = torch.nn.ModuleList(gpt.blocks[first:last])
        self.tokens, self.positions = (gpt.tokens, gpt.positions) if first == 0 else (None, None)
        self.norm, self.head = (gpt.norm, gpt.head) if last == train_step.LAYERS else (None, None)

    def forward(self, x):
        if self.tokens is not None:
            x = self.tokens(x) + self.positions(torch.arange(x.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return x if self.head is None else self.head(self.norm(x))


def peer(schedule, cut, steps):
    """Prints the seconds of each step as JSON (last rank)."""
    from torch.distributed import pipelining

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    gpt = train_step.make_model("gpt")
    stage = Stage(gpt, *((0, cut) if rank == 0 else (cut, train_step.LAYERS)))
    optimizer = torch.optim.AdamW(stage.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    compiled = torch.compile(stage)
    data = train_step.draw(train_step.BATCH)
    token = data["input_ids"][:1]
    hidden = torch.zeros(1, train_step.TIME, train_step.WIDTH)
    logits = torch.zeros(1, train_step.TIME, train_step.VOCABULARY)

    class OverGloo(pipelining.PipelineStage):
        def _get_init_p2p_neighbors_ops(self):  # torch 2.9 sends an int64 there and receives a float: gloo aborts
            return []

    part = OverGloo(compiled, rank, 2, torch.device("cpu"), input_args=(token if rank == 0 else hidden,),
                    output_args=(hidden if rank == 0 else logits,))  # fmt: skip

    def loss_of(output, labels):
        return torch.nn.functional.cross_entropy(output.flatten(0, 1), labels.flatten())

    run = getattr(pipelining, SCHEDULES[schedule])(part, MICRO_BATCHES, loss_fn=loss_of)
    seconds = []
    for _ in range(steps + 3):
        start = time.perf_counter()
        optimizer.zero_grad()
        run.step(data["input_ids"]) if rank == 0 else run.step(target=data["labels"], losses=[])
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    if rank == 1:
        print(json.dumps(seconds[3:]), flush=True)
    torch.distributed.destroy_process_group()


def run_peer(schedule, cut, steps):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", __file__, "--steps", str(steps),
               "--peer", f"{schedule},{cut}"]  # fmt: skip
    environment = {**os.environ, **train_step.PEER_ENVIRONMENT, "OMP_NUM_THREADS": "1", "PARASHARD_VENV": sys.prefix}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"PyTorch failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


# ---- ours ----------------------------------------------------------------------------------------------------------


def compile_plan(folder, archive, schedule, method):
    """Returns (the program, the first layer of the second stage)."""
    out = folder / f"{schedule}-{method}"
    done = subprocess.run(
        [train_step.BIN / "ps-compile", archive, "-o", out, "--mesh", "pp=2", "--optimizer", train_step.OPTIMIZER, "--micro-batches",
         str(MICRO_BATCHES), "--schedule", schedule, "--split-method", method, "--explain"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    layers = re.findall(r"^  blocks\.(\d+) +(\d) ", done.stdout + done.stderr, re.M)
    return out, min(int(layer) for layer, stage in layers if stage == "1")


def predict(folder, program, schedule, hop, launcher, flags):
    """Returns (the simulator's milliseconds per step, the output of ps-timeline)."""
    subprocess.run([*launcher, program, *flags, "--threads", "1", "--data", folder / "data.safetensors", "--steps", "8", "--trace",
                    folder / "trace.json", "--quiet"], check=True, stdout=subprocess.DEVNULL)  # fmt: skip
    output = subprocess.run([train_step.BIN / "ps-timeline", folder / "trace.json", "--schedule", schedule, "--hop", str(hop)], check=True,
                          capture_output=True, text=True).stdout  # fmt: skip
    return float(re.search(r"with the update ([\d.]+)", output)[1]), output


def ping_pong(mpi):
    """Returns the milliseconds of a message between the stages: half of a round trip."""
    size = str(4 * train_step.TIME * train_step.WIDTH)
    command = [train_step.BIN / "message-time", size]
    environment = {**os.environ, "PSRT_COMM_MPI": str(train_step.BIN.parent / "lib/libpsrt_comm_mpi.so")}
    done = subprocess.run([*MPIRUN, *command] if mpi else command, check=True, capture_output=True, text=True, env=environment)
    return float(done.stdout.split()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        schedule, cut = arguments.peer.split(",")
        return peer(schedule, int(cut), arguments.steps)

    steps = arguments.steps
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        archive = export_micro_batch(folder)
        save_file(train_step.draw(train_step.BATCH * (steps + 3)), folder / "data.safetensors")
        launches = {"--ranks 2": ([], ["--ranks", "2"]), "mpirun": (MPIRUN, [])}
        hops = {way: ping_pong(bool(launcher)) for way, (launcher, _) in launches.items()}
        print("hop: " + ", ".join(f"{way} {hop:.3f} ms" for way, hop in hops.items()))
        print("| cut, schedule | ranks | predicted, ms | measured, ms | ratio | torch, ms | torch / ours |\n|---|---|---|---|---|---|---|")
        for method in CUTS:
            for schedule in SCHEDULES:
                program, cut = compile_plan(folder, archive, schedule, method)
                predicted = {way: predict(folder, program, schedule, hops[way], *launches[way])[0] for way in launches}
                times = {way: [] for way in [*launches, "torch"]}
                for _ in range(arguments.rounds):
                    for way, (launcher, flags) in launches.items():
                        times[way] += train_step.run_ours(folder, [*launcher, program, *flags], steps, 1)
                    times["torch"] += run_peer(schedule, cut, steps)
                median = {way: 1e3 * statistics.median(values) for way, values in times.items()}
                for way in launches:
                    print(f"| before blocks.{cut} ({method}), {schedule} | {way} | {predicted[way]:.0f} | {median[way]:.0f} | "
                          f"{median[way] / predicted[way]:.3f} | {median['torch']:.0f} | {median['torch'] / median[way]:.2f} |", flush=True)  # fmt: skip


def export_micro_batch(folder):
    """Exports the model for one sample, which is a micro-batch."""
    program = torch.export.export(train_step.make_model("gpt"), (), train_step.draw(train_step.BATCH // MICRO_BATCHES))
    path = folder / "gpt.pt2"
    torch.export.save(program, path)
    return path


if __name__ == "__main__":
    main()
