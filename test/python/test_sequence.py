"""`--sharding-policy megatron+sp`: between a row-parallel and a column-parallel contraction, sequences are split over tp. Results stay the same."""
import re

import cases
import lanes
import models
import oracle
import pytest
import test_pipelines
import test_plan
from conftest import tools_folder

pytestmark = pytest.mark.usefixtures("one_thread")

POLICY = ("--sharding-policy", "megatron+sp")


@pytest.mark.part(2)
@pytest.mark.parametrize("case", lanes.cover(cases.SEQUENCE, strength=1))
def test_equals_pytorch(tmp_path, exports, case):
    comparison = oracle.check_case(tmp_path, exports, case)
    print(comparison)
    assert comparison.failures() == []


def odd(name):
    """Returns a model of 13 positions, which neither 2 nor 4 divides."""
    return models.MODELS[name](length=13)


@pytest.mark.part(2)
@pytest.mark.cover(1)
@pytest.mark.parametrize("name, mesh, flags", [
    ("gpt", "tp=4", ()), ("gpt2", "dp=2,tp=2", ("--zero", 3)), ("llama", "tp=4", ("--recompute", "selective")), ("llama", "dp=2,tp=2", ())])  # fmt: skip
@pytest.mark.parametrize("make", [odd, lambda name: cases.ODD[name]()], ids=["length", "width"])
def test_sizes_that_do_not_divide_equal_pytorch(tmp_path, make, name, mesh, flags):
    model = make(name)
    flag, optimizer, tolerance = oracle.OPTIMIZERS["adamw"]
    batches = oracle.draw_batches(model, 2)
    found = oracle.train_compiled(tmp_path, model.export(tmp_path / "model.pt2"), batches, mesh, 2, flag, (*POLICY, *flags))
    assert oracle.compare(oracle.train_in_torch(model, batches, optimizer), found, tolerance).failures() == []


@pytest.fixture(scope="module")
def with_dropout(tmp_path_factory):
    """Returns the file of a model, samples, and the results of one rank for them."""
    folder = tmp_path_factory.mktemp("dropout")
    model = models.gpt_dropout()
    archive, batches = model.export(folder / "model.pt2"), oracle.draw_batches(model, 2)
    return archive, batches, oracle.train_compiled(folder, archive, batches, "dp=1", 2, oracle.OPTIMIZERS["sgd"][0])


@pytest.mark.part(2)
@pytest.mark.parametrize("mesh, flags", [
    ("tp=2", ()), ("tp=4", ("--recompute", "full")), ("dp=2,tp=2", ("--zero", 3)), ("pp=2,tp=2", ("--schedule", "zb-h1"))])  # fmt: skip
def test_dropout_equals_one_rank(tmp_path, with_dropout, mesh, flags):
    """Each shard draws the random numbers of its own elements."""
    archive, batches, whole = with_dropout
    found = oracle.train_compiled(tmp_path, archive, batches, mesh, 2, oracle.OPTIMIZERS["sgd"][0], (*POLICY, *flags))
    assert found.losses == pytest.approx(whole.losses, rel=1e-5)
    for name, gradient in whole.gradients.items():
        if gradient.dim():
            assert (found.gradients[name] - gradient).norm() <= 1e-4 * gradient.norm() + 1e-7, name


@pytest.mark.parametrize("mesh", ["tp=4", "dp=2,tp=2"])
def test_the_evaluator_agrees(tmp_path, mesh):
    """The partitioned module, evaluated with NaN in all padding, gives the results of the model."""
    archive, data = test_pipelines.prepare(tmp_path, odd("gpt"), 2)
    flags = ["--optimizer", oracle.OPTIMIZERS["sgd"][0], "--micro-batches", "2"]
    tool = tools_folder() / "ps-compile"
    oracle.run([tool, archive, "-o", "whole.mlir", "--stop-after", "training", *flags], tmp_path)
    oracle.run([tool, archive, "-o", "parts.mlir", "--stop-after", "partitioned", "--mesh", mesh, *POLICY, *flags], tmp_path)
    whole = test_pipelines.evaluate(tmp_path, tmp_path / "whole.mlir", data, 2)
    test_pipelines.check(tmp_path, whole, tmp_path / "parts.mlir", data, 2)


def test_stages_send_a_share_of_the_sequence(tmp_path, exports):
    """A rank sends 8 of the 16 positions of [4, 16, 32], forward and backward."""
    archive = oracle.export("gpt2_deep", exports)
    oracle.compile_model(tmp_path, archive, "pp=2,tp=2", *POLICY, "--dump-dir", tmp_path / "dump")
    sent = re.findall(r"rank\.send .*: (tensor<\S+>)", (tmp_path / "dump/4-scheduled.mlir").read_text())
    assert set(sent) == {"tensor<4x8x32xf32>"} and len(sent) >= 2


@pytest.mark.parametrize("name", ["mlp", "unet"])
def test_without_a_sequence_it_is_megatron(tmp_path, exports, name):
    """A remark reports that sequences are not split."""
    parts = {}
    for policy in ("megatron", "megatron+sp"):
        folder = tmp_path / policy
        folder.mkdir()
        command = [tools_folder() / "ps-compile", oracle.export(name, exports), "-o", folder / "program", "--mesh", "tp=2", "--sharding-policy", policy]
        said = oracle.run([*command, "--dump-dir", folder / "dump"], folder)
        assert ("sequences are not split" in said) == (policy == "megatron+sp")
        parts[policy] = test_plan.collectives_of((folder / "dump/3-partitioned.mlir").read_text())
    assert parts["megatron"] == parts["megatron+sp"]
