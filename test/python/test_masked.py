"""Masked labels: uneven over ranks and micro-batches, equal to PyTorch on the whole batch; a step without any label."""
import json
import subprocess

import models
import oracle
import pytest
import torch
import torch.nn.functional as F
from conftest import tools_folder
from safetensors.torch import save_file

MICRO_BATCHES = 4
STEPS = 3
ADAMW, make_adamw, UPDATE_TOLERANCE = oracle.OPTIMIZERS["adamw"]


def mask(labels, batch):
    """In each step: micro-batch 1 whole, half the ranks' rows of micro-batch 2, and more and more of micro-batch 3."""
    generator = torch.Generator().manual_seed(7)
    for step in labels.split(MICRO_BATCHES * batch):
        _, whole, half, uneven = step.split(batch)
        whole[:] = models.IGNORED
        half[batch // 2 :] = models.IGNORED
        share = torch.linspace(0.0, 0.9, batch)[:, None]
        uneven[torch.rand(uneven.shape, generator=generator) < share] = models.IGNORED


@pytest.fixture(scope="module", params=["gpt", "llama"])
def masked(request):
    """A model's name, its batches, and what PyTorch makes of them, each step on all its samples at once."""
    model = oracle.zoo(request.param)
    parts = [model.draw_inputs(50 + i) for i in range(STEPS * MICRO_BATCHES)]
    batches = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    mask(batches["labels"], parts[0]["labels"].shape[0])
    return request.param, batches, oracle.train_in_torch(model, batches, make_adamw, STEPS)


@pytest.mark.parametrize("mesh", ["dp=1", "dp=2", "tp=2", "dp=2,tp=2"])
def test_uneven_masks_equal_pytorch_on_the_whole_batch(tmp_path, exports, masked, mesh):
    name, batches, ref = masked
    result = oracle.train_compiled(
        tmp_path, oracle.export(name, exports), batches, mesh, MICRO_BATCHES, ADAMW, steps=STEPS
    )
    assert oracle.compare(ref, result, UPDATE_TOLERANCE).failures() == []


@pytest.mark.parametrize("mesh,micro_batches", [("dp=1", 1), ("dp=2", 2), ("tp=2", 1), ("dp=2,tp=2", 2)])
def test_a_step_without_labels_changes_nothing(tmp_path, exports, mesh, micro_batches):
    """Its loss is 0, it is warned of, and neither weights nor the optimizer's count of steps know of it."""
    model, empty = oracle.zoo("gpt"), 1
    batches = oracle.draw_batches(model, micro_batches, STEPS)
    rows = batches["labels"].shape[0] // STEPS
    batches["labels"][empty * rows : (empty + 1) * rows] = models.IGNORED
    kept = {n: torch.cat([v[:rows], v[2 * rows :]]) for n, v in batches.items()}
    ref = oracle.train_in_torch(model, kept, make_adamw, STEPS - 1)
    result = oracle.train_compiled(
        tmp_path, oracle.export("gpt", exports), batches, mesh, micro_batches, ADAMW, steps=STEPS,
        run_flags=("--log", "log.jsonl"),
    )  # fmt: skip
    assert result.losses.pop(empty) == 0.0
    assert oracle.compare(ref, result, UPDATE_TOLERANCE).failures() == []
    assert f"step {empty} has no label that counts" in result.output
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert all(torch.isfinite(torch.tensor(line["loss"])) for line in log if "loss" in line)


class Penalized(torch.nn.Module):
    """A cross-entropy with ignored labels, and a term that knows no labels."""

    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(12, 24), torch.nn.Linear(24, 10)

    def forward(self, x, labels):
        logits = self.down(torch.tanh(self.up(x)))
        return F.cross_entropy(logits, labels) + 0.01 * logits.square().mean(), logits


WARNING = "differs from the loss of the whole batch"


def test_a_loss_of_several_terms_is_averaged_over_micro_batches(tmp_path):
    """As the sum of PyTorch's losses of the micro-batches divided by their number; a warning says that the whole batch has another."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    x, labels = 10 * torch.randn(16, 12, generator=generator), torch.randint(0, 10, (16,), generator=generator)
    labels[1:8] = -100  # the first micro-batch has one label, the second eight
    model = models.Model("penalized", Penalized(), {"x": x[:8], "labels": labels[:8]})
    archive = model.export(tmp_path / "model.pt2")
    save_file({"x": x, "labels": labels}, tmp_path / "data.safetensors")
    halves = [model.module(x[i : i + 8], labels[i : i + 8])[0].item() for i in (0, 8)]
    whole = model.module(x, labels)[0].item()
    assert abs(sum(halves) / 2 - whole) > 0.01

    def compile_and_train(*flags):
        command = [tools_folder() / "ps-compile", archive, "-o", tmp_path / "program", *flags]
        said = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True).stderr
        oracle.run([tmp_path / "program", "--data", "data.safetensors", "--losses", "losses.txt"], tmp_path)
        return said, oracle.read_losses(tmp_path / "losses.txt")

    said, losses = compile_and_train("--micro-batches", "2")
    assert WARNING in said and "2 micro-batches" in said
    assert losses == [pytest.approx(sum(halves) / 2, rel=1e-5)]
    said, losses = compile_and_train("--micro-batches", "2", "--loss-average", "micro-batch")
    assert WARNING not in said
    assert losses == [pytest.approx(sum(halves) / 2, rel=1e-5)]
    assert WARNING not in compile_and_train()[0]
