"""Builds one module from many small computations (calls), so that one evaluation or one compile covers all of them.

A call consists of one or a few ops with their operands. Each call is a separate segment of the function `@micro_batch`.
"""
import dataclasses
import re

import capi
import op_cases
import torch
from conftest import tools_folder
from oracle import run
from safetensors.torch import load_file, save_file

TYPES = {"f32": torch.float32, "f64": torch.float64, "i64": torch.int64, "i32": torch.int32, "i16": torch.int16,
         "i8": torch.int8, "i1": torch.bool, "f16": torch.float16, "bf16": torch.bfloat16,
         "f8E4M3FN": torch.float8_e4m3fn, "f8E5M2": torch.float8_e5m2}


@dataclasses.dataclass
class Call:
    """An op case with a unique name, and the shardings of its operands and results (one text per tensor)."""

    name: str
    case: op_cases.OpCase
    operands: list = None
    results: list = None
    computed: bool = False  # operands are results of ops that write NaN or other nonzero values into padding


def parse_type(text):
    """Parses a type. Example: `tensor<4x5xf32>` gives ([4, 5], torch.float32)."""
    dims = re.fullmatch(r"tensor<((?:\d+x)*)(\w+)>", text)
    return [int(d) for d in dims[1].split("x")[:-1]], TYPES[dims[2]]


def with_shape(text, shape):
    """Returns the type with other sizes."""
    return "tensor<" + "".join(f"{size}x" for size in shape) + text[len("tensor<"):-1].split("x")[-1] + ">"


def draw(case):
    """Draws the operands by name. All calls of a case have the same operands."""
    generator = torch.Generator().manual_seed(len(case.name))
    values = {}
    for name, text in case.operands.items():
        shape, dtype = parse_type(text)
        if name in case.permuted:
            values[name] = torch.rand(shape, generator=generator).argsort(case.permuted[name])
        elif dtype == torch.bool:
            values[name] = torch.rand(shape, generator=generator) < 0.5
        elif not dtype.is_floating_point:
            values[name] = torch.randint(0, case.below.get(name, 5), shape, generator=generator).to(dtype)
        else:
            draw_floats = torch.rand if case.unit else torch.randn
            values[name] = draw_floats(shape, generator=generator).to(dtype)
            if case.positive and dtype.itemsize > 1:
                values[name] = values[name].abs() + 0.1
    return values


def marks(index, shardings):
    text = f"ps.phase = #ps.phase<forward>, ps.segment = {index} : i64"
    return text + (f", ps.shardings = [{', '.join(shardings)}]" if shardings else "")


def compute(name, type_, attributes):
    """Returns ops that compute the value `name` again, as `name.ready`. Elements that are 0, as in padding, become another value."""
    attributes = f" {{{attributes}}}" if attributes else ""
    if type_.endswith("i1>"):
        return [f"%{name}.ready = ps.not %{name}{attributes} : {type_}"]
    if type_.endswith("i64>"):
        return [f"%{name}.1 = ps.constant{attributes} dense<1> : {type_}",
                f"%{name}.ready = ps.max %{name}, %{name}.1{attributes} : {type_}"]
    if "xf8" in type_:
        wide = type_[: type_.index("xf8")] + "xf32>"
        return [f"%{name}.scale = ps.constant{attributes} dense<1.0> : {wide}",
                f"%{name}.wide = ps.dequantize %{name}, %{name}.scale{attributes} : {type_}, {wide} -> {wide}",
                f"%{name}.1 = ps.div %{name}.wide, %{name}.wide{attributes} : {wide}",
                f"%{name}.same = ps.mul %{name}.wide, %{name}.1{attributes} : {wide}",
                f"%{name}.ready = ps.quantize %{name}.same, %{name}.scale{attributes} : {wide}, {wide} -> {type_}"]
    return [f"%{name}.1 = ps.div %{name}, %{name}{attributes} : {type_}",  # 1, or NaN for 0
            f"%{name}.ready = ps.mul %{name}, %{name}.1{attributes} : {type_}"]


