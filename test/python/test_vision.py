"""Models of images train as in PyTorch: losses, gradients, updates, and what a batch norm keeps.

A batch norm sees one micro-batch at a time, whole, whatever the mesh: PyTorch trains on each micro-batch of a step by
itself too, and adds up the gradients.
"""
import copy
import functools

import models
import oracle
import pytest
import torch
import torch.nn.functional as F
import vision
from conftest import tools_folder
from safetensors.torch import load_file, save_file

STEPS = 4


@functools.cache
def zoo(name):
    return vision.MODELS[name]()


def draw(model, micro_batches):
    """Batches of all steps. Some labels do not count, more in later micro-batches; no micro-batch is without."""
    batches = oracle.draw_batches(model, 1, STEPS * micro_batches)
    generator = torch.Generator().manual_seed(5)
    parts = []
    for index in range(STEPS * micro_batches):
        labels = model.draw_inputs(7 + index)["labels"]
        share = 0.6 * (index % micro_batches) / micro_batches
        labels[torch.rand(labels.shape, generator=generator) < share] = models.IGNORED
        parts.append(labels)
    batches["labels"] = torch.cat(parts)
    return batches


def step_in_torch(module, rows, micro_batches, dtype=torch.float32):
    """The loss of a step; its gradients are left in the module."""
    rows = models.cast(rows, dtype)
    total = (rows["labels"] != models.IGNORED).sum()
    sum_ = 0.0
    for part in range(micro_batches):
        batch = {name: value.chunk(micro_batches)[part] for name, value in rows.items()}
        share = (batch["labels"] != models.IGNORED).sum() / total
        loss = models.first_loss(module(**batch)) * share.to(dtype)
        loss.backward()
        sum_ += loss.item()
    return sum_


def gradients_of(module):
    return {name: p.grad.detach().clone() for name, p in module.named_parameters() if p.grad is not None}


def train_in_torch(model, batches, make_optimizer, micro_batches):
    """(what oracle.compare needs, the module after training)"""
    exact = copy.deepcopy(model.module).double()
    step_in_torch(exact, oracle.rows_of_step(batches, 0, STEPS), micro_batches, torch.float64)
    module = copy.deepcopy(model.module)
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    optimizer = make_optimizer(module.parameters())
    losses, first = [], None
    for step in range(STEPS):
        optimizer.zero_grad()
        losses.append(step_in_torch(module, oracle.rows_of_step(batches, step, STEPS), micro_batches))
        first = first or gradients_of(module)
        optimizer.step()
    after = {name: p.detach().clone() for name, p in module.named_parameters()}
    return oracle.Reference(losses, first, gradients_of(exact), before, after, oracle.aliases_of(module)), module


@functools.cache
def reference(name, micro_batches, optimizer):
    batches = draw(zoo(name), micro_batches)
    return batches, *train_in_torch(zoo(name), batches, oracle.OPTIMIZERS[optimizer][1], micro_batches)


@pytest.mark.parametrize("mesh,micro_batches,optimizer", [
    ("dp=1", 1, "sgd"), ("dp=1", 4, "adamw"), ("dp=2", 1, "adamw"), ("dp=2", 4, "sgd"), ("tp=2", 1, "sgd"),
    ("dp=2,tp=2", 4, "adamw"),
])  # fmt: skip
@pytest.mark.parametrize("name", vision.MODELS)
def test_trains_as_in_pytorch(tmp_path, name, mesh, micro_batches, optimizer):
    batches, expected, module = reference(name, micro_batches, optimizer)
    flag, _, tolerance = oracle.OPTIMIZERS[optimizer]
    archive = zoo(name).export(tmp_path / "model.pt2")
    found = oracle.train_compiled(tmp_path, archive, batches, mesh, micro_batches, flag, steps=STEPS)
    assert oracle.compare(expected, found, tolerance).failures() == []
    for buffer, (change, error) in changes_of_statistics(name, module, found.after).items():
        assert change > 0 and error <= 1e-4 * change, f"{buffer} differs by {error} after a change of {change}"


def changes_of_statistics(name, module, after):
    """Of each buffer that is kept: how far PyTorch moved it, and how far from there it is."""
    started, found = zoo(name).module.state_dict(), {}
    for buffer, value in module.named_buffers():
        if buffer in started:
            found[buffer] = ((value - started[buffer]).double().norm().item(), (after[buffer] - value).double().norm().item())
    return found


def test_statistics_are_those_of_the_whole_micro_batch(tmp_path):
    """Weights stay, so that statistics differ by rounding only. Those of half a micro-batch would be others."""
    model, micro_batches = zoo("resnet"), 4
    batches = draw(model, micro_batches)
    _, module = train_in_torch(model, batches, lambda p: torch.optim.SGD(p, lr=0.0), micro_batches)
    archive = model.export(tmp_path / "model.pt2")
    found = oracle.train_compiled(tmp_path, archive, batches, "dp=2", micro_batches, "sgd(lr=0)", steps=STEPS)
    for buffer, (change, error) in changes_of_statistics("resnet", module, found.after).items():
        assert error <= 2e-6 * change, f"{buffer} differs by {error} after a change of {change}"
    assert found.after["stem.1.num_batches_tracked"] == 2 + STEPS * micro_batches
    _, halves = train_in_torch(model, batches, lambda p: torch.optim.SGD(p, lr=0.0), 2 * micro_batches)
    change, error = changes_of_statistics("resnet", halves, found.after)["stem.1.running_var"]
    assert error > 1e-3 * change


