"""Every op with each of its factors split: level 3 on N ranks equals the op on one.

The cases follow from the sharding rules that the ops give (`ps-print-sharding-rules`); the table of op x factor stands
in docs/op-factors.md, and is written by `python test/python/test_op_factors.py`.
"""
import dataclasses
import re
import subprocess
import sys

import pytest
import torch
from conftest import ROOT, tools_folder
from op_cases import CASES, write
from safetensors.torch import load_file, save_file

TABLE = ROOT / "docs/op-factors.md"
ELEMENTS = {"f32": torch.float32, "f64": torch.float64, "i64": torch.int64, "i1": torch.bool}
SHARDS = [2, 3]


@dataclasses.dataclass
class Factor:
    name: str
    size: int
    kind: str  # "", "sum", "max", "min" or "whole: reason"


@dataclasses.dataclass
class Rule:
    operands: list  # per operand, per dim: names of factors
    results: list
    factors: dict


def tool(name, *arguments):
    done = subprocess.run([tools_folder() / name, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


def parse_tensors(text):
    tensors = re.findall(r"\[([^\]]*)\]", text)
    return [[[] if dim.strip() == "1" else dim.strip().split(" x ") for dim in tensor.split(",") if dim.strip()]
            for tensor in tensors]


def parse_rule(text):
    """`([i, k x j]) -> ([i, j]), i = 4, j = 384, k = 3 whole("...") linear {0}`"""
    match = re.match(r"(\(.*?\)) -> (\(.*?\))(.*)", text)
    factors = {}
    pattern = r', (\w+) = (\d+)(?: reduction\((\w+)\)| whole\("([^"]*)"\))?'
    for name, size, reduction, whole in re.findall(pattern, match[3]):
        factors[name] = Factor(name, int(size), reduction or (f"whole: {whole}" if whole else ""))
    return Rule(parse_tensors(match[1]), parse_tensors(match[2]), factors)


def get_rule(case, folder):
    path = folder / "rule.mlir"
    path.write_text(module(case, None, None, 1))
    remarks = tool("ps-opt", path, "-ps-print-sharding-rules").stderr
    rules = re.findall(r"remark: (.*)", remarks)
    assert len(rules) == 1, remarks
    return parse_rule(rules[0])


def sharding(dims, factor, factors):
    """A tensor split over tp on `factor` where it has it."""
    def one(dim):
        if factor not in dim:
            return "{}"
        if len(dim) == 1:
            return '{"tp"}'
        return "(" + " x ".join(f"{factors[f].size}" + (' {"tp"}' if f == factor else "") for f in dim) + ")"

    return "#ps.sharding<@mesh, [" + ", ".join(one(dim) for dim in dims) + "]>"


def module(case, rule, factor, shards):
    """The op alone in `@forward`, at level 2, with `factor` split over `shards` ranks (None: no marks)."""
    operands, results, marks = dict.fromkeys(case.operands, ""), [""] * len(case.results), ""
    if rule:
        placed = [sharding(dims, factor, rule.factors) for dims in rule.operands]
        operands = {name: f", ps.sharding = {text}" for name, text in zip(case.operands, placed)}
        placed = [sharding(dims, factor, rule.factors) for dims in rule.results]
        results = [f", ps.sharding = {text}" for text in placed]
        marks = (f"ps.phase = #ps.phase<forward>, ps.segment = 0 : i64, ps.shardings = [{', '.join(placed)}]")
    arguments = ", ".join(f'%{name}: {type_} {{ps.name = "{name}"{operands[name]}}}'
                          for name, type_ in case.operands.items())
    named = ", ".join(f'{type_} {{ps.name = "r{i}"{results[i]}}}' for i, type_ in enumerate(case.results))
    values = ", ".join(f"%r{i}" for i in range(len(case.results)))
    return f"""module attributes {{ps.level = #ps.level<planned>}} {{
  ps.mesh @mesh <"tp" = {shards} : tensor>
  func.func @forward({arguments}) -> ({named}) {{
    {write(case.text, marks)}
    return {values} : {', '.join(case.results)}
  }}
}}
"""


def draw(case):
    generator = torch.Generator().manual_seed(0)
    tensors = {}
    for name, type_ in case.operands.items():
        *shape, element = type_[len("tensor<"):-1].split("x")
        shape, dtype = [int(size) for size in shape], ELEMENTS[element]
        if dtype.is_floating_point:
            tensor = torch.randn(shape, generator=generator, dtype=dtype)
            tensors[name] = tensor.abs() + 0.5 if case.positive else tensor
        else:
            tensors[name] = torch.randint(case.below.get(name, 2), shape, generator=generator).to(dtype)
    return tensors


def evaluate(path, folder, shards=None):
    out = folder / "out.safetensors"
    flags = ["--ranks", shards] if shards else []
    tool("ps-run", path, "--entry", "forward", "--inputs", folder / "in.safetensors", "--outputs", out, *flags)
    return load_file(out)


def check(case, rule, factor, shards, folder):
    save_file(draw(case), folder / "in.safetensors")
    whole, planned, local = folder / "whole.mlir", folder / "planned.mlir", folder / "local.mlir"
    whole.write_text(module(case, None, None, 1))
    planned.write_text(module(case, rule, factor, shards))
    tool("ps-opt", planned, "-ps-partition", "-o", local)
    expected, found = evaluate(whole, folder), evaluate(local, folder, shards)
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-5, atol=1e-6, msg=lambda text: f"{name}: {text}")


@pytest.mark.parametrize("name", CASES)
def test_each_factor_split_equals_the_whole(name, tmp_path):
    case = CASES[name]
    rule = get_rule(case, tmp_path)
    for factor in rule.factors.values():
        for shards in SHARDS:
            if not factor.kind.startswith("whole"):
                check(case, rule, factor.name, shards, tmp_path)


def table(folder):
    """Markdown: op, factor, its size in the test, what splitting it does."""
    lines = ["# Which factors of which op may be split", "",
             "Written by `python test/python/test_op_factors.py` from the ops' sharding rules; each line that is not",
             f"`whole` is run on {' and '.join(map(str, SHARDS))} ranks and compared with one (`test_op_factors.py`).", "",
             "| op | factor | size | split |", "|---|---|---|---|"]
    for case in CASES.values():
        for factor in get_rule(case, folder).factors.values():
            effect = factor.kind if factor.kind.startswith("whole") else (
                f"partial {factor.kind}" if factor.kind else "parallel")
            lines.append(f"| {case.name} | {factor.name} | {factor.size} | {effect} |")
    return "\n".join(lines) + "\n"


def test_the_table_is_current(tmp_path):
    assert TABLE.read_text() == table(tmp_path)


if __name__ == "__main__":
    import pathlib
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        TABLE.write_text(table(pathlib.Path(scratch)))
    print(f"wrote {TABLE}", file=sys.stderr)
