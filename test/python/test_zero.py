"""`--zero`: state that data-parallel ranks would replicate is split over them. Results stay the same."""
import json
import re

import cases
import lanes
import oracle
import pytest
import test_pipelines
import torch
from conftest import tools_folder
from safetensors.torch import save_file

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("case", lanes.cover(cases.ZERO))
def test_equals_pytorch(tmp_path, exports, case):
    comparison = oracle.check_case(tmp_path, exports, case)
    print(comparison)
    assert comparison.failures() == []


@pytest.mark.part(2)
@pytest.mark.parametrize("name, mesh, stage", [("gpt", "dp=4", 3), ("gpt2", "dp=4", 1), ("llama", "dp=2,tp=2", 3), ("llama", "dp=4", 2)])
def test_sizes_that_do_not_divide_equal_pytorch(tmp_path, name, mesh, stage):
    """Some shards have padding, and some are empty."""
    model = cases.ODD[name]()
    flag, make, tolerance = oracle.OPTIMIZERS["adamw"]
    batches = oracle.draw_batches(model, 2)
    found = oracle.train_compiled(tmp_path, model.export(tmp_path / "model.pt2"), batches, mesh, 2, flag, ("--zero", stage))
    assert oracle.compare(oracle.train_in_torch(model, batches, make), found, tolerance).failures() == []


# ---- bytes ---------------------------------------------------------------------------------------------------------


def bytes_by_kind(program):
    """Returns the bytes per rank of each kind of tensor, from --info."""
    units = {"B": 1, "KB": 1e3, "MB": 1e6}
    rows = re.findall(r"^  (\w+) +\d+ tensors? +([\d.]+) (\w+)$", oracle.run([program, "--info"], program.parent), re.M)
    return {kind: float(value) * units[unit] for kind, value, unit in rows}


@pytest.mark.part(2)
@pytest.mark.parametrize("name", ["gpt2", "llama"])
@pytest.mark.parametrize("mesh, shards", [("dp=2", 2), ("dp=4", 4), ("dp=2,tp=2", 2)])
def test_bytes_of_a_rank_are_those_of_the_formula(tmp_path, exports, name, mesh, shards):
    """The formula is figure 1 of Rajbhandari et al., 2020: parameters, gradients and optimizer state are each replicated or split."""
    held = []
    for stage in range(4):
        folder = tmp_path / str(stage)
        folder.mkdir()
        held.append(bytes_by_kind(oracle.compile_model(folder, oracle.export(name, exports), mesh, "--zero", stage)))
    for kind, first in (("optimizer", 1), ("gradient", 2), ("parameter", 3)):
        for stage in range(4):
            share = shards if stage >= first else 1
            assert held[stage][kind] == pytest.approx(held[0][kind] / share, rel=1e-3, abs=8), (kind, stage)


# ---- the norm of the gradients -------------------------------------------------------------------------------------


def clipping(make, most, norms):
    """Returns a maker of PyTorch optimizers that clip the gradients before each step and append the norm to `norms`."""

    def build(parameters):
        optimizer = make(parameters)
        step = optimizer.step

        def clipped():
            norms.append(torch.nn.utils.clip_grad_norm_(parameters, most).item())
            step()

        optimizer.step = clipped
        return optimizer

    return build


@pytest.mark.part(2)
@pytest.mark.parametrize("name, mesh, stage", [
    ("gpt2", "dp=2,pp=2", 2), ("gpt2", "pp=2,tp=2", 0), ("bart", "pp=3", 0), ("gpt2", "dp=4", 1), ("gpt2", "dp=2,tp=2", 3),
    ("llama", "dp=2,pp=2", 3)])  # fmt: skip
