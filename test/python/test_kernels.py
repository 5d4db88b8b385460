"""Generated code for the CPU and for GPUs equals the reference evaluator, for every op, and for groups of ops as in models.

All cases are in one program, which is compiled once. test_op_factors.py tests ops that are split over ranks.
"""
import re

import capi
import joined
import op_cases
import pytest
import replay
import torch
from torch.nn import functional as F

CASES = dict(op_cases.CASES)


def chain(name, lines, operands, results, **options):
    """Adds a case of several ops. Its results are the values named %r0, %r1, ..."""
    def mark(line):
        return re.sub(r"ps\.constant|(?= : )", r"\g<0> ATTRIBUTES", line.strip(), count=1)

    text = "\n    ".join(mark(line) for line in lines.strip().splitlines())
    CASES[name] = op_cases.OpCase(name, text, operands, results, **options)


# Many chunks of rows: a GPU splits the sum over rows into parts, the last of which is short.
for rows, columns in [(5000, 24), (17000, 3)]:
    for kind in ["sum", "max"]:
        chain(f"reduce_{kind}_rows_{rows}x{columns}", f"%r0 = ps.reduce {kind} %a dims [0] : tensor<{rows}x{columns}xf32> -> tensor<{columns}xf32>",
              {"a": f"tensor<{rows}x{columns}xf32>"}, [f"tensor<{columns}xf32>"])  # fmt: skip

# Long sums: a GPU splits them into parts, each of which has complete rows of one dim.
for shape in ["96x768", "7x130x331", "40000", "2x384x100", "65537"]:
    chain(f"reduce_all_{shape}", f"""
        %h = ps.mul %a, %b : tensor<{shape}xf32>
        %r0 = ps.reduce sum %h dims {list(range(shape.count("x") + 1))} : tensor<{shape}xf32> -> tensor<f32>""",
          {"a": f"tensor<{shape}xf32>", "b": f"tensor<{shape}xf32>"}, ["tensor<f32>"])  # fmt: skip
chain("reduce_of_each", "%r0 = ps.reduce max %a dims [1, 2] : tensor<2x384x100xf32> -> tensor<2xf32>", {"a": "tensor<2x384x100xf32>"}, ["tensor<2xf32>"])

# Rows longer than a block of 64 columns, with and without a partial block, and more rows than a chunk of a sum over rows has.
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


HALVES = [f"convert_{a}_{b}" for a in ["f64", "f32", "f16", "bf16"] for b in ["f64", "f32", "f16", "bf16"] if a != b]
for name in HALVES:
    a, b = (f"tensor<19x{element}>" for element in name.split("_")[1:])
    chain(name, f"%r0 = ps.convert %a : {a} -> {b}", {"a": a}, [b])

# The smallest integer divided by -1 wraps around, and a divisor of 0 gives 0, in every vector lane. With 5 elements, some lanes are masked.
for bits in [8, 16, 32, 64]:
    x, least = f"tensor<5xi{bits}>", -(2 ** (bits - 1))
    chain(f"div_ends_i{bits}", f"""
        %n = ps.constant dense<[{least}, {least}, -7, 7, 0]> : {x}
        %d = ps.constant dense<[-1, 0, 2, -2, 0]> : {x}
        %r0 = ps.div %n, %d : {x}
        %s = ps.sub %n, %a : {x}
        %r1 = ps.div %s, %d : {x}""", {"a": x}, [x, x])

ENDS = [0.0, -0.0, 1.0, -1.0, 88.8, -88.8, 1e4, -1e4, float("inf"), -float("inf"), float("nan"), 10.06, -10.06]
EXTREME = {"sigmoid": torch.sigmoid, "tanh": torch.tanh, "exp": torch.exp, "silu": F.silu, "softplus": F.softplus,
           "gelu erf": F.gelu, "gelu tanh": lambda x: F.gelu(x, approximate="tanh"), "softmax": lambda x: x.softmax(-1),
           "log_softmax": lambda x: x.log_softmax(-1), "sin": torch.sin, "cos": torch.cos, "atan": torch.atan,
           "reduce max": lambda x: x.amax(-1, keepdim=True).expand_as(x),
           "reduce min": lambda x: x.amin(-1, keepdim=True).expand_as(x)}  # fmt: skip


