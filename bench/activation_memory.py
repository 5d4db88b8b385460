#!/usr/bin/env python3
"""Compares the bytes that a transformer layer saves for backward with the formulas of Korthikanti et al., 2022.

    bench/activation_memory.py [--hidden 6144] [--heads 64] [--seq 2048] [--batch 4] [--tp 8] [--precision fp32]

Compiles a GPT-2 of this shape (by default GPT-22B) without weights, with two and with three layers. The difference is the size of the activations that
one layer saves for backward, on one rank. The formulas count 2 bytes per value (4 with fp32) and 1 byte per mask element.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import train_step

ROOT = pathlib.Path(__file__).resolve().parents[1]
LAYERS = (2, 3)
BYTES = {"f32": 4, "f64": 8, "i64": 8, "i32": 4, "bf16": 2, "f16": 2, "i1": 1, "i8": 1}


def export(folder, layers, arguments):
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": arguments.hidden, "n_head": arguments.heads, "n_layer": layers,
              "n_positions": arguments.seq, "vocab_size": 51200, "use_cache": False}  # fmt: skip
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    subprocess.run(
        [sys.executable, "-m", "parashard.export", f"hf:{folder}", "--meta", "--batch", str(arguments.batch), "--seq", str(arguments.seq),
         "-o", folder / "model.pt2"],
        check=True, capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT / "python-bindings")})  # fmt: skip
    return folder / "model.pt2"


def compile_stage(model, flags, arguments):
    """Returns the IR of @stage0.micro_batch."""
    out = model.with_suffix(".mlir")
    subprocess.run(
        [train_step.BIN / "ps-compile", model, "-o", out, "--stop-after", "partitioned", "--mesh", f"tp={arguments.tp}", "--batch", str(arguments.batch),
         "--precision", arguments.precision, "--init", "normal(0.02)", "--weights", "none", *flags],
        check=True, capture_output=True, text=True)  # fmt: skip
    return out.read_text().partition("func.func @stage0.micro_batch")[2].partition("func.func")[0]


def size_of(tensor):
    *shape, dtype = tensor.split("x")
    count = BYTES[dtype]
    for dim in shape:
        count *= int(dim)
    return count


def kept(stage):
    """Returns the bytes, by dtype, of the results of forward runs that backward runs use."""
    sizes, backward = {}, set()
    for line in stage.splitlines():
        run = re.match(r"\s*(?:(%[\w:, %]+?) = )?rank\.run @\S*?\.(\w+)", line)
        if not run:
            continue
        if run[2] == "forward":
            types = re.findall(r"tensor<([^>]*)>", line.rpartition("->")[2].partition(" loc(")[0])
            names = []
            for group in (run[1] or "").split(", "):
                name, _, count = group.partition(":")
                names += [f"{name}#{i}" for i in range(int(count))] if count else [name]
            sizes |= dict(zip(names, types))
        else:
            backward |= set(re.findall(r"%[\w.]+(?:#\d+)?", line.partition("rank.run")[2]))
    by_type = collections.Counter()
    for name in sizes.keys() & backward:
        by_type[sizes[name].rpartition("x")[2]] += size_of(sizes[name])
    return by_type


def layer(models, flags, arguments):
    fewer, more = (kept(compile_stage(model, flags, arguments)) for model in models)
    more.subtract(fewer)
    return more


def formulas(a):
    """Returns the formulas of table 2 of the paper: (sharding policy, recomputation) -> (values of 2 bytes, masks of 1 byte), both in units of s b h."""
    scores, mask = 4 * a.heads * a.seq / a.hidden, a.heads * a.seq / a.hidden
    t = a.tp
    return {
        ("megatron", "none"): (8 + 24 / t + scores / t, 2 + mask / t),
        ("megatron+sp", "none"): ((32 + scores) / t, (2 + mask) / t),
        ("megatron", "selective"): (8 + 24 / t, 2),
        ("megatron+sp", "selective"): (32 / t, 2 / t),
        ("megatron", "full"): (2, 0),
        ("megatron+sp", "full"): (2 / t, 0),
        ("megatron", "full+communication"): (2, 0),
        ("megatron+sp", "full+communication"): (2 / t, 0),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("hidden", 6144), ("heads", 64), ("seq", 2048), ("batch", 4), ("tp", 8)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--precision", default="fp32")
    arguments = parser.parse_args()
    unit = arguments.seq * arguments.batch * arguments.hidden
    width = 2 if arguments.precision == "fp32" else 1
    with tempfile.TemporaryDirectory() as name:
        models = [export(pathlib.Path(name) / str(layers), layers, arguments) for layers in LAYERS]
        print("policy       recompute          kept MB   formula MB   kept / formula   kept in s b h values")
        for (policy, recompute), (values, masks) in formulas(arguments).items():
            held = layer(models, ("--sharding-policy", policy, "--recompute", recompute), arguments)
            bytes_, formula = sum(held.values()), unit * (width * values + masks)
            types = ", ".join(f"{count / unit / BYTES[dtype]:.2f} {dtype}" for dtype, count in held.items() if count)
            print(f"{policy:12} {recompute:18} {bytes_ / 1e6:8.1f} {formula / 1e6:12.1f} {bytes_ / formula:16.2f}   {types}")


if __name__ == "__main__":
    main()