def test_clipping_counts_each_shard_once(tmp_path, exports, name, mesh, stage):
    """Each tied parameter also counts once: the norm equals that of the model on one device."""
    flag, make, tolerance = oracle.OPTIMIZERS["sgd"]
    model, norms = oracle.zoo(name), []
    batches = oracle.draw_batches(model, 2)
    ref = oracle.train_in_torch(model, batches, clipping(make, 0.3, norms))
    found = oracle.train_compiled(tmp_path, oracle.export(name, exports), batches, mesh, 2, flag,
                                  ("--zero", stage, "--clip-norm", "0.3"), run_flags=("--log", "log.jsonl"))  # fmt: skip
    assert oracle.compare(ref, found, tolerance).failures() == []
    logged = [json.loads(line)["grad_norm"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert logged == pytest.approx(norms, rel=1e-5) and max(norms) > 0.3


# ---- with other features -------------------------------------------------------------------------------------------


def test_stages_of_zero_give_the_same_bits(tmp_path, exports):
    """Stages 0 and 1 give the same bits, and so do 2 and 3. From stage 2 on, the two gradients of a tied weight are reduced separately."""
    results = []
    batches = oracle.draw_batches(oracle.zoo("gpt"), 1)
    for stage in range(4):
        folder = tmp_path / str(stage)
        folder.mkdir()
        results.append(oracle.train_compiled(folder, oracle.export("gpt", exports), batches, "dp=2", 1, oracle.OPTIMIZERS["adamw"][0],
                                             ("--zero", stage)))  # fmt: skip
    for one, other in ((0, 1), (2, 3)):
        assert results[one].losses == results[other].losses
        assert [n for n, value in results[one].after.items() if not torch.equal(value, results[other].after[n])] == []
    differing = [n for n, value in results[0].gradients.items() if not torch.equal(value, results[2].gradients[n])]
    assert set(differing) <= {"wte.weight"}


@pytest.mark.parametrize("stage", [1, 3])
def test_check_and_averages(tmp_path, exports, stage):
    """--check compares with the program of one rank; averages are evaluated; files of weights have whole tensors."""
    model = oracle.zoo("gpt2")
    flags = ("--zero", stage, "--ema", "0.9", "--check")
    program = oracle.compile_model(tmp_path, oracle.export("gpt2", exports), "dp=2,tp=2", *flags)
    save_file({n: v.contiguous() for n, v in oracle.draw_batches(model, 1).items()}, tmp_path / "data.safetensors")
    assert "check passed" in oracle.run([program, "--check", "--data", "data.safetensors"], tmp_path)
    run = [program, "--data", "data.safetensors", "--eval-data", "data.safetensors", "--steps", "3", "--export-weights"]
    said = oracle.run([*run, "first.safetensors"], tmp_path)
    assert "eval loss of the averages" in said
    oracle.run([program, "--data", "data.safetensors", "--steps", "0", "--weights", "first.safetensors", "--export-weights", "again.safetensors"], tmp_path)
    assert (tmp_path / "again.safetensors").read_bytes()[-64:] == (tmp_path / "first.safetensors").read_bytes()[-64:]


@pytest.mark.parametrize("mesh", ["dp=4", "dp=2,tp=2"])
def test_the_evaluator_agrees(tmp_path, mesh):
    """The partitioned module, evaluated with NaN in all padding, gives the results of the model."""
    archive, data = test_pipelines.prepare(tmp_path, cases.ODD["gpt"](), 2)
    flags = ["--optimizer", oracle.OPTIMIZERS["sgd"][0], "--micro-batches", "2"]
    tool = tools_folder() / "ps-compile"
    oracle.run([tool, archive, "-o", "whole.mlir", "--stop-after", "training", *flags], tmp_path)
    oracle.run([tool, archive, "-o", "zero.mlir", "--stop-after", "partitioned", "--mesh", mesh, "--zero", "3", *flags], tmp_path)
    whole = test_pipelines.evaluate(tmp_path, tmp_path / "whole.mlir", data, 2)
    test_pipelines.check(tmp_path, whole, tmp_path / "zero.mlir", data, 2)


class Sharing(torch.nn.Module):
    """Two blocks in two pipeline stages; the function `share` makes them share parameters."""

    def __init__(self, share):
        super().__init__()
        torch.manual_seed(0)
        self.blocks = torch.nn.ModuleList([torch.nn.ModuleDict({name: torch.nn.Linear(8, 8) for name in "qo"}) for _ in range(2)])
        share(*self.blocks)

    def forward(self, x):
        for block in self.blocks:
            x = x + block["o"](torch.tanh(block["q"](x)))
        return x.square().mean()


def share_bias(first, second):
    second["o"].bias = first["o"].bias


def share_module(first, second):
    second["q"] = first["q"]


@pytest.mark.parametrize("share", [share_bias, share_module])
def test_stages_that_share_parameters(tmp_path, share):
    """Each stage gathers the shared parameter."""
    module, data = Sharing(share), {"x": torch.randn(8, 8)}
    torch.export.save(torch.export.export(module, (data["x"][:4],)), tmp_path / "m.pt2")
    expected_loss, expected = oracle.loss_and_gradients(module, data, torch.float64)
    loss, gradients = oracle.first_step(tmp_path, tmp_path / "m.pt2", data, "--zero", "3", "--micro-batches", "2", mesh="pp=2,dp=2")
    assert loss == pytest.approx(float(expected_loss), rel=1e-5)
    for name, gradient in expected.items():
        torch.testing.assert_close(gradients[name].double(), gradient, rtol=1e-4, atol=1e-6)
