"""Generated code equals the reference evaluator: every op alone, and groups of ops as models have them.

All functions go into one module: each is a class function and a program of its own, compiled once.
"""
import re
import subprocess

import capi
import op_cases
import pytest
import torch
from conftest import tools_folder
from safetensors.torch import load_file, save_file

TYPES = {"f32": torch.float32, "f64": torch.float64, "i64": torch.int64, "i1": torch.bool, "bf16": torch.bfloat16}
# A library op takes its random key as an argument of the class function, which these functions have not.
CASES = {name: c for name, c in op_cases.CASES.items() if name != "attention_dropout"}


def chain(name, lines, operands, results, **options):
    """A case of several lines; its results are the values named %r0, %r1, ..."""
    CASES[name] = op_cases.OpCase(name, "\n    ".join(line.strip() for line in lines.strip().splitlines()),
                                  operands, results, **options)


# Rows longer than a block of 64, with and without a tail; more rows than a chunk of a sum over rows.
for rows, columns in [(300, 200), (5, 70), (130, 64), (3, 1), (2, 1000), (257, 17)]:
    x, row, column = f"tensor<{rows}x{columns}xf32>", f"tensor<{rows}xf32>", f"tensor<{columns}xf32>"
    size = f"{rows}x{columns}"
    for op in ["softmax", "log_softmax"]:
        chain(f"{op}_{size}", f"%r0 = ps.{op} %a : {x}", {"a": x}, [x])
    chain(f"reduce_rows_{size}", f"%r0 = ps.reduce sum %a dims [0] : {x} -> {column}", {"a": x}, [column])
    chain(f"reduce_row_max_{size}", f"%r0 = ps.reduce max %a dims [1] : {x} -> {row}", {"a": x}, [row])
    chain(f"reduce_all_{size}", f"%r0 = ps.reduce sum %a dims [0, 1] : {x} -> tensor<f32>", {"a": x}, ["tensor<f32>"])
    chain(f"norm_{size}", f"""
        %h = ps.add %a, %b : {x}
        %n, %r2 = ps.layer_norm %h epsilon 1.0e-5 : {x} -> {x}, {row}
        %w = ps.broadcast %s dims [1] : {column} -> {x}
        %m = ps.mul %n, %w : {x}
        %r0 = ps.gelu tanh %m : {x}
        %r1 = ps.add %h, %r0 : {x}""", {"a": x, "b": x, "s": column}, [x, x, row])
    chain(f"norm_backward_{size}", f"""
        %w = ps.broadcast %s dims [1] : {column} -> {x}
        %gw = ps.mul %g, %w : {x}
        %d = ps.layer_norm_grad %gw, %a, %t : {x}, {row}
        %r0 = ps.add %d, %g : {x}
        %p = ps.mul %g, %a : {x}
        %r1 = ps.reduce sum %p dims [0] : {x} -> {column}
        %r2 = ps.reduce sum %g dims [0] : {x} -> {column}""", {"g": x, "a": x, "s": column, "t": row}, [x, column, column])
    chain(f"gelu_backward_{size}", f"""
        %w = ps.broadcast %s dims [1] : {column} -> {x}
        %h = ps.add %a, %w : {x}
        %r0 = ps.gelu_grad erf %g, %h : {x}
        %r1 = ps.reduce sum %r0 dims [0] : {x} -> {column}""", {"g": x, "a": x, "s": column}, [x, column])
    chain(f"loss_{size}", f"""
        %w = ps.broadcast %s dims [1] : {column} -> {x}
        %h = ps.add %a, %w : {x}
        %r0, %r1 = ps.cross_entropy %h, %t ignore -100 : {x}, tensor<{rows}xi64> -> {row}
        %r2 = ps.reduce sum %r0 dims [0] : {row} -> tensor<f32>
        %r3 = ps.cross_entropy_grad %h, %r0, %t, %r1 ignore -100 : {x}, {row}, tensor<{rows}xi64>""",
          {"a": x, "s": column, "t": f"tensor<{rows}xi64>"}, [row, row, "tensor<f32>", x], below={"t": columns})

B, H = "tensor<3x5x64xf32>", "tensor<3x4x5x16xf32>"
chain("heads", f"""
    %x = ps.add %a, %b : {B}
    %y = ps.reshape %x : {B} -> tensor<3x5x4x16xf32>
    %r0 = ps.transpose %y [0, 2, 1, 3] : tensor<3x5x4x16xf32> -> {H}
    %r1 = ps.exp %r0 : {H}""", {"a": B, "b": B}, [H, H])
