"""Every op with each of its factors split: level 3 on N ranks equals the op on one rank, and so does the compiled program.

The cases are derived from the sharding rules of the ops (`ps-print-sharding-rules`). docs/op-factors.md has the table of ops and
factors; `build/venv/bin/python test/python/test_op_factors.py` writes it.
"""
import dataclasses
import functools
import re
import subprocess
import sys

import joined
import pytest
from conftest import ROOT, tools_folder
from op_cases import CASES

TABLE = ROOT / "docs/op-factors.md"
SHARDS = [2, 3]


@dataclasses.dataclass
class Factor:
    name: str
    size: int
    kind: str  # "", "sum", "max", "min" or "whole: reason"


@dataclasses.dataclass
class Rule:
    operands: list  # for each operand and each dim: the names of its factors
    results: list
    factors: dict


def parse_tensors(text):
    tensors = re.findall(r"\[([^\]]*)\]", text)
    return [[[] if dim.strip() == "1" else dim.strip().split(" x ") for dim in tensor.split(",") if dim.strip()]
            for tensor in tensors]


def parse_rule(text):
    """Parses a sharding rule. Example: `([i, k x j]) -> ([i, j]), i = 4, j = 384, k = 3 whole("...") linear {0}`."""
    match = re.match(r"(\(.*?\)) -> (\(.*?\))(.*)", text)
    factors = {}
    pattern = r', (\w+) = (\d+)(?: reduction\((\w+)\)| whole\("([^"]*)"\))?'
    for name, size, reduction, whole in re.findall(pattern, match[3]):
        factors[name] = Factor(name, int(size), reduction or (f"whole: {whole}" if whole else ""))
    return Rule(parse_tensors(match[1]), parse_tensors(match[2]), factors)