def extreme_text(op, x):
    if not op.startswith("reduce"):
        return f"%r0 = ps.{op} %a ATTRIBUTES : {x}"
    row = x.replace("x3x", "x")
    return f"%t = ps.{op} %a dims [1] ATTRIBUTES : {x} -> {row}\n%r0 = ps.broadcast %t dims [0] ATTRIBUTES : {row} -> {x}"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Returns (results of all cases from the evaluator, results from the compiled programs by device)."""
    folder = tmp_path_factory.mktemp("kernels")
    calls = [joined.Call(name, case) for name, case in CASES.items()]
    plain, planned = folder / "plain.mlir", folder / "planned.mlir"
    plain.write_text(joined.module(calls))
    planned.write_text(joined.module(calls, '"dp" = 1 : data'))
    return joined.evaluate(calls, plain, folder), {
        "cpu": joined.call_compiled(calls, planned, folder, threads=2),
        "gpu": replay.run(joined.call_compiled, calls, planned, folder, target="cuda:replay"),
    }


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_kernel(results, name, device):
    """Runs each case on the CPU, and as GPU kernels whose threads are simulated on the CPU."""
    expected, found = results
    joined.assert_close(found[device], expected, [joined.Call(name, CASES[name])])


@pytest.fixture(scope="module")
def at_ends(tmp_path_factory):
    """Evaluates functions of rows that each contain one of ENDS. Returns (the rows, results of the evaluator, the CPU and the GPU)."""
    folder = tmp_path_factory.mktemp("ends")
    given = torch.stack([torch.tensor(ENDS), torch.zeros(len(ENDS)), torch.full([len(ENDS)], 0.5)], 1)
    x = f"tensor<{len(ENDS)}x3xf32>"
    calls = [joined.Call(op.replace(" ", "_"), op_cases.OpCase(op, extreme_text(op, x), {"a": x}, [x])) for op in EXTREME]
    values = {f"{call.name}.a": given.clone() for call in calls}
    plain, planned = folder / "plain.mlir", folder / "planned.mlir"
    plain.write_text(joined.module(calls))
    planned.write_text(joined.module(calls, '"dp" = 1 : data'))
    return given, {
        "evaluated": joined.evaluate(calls, plain, folder, values=values),
        "cpu": joined.call_compiled(calls, planned, folder, values=values),
        "gpu": replay.run(joined.call_compiled, calls, planned, folder, values=values, target="cuda:replay"),
    }


@pytest.mark.parametrize("op", EXTREME)
@pytest.mark.parametrize("by", ["evaluated", "cpu", "gpu"])
def test_at_infinities_and_nan(at_ends, op, by):
    given, found = at_ends
    expected = EXTREME[op](given.double()).float()  # PyTorch's own f32 kernel gives gelu(inf) = NaN with AVX-512
    torch.testing.assert_close(found[by][f"{op.replace(' ', '_')}.r0"], expected, rtol=2e-6, atol=1e-6, equal_nan=True)


INF, NAN = float("inf"), float("nan")
BASES = torch.tensor([-3.7, -2.0, -1.5, -1.0, -0.0, 0.0, 0.5, 1.0, 2.0, 88.0, 1e-30, INF, -INF, NAN])
EXPONENTS = torch.tensor([-3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, INF, -INF, NAN])
ANGLES = torch.tensor([0.0, 5, 88, 8191, 65504, 1e6, 1e7, 1e9, 1e12, 2e14, -5, -1e6, INF, NAN, -INF, 1e-40])


@pytest.mark.parametrize("target", ["cpu", "cuda:replay"])
def test_powers_and_angles(tmp_path, target):
    """x^y for numbers of all kinds, and sin and cos of large numbers, whose reduction by multiples of the period needs extra digits."""
    angles = torch.cat([ANGLES, torch.linspace(-7, 7, 3001), torch.linspace(-1e5, 1e5, 2001)])
    x, wide = f"tensor<{len(BASES) * len(EXPONENTS)}xf32>", f"tensor<{len(angles)}xf32>"
    calls = [joined.Call("pow", op_cases.OpCase("pow", f"%r0 = ps.pow %a, %b ATTRIBUTES : {x}", {"a": x, "b": x}, [x]))]
    calls += [joined.Call(op, op_cases.OpCase(op, f"%r0 = ps.{op} %a ATTRIBUTES : {wide}", {"a": wide}, [wide]))
              for op in ["sin", "cos"]]  # fmt: skip
    base, exponent = (grid.flatten() for grid in torch.meshgrid(BASES, EXPONENTS, indexing="ij"))
    values = {"pow.a": base, "pow.b": exponent, "sin.a": angles, "cos.a": angles}
    planned = tmp_path / "planned.mlir"
    planned.write_text(joined.module(calls, '"dp" = 1 : data'))
    found = replay.run(joined.call_compiled, calls, planned, tmp_path, values=values, target=target)
    torch.testing.assert_close(found["pow.r0"], base**exponent, rtol=3e-6, atol=0, equal_nan=True)
    for op in ["sin", "cos"]:
        exact = getattr(torch, op)(angles.double()).float()
        torch.testing.assert_close(found[f"{op}.r0"], exact, rtol=0, atol=1.2e-7, equal_nan=True)


@pytest.mark.parametrize("target", ["cpu", "cuda:replay"])
def test_inverse_tangents_keep_their_digits(tmp_path, target):
    """atan in f32 is exact to 3 ulps, also for tiny and huge numbers. In f64, it is as exact as libm."""
    numbers = torch.cat([torch.linspace(-4, 4, 4001), torch.logspace(-38, 38, 1001), torch.tensor([0.0, 1e-40, INF, -INF, NAN])])
    types = {"f32": f"tensor<{len(numbers)}xf32>", "f64": f"tensor<{len(numbers)}xf64>"}
    calls = [joined.Call(n, op_cases.OpCase(n, f"%r0 = ps.atan %a ATTRIBUTES : {x}", {"a": x}, [x])) for n, x in types.items()]
    values = {"f32.a": numbers, "f64.a": numbers.double()}
    planned = tmp_path / "planned.mlir"
    planned.write_text(joined.module(calls, '"dp" = 1 : data'))
    found = replay.run(joined.call_compiled, calls, planned, tmp_path, values=values, target=target)
    exact = torch.atan(numbers.double())
    torch.testing.assert_close(found["f32.r0"], exact.float(), rtol=3.5e-7, atol=1e-45, equal_nan=True)
    torch.testing.assert_close(found["f64.r0"], exact, rtol=1e-15, atol=0, equal_nan=True)


FLOATS = torch.tensor([300.0, -300, 127.9, -0.5, 3e9, -3e9, 1e20, INF, -INF, NAN])
INTEGERS = {"i8": [44, -44, 127, 0, -128, 0, -128, -128, 0, 0],
            "i32": [300, -300, 127, 0, 2**31 - 128, -(2**31), 2**31 - 128, 2**31 - 128, -(2**31), 0],
            "i64": [300, -300, 127, 0, 3 * 10**9, -3 * 10**9, 2**63 - 2**39, 2**63 - 2**39, -(2**63), 0]}  # fmt: skip


def test_floats_as_integers(tmp_path):
    """Floats are truncated, and wrapped to narrow integers as in PyTorch. NaN gives 0, and numbers out of range are clamped."""
    x = f"tensor<{len(FLOATS)}xf32>"
    calls, values = [], {}
    for name in INTEGERS:
        result = x.replace("f32", name)
        calls.append(joined.Call(name, op_cases.OpCase(name, f"%r0 = ps.convert %a ATTRIBUTES : {x} -> {result}", {"a": x}, [result])))
        values[f"{name}.a"] = FLOATS.clone()
    plain, planned = tmp_path / "plain.mlir", tmp_path / "planned.mlir"
    plain.write_text(joined.module(calls))
    planned.write_text(joined.module(calls, '"dp" = 1 : data'))
    everywhere = [joined.evaluate(calls, plain, tmp_path, values=values),
                  joined.call_compiled(calls, planned, tmp_path, values=values),
                  replay.run(joined.call_compiled, calls, planned, tmp_path, values=values, target="cuda:replay")]  # fmt: skip
    for found in everywhere:
        for name, expected in INTEGERS.items():
            assert found[f"{name}.r0"].tolist() == expected


def test_long_sums_keep_small_terms(tmp_path):
    """Sums 9 million terms between 100 and 100.5. A sequential sum in f32 would lose their fractions."""
    rows, columns = "tensor<2x9000000xf32>", "tensor<9000000x2xf32>"
    calls = [joined.Call(name, op_cases.OpCase(name, f"%r0 = ps.reduce sum %a dims [{dim}] ATTRIBUTES : {x} -> tensor<2xf32>",
                                               {"a": x}, ["tensor<2xf32>"]))
             for name, dim, x in [("rows", 1, rows), ("columns", 0, columns)]]  # fmt: skip
    terms = 100 + torch.rand(2, 9_000_000, generator=torch.Generator().manual_seed(0)) / 2
    planned = tmp_path / "planned.mlir"
    planned.write_text(joined.module(calls, '"dp" = 1 : data'))
    found = joined.call_compiled(calls, planned, tmp_path, values={"rows.a": terms, "columns.a": terms.T.contiguous()})
    for name in ["rows", "columns"]:
        torch.testing.assert_close(found[f"{name}.r0"].double(), terms.double().sum(1), rtol=2e-6, atol=0)


@pytest.mark.parametrize("target", ["cpu", "cuda:replay"])
def test_sums_of_halves_are_added_in_f32(tmp_path, target):
    """Sums 4000 terms of 1 + eps, over rows and over columns. A sum in 16 bits would lose eps from the third term on."""
    calls = []
    for element in ["bf16", "f16"]:
        for dim, shape in enumerate(["4000x24", "24x4000"]):
            x, y = f"tensor<{shape}x{element}>", f"tensor<24x{element}>"
            text = f"%r0 = ps.reduce sum %a dims [{dim}] ATTRIBUTES : {x} -> {y}"
            calls.append(joined.Call(f"{element}_{dim}", op_cases.OpCase(f"{element}_{dim}", text, {"a": x}, [y])))
    values = {name: torch.ones_like(value) + torch.finfo(value.dtype).eps for name, value in joined.inputs(calls).items()}
    planned = tmp_path / "planned.mlir"
    planned.write_text(joined.module(calls, '"dp" = 1 : data'))
    found = replay.run(joined.call_compiled, calls, planned, tmp_path, values=values, target=target)
    for call in calls:
        result = found[f"{call.name}.r0"]
        exact = 4000 * (1 + torch.finfo(result.dtype).eps)
        assert torch.equal(result, torch.full([24], exact).to(result.dtype)), call.name


class Divisions(torch.nn.Module):
    """Divides integers in each way that PyTorch has, by tensors and by constants."""

    def forward(self, x, y):
        return x // y, x % y, torch.fmod(x, y), torch.div(x, y, rounding_mode="trunc"), x // 3, x % -3, torch.fmod(x, -3)


@pytest.mark.parametrize("target", ["cpu", "cuda:replay"])
@pytest.mark.parametrize("dtype", [torch.int8, torch.int64], ids=str)
def test_integer_division(tmp_path, dtype, target):
    """Division is as in PyTorch. Division by 0 gives the quotient 0 and the dividend as remainder. Unused vector lanes do not trap."""
    ends = torch.iinfo(dtype)
    x = torch.tensor([7, -7, 7, -7, 6, -6, ends.min, ends.min, ends.max, 0, 1, 5, -5], dtype=dtype)
    y = torch.tensor([2, 2, -2, -2, 3, 3, 2, -3, -5, 4, ends.min, 0, 0], dtype=dtype)
    module = Divisions()
    torch.export.save(torch.export.export(module, (x, y)), tmp_path / "model.pt2")
    joined.run([joined.tools_folder() / "ps-compile", "model.pt2", "-o", "model.so", "--inference", "--target", target,
                "--batch-dim", "x=none", "--batch-dim", "y=none"], tmp_path)  # fmt: skip
    expected = [result.clone() for result in module(x, y.where(y != 0, 1))]
    for i, by_zero in enumerate([0, x, x, 0]):
        expected[i] = torch.where(y == 0, torch.as_tensor(by_zero, dtype=dtype), expected[i])

    def call():
        program = capi.Program(tmp_path / "model.so", ranks=1)
        program.call("evaluate", {"x": x, "y": y}, found)
        program.close()

    names = ["floor_divide", "remainder", "fmod", "div", "floor_divide_1", "remainder_1", "fmod_1"]
    found = {name: torch.full_like(x, 99) for name in names}
    replay.run(call)
    for result, want in zip(found.values(), expected):
        torch.testing.assert_close(result, want)


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64"])
def test_conversions_of_halves(tmp_path, target):
    """Conversions to 16 bits round once, with processor instructions (cpu) and with library functions (cpu:x86-64)."""
    calls = [joined.Call(name, CASES[name]) for name in HALVES]
    values = joined.inputs(calls)
    for call in calls:  # 2^-40 above the midpoint of two f16 numbers, the midpoint, around the largest number, subnormal, infinite, NaN
        given = values[f"{call.name}.a"]
        given[:9] = torch.tensor([1 + 2**-11 + 2**-40, 1 + 2**-11, 65519.9, 65520, 1e30, 6e-8, -3e-6, float("inf"), float("nan")],
                                 dtype=torch.float64)
    planned = tmp_path / "planned.mlir"
    planned.write_text(joined.module(calls, '"dp" = 1 : data'))
    found = joined.call_compiled(calls, planned, tmp_path, values=values, target=target)
    for call in calls:
        given, dtype = values[f"{call.name}.a"], joined.parse_type(call.case.results[0])[1]
        expected = given.to(dtype)
        if call.name == "convert_f64_f16":  # PyTorch rounds twice, but numpy rounds once
            expected = torch.from_numpy(given.numpy().astype("float16"))
        torch.testing.assert_close(found[f"{call.name}.r0"], expected, rtol=0, atol=0, equal_nan=True)
