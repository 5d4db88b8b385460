"""`--matmul-epilogues on`: matmuls compute GELU and its gradient in epilogues.

The fake cuBLASLt has these epilogues, or has none, or computes another function. In the last two cases, a matmul and a fallback kernel run.
"""
import json
import re

import models
import oracle
import pytest
import replay
import torch
import torch.nn.functional as F
from conftest import tools_folder
from safetensors.torch import load_file, save_file

pytestmark = pytest.mark.usefixtures("one_thread")
ON = ("--target", "cuda:replay", "--matmul-epilogues", "on")
ADAMW, _, ADAMW_TOLERANCE = oracle.OPTIMIZERS["adamw"]


@pytest.fixture(autouse=True)
def fake(monkeypatch):
    for name, value in replay.environment().items():
        monkeypatch.setenv(name, value)


def train(folder, export, *flags, model="gpt2", mesh="dp=1", optimizer=ADAMW):
    folder.mkdir()
    return oracle.train_compiled(folder, export, oracle.draw_batches(oracle.zoo(model), 2), mesh, 2, optimizer, flags)


def products(folder, archive, *flags):
    """Compiles to level 3. Returns the number of contractions with each epilogue."""
    oracle.run([tools_folder() / "ps-compile", archive, "-o", folder / "level.mlir", "--stop-after", "partitioned", *flags], folder)
    lines = [line for line in (folder / "level.mlir").read_text().splitlines() if " ps.contract " in line]
    return {word: sum(re.search(rf"\] .*\b{word} .*:", line) is not None for line in lines) for word in ["gelu", "gelu_grad at", "sums of"]}


def test_every_gelu_is_in_a_matmul_epilogue(tmp_path, exports):
    """All GELUs are in matmul epilogues. The matmuls of weight gradients then also compute the bias gradients."""
    archive = oracle.export("gpt2", exports)
    without, found = products(tmp_path, archive, "--target", "cuda:replay"), products(tmp_path, archive, *ON)
    assert found["gelu"] >= 1 and found["gelu_grad at"] >= 1 and without["gelu"] == without["gelu_grad at"] == 0
    assert found["sums of"] == without["sums of"] + found["gelu_grad at"]
    assert not re.search(r"^ +%\S+ = ps.gelu", (tmp_path / "level.mlir").read_text(), re.M)


@pytest.mark.part(3)
@pytest.mark.parametrize("mesh,flags", [
    ("dp=1", ()), ("dp=2", ()), ("tp=2", ()), ("dp=2,tp=2", ("--sharding-policy", "megatron+sp", "--overlap", "2")),
    ("dp=1", ("--recompute", "selective")), ("dp=1", ("--recompute", "full")),
], ids=["alone", "dp", "tp", "sp", "selective", "full"])  # fmt: skip
def test_equals_pytorch(tmp_path, exports, mesh, flags):
    """In f32, the changed rounding is smaller than the tolerance of the comparison."""
    result = train(tmp_path / "run", oracle.export("gpt2", exports), *ON, *flags, mesh=mesh)
    comparison = oracle.compare(oracle.reference("gpt2", 2, "adamw"), result, ADAMW_TOLERANCE)
    assert comparison.failures() == []
    assert "note" not in result.output


def test_in_a_pipeline(tmp_path, exports):
    """With zb-h1, gradients of weights are separate runs."""
    result = train(tmp_path / "run", oracle.export("gpt2_deep", exports), *ON, "--schedule", "zb-h1", model="gpt2_deep", mesh="pp=2")
    assert oracle.compare(oracle.reference("gpt2_deep", 2, "adamw"), result, ADAMW_TOLERANCE).failures() == []


@pytest.mark.part(3)
@pytest.mark.parametrize("precision,tolerance", [("fp32", 1e-6), ("bf16", 2e-3), ("fp16", 2e-3)])
def test_losses_differ_by_one_rounding(tmp_path, exports, monkeypatch, precision, tolerance):
    """Losses differ by one rounding from training without epilogues, also if cuBLASLt has no GELU epilogue or a wrong one."""
    archive, flags = oracle.export("gpt2", exports), ("--precision", precision)
    without = train(tmp_path / "without", archive, *flags, "--target", "cuda:replay")
    for fake, note in {"1": None, "0": "cuBLASLt offers no algorithm with this epilogue", "erf": "with the fallback kernels"}.items():
        monkeypatch.setenv("PSRT_FAKE_GELU", fake)
        found = train(tmp_path / fake, archive, *flags, *ON)
        assert found.losses == pytest.approx(without.losses, rel=tolerance)
        for name, gradient in without.gradients.items():
            scale = gradient.abs().max().item()
            torch.testing.assert_close(found.gradients[name], gradient, rtol=0, atol=(1e-4 if precision == "fp32" else 3e-2) * scale)
        assert (note is None) == ("note: fallback kernels" not in found.output) and (note or "") in found.output