chain("rotate", f"""
    %lo = ps.slice %a [0, 0, 0, 0] to [3, 4, 5, 8] by [1, 1, 1, 1] : {H} -> tensor<3x4x5x8xf32>
    %hi = ps.slice %a [0, 0, 0, 8] to [3, 4, 5, 16] by [1, 1, 1, 1] : {H} -> tensor<3x4x5x8xf32>
    %n = ps.neg %hi : tensor<3x4x5x8xf32>
    %t = ps.concat %n, %lo dim 3 : (tensor<3x4x5x8xf32>, tensor<3x4x5x8xf32>) -> {H}
    %c = ps.broadcast %cos dims [2, 3] : tensor<5x16xf32> -> {H}
    %s = ps.broadcast %sin dims [2, 3] : tensor<5x16xf32> -> {H}
    %p = ps.mul %a, %c : {H}
    %q = ps.mul %t, %s : {H}
    %r0 = ps.add %p, %q : {H}""", {"a": H, "cos": "tensor<5x16xf32>", "sin": "tensor<5x16xf32>"}, [H])
chain("split_heads_sum", f"""
    %t = ps.transpose %a [0, 2, 1, 3] : {H} -> tensor<3x5x4x16xf32>
    %r0 = ps.reshape %t : tensor<3x5x4x16xf32> -> {B}
    %r1 = ps.reduce sum %r0 dims [0, 1] : {B} -> tensor<64xf32>""", {"a": H}, [B, "tensor<64xf32>"])
chain("contract_heads", f"""
    %t = ps.transpose %a [0, 2, 1, 3] : {H} -> tensor<3x5x4x16xf32>
    %u = ps.reshape %t : tensor<3x5x4x16xf32> -> {B}
    %r0 = ps.contract %u [0, 1, 2], %w [3, 2] -> [0, 1, 3] : ({B}, tensor<7x64xf32>) -> tensor<3x5x7xf32>""",
      {"a": H, "w": "tensor<7x64xf32>"}, ["tensor<3x5x7xf32>"])
chain("mean_of_squares", """
    %n = ps.constant dense<200.0> : tensor<3x2xf32>
    %e = ps.constant dense<1.0e-5> : tensor<3x2xf32>
    %q = ps.mul %a, %a : tensor<3x2x200xf32>
    %s = ps.reduce sum %q dims [2] : tensor<3x2x200xf32> -> tensor<3x2xf32>
    %m = ps.div %s, %n : tensor<3x2xf32>
    %v = ps.add %m, %e : tensor<3x2xf32>
    %r = ps.rsqrt %v : tensor<3x2xf32>
    %b = ps.broadcast %r dims [0, 1] : tensor<3x2xf32> -> tensor<3x2x200xf32>
    %r0 = ps.mul %a, %b : tensor<3x2x200xf32>""", {"a": "tensor<3x2x200xf32>"}, ["tensor<3x2x200xf32>"])
chain("positions", """
    %i = ps.iota dim 1 : tensor<40x30xi64>
    %j = ps.iota dim 0 : tensor<40x30xi64>
    %c = ps.compare le %i, %j : tensor<40x30xi64> -> tensor<40x30xi1>
    %z = ps.constant dense<0.0> : tensor<40x30xf32>
    %r0 = ps.select %c, %a, %z : tensor<40x30xi1>, tensor<40x30xf32>
    %r1 = ps.convert %i : tensor<40x30xi64> -> tensor<40x30xf32>""",
      {"a": "tensor<40x30xf32>"}, ["tensor<40x30xf32>", "tensor<40x30xf32>"])
chain("transposed_sum", """
    %t = ps.transpose %a [1, 0] : tensor<30x40xf32> -> tensor<40x30xf32>
    %r0 = ps.add %t, %b : tensor<40x30xf32>""", {"a": "tensor<30x40xf32>", "b": "tensor<40x30xf32>"},
      ["tensor<40x30xf32>"])
chain("middle_sum", "%r0 = ps.reduce sum %a dims [1] : tensor<3x40x30xf32> -> tensor<3x30xf32>",
      {"a": "tensor<3x40x30xf32>"}, ["tensor<3x30xf32>"])
chain("big", """
    %e = ps.exp %a : tensor<7x1001xf32>
    %r0 = ps.add %e, %b : tensor<7x1001xf32>
    %c = ps.compare gt %r0, %a : tensor<7x1001xf32> -> tensor<7x1001xi1>
    %r1 = ps.not %c : tensor<7x1001xi1>""", {"a": "tensor<7x1001xf32>", "b": "tensor<7x1001xf32>"},
      ["tensor<7x1001xf32>", "tensor<7x1001xi1>"])
