"""Models of images: running statistics of batch norms, evaluation and interpolation. The table in cases.py compares their training
with PyTorch. On any mesh, a batch norm computes its statistics over one whole micro-batch.
"""
import copy

import models
import oracle
import pytest
import torch
import torch.nn.functional as F
import vision
from conftest import tools_folder
from safetensors.torch import load_file, save_file

STEPS = 4


def statistics_after(model, batches, micro_batches):
    """Trains in PyTorch with a learning rate of 0, so that the running statistics of two runs differ only by rounding. Returns the results."""
    ref = oracle.train_in_torch(model, batches, lambda p: torch.optim.SGD(p, lr=0.0), STEPS, micro_batches)
    assert set(ref.statistics) == {name for name, _ in model.module.named_buffers()}
    return ref


def test_statistics_are_those_of_the_whole_micro_batch(tmp_path, exports):
    """Statistics over half a micro-batch would be different."""
    model, micro_batches = oracle.zoo("resnet"), 4
    batches = oracle.draw_batches(model, micro_batches, STEPS)
    archive = oracle.export("resnet", exports)
    found = oracle.train_compiled(tmp_path, archive, batches, "dp=2", micro_batches, "sgd(lr=0)", steps=STEPS).after
    errors = oracle.statistics_errors(statistics_after(model, batches, micro_batches), found)
    assert max(errors.values()) <= 2e-6, errors
    assert found["stem.1.num_batches_tracked"] == 2 + STEPS * micro_batches
    halves = oracle.statistics_errors(statistics_after(model, batches, 2 * micro_batches), found)
    assert halves["stem.1.running_var"] > 1e-3


def test_images_are_split_over_threads(tmp_path, exports):
    """The 3 threads compute 3, 3 and 2 images, and each sums its own gradient of a convolution kernel."""
    ref, batches = oracle.reference("resnet", 1, "sgd"), oracle.draw_batches(oracle.zoo("resnet"), 1)
    flag, _, tolerance = oracle.OPTIMIZERS["sgd"]
    found = oracle.train_compiled(tmp_path, oracle.export("resnet", exports), batches, "dp=1", 1, flag,
                                  run_flags=("--threads", 3))  # fmt: skip
    assert oracle.compare(ref, found, tolerance).failures() == []


@pytest.mark.cover(1)
@pytest.mark.parametrize("mesh", ["dp=1", "dp=2"])
@pytest.mark.parametrize("name", vision.MODELS)
def test_evaluation_is_that_of_eval_mode(tmp_path, name, mesh):
    model = oracle.zoo(name)
    inputs = model.draw_inputs(3)
    found = oracle.evaluate(tmp_path, model.export(tmp_path / "model.pt2"), inputs, mesh)
    with torch.no_grad():
        trained = models.first_loss(copy.deepcopy(model.module)(**inputs)).item()
        expected = models.first_loss(copy.deepcopy(model.module).eval()(**inputs)).item()
    assert found == pytest.approx(expected, rel=1e-4)
    if name != "vit":
        assert found != pytest.approx(trained, rel=1e-2)


def test_the_evaluator_agrees(tmp_path):
    """At level 1, @evaluate in the reference evaluator gives the result of the model in eval mode."""
    model = oracle.zoo("resnet")
    oracle.compile_model(tmp_path, model.export(tmp_path / "model.pt2"), "dp=1", "--dump-dir", tmp_path)
    inputs = model.draw_inputs(3)
    save_file(inputs, tmp_path / "data.safetensors")
    oracle.run([tools_folder() / "ps-run", tmp_path / "1-training.mlir", "--entry", "evaluate", "--inputs",
                "data.safetensors", "--outputs", "out.safetensors"], tmp_path)  # fmt: skip
    with torch.no_grad():
        _, logits = copy.deepcopy(model.module).eval()(**inputs)
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
    """The export is not decomposed: torch would decompose these ops into index computations that the importer does not support."""
    module, data = Interpolated(shape, options), {"x": torch.ones(2, 3)}
    archive = models.Model("interpolated", module, data).export(tmp_path / "model.pt2")
    loss = module(**data)
    loss.backward()
    found, gradients = oracle.first_step(tmp_path, archive, data)
    assert found == pytest.approx(loss.item(), rel=1e-5)
    torch.testing.assert_close(gradients["weight"], module.weight.grad, rtol=1e-5, atol=1e-6)


def test_nearest_elements_of_infinite_ones(tmp_path):
    """An infinite element of a mask is copied, and makes no other element NaN."""
    class Resized(torch.nn.Module):
        def forward(self, x):
            return tuple(F.interpolate(x, size=size) for size in ((8, 8), (6, 5), (3, 4), (2, 2)))

    x = torch.randn(2, 2, 4, 4)
    x[0, 0, 1, 1], x[1, 0, 3, 2] = -float("inf"), float("inf")
    archive = models.Model("resized", Resized(), {"x": x}).export(tmp_path / "model.pt2")
    program = oracle.compile_model(tmp_path, archive, "dp=1", "--inference")
    save_file({"x": x}, tmp_path / "x.safetensors")
    oracle.run([program, "--eval", "--data", "x.safetensors", "--outputs", "o.safetensors"], tmp_path)
    found = {tuple(y.shape): y for y in load_file(tmp_path / "o.safetensors").values()}
    for y in Resized()(x):
        torch.testing.assert_close(found[tuple(y.shape)], y, rtol=0, atol=0)


def test_indices_of_a_pool_are_not_a_value(tmp_path):
    class Places(torch.nn.Module):
        def forward(self, x):
            y, places = torch.nn.functional.max_pool2d(x, 2, return_indices=True)
            return (y + places).mean()

    archive = models.Model("places", Places(), {"x": torch.rand(2, 3, 4, 4)}).export(tmp_path / "model.pt2")
    said = oracle.run([tools_folder() / "ps-translate", "--import-pt2", archive, "--check"], tmp_path, expect=1)
    assert "only the backward of its op may use" in said
