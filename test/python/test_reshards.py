"""Every layout to every other: in the evaluator on N ranks against one, and compiled against the evaluator."""
import itertools
import re

import joined
import op_cases
import pytest
from conftest import tools_folder

TYPE = "tensor<4x6x5xf32>"
# Dims of a [4, 6, 5] tensor: whole, split over one axis or both in either order, a factor of a dim.
DIMS = [
    '{}, {}, {}', '{"dp"}, {}, {}', '{"tp"}, {}, {}', '{}, {"tp"}, {}', '{}, {}, {"tp"}', '{"dp"}, {"tp"}, {}',
    '{"tp"}, {"dp"}, {}', '{"dp", "tp"}, {}, {}', '{"tp", "dp"}, {}, {}', '{}, {"dp", "tp"}, {}',
    '{}, (2 x 3 {"tp"}), {}', '{"dp"}, (3 {"tp"} x 2), {}', '{}, {}, {"dp", "tp"}',
]  # fmt: skip
PARTIALS = ['{"tp"}, {}', '{"dp", "tp"}, {}', '{"tp", "dp"}, {}']  # of a [5, 6] operand's summed dim


def sharding(dims):
    return f"#ps.sharding<@mesh, [{dims}]>"


def move_between(name, source, target):
    case = op_cases.OpCase("move", f"%r0 = ps.neg %a ATTRIBUTES : {TYPE}", {"a": TYPE}, [TYPE])
    return joined.Call(name, case, [sharding(source)], [sharding(target)])


def move(i, j):
    return move_between(f"m{i}.{j}", DIMS[i], DIMS[j])


def add_up(i, j):
    """A sum over a split dim, laid out as its mark says: all-reduced or scattered."""
    left, right = "tensor<4x5xf32>", "tensor<5x6x5xf32>"
    text = f"%r0 = ps.contract %a [0, 1], %b [1, 2, 3] -> [0, 2, 3] ATTRIBUTES : ({left}, {right}) -> {TYPE}"
    summed = PARTIALS[i].removesuffix(", {}")
    case = op_cases.OpCase("sum", text, {"a": left, "b": right}, [TYPE])
    return joined.Call(f"s{i}.{j}", case, [sharding("{}, " + summed), sharding(summed + ", {}, {}")], [sharding(DIMS[j])])


# The second dim's places, or those of a shard, are a multiple of 4; beside what moves over ranks.
PADDED = ['{}, {"pad.4"}, {}', '{}, {"tp", "pad.4"}, {}', '{"dp"}, {"pad.4"}, {}', '{}, {}, {"tp", "pad.4"}', '{"dp", "pad.4"}, {}, {}',
          '{}, (2 x 3 {"pad.4"}), {}']

CALLS = [move(i, j) for i, j in itertools.product(range(len(DIMS)), repeat=2)]
CALLS += [add_up(i, j) for i, j in itertools.product(range(len(PARTIALS)), range(len(DIMS)))]


def check_moves(tmp_path, calls, dp, tp, more=""):
    """The calls on a mesh against the calls whole; their text at level 3."""
    whole, planned, local = tmp_path / "whole.mlir", tmp_path / "planned.mlir", tmp_path / "local.mlir"
    whole.write_text(joined.module(calls))
    planned.write_text(joined.module(calls, f'"dp" = {dp} : data, "tp" = {tp} : tensor{more}'))
    joined.run([tools_folder() / "ps-compile", planned, "-o", local, "--stop-after", "partitioned"], tmp_path)
    expected = joined.evaluate(calls, whole, tmp_path)
    evaluated = joined.evaluate(calls, local, tmp_path, dp * tp)
    joined.assert_close(evaluated, expected, calls)
    joined.assert_close(joined.call_compiled(calls, local, tmp_path, dp * tp), evaluated, calls)
    return local.read_text()


@pytest.mark.parametrize("dp,tp", [(2, 2), (2, 3), (4, 2)])
def test_every_layout_to_every_other(tmp_path, dp, tp):
    text = check_moves(tmp_path, CALLS, dp, tp)
    for collective in ["all_gather", "all_to_all", "all_reduce", "reduce_scatter", "shard_slice"]:
        assert f"ps.{collective}" in text, f"no {collective} among all these"


@pytest.mark.parametrize("dp,tp", [(2, 2), (1, 3)])
def test_layouts_with_a_multiple(tmp_path, dp, tp):
    """To and from shards that are padded more than their number asks for, and between those."""
    pairs = [pair for i, padded in enumerate(PADDED) for other in [*DIMS, *PADDED[:i]] for pair in [(padded, other), (other, padded)]]
    calls = [move_between(f"p{number}", *pair) for number, pair in enumerate(pairs)]
    text = check_moves(tmp_path, calls, dp, tp, ', "pad.4" = 4 : multiple')
    named = [axes for axes in re.findall(r" (?:over|axes) \[(.*?)\]", text) if "pad" in axes]
    assert "x8x5xf32>" in text and "ps.all_gather" in text and not named
