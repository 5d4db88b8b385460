"""Tensors without elements.

Every op with each of its dims of size 0, compiled for the CPU and as GPU kernels, equals the evaluator. Reductions over a dim of
size 0 give the identity. Models with an empty dim train as in PyTorch.
"""
import dataclasses
import re
import subprocess

import joined
import pytest
import replay
import torch
from conftest import tools_folder
from op_cases import CASES
from oracle import first_step, loss_and_gradients
from test_op_factors import rules
from torch import nn


def emptied(name, factor):
    """Returns the case with a factor of size 0 in all tensors, or None if its text cannot be rewritten."""
    case, rule = CASES[name], rules()[name]

    def shrink(dims, type_):
        shape = joined.parse_type(type_)[0]
        return joined.with_shape(type_, [0 if factor in names else size for names, size in zip(dims, shape)])

    operands = {key: shrink(dims, type_) for dims, (key, type_) in zip(rule.operands, case.operands.items())}
    results = [shrink(dims, type_) for dims, type_ in zip(rule.results, case.results)]
    types = iter([*operands.values(), *results])
    given = [*case.operands.values(), *case.results]
    renamed = dict(zip(given, types))
    text = re.sub(r"tensor<[^>]*>", lambda match: renamed.get(match[0], match[0]), case.text)
    if len(set(given)) < len({*zip(given, [*operands.values(), *results])}):
        return None  # equal types became different, and the text does not tell which tensor has which type
    return joined.Call(f"{name}.{factor}", dataclasses.replace(case, text=text, operands=operands, results=results))


def accepted(calls):
    """Returns the calls that the verifiers accept."""
    chunks = [joined.module([call]) for call in calls]
    ends = [0]
    for chunk in chunks:
        ends.append(ends[-1] + chunk.count("\n") + 1)
    done = subprocess.run([tools_folder() / "ps-opt", "-split-input-file"], input="// -----\n".join(chunks),
                          capture_output=True, text=True)  # fmt: skip
    wrong = {int(line) for line in re.findall(r"<stdin>:(\d+):\d+: error", done.stderr)}
    return [call for call, low, high in zip(calls, ends, ends[1:]) if not any(low < line <= high for line in wrong)]


# Omitted cases: a cross entropy without classes, and heads of size 0 with a mask or dropout, which are refused.
NO_MEANING = r"cross_entropy.*\.j|attention\w*_(padding|mask|bias|dropout)\w*\.n$"

CHAINS = {
    "slice_nothing": ("%r0 = ps.slice %a [0, 2] to [4, 2] by [1, 1] : {a} -> {r0}", {"a": "tensor<4x5xf32>"}, ["tensor<4x0xf32>"]),
    "pad_nothing": ("%r0 = ps.pad %a low [0, 1] high [0, 2] by [1, 1] : {a} -> {r0}", {"a": "tensor<4x0xf32>"}, ["tensor<4x3xf32>"]),
    "concat_nothing": ("%r0 = ps.concat %a, %b dim 1 : ({a}, {b}) -> {r0}",
                       {"a": "tensor<4x0xf32>", "b": "tensor<4x3xf32>"}, ["tensor<4x3xf32>"]),
    "reshape_nothing": ("%r0 = ps.reshape %a : {a} -> {r0}", {"a": "tensor<3x0x2xf32>"}, ["tensor<0x7xf32>"]),
    "middle_nothing": ("""%s = ps.slice %a [0, 2] to [4, 2] by [1, 1] : {a} -> tensor<4x0xf32>
    %e = ps.exp %s : tensor<4x0xf32>
    %m = ps.reduce max %e dims [1] : tensor<4x0xf32> -> tensor<4xf32>
    %b = ps.broadcast %m dims [0] : tensor<4xf32> -> {a}
    %r0 = ps.max %a, %b : {a}""", {"a": "tensor<4x5xf32>"}, ["tensor<4x5xf32>"]),
    "bias_alone": ("%r0 = ps.contract %a [0, 1], %w [2, 1] -> [0, 2] bias %c : ({a}, {w}, {c}) -> {r0}",
                   {"a": "tensor<4x0xf32>", "w": "tensor<3x0xf32>", "c": "tensor<3xf32>"}, ["tensor<4x3xf32>"]),
}  # fmt: skip