def test_a_library_with_another_gelu_changes_nothing(tmp_path, exports, monkeypatch):
    """With the erf form of GELU, losses would differ by about 1e-4."""
    archive = oracle.export("gpt2", exports)
    losses = [train(tmp_path / "own", archive, *ON).losses]
    monkeypatch.setenv("PSRT_FAKE_GELU", "erf")
    losses.append(train(tmp_path / "erf", archive, *ON).losses)
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)


def test_rows_that_the_library_does_not_support(tmp_path):
    """Rows have 60 elements per rank, which is not a multiple of 8."""
    model = models.gpt2(width=30, heads=2)
    archive, batches = model.export(tmp_path / "odd.pt2"), oracle.draw_batches(model, 1)
    found = {}
    for name, flags in {"with": ON, "without": ("--target", "cuda:replay")}.items():
        (tmp_path / name).mkdir()
        found[name] = oracle.train_compiled(tmp_path / name, archive, batches, "tp=2", 1, ADAMW, flags)
    assert found["with"].losses == pytest.approx(found["without"].losses, rel=1e-6)
    assert "not a multiple of 8 elements" in found["with"].output


def test_two_runs_have_the_same_bits(tmp_path, exports):
    first, second = (train(tmp_path / name, oracle.export("gpt2", exports), *ON, "--precision", "bf16") for name in ["first", "second"])
    assert first.losses == second.losses
    assert all(torch.equal(tensor, second.after[name]) for name, tensor in first.after.items())


@pytest.mark.parametrize("flags,words", [
    (("--matmul-epilogues", "on"), "--matmul-epilogues on needs a GPU target"),
    (("--matmul-epilogues=gelu", "--target", "cuda:sm_90"), "--matmul-epilogues takes on or off, not 'gelu'"),
])  # fmt: skip
def test_flags_that_are_refused(tmp_path, exports, flags, words):
    said = oracle.run([tools_folder() / "ps-compile", oracle.export("mlp", exports), "-o", tmp_path / "never", *flags], tmp_path, expect=2)
    assert words in said
    assert not (tmp_path / "never").exists()


def test_a_plan_file_sets_epilogues(tmp_path, exports):
    archive = oracle.export("gpt2", exports)
    products(tmp_path, archive, *ON, "--write-plan", tmp_path / "plan.json")
    assert json.loads((tmp_path / "plan.json").read_text())["matmul-epilogues"] == "on"
    assert products(tmp_path, archive, "--target", "cuda:replay", "--plan", tmp_path / "plan.json")["gelu"] >= 1


CONTRACTIONS = """
module attributes {ps.level = #ps.level<imported>} {
  func.func @forward(%x: tensor<4x6xf32> {ps.name = "x"}, %w: tensor<6x8xf32> {ps.name = "w"}, %b: tensor<8xf32> {ps.name = "b"},
                     %h: tensor<4x8xf32> {ps.name = "h"})
      -> (tensor<4x8xf32> {ps.name = "gelu"}, tensor<4x8xf32> {ps.name = "sum"}, tensor<4x8xf32> {ps.name = "unbiased"},
          tensor<4x8xf32> {ps.name = "gradient"}) {
    %a, %s = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] bias %b gelu : (tensor<4x6xf32>, tensor<6x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
    %g = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] gelu : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
    %d = ps.contract %x [0, 1], %w [1, 2] -> [0, 2] gelu_grad at %h : (tensor<4x6xf32>, tensor<6x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    return %a, %s, %g, %d : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
  }
}
"""


def test_the_evaluator_computes_epilogues(tmp_path):
    (tmp_path / "op.mlir").write_text(CONTRACTIONS)
    torch.manual_seed(0)
    x, w, b, h = torch.randn(4, 6), torch.randn(6, 8), torch.randn(8), torch.randn(4, 8, requires_grad=True)
    save_file({"x": x, "w": w, "b": b, "h": h.detach()}, tmp_path / "in.safetensors")
    oracle.run([tools_folder() / "ps-run", "op.mlir", "--inputs", "in.safetensors", "--outputs", "out.safetensors"], tmp_path)
    F.gelu(h, approximate="tanh").backward(x @ w)
    expected = {"sum": x @ w + b, "gelu": F.gelu(x @ w + b, approximate="tanh"), "unbiased": F.gelu(x @ w, approximate="tanh"), "gradient": h.grad}
    found = load_file(tmp_path / "out.safetensors")
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor)
