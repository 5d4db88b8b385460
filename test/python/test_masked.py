"""Ignored labels that differ between ranks and micro-batches: training equals PyTorch on the whole batch. Also tests steps without any label."""
import json

import models
import oracle
import pytest
import torch

MICRO_BATCHES = 4
STEPS = 3
ADAMW, make_adamw, UPDATE_TOLERANCE = oracle.OPTIMIZERS["adamw"]


def mask(labels, batch):
    """Ignores labels of each step: all of micro-batch 1, the second half of micro-batch 2, and more and more of micro-batch 3."""
    generator = torch.Generator().manual_seed(7)
    for step in labels.split(MICRO_BATCHES * batch):
        _, whole, half, uneven = step.split(batch)
        whole[:] = models.IGNORED
        half[batch // 2 :] = models.IGNORED
        share = torch.linspace(0.0, 0.9, batch)[:, None]
        uneven[torch.rand(uneven.shape, generator=generator) < share] = models.IGNORED


@pytest.fixture(scope="module", params=["gpt", "llama"])
def masked(request):
    """Returns (a model's name, its batches, PyTorch's results, with one batch per step)."""
    model = oracle.zoo(request.param)
    parts = [model.draw_inputs(50 + i) for i in range(STEPS * MICRO_BATCHES)]
    batches = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    mask(batches["labels"], parts[0]["labels"].shape[0])
    return request.param, batches, oracle.train_in_torch(model, batches, make_adamw, STEPS)


@pytest.mark.part(2)
@pytest.mark.parametrize("mesh", ["dp=1", "dp=2", "tp=2", "dp=2,tp=2"])
def test_uneven_masks_equal_pytorch_on_the_whole_batch(tmp_path, exports, masked, mesh):
    name, batches, ref = masked
    result = oracle.train_compiled(
        tmp_path, oracle.export(name, exports), batches, mesh, MICRO_BATCHES, ADAMW, steps=STEPS
    )
    assert oracle.compare(ref, result, UPDATE_TOLERANCE).failures() == []


@pytest.mark.parametrize("mesh,micro_batches", [("dp=1", 1), ("dp=2", 2), ("tp=2", 1), ("dp=2,tp=2", 2)])
def test_a_step_without_labels_changes_nothing(tmp_path, exports, mesh, micro_batches):
    """The loss of such a step is 0, which a warning reports. Weights and the optimizer's count of steps do not change."""
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
    assert f"step {empty} has only ignored or masked labels" in result.output
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert all(torch.isfinite(torch.tensor(line["loss"])) for line in log if "loss" in line)
