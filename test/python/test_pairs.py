"""Every pair of ops that may be fused into one kernel: the second op uses the result of the first. Compares a program with ps-run.

Random graphs contain few of the more than 3,000 pairs. Operands are 4 x 5 tensors of f32. Values that the second op does not
accept, such as negative numbers for a logarithm, are mapped to its domain first.
"""
import datetime
import re

import joined
import lanes
import op_cases
import pytest
import replay
import torch
from op_cases import CASES, X

# Prefixes of ops that libraries compute, or that are never fused.
ALONE = ("contract", "convolution", "max_pool", "attention", "embedding", "float8_scale", "by_mode_evaluation")
# Ops that map any number into the domain of a second op.
GUARDS = {
    "positive": f"%m = ps.mul %h, %h ATTRIBUTES : {X}\n%k = ps.constant ATTRIBUTES dense<0.5> : {X}\n"
                f"%z = ps.add %m, %k ATTRIBUTES : {X}\n",
    "unit": f"%m = ps.tanh %h ATTRIBUTES : {X}\n%z = ps.sigmoid %m ATTRIBUTES : {X}\n",
    "small": f"%z = ps.tanh %h ATTRIBUTES : {X}\n",
}  # fmt: skip


def is_fusable(name):
    return not name.startswith(ALONE)


FIRST = {name: case for name, case in CASES.items() if is_fusable(name) and case.results[0] == X}
SECOND = {name: case for name, case in CASES.items() if is_fusable(name) and X in case.operands.values()}


def renamed(text, suffix, names):
    return re.sub(r"%(\w+)", lambda match: "%" + names.get(match[1], match[1] + suffix), text)


def pair(first, second):
    """Returns a case in which an operand of `second` is the result of `first`."""
    one, other = FIRST[first], SECOND[second]
    taken = next(name for name, type_ in other.operands.items() if type_ == X)
    guard = "positive" if other.positive else "unit" if other.unit else "small" if second in ("exp", "expm1") else None
    text = renamed(one.text, "_a", {"r0": "h"}) + "\n" + (GUARDS[guard] if guard else "")
    text += renamed(other.text, "_b", {taken: "z" if guard else "h"} | {f"r{i}": f"r{i}" for i in range(len(other.results))})
    operands = {f"{name}_a": type_ for name, type_ in one.operands.items()}
    operands |= {f"{name}_b": type_ for name, type_ in other.operands.items() if name != taken}
    below = {f"{name}_a": limit for name, limit in one.below.items()}
    below |= {f"{name}_b": limit for name, limit in other.below.items()}
    return op_cases.OpCase(f"{first}.{second}", text, operands, other.results, below=below)


def draw(call):
    """Draws the operands of both ops as their separate cases do."""
    first, second = call.case.name.split(".")
    values = {f"{name}_a": value for name, value in joined.draw(FIRST[first]).items()}
    values |= {f"{name}_b": value for name, value in joined.draw(SECOND[second]).items()}
    return {f"{call.name}.{name}": values[name].clone() for name in call.case.operands}


def make_call(first, second):
    return joined.Call(f"{first}__{second}", pair(first, second))


PARTS = 4
TODAY = datetime.date.today().toordinal() % PARTS


@pytest.mark.parametrize("target", ["cpu", lanes.full("cuda:replay")])
@pytest.mark.parametrize("part", [part if part == TODAY else lanes.full(part) for part in range(PARTS)])
def test_pairs_in_one_kernel(tmp_path, part, target):
    """The middle lane has one part of the pairs each day, on the CPU, because LLVM takes a minute for all of them."""
    calls = [make_call(first, second) for i, first in enumerate(FIRST) for j, second in enumerate(SECOND) if (i + j) % PARTS == part]
    plain, planned = tmp_path / "plain.mlir", tmp_path / "planned.mlir"
    plain.write_text(joined.module(calls))
    planned.write_text(joined.module(calls, '"dp" = 1 : data'))
    values = {name: value for call in calls for name, value in draw(call).items()}
    expected = joined.evaluate(calls, plain, tmp_path, values=values)
    found = replay.run(joined.call_compiled, calls, planned, tmp_path, values=values, target=target)
    wrong = []
    for call in calls:
        for i in range(len(call.case.results)):
            a, b = found[f"{call.name}.r{i}"], expected[f"{call.name}.r{i}"]
            if not torch.allclose(a.double(), b.double(), rtol=2e-4, atol=2e-5, equal_nan=True):
                wrong.append(call.name)
    assert not wrong, f"{len(wrong)} of {len(calls)}: {wrong[:20]}"