chain("reshape_then_transpose", """
    %t = ps.transpose %a [1, 0] : tensor<6x10xf32> -> tensor<10x6xf32>
    %u = ps.reshape %t : tensor<10x6xf32> -> tensor<4x15xf32>
    %r0 = ps.exp %u : tensor<4x15xf32>""", {"a": "tensor<6x10xf32>"}, ["tensor<4x15xf32>"])


def parse(text):
    dims = re.fullmatch(r"tensor<((?:\d+x)*)(\w+)>", text)
    return [int(d) for d in dims[1].split("x")[:-1]], TYPES[dims[2]]


def draw(case):
    generator = torch.Generator().manual_seed(len(case.name))
    values = {}
    for name, text in case.operands.items():
        shape, dtype = parse(text)
        if dtype == torch.bool:
            values[name] = torch.rand(shape, generator=generator) < 0.5
        elif dtype == torch.int64:
            values[name] = torch.randint(0, case.below.get(name, 5), shape, generator=generator)
        else:
            values[name] = torch.randn(shape, generator=generator).to(dtype)
            if case.positive:
                values[name] = values[name].abs() + 0.1
    return values


def function(case):
    arguments = ", ".join(f'%{n}: {t} {{ps.name = "{n}"}}' for n, t in case.operands.items())
    results = ", ".join(f'{t} {{ps.name = "r{i}"}}' for i, t in enumerate(case.results))
    values = ", ".join(f"%r{i}" for i in range(len(case.results)))
    return f"""
  func.func @{case.name}({arguments}) -> ({results}) attributes {{ps.class = "{case.name}"}} {{
    {op_cases.write(case.text, "")}
    return {values} : {", ".join(case.results)}
  }}"""


def program(case):
    # No operand is a batch: each has as many rows as it likes.
    lines = [f'%{n} = rank.input "{n}" micro_batch 0 {{ps.batch_dim = -1 : i64}} : {t}'
             for n, t in case.operands.items()]
    inputs = ", ".join("%" + n for n in case.operands)
    lines.append(f'%r:{len(case.results)} = rank.run @{case.name} ({inputs}) : ({", ".join(case.operands.values())}) -> '
                 f'({", ".join(case.results)})')
    lines += [f'rank.output "r{i}" micro_batch 0 %r#{i} : {t}' for i, t in enumerate(case.results)]
    body = "\n    ".join(lines)
    return f"""
  rank.program @program.{case.name} pp = 0 entry "{case.name}" {{
    {body}
  }}"""


def tool(name, *arguments):
    done = subprocess.run([tools_folder() / name, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """The evaluator's module, and the compiled program."""
    folder = tmp_path_factory.mktemp("kernels")
    functions = "".join(function(c) for c in CASES.values())
    mesh = '  ps.mesh @mesh <"dp" = 1 : data>'
    (folder / "plain.mlir").write_text(f"module {{\n{mesh}{functions}\n}}\n")
    programs = "".join(program(c) for c in CASES.values())
    level = "attributes {ps.level = #ps.level<scheduled>}"
    (folder / "scheduled.mlir").write_text(f"module {level} {{\n{mesh}{functions}{programs}\n}}\n")
    tool("ps-opt", "-ps-fuse", folder / "scheduled.mlir", "-o", folder / "fused.mlir")
    tool("ps-compile", folder / "fused.mlir", "-o", folder / "kernels.so")
    opened = capi.Program(folder / "kernels.so", ranks=1, threads=2)
    yield folder / "plain.mlir", opened
    opened.close()


@pytest.mark.parametrize("name", CASES)
def test_kernel(compiled, tmp_path, name):
    module, opened = compiled
    case = CASES[name]
    inputs = draw(case)
    expected = evaluate(module, name, inputs, tmp_path)
    outputs = {f"r{i}": empty(t) for i, t in enumerate(case.results)}
    opened.call(name, inputs, outputs)
    for key, value in outputs.items():
        wanted = expected[key]
        if value.dtype.is_floating_point:
            scale = max(1.0, wanted.abs()[wanted.isfinite()].max().item() if wanted.numel() else 1.0)
            torch.testing.assert_close(value, wanted, rtol=2e-5, atol=2e-6 * scale, equal_nan=True)
        else:
            assert torch.equal(value, wanted), key


def empty(text):
    shape, dtype = parse(text)
    return torch.full(shape, float("nan") if dtype.is_floating_point else 1, dtype=dtype)


def evaluate(module, name, inputs, folder):
    files = ["--inputs", folder / "in.safetensors"] if inputs else []
    if inputs:
        save_file(inputs, folder / "in.safetensors")
    tool("ps-run", module, "--entry", name, *files, "--outputs", folder / "out.safetensors")
    return load_file(folder / "out.safetensors")