def chain(name):
    text, operands, results = CHAINS[name]
    types = {**operands, **{f"r{i}": type_ for i, type_ in enumerate(results)}}
    for key, type_ in types.items():
        text = text.replace("{" + key + "}", type_)
    text = "\n".join(re.sub(r"(?= : )", " ATTRIBUTES", line, count=1) for line in text.splitlines())
    return joined.Call(name, joined.op_cases.OpCase(name, text, operands, results))


def all_calls():
    emptiable = [emptied(name, factor) for name in CASES for factor in rules()[name].factors]
    calls = [call for call in emptiable if call and not re.match(NO_MEANING, call.name)]
    return accepted(calls) + [chain(name) for name in CHAINS]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("empty")
    calls = all_calls()
    plain, planned = folder / "plain.mlir", folder / "planned.mlir"
    plain.write_text(joined.module(calls))
    planned.write_text(joined.module(calls, '"dp" = 1 : data'))
    return calls, joined.evaluate(calls, plain, folder), {
        "cpu": joined.call_compiled(calls, planned, folder),
        "gpu": replay.run(joined.call_compiled, calls, planned, folder, target="cuda:replay"),
    }


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_every_op_with_each_dim_empty(results, device):
    calls, expected, found = results
    assert len(calls) > 150, "too few cases are accepted, so the test checks too little"
    joined.assert_close(found[device], expected, calls)


REDUCTIONS = {"sum": 0.0, "max": -float("inf"), "min": float("inf")}


@pytest.mark.parametrize("device", ["cpu", "gpu"])
@pytest.mark.parametrize("kind", REDUCTIONS)
def test_reductions_over_nothing_give_the_identity(results, device, kind):
    calls, expected, found = results
    ends = torch.iinfo(torch.int64)
    integer = {"sum": 0, "max": ends.min, "min": ends.max}[kind]
    names = [call.name for call in calls if call.name.startswith(f"reduce_{kind}")]
    over_nothing = [name for name in names if expected[f"{name}.r0"].numel()]
    assert len(over_nothing) >= 2
    for name in over_nothing:
        want = REDUCTIONS[kind] if "_int" not in name and "_bool" not in name else integer
        if "_bool" in name:
            want = kind == "min"
        for values in [expected, found[device]]:
            assert (values[f"{name}.r0"] == want).all(), name


class Hollow(nn.Module):
    """A model with empty intermediate values, which contribute to the loss, and a parameter of size 0."""

    def __init__(self):
        super().__init__()
        self.linear, self.empty = nn.Linear(6, 4), nn.Linear(0, 3)

    def forward(self, x):
        h = self.linear(x)
        none = h[:, 1:1]
        joined_again = torch.cat([none.exp(), h, none.softmax(-1)], 1).sin()
        from_bias = self.empty(none).tanh()
        zeros = (none @ none.mT).mean() + none.sum() + none.sum(1).square().mean()
        return joined_again.mean() + from_bias.mean() + zeros + (h * h.new_zeros(0).sum()).mean()


@pytest.mark.parametrize("mesh", ["dp=1", "dp=2", "dp=2,tp=2"])
def test_training_with_an_empty_dim_equals_pytorch(tmp_path, mesh):
    torch.manual_seed(0)
    module, data = Hollow(), {"x": torch.randn(4, 6)}
    torch.export.save(torch.export.export(module, (), data), tmp_path / "model.pt2")
    exact_loss, exact = loss_and_gradients(module, data, torch.float64)
    loss, gradients = first_step(tmp_path, tmp_path / "model.pt2", data, mesh=mesh)
    assert loss == pytest.approx(exact_loss, rel=1e-5)
    for name, gradient in exact.items():
        found = gradients.get(name, torch.zeros(gradient.shape))  # a parameter without elements may have no gradient
        torch.testing.assert_close(found.double(), gradient, rtol=1e-4, atol=1e-6)
