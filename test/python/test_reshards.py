"""Every layout to every other: in the evaluator on N ranks against one, and compiled against the evaluator."""
import itertools

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


def move(i, j):
    case = op_cases.OpCase("move", f"%r0 = ps.neg %a ATTRIBUTES : {TYPE}", {"a": TYPE}, [TYPE])
    return joined.Call(f"m{i}.{j}", case, [sharding(DIMS[i])], [sharding(DIMS[j])])


def add_up(i, j):
    """A sum over a split dim, laid out as its mark says: all-reduced or scattered."""
    left, right = "tensor<4x5xf32>", "tensor<5x6x5xf32>"
    text = f"%r0 = ps.contract %a [0, 1], %b [1, 2, 3] -> [0, 2, 3] ATTRIBUTES : ({left}, {right}) -> {TYPE}"
    summed = PARTIALS[i].removesuffix(", {}")
    case = op_cases.OpCase("sum", text, {"a": left, "b": right}, [TYPE])
    return joined.Call(f"s{i}.{j}", case, [sharding("{}, " + summed), sharding(summed + ", {}, {}")], [sharding(DIMS[j])])


CALLS = [move(i, j) for i, j in itertools.product(range(len(DIMS)), repeat=2)]
CALLS += [add_up(i, j) for i, j in itertools.product(range(len(PARTIALS)), range(len(DIMS)))]


@pytest.mark.parametrize("dp,tp", [(2, 2), (2, 3), (4, 2)])
def test_every_layout_to_every_other(tmp_path, dp, tp):
    whole, planned, local = tmp_path / "whole.mlir", tmp_path / "planned.mlir", tmp_path / "local.mlir"
    whole.write_text(joined.module(CALLS))
    planned.write_text(joined.module(CALLS, f'"dp" = {dp} : data, "tp" = {tp} : tensor'))
    joined.run([tools_folder() / "ps-compile", planned, "-o", local, "--stop-after", "partitioned"], tmp_path)
    text = local.read_text()
    for collective in ["all_gather", "all_to_all", "all_reduce", "reduce_scatter", "shard_slice"]:
        assert f"ps.{collective}" in text, f"no {collective} among all these"
    expected = joined.evaluate(CALLS, whole, tmp_path)
    evaluated = joined.evaluate(CALLS, local, tmp_path, dp * tp)
    joined.assert_close(evaluated, expected, CALLS)
    joined.assert_close(joined.call_compiled(CALLS, local, tmp_path, dp * tp), evaluated, CALLS)
