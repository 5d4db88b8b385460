"""Runs the commands of docs/recipe.md: a Hugging Face Llama is exported, trained on four ranks with most flags of a run, stopped by
SIGTERM, and loaded into transformers. Its loss there equals the printed one. The same training in PyTorch gives the same weights.
"""
import copy
import json
import math
import os
import re
import subprocess
import sys

import oracle
import pytest
import torch
from conftest import ROOT, tools_folder
from safetensors.torch import load_file

LENGTH, BATCH = 32, 4


def read_recipe():
    """Returns the commands of the document."""
    section = (ROOT / "docs/recipe.md").read_text()
    return section.split("```bash\n")[1].split("```")[0]


def make_inputs(folder):
    """Writes the inputs of the recipe: the model's folder and the files of tokens. Returns the model."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, bos_token_id=0, eos_token_id=0, initializer_range=0.05,
    ))  # fmt: skip
    model.save_pretrained(folder / "llama")
    text = (ROOT / "lib/Training/Autodiff.cpp").read_bytes() * 4
    (folder / "train.bin").write_bytes(text[:40000])
    (folder / "eval.bin").write_bytes(text[40000 : 40000 + 40 * LENGTH + 7])
    return model


def windows(path):
    tokens = torch.tensor(list(path.read_bytes()))
    return tokens[: len(tokens) // LENGTH * LENGTH].view(-1, LENGTH)


def rate_factor(step):
    """Returns the factor of --lr-schedule cosine(warmup=10,steps=500,min=0.1)."""
    if step < 10:
        return (step + 1) / 10
    return 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * min(1, (step - 10) / 490)))


def train_in_torch(model, data, steps):
    """Trains in PyTorch as the recipe does. Returns the results in the form that oracle compares."""
    module = copy.deepcopy(model).train()
    module.model.embed_tokens.weight.requires_grad_(False)
    before = {n: p.detach().clone() for n, p in module.named_parameters()}
    first = {"input_ids": data[:BATCH], "labels": data[:BATCH]}
    _, exact = oracle.loss_and_gradients(module, first, torch.float64)
    _, gradients = oracle.loss_and_gradients(module, first, torch.float32)
    trained = [p for p in module.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0},
        {"params": [p for p in trained if p.dim() >= 2], "weight_decay": 0.1},
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate_factor)
    losses = []
    for step in range(steps):
        batch = data[step * BATCH : (step + 1) * BATCH]
        loss = module(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    after = {n: p.detach() for n, p in module.named_parameters()}
    return oracle.Reference(losses, gradients, exact, before, after, oracle.aliases_of(module))


def test_recipe(tmp_path):
    recipe = read_recipe()
    assert len([line for line in recipe.splitlines() if line.strip()]) <= 25
    model = make_inputs(tmp_path)
    folders = [str(tools_folder()), os.path.dirname(sys.executable), os.environ["PATH"]]
    environment = {**os.environ, "PATH": ":".join(folders), "PYTHONPATH": str(ROOT / "python-bindings"), "OMP_NUM_THREADS": "2"}
    done = subprocess.run(
        ["bash", "-euc", recipe], cwd=tmp_path, capture_output=True, text=True, timeout=300, env=environment
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]

    steps, printed, samples = re.search(r"step (\d+): eval loss ([0-9.]+) over (\d+) samples\n", done.stdout).groups()
    home = float(re.search(r"in transformers: ([0-9.]+)", done.stdout)[1])
    assert int(samples) == 40 and home == pytest.approx(float(printed), rel=1e-5)

    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    all_steps = 3 * math.ceil(len(windows(tmp_path / "train.bin")) / BATCH)
    assert 25 <= len(log) == int(steps) < all_steps, "the run was not stopped before its end"
    assert any(entry["grad_norm"] > 1 for entry in log), "no gradient was clipped"

    used = min(len(log), 313)  # 313 steps: the first epoch
    assert used == len(log), "this fast machine finished the first epoch; give the test more data"
    ref = train_in_torch(model, windows(tmp_path / "train.bin"), len(log))
    assert oracle.worst_loss(ref, [entry["loss"] for entry in log]) < 1e-4
    errors = oracle.update_errors(ref, load_file(tmp_path / "trained/model.safetensors"))
    assert errors["model.embed_tokens.weight"] == 0 and max(errors.values()) < 5e-3, errors
