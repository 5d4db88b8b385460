"""Reshards from every layout to every other. The evaluator on N ranks agrees with one rank, and compiled code with the evaluator."""
import itertools
import re

import joined
import op_cases
import pytest
from conftest import tools_folder

TYPE = "tensor<4x6x5xf32>"
# Shardings of a [4, 6, 5] tensor: replicated, or a dim (or one factor of it) is split over one axis or over both in either order.
DIMS = [
    '{}, {}, {}', '{"dp"}, {}, {}', '{"tp"}, {}, {}', '{}, {"tp"}, {}', '{}, {}, {"tp"}', '{"dp"}, {"tp"}, {}',
    '{"tp"}, {"dp"}, {}', '{"dp", "tp"}, {}, {}', '{"tp", "dp"}, {}, {}', '{}, {"dp", "tp"}, {}',
    '{}, (2 x 3 {"tp"}), {}', '{"dp"}, (3 {"tp"} x 2), {}', '{}, {}, {"dp", "tp"}',
]  # fmt: skip
PARTIALS = ['{"tp"}, {}', '{"dp", "tp"}, {}', '{"tp", "dp"}, {}']  # how the summed dim of a contraction is split


def sharding(dims):
    return f"#ps.sharding<@mesh, [{dims}]>"


def move_between(name, source, target):
    case = op_cases.OpCase("move", f"%r0 = ps.neg %a ATTRIBUTES : {TYPE}", {"a": TYPE}, [TYPE])
    return joined.Call(name, case, [sharding(source)], [sharding(target)])


def move(i, j):
    return move_between(f"m{i}.{j}", DIMS[i], DIMS[j])


def add_up(i, j):
    """Returns a contraction whose summed dim is split (PARTIALS[i]). The sharding of its result (DIMS[j]) needs an all-reduce or a reduce-scatter."""
    left, right = "tensor<4x5xf32>", "tensor<5x6x5xf32>"
    text = f"%r0 = ps.contract %a [0, 1], %b [1, 2, 3] -> [0, 2, 3] ATTRIBUTES : ({left}, {right}) -> {TYPE}"
    summed = PARTIALS[i].removesuffix(", {}")
    case = op_cases.OpCase("sum", text, {"a": left, "b": right}, [TYPE])
    return joined.Call(f"s{i}.{j}", case, [sharding("{}, " + summed), sharding(summed + ", {}, {}")], [sharding(DIMS[j])])


# Shardings that pad a dim, or each shard of a dim, to a multiple of 4. Some also split a dim over ranks.
PADDED = ['{}, {"pad.4"}, {}', '{}, {"tp", "pad.4"}, {}', '{"dp"}, {"pad.4"}, {}', '{}, {}, {"tp", "pad.4"}', '{"dp", "pad.4"}, {}, {}',
          '{}, (2 x 3 {"pad.4"}), {}']

CALLS = [move(i, j) for i, j in itertools.product(range(len(DIMS)), repeat=2)]
CALLS += [add_up(i, j) for i, j in itertools.product(range(len(PARTIALS)), range(len(DIMS)))]


def check_moves(tmp_path, calls, dp, tp, more=""):
    """Compares the calls on a mesh with the calls on one rank. Returns their module at level 3."""
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
        assert f"ps.{collective}" in text, f"no reshard needs {collective}"


@pytest.mark.parametrize("dp,tp", [(2, 2), (1, 3)])
def test_layouts_with_a_multiple(tmp_path, dp, tp):
    """Reshards to and from shards that are padded to a multiple, also between two such layouts."""
    pairs = [pair for i, padded in enumerate(PADDED) for other in [*DIMS, *PADDED[:i]] for pair in [(padded, other), (other, padded)]]
    calls = [move_between(f"p{number}", *pair) for number, pair in enumerate(pairs)]
    text = check_moves(tmp_path, calls, dp, tp, ', "pad.4" = 4 : multiple')
    named = [axes for axes in re.findall(r" (?:over|axes) \[(.*?)\]", text) if "pad" in axes]
    assert "x8x5xf32>" in text and "ps.all_gather" in text and not named