def test_images_over_threads(tmp_path):
    """Pieces of 3, 3 and 2 images; each has its own sum for a kernel."""
    batches, expected, _ = reference("resnet", 1, "sgd")
    flag, _, tolerance = oracle.OPTIMIZERS["sgd"]
    found = oracle.train_compiled(tmp_path, zoo("resnet").export(tmp_path / "model.pt2"), batches, "dp=1", 1, flag,
                                  steps=STEPS, run_flags=("--threads", 3))  # fmt: skip
    assert oracle.compare(expected, found, tolerance).failures() == []


@pytest.mark.parametrize("mesh", ["dp=1", "dp=2"])
@pytest.mark.parametrize("name", vision.MODELS)
def test_evaluation_is_that_of_eval_mode(tmp_path, name, mesh):
    model = zoo(name)
    inputs = model.draw_inputs(3)
    found = oracle.evaluate(tmp_path, model.export(tmp_path / "model.pt2"), inputs, mesh)
    with torch.no_grad():
        trained = models.first_loss(copy.deepcopy(model.module)(**inputs)).item()
        expected = models.first_loss(copy.deepcopy(model.module).eval()(**inputs)).item()
    assert found == pytest.approx(expected, rel=1e-4)
    if name != "vit":
        assert found != pytest.approx(trained, rel=1e-2)


def test_the_evaluator_agrees(tmp_path):
    """Level 1 in the reference evaluator: what @evaluate gives is what the model gives in eval mode."""
    model = zoo("resnet")
    oracle.compile_model(tmp_path, model.export(tmp_path / "model.pt2"), "dp=1", "--dump-dir", tmp_path)
    inputs = model.draw_inputs(3)
    save_file(inputs, tmp_path / "data.safetensors")
    oracle.run([tools_folder() / "ps-run", tmp_path / "1-training.mlir", "--entry", "evaluate", "--inputs",
                "data.safetensors", "--outputs", "out.safetensors"], tmp_path)  # fmt: skip
    with torch.no_grad():
        loss, logits = copy.deepcopy(model.module).eval()(**inputs)
    found = load_file(tmp_path / "out.safetensors")
    logit = next(value for name, value in found.items() if value.shape == logits.shape)
    torch.testing.assert_close(logit, logits, rtol=1e-5, atol=1e-5)


def test_a_model_in_eval_mode_warns(tmp_path):
    model = vision.resnet()
    model.module.eval()
    archive = model.export(tmp_path / "model.pt2")
    said = oracle.run([tools_folder() / "ps-compile", archive, "-o", "program"], tmp_path)
    assert "its batch norms train with their running statistics" in said
    model.module.train()
    assert "running statistics" not in oracle.run(
        [tools_folder() / "ps-compile", model.export(tmp_path / "model.pt2"), "-o", "program"], tmp_path)


class Interpolated(torch.nn.Module):
    def __init__(self, shape, options):
        super().__init__()
        torch.manual_seed(0)
        self.weight, self.options = torch.nn.Parameter(torch.randn(shape)), options

    def forward(self, x):
        return (F.interpolate(self.weight, **self.options).square() * x.mean()).sum()


@pytest.mark.parametrize("shape,options", [
    ((2, 3, 4), {"scale_factor": 3}), ((2, 2, 2, 3, 2), {"scale_factor": 2}),
    ((2, 3, 5), {"scale_factor": 1.7, "mode": "linear"}),
    ((1, 2, 3, 2, 4), {"size": (4, 4, 3), "mode": "trilinear", "align_corners": True}),
])  # fmt: skip
def test_interpolation_along_one_and_three_dims(tmp_path, shape, options):
    """As exported: torch decomposes these into indices that are not imported."""
    module, data = Interpolated(shape, options), {"x": torch.ones(2, 3)}
    archive = models.Model("interpolated", module, data).export(tmp_path / "model.pt2")
    loss = module(**data)
    loss.backward()
    found, gradients = oracle.first_step(tmp_path, archive, data)
    assert found == pytest.approx(loss.item(), rel=1e-5)
    torch.testing.assert_close(gradients["weight"], module.weight.grad, rtol=1e-5, atol=1e-6)


def test_places_of_a_pool_are_no_value(tmp_path):
    class Places(torch.nn.Module):
        def forward(self, x):
            y, places = torch.nn.functional.max_pool2d(x, 2, return_indices=True)
            return (y + places).mean()

    archive = models.Model("places", Places(), {"x": torch.rand(2, 3, 4, 4)}).export(tmp_path / "model.pt2")
    said = oracle.run([tools_folder() / "ps-translate", "--import-pt2", archive, "--check"], tmp_path, expect=1)
    assert "only meant for a backward pass" in said