def body(index, call, marked):
    """Returns the ops of a call. The names of its values begin with the name of the call."""
    lines = []
    if call.computed:
        placed = call.operands or [None] * len(call.case.operands)
        for split, (name, type_) in zip(placed, call.case.operands.items()):
            lines += compute(f"{call.name}.{name}", type_, marks(index, [split] if split else []) if marked else "")

    def rename(match):
        ready = ".ready" if call.computed and match[1] in call.case.operands else ""
        return f"%{call.name}.{match[1]}{ready}"

    text = op_cases.write(call.case.text, marks(index, call.results) if marked else "")
    return "\n    ".join([*lines, re.sub(r"%(\w+)", rename, text)])


def module(calls, mesh=None):
    """Returns a module with all calls in one function: with a mesh, at level 2 with shardings; otherwise, without a level."""
    arguments, results, values, types = [], [], [], []
    for call in calls:
        placed = iter(call.operands or [])
        for name, type_ in call.case.operands.items():
            split = f", ps.sharding = {next(placed)}" if mesh and call.operands else ""
            arguments.append(f'%{call.name}.{name}: {type_} '
                             f'{{ps.name = "{call.name}.{name}", ps.batch_dim = -1 : i64{split}}}')
        for i, type_ in enumerate(call.case.results):
            split = f", ps.sharding = {call.results[i]}" if mesh and call.results else ""
            results.append(f'{type_} {{ps.name = "{call.name}.r{i}"{split}}}')
            values.append(f"%{call.name}.r{i}")
            types.append(type_)
    lines = "\n    ".join(body(i, call, bool(mesh)) for i, call in enumerate(calls))
    head = f"attributes {{ps.level = #ps.level<planned>}} {{\n  ps.mesh @mesh <{mesh}>" if mesh else "{"
    return (f"module {head}\n  func.func @micro_batch({', '.join(arguments)}) -> ({', '.join(results)}) {{\n"
            f"    {lines}\n    return {', '.join(values)} : {', '.join(types)}\n  }}\n}}\n")


def inputs(calls):
    return {f"{call.name}.{name}": value for call in calls for name, value in draw(call.case).items()}


def evaluate(calls, path, folder, ranks=1, values=None):
    """Runs the module in ps-run. Returns the results by name, `CALL.rN`."""
    save_file(values or inputs(calls), folder / "in.safetensors")
    out = folder / f"{path.stem}.safetensors"
    run([tools_folder() / "ps-run", path, "--entry", "micro_batch", "--ranks", ranks, "--inputs",
         folder / "in.safetensors", "--outputs", out], folder)  # fmt: skip
    return load_file(out)


def call_compiled(calls, path, folder, ranks=1, threads=1, values=None, target="cpu"):
    """Compiles the module `path`, of level 2 or later, and runs the program. Returns the results by name, `CALL.rN`."""
    library = folder / f"{path.stem}.{target.replace(':', '-')}.so"
    run([tools_folder() / "ps-compile", path, "-o", library, "--target", target], folder, timeout=600)
    outputs = {}
    for call in calls:
        for i, text in enumerate(call.case.results):
            shape, dtype = parse_type(text)
            fill = float("nan") if dtype.is_floating_point else 1
            outputs[f"{call.name}.r{i}"] = torch.full(shape, fill, dtype=dtype)
    program = capi.Program(library, ranks=ranks, threads=threads)
    program.call("forward", values or inputs(calls), outputs)
    program.close()
    return outputs


def assert_close(found, expected, calls):
    """Compares all results of the calls. Floats may differ by rounding errors of another order of additions."""
    wrong = []
    for call in calls:
        for key in (f"{call.name}.r{i}" for i in range(len(call.case.results))):
            if not close(found[key], expected[key]):
                wrong.append(f"{key}: found {found[key]}, expected {expected[key]}")
    assert not wrong, "\n".join(wrong)


def close(found, expected):
    if not expected.dtype.is_floating_point:
        return torch.equal(found, expected)
    if expected.dtype.itemsize == 1:
        return torch.equal(found.float().nan_to_num(nan=1e9), expected.float().nan_to_num(nan=1e9))
    finite = expected[expected.isfinite()]
    scale = max(1.0, finite.abs().max().item() if finite.numel() else 1.0)
    return torch.allclose(found, expected, rtol=2e-5, atol=2e-6 * scale, equal_nan=True)