@functools.cache
def rules():
    """Returns the sharding rule of each case, by name."""
    text = joined.module([joined.Call(name, case) for name, case in CASES.items()])
    done = subprocess.run([tools_folder() / "ps-opt", "-ps-print-sharding-rules"], input=text, capture_output=True,
                          text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = re.findall(r"remark: (.*)", done.stderr)
    assert len(found) == len(CASES), done.stderr
    return {name: parse_rule(text) for name, text in zip(CASES, found)}


def sharding(dims, factor, factors):
    """Returns the sharding of a tensor whose dim with `factor`, if any, is split over tp."""
    def one(dim):
        if factor not in dim:
            return "{}"
        if len(dim) == 1:
            return '{"tp"}'
        return "(" + " x ".join(f"{factors[f].size}" + (' {"tp"}' if f == factor else "") for f in dim) + ")"

    return "#ps.sharding<@mesh, [" + ", ".join(one(dim) for dim in dims) + "]>"


def calls_of(name):
    """Returns calls of a case for each factor that may be split.

    The operands of one call are inputs, with zeros in padding. The operands of another call are computed, with any values in padding.
    """
    rule, calls = rules()[name], []
    for factor in rule.factors.values():
        if not factor.kind.startswith("whole"):
            placed = [[sharding(dims, factor.name, rule.factors) for dims in side]
                      for side in (rule.operands, rule.results)]
            calls.append(joined.Call(f"{name}.{factor.name}", CASES[name], *placed))
            if CASES[name].operands:
                calls.append(joined.Call(f"{name}.{factor.name}.computed", CASES[name], *placed, computed=True))
    return calls


@pytest.fixture(scope="module", params=SHARDS)
def results(request, tmp_path_factory):
    """Returns the results of all cases: on one rank, split in the evaluator, and split in the compiled program."""
    folder = tmp_path_factory.mktemp("factors")
    calls = [call for name in CASES for call in calls_of(name)]
    whole, planned, local = folder / "whole.mlir", folder / "planned.mlir", folder / "local.mlir"
    whole.write_text(joined.module(calls))
    planned.write_text(joined.module(calls, f'"tp" = {request.param} : tensor'))
    joined.run([tools_folder() / "ps-compile", planned, "-o", local, "--stop-after", "partitioned"], folder)
    return (joined.evaluate(calls, whole, folder), joined.evaluate(calls, local, folder, request.param),
            joined.call_compiled(calls, local, folder, request.param))


@pytest.mark.parametrize("name", CASES)
def test_each_factor_split_equals_the_whole(results, name):
    whole, evaluated, _ = results
    joined.assert_close(evaluated, whole, calls_of(name))


@pytest.mark.parametrize("name", CASES)
def test_compiled_equals_evaluated_with_each_factor_split(results, name):
    _, evaluated, compiled = results
    joined.assert_close(compiled, evaluated, calls_of(name))


def test_every_op_and_every_factor_is_tested():
    """Every op that computes has a case, and every factor that is not whole has a call."""
    text = "\n".join(case.text for case in CASES.values())
    used = set(re.findall(r"ps\.\w+", text))
    assert sorted(computing_ops() - used) == []
    lines = [line for line in TABLE.read_text().splitlines() if line.startswith("| ") and "| whole" not in line]
    assert len(lines) - 1 == sum(not call.computed for name in CASES for call in calls_of(name))


# ---- factors that a rule declares whole ----------------------------------------------------------------------------------


def cut(dims, factor, shape, begin, end):
    """Returns (shape, slices) of the part of a tensor with the indices [begin, end) of a factor; None if no dim is exactly this factor."""
    at = [i for i, names in enumerate(dims) if factor in names]
    if not at or dims[at[0]] != [factor]:
        return None
    part = [end - begin if i == at[0] else size for i, size in enumerate(shape)]
    return part, tuple(slice(begin, end) if i == at[0] else slice(None) for i in range(len(shape)))


def cut_call(name, factor, begin, end):
    """Returns a case restricted to a part of a factor: (call, operands, slices of the results); None if a result lacks the factor."""
    case, rule = CASES[name], rules()[name]
    text, operands, types, places = case.text, {}, {}, []
    given = joined.draw(case)
    for dims, (operand, type_) in zip(rule.operands, case.operands.items()):
        shape, _ = joined.parse_type(type_)
        part = cut(dims, factor, shape, begin, end)
        operands[operand] = given[operand][part[1]].contiguous() if part else given[operand]
        types[operand] = joined.with_shape(type_, part[0]) if part else type_
    results = []
    for dims, type_ in zip(rule.results, case.results):
        part = cut(dims, factor, joined.parse_type(type_)[0], begin, end)
        if not part:
            return None  # the factor is reduced, or part of a mixed dim
        results.append(joined.with_shape(type_, part[0]))
        places.append(part[1])
    renamed = dict(zip([*case.operands.values(), *case.results], [*types.values(), *results]))
    text = re.sub(r"tensor<[^>]*>", lambda match: renamed.get(match[0], match[0]), text)
    part = dataclasses.replace(case, text=text, operands=types, results=results)
    return joined.Call(f"{name}.{factor}.{begin}", part), operands, places


def is_accepted(call, folder):
    path = folder / "part.mlir"
    path.write_text(joined.module([call]))
    return subprocess.run([tools_folder() / "ps-opt", path], capture_output=True).returncode == 0


def test_whole_factors_cannot_be_concatenated(tmp_path):
    """Checks that no factor is declared whole needlessly: if an op runs on each half of the factor, the concatenated results must be wrong."""
    parts = []
    for name, rule in rules().items():
        for factor in rule.factors.values():
            middle = (factor.size + 1) // 2
            cuts = [cut_call(name, factor.name, *places) for places in [(0, middle), (middle, factor.size)]]
            if factor.kind.startswith("whole") and all(c and is_accepted(c[0], tmp_path) for c in cuts):
                parts.append((name, factor.name, cuts))
    assert parts, "no case can be checked"
    names = sorted({name for name, _, _ in parts})
    (tmp_path / "whole.mlir").write_text(joined.module([joined.Call(name, CASES[name]) for name in names]))
    whole = joined.evaluate([joined.Call(name, CASES[name]) for name in names], tmp_path / "whole.mlir", tmp_path)
    calls = [c[0] for _, _, cuts in parts for c in cuts]
    values = {f"{c[0].name}.{n}": v for _, _, cuts in parts for c in cuts for n, v in c[1].items()}
    (tmp_path / "parts.mlir").write_text(joined.module(calls))
    found = joined.evaluate(calls, tmp_path / "parts.mlir", tmp_path, values=values)
    splittable = [f"{name}: {factor}" for name, factor, cuts in parts
                  if all(joined.close(found[f"{call.name}.r{i}"], whole[f"{name}.r{i}"][place].contiguous())
                         for call, _, places in cuts for i, place in enumerate(places))]
    assert splittable == []


def computing_ops():
    """Returns the ops with a sharding rule, according to the .td files of the dialect."""
    found = set()
    for path in (ROOT / "dialects/ps").glob("*Ops.td"):
        found |= {f"ps.{name}" for name in re.findall(
            r'def \w+ : PS_(?:Unary|Binary|Tensor|Movement|RowMap)Op<"(\w+)"', path.read_text())}  # not collectives
    return found


def table():
    """Returns the page in Markdown: op, factor, its size in the test, and the effect of splitting it."""
    lines = ["# Which factors of which op may be split", "",
             "`build/venv/bin/python test/python/test_op_factors.py` writes this page from the sharding rules of",
             "the ops. In the column `split`, `parallel` means that each rank computes a part of the results.",
             "`partial sum` (or `max`, `min`) means that each rank computes partial results of full size, and a",
             f"collective combines them. The test runs each line that is not `whole` on {' and '.join(map(str, SHARDS))} ranks. It compares",
             "the evaluator on these ranks with one rank, and the compiled program with the evaluator.", "",
             "| op | factor | size | split |", "|---|---|---|---|"]
    for name, rule in rules().items():
        for factor in rule.factors.values():
            effect = factor.kind if factor.kind.startswith("whole") else (
                f"partial {factor.kind}" if factor.kind else "parallel")
            lines.append(f"| {name} | {factor.name} | {factor.size} | {effect} |")
    return "\n".join(lines) + "\n"


def test_the_table_is_current():
    assert TABLE.read_text() == table()


if __name__ == "__main__":
    TABLE.write_text(table())
    print(f"wrote {TABLE}", file=sys.stderr)
