#!/usr/bin/env python3
"""Compares a training step of other common models with torch.compile, in alternating runs.

    bench/model_steps.py [--models bert,vit,resnet] [--rounds 3] [--steps 12]

The models are BERT-mini (4 layers, width 256, 128 tokens), a ViT (6 layers, width 192, patches of 8) and a ResNet-18, the
last two on images of 64 x 64, with batch 32, AdamW, float32, 1 rank x 2 threads. Prints the median step times of both, and
the median over the rounds of their ratio.
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

import train_step  # restarts in the environment that has PyTorch
import torch
from safetensors.torch import save_file
from transformers import (BertConfig, BertForMaskedLM, ResNetConfig, ResNetForImageClassification, ViTConfig,
                          ViTForImageClassification)  # fmt: skip

BATCH, IMAGE, TIME, VOCABULARY, LABELS, THREADS = 32, 64, 128, 8192, 10, 2


def make_bert():
    return BertForMaskedLM(BertConfig(
        vocab_size=VOCABULARY, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024,
        max_position_embeddings=TIME, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    ))  # fmt: skip


def make_vit():
    return ViTForImageClassification(ViTConfig(
        hidden_size=192, num_hidden_layers=6, num_attention_heads=6, intermediate_size=768, image_size=IMAGE, patch_size=8,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=LABELS,
    ))  # fmt: skip


def make_resnet():
    return ResNetForImageClassification(ResNetConfig(
        embedding_size=64, hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic", num_labels=LABELS,
    ))  # fmt: skip


def draw_tokens(samples, generator):
    tokens = torch.randint(0, VOCABULARY, (samples, TIME), generator=generator)
    labels = torch.where(torch.rand(samples, TIME, generator=generator) < 0.15, tokens, -100)
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": labels}


def draw_images(samples, generator):
    return {"pixel_values": torch.randn(samples, 3, IMAGE, IMAGE, generator=generator),
            "labels": torch.randint(0, LABELS, (samples,), generator=generator)}  # fmt: skip


MODELS = {"bert": (make_bert, draw_tokens), "vit": (make_vit, draw_images), "resnet": (make_resnet, draw_images)}


def draw(kind, samples):
    return MODELS[kind][1](samples, torch.Generator().manual_seed(1))


def make_model(kind):
    torch.manual_seed(0)
    return MODELS[kind][0]().train()


def peer(kind, steps):
    """Prints the seconds of each step of torch.compile as JSON."""
    torch.set_num_threads(THREADS)
    model = make_model(kind)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    compiled, data, seconds = torch.compile(model), draw(kind, BATCH), []
    for _ in range(steps + 3):
        start = time.perf_counter()
        loss = compiled(**data).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    print(json.dumps(seconds[3:]))


def run_peer(kind, steps):
    environment = {**os.environ, **train_step.PEER_ENVIRONMENT, "OMP_NUM_THREADS": str(THREADS), "PARASHARD_VENV": sys.prefix}
    command = [sys.executable, __file__, "--peer", kind, "--steps", str(steps)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"PyTorch failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def measure(kind, rounds, steps):
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        torch.export.save(torch.export.export(make_model(kind), (), draw(kind, BATCH)), folder / "model.pt2")
        save_file(draw(kind, BATCH * (steps + 3)), folder / "data.safetensors")
        program, _ = train_step.compile_model(folder, folder / "model.pt2", "dp=1", "program")
        pairs = []
        for _ in range(rounds):
            ours = statistics.median(train_step.run_ours(folder, [program, "--ranks", "1"], steps, THREADS))
            pairs.append((ours, statistics.median(run_peer(kind, steps))))
    ours, theirs = (1e3 * statistics.median(column) for column in zip(*pairs))
    ratio = statistics.median(b / a for a, b in pairs)
    print(f"| {kind} | {ours:.0f} | {theirs:.0f} | {ratio:.2f} x |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        return peer(arguments.peer, arguments.steps)
    print("| model | ours, ms per step | torch.compile, ms per step | ratio |\n|---|---|---|---|")
    for kind in arguments.models.split(","):
        measure(kind, arguments.rounds, arguments.steps)


if __name__ == "__main__":
    main()
