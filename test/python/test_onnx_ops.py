"""Every op that is imported from ONNX equals ONNX's reference evaluator. Bad files are refused."""
import hashlib
import os
import pathlib
import random
import re
import subprocess
import sys

import models
import numpy as np
import onnx
import onnx.reference
import onnx_models
import pytest
import torch
from conftest import ROOT, tools_folder
from onnx import TensorProto, helper
from oracle import run
from safetensors.torch import load_file, save_file

f32, i64, bool_ = torch.float32, torch.int64, torch.bool


def draw(dtype, shape, seed):
    generator = torch.Generator().manual_seed(seed)
    if dtype == bool_:
        return torch.rand(shape, generator=generator) < 0.5
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator, dtype=dtype)
    return torch.randint(-3, 4, shape, generator=generator, dtype=dtype)


def check(folder, model, inputs, expected=None, tolerance=2e-6):
    """Imports and evaluates a model. Compares all outputs with `expected` or, without it, with ONNX's reference evaluator."""
    path = folder / "model.onnx"
    onnx.save(model, str(path))
    run([tools_folder() / "ps-translate", "--import-onnx", path, "-o", "model.mlir"], folder)
    save_file({n: t.contiguous() for n, t in inputs.items()}, folder / "in.safetensors")
    run([tools_folder() / "ps-run", "model.mlir", "--entry", "forward", "--inputs", "in.safetensors", "--outputs",
         "out.safetensors"], folder)  # fmt: skip
    ours = load_file(folder / "out.safetensors")
    if expected is None:
        expected = onnx.reference.ReferenceEvaluator(model).run(None, {n: t.numpy() for n, t in inputs.items()})
    for value, output in zip(expected, model.graph.output):
        value = value if isinstance(value, torch.Tensor) else torch.from_numpy(np.array(value))
        got = ours[output.name]
        assert got.shape == value.shape and got.dtype == value.dtype, (output.name, got.shape, value.shape, got.dtype)
        assert torch.allclose(got.double(), value.double(), rtol=tolerance, atol=tolerance, equal_nan=True), output.name


X = {"x": (f32, [3, 4])}
XY = {"x": (f32, [3, 4]), "y": (f32, [4])}
II = {"x": (i64, [3, 4]), "y": (i64, [3, 1])}
BB = {"x": (bool_, [3, 4]), "y": (bool_, [4])}
X3 = {"x": (f32, [2, 3, 4])}
ints = lambda *values: torch.tensor(values, dtype=i64)  # noqa: E731


def image(op, *operands, opset=20, initializers=(), **attributes):
    """Returns an entry of OPS. Operands are given by shape, initializers by value."""
    return op, {name: (f32, list(shape)) for name, shape in zip("xwb", operands)}, dict(initializers), attributes, 1, opset


def resized(shape, sizes=None, scales=None, **attributes):
    """Returns an entry of OPS for Resize, whose inputs `roi` and `scales` may be absent."""
    given = {"": None, "scales": torch.tensor(scales)} if scales else {"": None, " ": None, "sizes": ints(*sizes)}
    return image("Resize", shape, initializers=given, **attributes)


IMAGES = {
    "Conv": image("Conv", (2, 3, 7, 8), (4, 3, 3, 2), (4,), strides=[2, 1], pads=[1, 0, 1, 1], dilations=[1, 2]),
    "Conv of one dim": image("Conv", (2, 3, 9), (4, 3, 3), (4,), strides=[2], pads=[0, 2]),
    "Conv of groups": image("Conv", (2, 4, 6, 5), (6, 2, 3, 3), group=2, pads=[2, 1, 0, 3]),
    "Conv far behind": image("Conv", (1, 2, 4, 4), (3, 2, 2, 1), pads=[0, 0, 5, 4], strides=[2, 3]),
    "Conv same": image("Conv", (2, 3, 7, 8), (4, 3, 4, 3), auto_pad="SAME_UPPER", strides=[2, 3]),
    "Conv same below": image("Conv", (2, 3, 7, 8), (4, 3, 4, 2), auto_pad="SAME_LOWER"),
    "Conv valid": image("Conv", (2, 3, 7, 8), (4, 3, 3, 3), auto_pad="VALID"),
    "ConvTranspose": image("ConvTranspose", (2, 3, 4, 5), (3, 4, 3, 3), (4,), strides=[2, 3], pads=[1, 0, 1, 2], output_padding=[1, 2]),
    "ConvTranspose to a shape": image("ConvTranspose", (1, 2, 3, 3), (2, 2, 3, 3), strides=[3, 2], output_shape=[10, 8]),
    "MaxPool": image("MaxPool", (2, 3, 8, 7), kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]),
    "MaxPool rounded up": image("MaxPool", (2, 3, 8, 7), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "MaxPool dilated": image("MaxPool", (2, 3, 8, 7), kernel_shape=[3, 2], dilations=[2, 3]),
    "MaxPool same": image("MaxPool", (2, 3, 8), kernel_shape=[3], strides=[2], auto_pad="SAME_UPPER"),
    "AveragePool": image("AveragePool", (2, 3, 8, 7), kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]),
    "AveragePool with padding": image("AveragePool", (2, 3, 8, 7), kernel_shape=[3, 2], pads=[1, 0, 2, 1], count_include_pad=1),
    "AveragePool rounded up": image("AveragePool", (2, 3, 8, 8), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "AveragePool side by side": image("AveragePool", (2, 3, 8, 7), kernel_shape=[2, 3], strides=[2, 3]),
    "GlobalAveragePool": image("GlobalAveragePool", (2, 3, 4, 5)), "GlobalMaxPool": image("GlobalMaxPool", (2, 3, 4, 5)),
    "Resize nearest": resized((1, 2, 3, 4), [1, 2, 6, 8], coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    "Resize nearest uneven": resized((1, 2, 3, 4), [1, 2, 7, 3], coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    "Resize by factors": resized((1, 2, 3, 4), scales=[1.0, 1.0, 2.0, 0.6], nearest_mode="ceil"),
    "Resize as by default": resized((1, 2, 3, 4), [1, 2, 5, 9]),
    "Resize of axes": resized((1, 2, 3, 4), [5, 7], axes=[2, 3], mode="linear"),
    "Resize linear": resized((1, 2, 3, 4), scales=[1.0, 1.0, 1.7, 2.0], mode="linear", coordinate_transformation_mode="pytorch_half_pixel"),
    "Resize linear corners": resized((1, 2, 3, 4), [1, 2, 5, 2], mode="linear", coordinate_transformation_mode="align_corners"),
    "Resize linear symmetric": resized((1, 2, 3, 4), scales=[1.0, 1.0, 1.7, 2.3], mode="linear", coordinate_transformation_mode="half_pixel_symmetric"),
    "DepthToSpace": image("DepthToSpace", (2, 12, 2, 3), blocksize=2), "DepthToSpace CRD": image("DepthToSpace", (2, 12, 2, 3), blocksize=2, mode="CRD"),
    "SpaceToDepth": image("SpaceToDepth", (2, 3, 4, 6), blocksize=2),
}  # fmt: skip

# id: (op, inputs, initializers after them, attributes, number of outputs, opset)
OPS = {
    **{op: (op, XY, {}, {}) for op in ["Add", "Sub", "Mul", "Max", "Min", "Sum", "Mean", "Div"]},
    **{op: (op, X, {}, {}) for op in ["Neg", "Abs", "Exp", "Sin", "Cos", "Atan", "Tan", "Sinh", "Cosh", "Asinh", "Erf", "Tanh", "Sigmoid", "Relu", "Softplus",
                                      "Reciprocal", "Sign", "Floor", "Ceil", "Round", "Identity", "Gelu", "Elu", "Selu",
                                      "LeakyRelu", "HardSigmoid", "HardSwish", "Mish", "IsNaN", "IsInf", "Softmax",
                                      "LogSoftmax", "Size", "Shape", "Transpose", "Flatten", "Squeeze"]},
    **{op: (op, XY, {}, {}) for op in ["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"]},
    **{op: (op, BB, {}, {}) for op in ["And", "Or", "Xor"]},
    "Not": ("Not", {"x": (bool_, [3])}, {}, {}),
    "Add of integers": ("Add", II, {}, {}), "Equal of integers": ("Equal", II, {}, {}),
    "BitwiseAnd": ("BitwiseAnd", II, {}, {}), "BitwiseOr": ("BitwiseOr", II, {}, {}),
    "Mod": ("Mod", {"x": (i64, [3, 4])}, {"m": ints(3)}, {}), "Mod fmod": ("Mod", {"x": (i64, [3, 4])}, {"m": ints(3)}, {"fmod": 1}),
    "Pow 2": ("Pow", X, {"e": torch.tensor(2.0)}, {}), "Pow 3": ("Pow", X, {"e": ints(3)}, {}),
    "Gelu tanh": ("Gelu", X, {}, {"approximate": "tanh"}),
    "PRelu": ("PRelu", XY, {}, {}), "Elu alpha": ("Elu", X, {}, {"alpha": 0.5}),
    "Clip": ("Clip", X, {"low": torch.tensor(-0.5), "high": torch.tensor(0.5)}, {}),
    "Where": ("Where", {"c": (bool_, [3, 1]), **XY}, {}, {}),
    "Cast": ("Cast", X, {}, {"to": TensorProto.INT64}), "Cast to bool": ("Cast", {"x": (i64, [3, 4])}, {}, {"to": TensorProto.BOOL}),
    "CastLike": ("CastLike", {"x": (i64, [3, 4])}, {"like": torch.tensor(1.0)}, {}),
    "Dropout": ("Dropout", X, {}, {}),
    "Reshape": ("Reshape", X3, {"s": ints(0, -1)}, {}), "Reshape to none": ("Reshape", {"x": (f32, [1])}, {"s": ints()}, {}),
    "Flatten 2": ("Flatten", X3, {}, {"axis": 2}), "Squeeze 1": ("Squeeze", {"x": (f32, [3, 1, 4, 1])}, {"a": ints(-1)}, {}),
    "Unsqueeze": ("Unsqueeze", X, {"a": ints(0, -1)}, {}), "Transpose perm": ("Transpose", X3, {}, {"perm": [1, 2, 0]}),
    "Expand": ("Expand", {"x": (f32, [3, 1])}, {"s": ints(2, 1, 4)}, {}), "Concat": ("Concat", {"x": (f32, [3, 4]), "y": (f32, [3, 2])}, {}, {"axis": -1}),
    "Slice": ("Slice", X3, {"b": ints(-2, 1), "e": ints(9999, -1), "a": ints(1, 2), "s": ints(1, 2)}, {}),
    "Slice backwards": ("Slice", X3, {"b": ints(-1), "e": ints(-9999), "a": ints(2), "s": ints(-1)}, {}),
    "Split": ("Split", X3, {"s": ints(1, 3)}, {"axis": 2}, 2), "Split evenly": ("Split", X3, {}, {"axis": 1, "num_outputs": 2}, 2),
    "Tile": ("Tile", X, {"r": ints(2, 3)}, {}), "Pad": ("Pad", X, {"p": ints(1, 0, 0, 2)}, {}),
    "Pad value": ("Pad", X, {"p": ints(0, 2, 1, 1), "v": torch.tensor(7.0)}, {}),
    "Shape part": ("Shape", X3, {}, {"start": -2, "end": 3}),
    "Trilu": ("Trilu", X, {}, {}), "Trilu lower": ("Trilu", X, {"k": torch.tensor(1)}, {"upper": 0}), "EyeLike": ("EyeLike", X, {}, {"k": 1}),
    "Gather": ("Gather", {"x": (f32, [5, 4])}, {"i": torch.tensor([[0, 2], [4, 1]])}, {}),
    "Gather scalar": ("Gather", X3, {"i": torch.tensor(-1)}, {"axis": 1}), "Gather places": ("Gather", X3, {"i": ints(3, 0, -2)}, {"axis": 2}),
    "Gather rows of rank 3": ("Gather", X3, {"i": ints(1, 0, 1)}, {}),
    "GatherElements": ("GatherElements", X, {"i": torch.tensor([[0], [3], [1]])}, {"axis": 1}),
    "GatherElements from the end": ("GatherElements", X, {"i": torch.tensor([[-1], [2], [-4]])}, {"axis": 1}),
    "GatherND": ("GatherND", X, {"i": torch.tensor([[0, 1], [1, 2], [2, 3]])[:, :1]}, {}),
    "ScatterND of rows": ("ScatterND", {"x": (f32, [5, 4])}, {"i": ints(3, 1).reshape(2, 1).flip(0), "u": torch.rand(2, 4)}, {}),
    "ScatterElements": ("ScatterElements", X3, {"i": torch.tensor([0, 2]).reshape(1, 2, 1).expand(2, 2, 4), "u": torch.rand(2, 2, 4)}, {"axis": 1}),
    "ScatterElements in a corner": ("ScatterElements", X3, {"i": torch.full((1, 2, 1), -1), "u": torch.rand(1, 2, 1)}, {"axis": -1}),
    "ScatterND in between": ("ScatterND", X3, {"i": torch.tensor([[[1, 0], [1, 2]]]), "u": torch.rand(1, 2, 4)}, {}),
    "MatMul": ("MatMul", {"x": (f32, [2, 3, 4]), "y": (f32, [4, 5])}, {}, {}),
    "MatMul batched": ("MatMul", {"x": (f32, [2, 3, 4]), "y": (f32, [2, 4, 5])}, {}, {}),
    "MatMul broadcast": ("MatMul", {"x": (f32, [2, 1, 3, 4]), "y": (f32, [5, 4, 2])}, {}, {}),
    "MatMul vector": ("MatMul", {"x": (f32, [4]), "y": (f32, [4, 5])}, {}, {}),
    "Einsum": ("Einsum", {"x": (f32, [2, 3, 4]), "y": (f32, [2, 5, 4])}, {}, {"equation": "bij,bkj->bki"}),
    "Einsum of three": ("Einsum", {"x": (f32, [3, 4]), "y": (f32, [2, 4, 5]), "z": (f32, [3, 5])}, {}, {"equation": "bi, oij, bj -> bo"}),
    "Conv of patches": ("Conv", {"x": (f32, [2, 3, 9, 8]), "w": (f32, [5, 3, 4, 2]), "b": (f32, [5])}, {}, {"strides": [4, 2]}),
    "Gemm": ("Gemm", {"a": (f32, [3, 4]), "b": (f32, [4, 5]), "c": (f32, [5])}, {}, {}),
    "Gemm transposed": ("Gemm", {"a": (f32, [4, 3]), "b": (f32, [5, 4]), "c": (f32, [3, 1])}, {}, {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0}),
    **{f"{op}": (op, X3, {"a": ints(-1, 0)}, {}) for op in ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
                                                            "ReduceSumSquare", "ReduceLogSumExp", "ReduceLogSum"]},
    **{f"{op} of no elements": (op, {"x": (f32, [2, 0, 4])}, {"a": ints(1)}, {}) for op in
       ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp", "ReduceLogSum"]},
    "ReduceProd of no integers": ("ReduceProd", {"x": (i64, [2, 0, 4])}, {"a": ints(1)}, {"keepdims": 0}),
    "ReduceProd of two empty dims": ("ReduceProd", {"x": (f32, [2, 0, 0])}, {"a": ints(2, 1)}, {}),
    "ReduceLogSumExp of one": ("ReduceLogSumExp", X3, {}, {"axes": [1], "keepdims": 0}, 1, 13),
    "ReduceMean of all": ("ReduceMean", X3, {}, {"keepdims": 0}), "ReduceSum of none": ("ReduceSum", X3, {}, {"noop_with_empty_axes": 1}),
    "ReduceMean by attribute": ("ReduceMean", X3, {}, {"axes": [1], "keepdims": 0}, 1, 13),
    **{f"CumSum {exclusive} {reverse}": ("CumSum", X3, {"a": torch.tensor(-1)}, {"exclusive": exclusive, "reverse": reverse})
       for exclusive in (0, 1) for reverse in (0, 1)},
    "CumSum of integers": ("CumSum", {"x": (i64, [7, 3])}, {"a": torch.tensor(0)}, {"exclusive": 1}),
    "CumSum of one": ("CumSum", {"x": (f32, [3, 1])}, {"a": torch.tensor(1)}, {"exclusive": 1}),
    **{f"TopK {largest}": ("TopK", {"x": (i64, [3, 9])}, {"k": ints(4)}, {"largest": largest}, 2) for largest in (0, 1)},
    "TopK of an axis": ("TopK", X3, {"k": ints(2)}, {"axis": 1, "sorted": 0}, 2),
    "ArgMax": ("ArgMax", X, {}, {"axis": 1}), "ArgMin": ("ArgMin", X, {}, {"axis": 0, "keepdims": 0}),
    "LayerNormalization": ("LayerNormalization", {"x": (f32, [2, 3, 4]), "w": (f32, [4]), "b": (f32, [4])}, {}, {}),
    "LayerNormalization over two": ("LayerNormalization", {"x": (f32, [2, 3, 4]), "w": (f32, [3, 4])}, {}, {"axis": 1, "epsilon": 1e-3}),
    "RMSNormalization": ("RMSNormalization", {"x": (f32, [2, 3, 4]), "w": (f32, [4])}, {}, {}, 1, 23),
    "BatchNormalization": ("BatchNormalization", {"x": (f32, [2, 3, 4])},
                           {"s": torch.rand(3), "b": torch.rand(3), "m": torch.rand(3), "v": torch.rand(3) + 1}, {}),
    "InstanceNormalization": ("InstanceNormalization", {"x": (f32, [2, 3, 4, 5]), "w": (f32, [3]), "b": (f32, [3])}, {}, {"epsilon": 1e-3}),
    "GroupNormalization by group": ("GroupNormalization", {"x": (f32, [2, 6, 4]), "w": (f32, [3]), "b": (f32, [3])}, {}, {"num_groups": 3}, 1, 18),
    "GroupNormalization by channel": ("GroupNormalization", {"x": (f32, [2, 6, 4, 3]), "w": (f32, [6]), "b": (f32, [6])}, {}, {"num_groups": 2}, 1, 21),
    **IMAGES,
    "Softmax axis": ("Softmax", X3, {}, {"axis": 1}), "LogSoftmax axis": ("LogSoftmax", X3, {}, {"axis": 0}),
    "SoftmaxCrossEntropyLoss": ("SoftmaxCrossEntropyLoss", {"x": (f32, [3, 4])}, {"l": ints(1, 3, 0)}, {}),
    "SoftmaxCrossEntropyLoss ignoring": ("SoftmaxCrossEntropyLoss", {"x": (f32, [3, 4])}, {"l": ints(1, -100, 0), "w": torch.rand(4)}, {"ignore_index": -100}),
    "SoftmaxCrossEntropyLoss of rows": ("SoftmaxCrossEntropyLoss", {"x": (f32, [2, 4, 3])}, {"l": torch.tensor([[1, 3, 0], [2, 2, 1]])}, {"reduction": "none"}),
    "SoftmaxCrossEntropyLoss sum": ("SoftmaxCrossEntropyLoss", {"x": (f32, [3, 4])}, {"l": ints(1, 3, 0)}, {"reduction": "sum"}, 2),
    "Attention": ("Attention", {n: (f32, [2, 4, 3, 8]) for n in "qkv"}, {}, {"is_causal": 1}, 1, 23),
    "Attention of groups": ("Attention", {"q": (f32, [2, 3, 32]), "k": (f32, [2, 3, 16]), "v": (f32, [2, 3, 16])}, {},
                            {"q_num_heads": 4, "kv_num_heads": 2, "scale": 0.3}, 1, 23),
    "Attention masked": ("Attention", {**{n: (f32, [2, 4, 3, 8]) for n in "qkv"}, "m": (f32, [3, 3])}, {}, {}, 1, 23),
    "RotaryEmbedding": ("RotaryEmbedding", {"x": (f32, [2, 4, 3, 8]), "c": (f32, [10, 4]), "s": (f32, [10, 4])},
                        {"p": torch.tensor([[0, 1, 2], [5, 6, 7]])}, {}, 1, 23),
    "RotaryEmbedding interleaved": ("RotaryEmbedding", {"x": (f32, [2, 3, 32]), "c": (f32, [2, 3, 2]), "s": (f32, [2, 3, 2])}, {},
                                    {"interleaved": 1, "num_heads": 4, "rotary_embedding_dim": 4}, 1, 23),
}  # fmt: skip


@pytest.mark.parametrize("case", OPS)
def test_op_means_what_onnx_says(tmp_path, case):
    op, inputs, initializers, attributes, outputs, opset = (*OPS[case], *(1, 20)[len(OPS[case]) - 4 :])
    names = [f"out{i}" for i in range(outputs)]
    node = helper.make_node(op, [name.strip() for name in (*inputs, *initializers)], names, **attributes)
    # Constants are nodes, since a floating-point initializer would become a variable.
    constants = [helper.make_node("Constant", [], [n], value=onnx_models.constant(n, t)) for n, t in initializers.items() if t is not None]
    model = onnx_models.graph([*constants, node], inputs, names, opset=opset)
    check(tmp_path, model, {n: draw(*what, seed=i) for i, (n, what) in enumerate(inputs.items())})


def test_functions_of_bounded_domains(tmp_path):
    """acosh is not tested near 1, where its slope is infinite and implementations differ."""
    nodes = [helper.make_node("Asin", ["x"], ["a"]), helper.make_node("Acos", ["x"], ["b"]), helper.make_node("Atanh", ["x"], ["c"]),
             helper.make_node("Cosh", ["x"], ["d"]), helper.make_node("Add", ["d", "d"], ["twice"]),
             helper.make_node("Acosh", ["twice"], ["e"])]  # fmt: skip
    x = torch.linspace(-0.95, 0.95, 12).reshape(3, 4)
    check(tmp_path, onnx_models.graph(nodes, X, list("abcde")), {"x": x})


def test_ops_that_take_logarithms_and_roots(tmp_path):
    nodes = [
        helper.make_node("Log", ["x"], ["a"]), helper.make_node("Sqrt", ["x"], ["b"]), helper.make_node("Reciprocal", ["b"], ["c"]),
        helper.make_node("Pow", ["x", "x"], ["d"]), helper.make_node("Exp", ["x"], ["e0"]),
        helper.make_node("Constant", [], ["one"], value_float=1.0), helper.make_node("Add", ["e0", "one"], ["e1"]), helper.make_node("Log", ["e1"], ["e"]),
    ]  # fmt: skip
    check(tmp_path, onnx_models.graph(nodes, X, ["a", "b", "c", "d", "e"]), {"x": torch.rand(3, 4) + 0.1})


def test_swish(tmp_path):
    """The reference evaluator has no opset 24."""
    path = tmp_path / "swish.onnx"
    onnx_models.graph([helper.make_node("Swish", ["x"], ["y"], alpha=2.0)], X, ["y"], opset=24, path=path)
    run([tools_folder() / "ps-translate", "--import-onnx", path, "-o", "model.mlir"], tmp_path)
    x = draw(f32, [3, 4], 0)
    save_file({"x": x}, tmp_path / "in.safetensors")
    run([tools_folder() / "ps-run", "model.mlir", "--entry", "forward", "--inputs", "in.safetensors", "--outputs", "out.safetensors"], tmp_path)
    assert torch.allclose(load_file(tmp_path / "out.safetensors")["y"], x * torch.sigmoid(2 * x), rtol=1e-6)


def test_sequences_ranges_and_running_sums(tmp_path):
    ints_of = lambda name, *values: helper.make_node("Constant", [], [name], value_ints=list(values))  # noqa: E731
    one = lambda name, number: helper.make_node("Constant", [], [name], value=onnx_models.constant(name, torch.tensor(number)))  # noqa: E731
    nodes = [
        ints_of("parts", 1, 3), helper.make_node("SplitToSequence", ["x", "parts"], ["s"], axis=1), one("at", -1),
        helper.make_node("SequenceAt", ["s", "at"], ["a"]), helper.make_node("ConcatFromSequence", ["s"], ["b"], axis=-1),
        helper.make_node("SequenceConstruct", ["x", "x"], ["t"]), helper.make_node("ConcatFromSequence", ["t"], ["c"], axis=0, new_axis=1),
        one("start", 2), one("end", 9), one("step", 3), helper.make_node("Range", ["start", "end", "step"], ["d"]),
        one("axis", 0), helper.make_node("CumSum", ["d", "axis"], ["e"]),
        ints_of("shape", 2, 3), helper.make_node("ConstantOfShape", ["shape"], ["f"], value=onnx_models.constant("v", torch.tensor([7]))),
    ]  # fmt: skip
    check(tmp_path, onnx_models.graph(nodes, X, list("abcdef")), {"x": draw(f32, [3, 4], 0)})


def count_from_0(folder, limit, step):
    one = lambda name, number: helper.make_node("Constant", [], [name], value=onnx_models.constant(name, torch.tensor(number)))  # noqa: E731
    nodes = [one("start", 0), one("end", limit), one("step", step), helper.make_node("Range", ["start", "end", "step"], ["r"]),
             helper.make_node("ReduceMax", ["r"], ["y"], keepdims=0)]  # fmt: skip
    return onnx_models.graph(nodes, X, ["y"], path=folder / "range.onnx")


def test_ranges_of_many_elements_and_of_none(tmp_path):
    count_from_0(tmp_path, 2**31, 1)
    run([tools_folder() / "ps-translate", "--import-onnx", tmp_path / "range.onnx", "-o", tmp_path / "range.mlir"], tmp_path)
    assert "tensor<2147483648xi64>" in (tmp_path / "range.mlir").read_text()
    count_from_0(tmp_path, 4, 0)
    onnx_models.refuse(tmp_path, tmp_path / "range.onnx", "'Range' counts from 0", "a step other than 0")


def test_functions_are_inlined(tmp_path):
    """A function that calls another function, with given and with default attributes."""
    scaled = helper.make_function(
        "local", "Scaled", ["x"], ["y"],
        [helper.make_node("Elu", ["x"], ["z"]), helper.make_node("Add", ["z", "x"], ["y"])], [helper.make_opsetid("", 20)], ["alpha"],
    )  # fmt: skip
    attribute = helper.make_attribute("alpha", 0.0)
    attribute.ref_attr_name = "alpha"
    attribute.ClearField("f")
    scaled.node[0].attribute.append(attribute)
    twice = helper.make_function(
        "local", "Twice", ["x"], ["y"],
        [helper.make_node("Scaled", ["x"], ["z"], domain="local", alpha=0.5), helper.make_node("Scaled", ["z"], ["y"], domain="local", alpha=3.0)],
        [helper.make_opsetid("", 20), helper.make_opsetid("local", 1)],
    )  # fmt: skip
    model = onnx_models.graph([helper.make_node("Twice", ["x"], ["y"], domain="local")], X, ["y"], functions=[scaled, twice], domains=["local"])
    x = draw(f32, [3, 4], 0)
    once = torch.nn.functional.elu(x, 0.5) + x
    check(tmp_path, model, {"x": x}, [torch.nn.functional.elu(once, 3.0) + once])  # the reference cannot run it


def test_blocks_in_both_orders(tmp_path):
    """Tests both orders of channels and blocks. ONNX's reference evaluator does not support them in both directions."""
    inputs = {"x": (f32, [2, 3, 4, 6])}
    nodes = [helper.make_node("SpaceToDepth", ["x"], ["y"], blocksize=2, mode="CRD"),
             helper.make_node("DepthToSpace", ["y"], ["z"], blocksize=2, mode="CRD")]  # fmt: skip
    x = draw(f32, [2, 3, 4, 6], 0)
    check(tmp_path, onnx_models.graph(nodes, inputs, ["y", "z"]), {"x": x}, [torch.nn.functional.pixel_unshuffle(x, 2), x])


def test_cut_by_padding(tmp_path):
    """Pads by a negative amount, which ONNX's reference evaluator does not support."""
    pads = helper.make_node("Constant", [], ["p"], value_ints=[0, -1, 1, 1])
    model = onnx_models.graph([pads, helper.make_node("Pad", ["x", "p"], ["y"])], X, ["y"])
    x = draw(f32, [3, 4], 0)
    check(tmp_path, model, {"x": x}, [torch.nn.functional.pad(x, (-1, 1, 0, 1))])


def test_a_function_that_calls_itself_is_refused(tmp_path):
    again = helper.make_function("local", "Again", ["x"], ["y"], [helper.make_node("Again", ["x"], ["y"], domain="local")], [helper.make_opsetid("local", 1)])
    path = tmp_path / "again.onnx"
    onnx_models.graph([helper.make_node("Again", ["x"], ["y"], domain="local")], X, ["y"], functions=[again], domains=["local"], path=path)
    onnx_models.refuse(tmp_path, path, "calls itself")


# ---- If nodes ---------------------------------------------------------------------------------


def branch(*nodes, initializers=()):
    """Returns a subgraph without inputs, which may use values of the outer graph. Its outputs are the results of the last node."""
    outputs = [helper.make_empty_tensor_value_info(name) for name in nodes[-1].output]
    return helper.make_graph(list(nodes), "branch", [], outputs, [onnx_models.constant(n, t) for n, t in dict(initializers).items()])


def by_rows(then, otherwise, results):
    """Returns the nodes of an `If` whose condition is that x has more than 2 rows."""
    return [
        helper.make_node("Shape", ["x"], ["rows"], start=0, end=1), helper.make_node("Constant", [], ["two"], value_ints=[2]),
        helper.make_node("Greater", ["rows", "two"], ["many"]), helper.make_node("Squeeze", ["many"], ["condition"]),
        helper.make_node("If", ["condition"], results, then_branch=then, else_branch=otherwise),
    ]  # fmt: skip


@pytest.mark.parametrize("rows", [2, 3])
def test_a_known_condition_chooses_its_branch(tmp_path, rows):
    """Nested branches use values of outer graphs and their own values. A branch that is not chosen may contain unsupported ops."""
    inner = branch(helper.make_node("Add", ["z", "c"], ["y0"]), initializers={"c": torch.arange(4.0)})
    unknown = branch(helper.make_node("Unknown", ["z"], ["y1"], domain="com.example"))
    truth = helper.make_node("Constant", [], ["truth"], value=onnx_models.constant("truth", torch.tensor(True)))
    then = branch(truth, helper.make_node("If", ["truth"], ["y2"], then_branch=inner, else_branch=unknown))
    otherwise = branch(helper.make_node("Neg", ["w"], ["y3"]))
    nodes = [helper.make_node("Exp", ["x"], ["z"]), helper.make_node("Sin", ["x"], ["w"]), *by_rows(then, otherwise, ["y"])]
    model = onnx_models.graph(nodes, {"x": (f32, [rows, 4])}, ["y"], domains=["com.example"])
    x = draw(f32, [rows, 4], 0)
    check(tmp_path, model, {"x": x}, [x.exp() + torch.arange(4.0) if rows > 2 else -x.sin()])


def test_choices_and_loops_that_are_refused(tmp_path):
    path = tmp_path / "choice.onnx"
    negative, fancy = branch(helper.make_node("Neg", ["x"], ["y0"])), branch(helper.make_node("Fancy", ["x"], ["y1"], domain="com.example"))
    first = [helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0), helper.make_node("Cast", ["most"], ["condition"], to=TensorProto.BOOL)]
    onnx_models.graph([*first, helper.make_node("If", ["condition"], ["y"], then_branch=negative, else_branch=fancy)], X, ["y"], path=path)
    onnx_models.refuse(tmp_path, path, "'If'", "condition that depends on inputs", "known at import")
    onnx_models.graph(by_rows(fancy, negative, ["y"]), X, ["y"], path=path, domains=["com.example"])
    onnx_models.refuse(tmp_path, path, "'If'", "com.example.Fancy: 1 use")
    onnx_models.graph(by_rows(negative, negative, ["y", "z"]), X, ["y", "z"], path=path)
    onnx_models.refuse(tmp_path, path, "'If'", "no 'then_branch' with 2 results")
    body = helper.make_graph([helper.make_node("Neg", ["a"], ["b"])], "body", [onnx_models.value("a", f32, [4])], [helper.make_empty_tensor_value_info("b")])
    scan = helper.make_node("Scan", ["x"], ["y"], body=body, num_scan_inputs=1)
    loop = helper.make_node("Loop", ["", ""], ["z"], body=body)
    onnx_models.graph([scan, loop], X, ["y", "z"], path=path)
    onnx_models.refuse(tmp_path, path, "2 ops of the model", "Loop: 1 use", "Scan: 1 use")


# ---- attributes and fields that are not read --------------------------------------------------------------------------------------------

QKV = {name: (f32, [1, 1, 5, 4]) for name in "qkv"}


@pytest.mark.parametrize(
    "node,inputs,words",
    [
        (("Relu", ["x"], {"alpha": 0.5}), X, ["'Relu' has the attribute 'alpha' = 5.0", "export the model without it"]),
        (("ReduceSum", ["x"], {"axes": [0], "no": "yes"}), X, ["the attribute 'no' = 'yes'"]),
        (("Constant", [], {"value_ints": [1], "value_floats": [2.0, 3.0]}), X, ["'value_floats' = [2.0"]),
        (("Concat", ["x", "x"], {"axis": 1.0}), X, ["'axis' of kind float; expected integer"]),
        (("LayerNormalization", ["x", "x"], {"stash_type": 10}), X, ["float16", "stash_type = 1"]),
        (("Gelu", ["x"], {"approximate": "tan"}), X, ["the approximation 'tan'", "none or tanh"]),
        (("Attention", ["q", "k", "v"], {"softmax_precision": 11}), QKV, ["its softmax in float64"]),
        (("Attention", ["q", "k", "v"], {"left_window_size": -2}), QKV, ["-2 keys to the left"]),
        (("Add", ["x", "x", "x"], {}), X, ["has an input 2, 'x'"]),
    ],
)
def test_what_no_converter_reads_is_an_error(tmp_path, node, inputs, words):
    op, operands, attributes = node
    node = helper.make_node(op, operands, ["y"], name="the node", **attributes)
    onnx_models.graph([node], inputs, ["y"], path=tmp_path / "unread.onnx", opset=25)
    onnx_models.refuse(tmp_path, tmp_path / "unread.onnx", *words, "the node")


@pytest.mark.parametrize(
    "change,words",
    [
        (lambda m: m.graph.node[0].output.append("z"), ["'Add' has a result 1, 'z', which this op does not define"]),
        (lambda m: m.graph.output.append(m.graph.output[0]), ["two outputs of the model are named 'y'"]),
        (lambda m: m.graph.output[0].CopyFrom(onnx_models.value("y", i64, [3, 4])), ["declares 'y' as int64 [3, 4]", "tensor<3x4xf32>"]),
        (lambda m: m.graph.value_info.append(onnx_models.value("y", f32, [3])), ["declares 'y' as float32 [3]"]),
        (lambda m: m.graph.initializer[0].segment.SetInParent(), ["the field 'segment' (3) of the tensor 'w'"]),
        (lambda m: m.training_info.add(), ["the field 'training_info' (20) of the model"]),
        (lambda m: m.graph.quantization_annotation.add(), ["'quantization_annotation' (14) of the graph 'test'"]),
        (lambda m: m.graph.node[0].attribute.add(name="a").sparse_tensor.SetInParent(), ["'sparse_tensor' (22)", "'a' of 'Add'"]),
        (lambda m: m.MergeFromString(b"\xf8\x07\x01"), ["the field (127) of the model"]),
    ],
)
def test_what_the_importer_does_not_read_is_refused(tmp_path, change, words):
    """Unknown fields, undefined results, and declared types that differ from the graph are refused."""
    model = onnx_models.graph([helper.make_node("Add", ["x", "w"], ["y"])], X, ["y"], {"w": torch.ones(4)})
    change(model)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    onnx_models.refuse(tmp_path, tmp_path / "m.onnx", *words)


def test_sizes_that_the_file_declares_otherwise(tmp_path):
    """Some exporters declare fixed sizes for values although the dim of the input is dynamic."""
    model = onnx_models.graph([helper.make_node("Neg", ["x"], ["y"])], X, ["y"])
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    model.graph.output[0].CopyFrom(onnx_models.value("y", f32, [3, 4]))
    onnx.save(model, str(tmp_path / "m.onnx"))
    check = [tools_folder() / "ps-translate", "--import-onnx", tmp_path / "m.onnx", "--check", "--dim"]
    assert "warning" not in run([*check, "batch=3"], tmp_path)
    assert "'y' as float32 [3, 4], and the graph computes 'tensor<5x4xf32>'" in run([*check, "batch=5"], tmp_path)


def test_neutral_attributes_are_not_errors(tmp_path):
    """Exporters write attributes that have no effect on the import, and attributes with neutral values."""
    nodes = [
        helper.make_node("LayerNormalization", ["x", "s"], ["a"], stash_type=1), helper.make_node("Cast", ["a"], ["b"], to=TensorProto.FLOAT, saturate=0),
        helper.make_node("ReduceMean", ["b", "axes"], ["c"], noop_with_empty_axes=0), helper.make_node("Dropout", ["c"], ["d"], seed=3),
        helper.make_node("MaxPool", ["image"], ["e"], kernel_shape=[2, 2], storage_order=1, ceil_mode=1, auto_pad="VALID"),
        helper.make_node("Attention", ["image", "image", "image"], ["f"], qk_matmul_output_mode=0, softcap=0.0, softmax_precision=1,
                         left_window_size=-1, right_window_size=-1),
    ]  # fmt: skip
    onnx_models.graph(nodes, {**X, "image": (f32, [1, 1, 4, 4])}, ["d", "e", "f"], {"s": torch.ones(4), "axes": ints(1)}, 25, path=tmp_path / "m.onnx")
    run([tools_folder() / "ps-translate", "--import-onnx", tmp_path / "m.onnx", "--check"], tmp_path)


def attend(q, k, v, seen):
    scores = (q @ k.transpose(2, 3) / 2).masked_fill(~seen, -torch.inf)
    return torch.nan_to_num(scores.softmax(3)) @ v


@pytest.mark.parametrize("left,right,causal,keys", [(1, 0, 0, 5), (2, 1, 0, 7), (0, -1, 0, 5), (2, -1, 1, 7), (-1, 1, 1, 5)])
def test_windows_of_attention(tmp_path, left, right, causal, keys):
    inputs = {"q": (f32, [2, 3, 5, 4]), "k": (f32, [2, 3, keys, 4]), "v": (f32, [2, 3, keys, 4])}
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"], left_window_size=left, right_window_size=right, is_causal=causal)
    row, column = torch.arange(5)[:, None], torch.arange(keys)
    right = 0 if causal else right
    seen = (column >= row - left if left >= 0 else True) & (column <= row + right if right >= 0 else torch.ones(5, keys).bool())
    drawn = {name: draw(dtype, shape, i) for i, (name, (dtype, shape)) in enumerate(inputs.items())}
    check(tmp_path, onnx_models.graph([node], inputs, ["y"], opset=25), drawn, [attend(*drawn.values(), seen)])


def test_windows_and_masks_of_attention(tmp_path):
    """Tests a bool mask and an additive mask, each with a window."""
    inputs = {**{name: (f32, [2, 3, 5, 4]) for name in "qkv"}, "b": (bool_, [5, 5]), "m": (f32, [5, 5])}
    nodes = [helper.make_node("Attention", ["q", "k", "v", mask], [f"y{mask}"], left_window_size=2, is_causal=1) for mask in "bm"]
    row, column = torch.arange(5)[:, None], torch.arange(5)
    drawn = {name: draw(dtype, shape, i) for i, (name, (dtype, shape)) in enumerate(inputs.items())}
    drawn["m"] = torch.where(drawn["m"] > 0, 0.0, -torch.inf)
    q, k, v, b, m = drawn.values()
    window = (column <= row) & (column >= row - 2)
    expected = [attend(q, k, v, window & b), attend(q, k, v, window & (m == 0))]
    check(tmp_path, onnx_models.graph(nodes, inputs, ["yb", "ym"], opset=25), drawn, expected)


def test_values_have_names_of_their_own(tmp_path):
    path = tmp_path / "twice.onnx"
    twice = [helper.make_node("Neg", ["x"], ["y"], name="first"), helper.make_node("Exp", ["x"], ["y"], name="second")]
    onnx_models.graph(twice, X, ["y"], path=path)
    onnx_models.refuse(tmp_path, path, "'Exp' defines 'y'", "already defined (node 'second')", "a unique name")
    onnx_models.graph([helper.make_node("Neg", ["x"], ["w"])], X, ["w"], {"w": torch.ones(3)}, path=path)
    onnx_models.refuse(tmp_path, path, "'Neg' defines 'w'")
    onnx_models.graph(by_rows(branch(*twice), branch(*twice), ["z"]), X, ["z"], path=path)
    onnx_models.refuse(tmp_path, path, "'Exp' defines 'y'")


def test_branches_have_names_of_their_own(tmp_path):
    """Two `If` nodes whose branches use the same name as a value of the outer graph."""
    then, otherwise = branch(helper.make_node("Neg", ["x"], ["t"])), branch(helper.make_node("Exp", ["x"], ["t"]))
    nodes = [helper.make_node("Sin", ["x"], ["t"]), *by_rows(then, otherwise, ["a"]),
             helper.make_node("If", ["condition"], ["b"], then_branch=otherwise, else_branch=then),
             helper.make_node("Add", ["a", "b"], ["c"]), helper.make_node("Add", ["c", "t"], ["y"])]  # fmt: skip
    x = draw(f32, [3, 4], 0)
    check(tmp_path, onnx_models.graph(nodes, X, ["y"]), {"x": x}, [-x + x.exp() + x.sin()])


# ---- files that are refused ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mlp(tmp_path_factory):
    return models.mlp().export_onnx(tmp_path_factory.mktemp("mlp") / "mlp.onnx").read_bytes()


@pytest.mark.parametrize("kept", [0, 1, 3, 40, 0.1, 0.5, 0.9, -200, -30, -1])
def test_truncated_file(tmp_path, mlp, kept):
    path = tmp_path / "cut.onnx"
    path.write_bytes(mlp[: int(len(mlp) * kept) if isinstance(kept, float) else kept])
    onnx_models.refuse(tmp_path, path, "cut.onnx", "export")


def test_foreign_file(tmp_path):
    path = tmp_path / "notes.onnx"
    path.write_text("not a model")
    onnx_models.refuse(tmp_path, path, "notes.onnx", "not an ONNX model")


def test_damage_never_crashes(tmp_path, mlp):
    """After random changes of bytes (with a fixed seed), the exit status is 0 or 1; no signal ends the tool."""
    generator = np.random.default_rng(0)
    for _ in range(60):
        content = bytearray(mlp)
        for at in generator.integers(0, len(content), generator.integers(1, 6)):
            content[at] = generator.integers(0, 256)
        path = tmp_path / "damaged.onnx"
        path.write_bytes(content)
        status = os.spawnv(os.P_WAIT, str(tools_folder() / "ps-translate"), ["ps-translate", "--import-onnx", str(path), "-o", "/dev/null.mlir", "--check"])
        assert status in (0, 1, 2)


def test_graphs_that_make_no_sense_never_crash(tmp_path):
    """After random exchanges of attributes, operands, ops and sizes, the tool prints a message; no signal ends it."""
    whole = onnx.load(str(models.gpt().export_onnx(tmp_path / "gpt.onnx")))
    draws = random.Random(0)
    numbers = [-1, -2, -100, 0, 1, 2, 5, 100, 2**31, 2**62, -(2**62)]
    for _ in range(40):
        model = onnx.ModelProto()
        model.CopyFrom(whole)
        names = [name for node in model.graph.node for name in node.output] + [t.name for t in model.graph.initializer]
        for _ in range(draws.randint(1, 4)):
            node, kind = draws.choice(model.graph.node), draws.choice(["attribute", "operand", "op", "size"])
            if kind == "attribute" and node.attribute:
                attribute = draws.choice(node.attribute)
                if attribute.ints:
                    attribute.ints[draws.randrange(len(attribute.ints))] = draws.choice(numbers)
                elif attribute.type == onnx.AttributeProto.INT:
                    attribute.i = draws.choice(numbers)
            elif kind == "operand" and node.input:
                node.input[draws.randrange(len(node.input))] = draws.choice(names)
            elif kind == "op":
                node.op_type = draws.choice(model.graph.node).op_type
            elif kind == "size":
                draws.choice(model.graph.input).type.tensor_type.shape.dim[0].dim_value = draws.choice(numbers)
        path = tmp_path / "mixed.onnx"
        path.write_bytes(model.SerializeToString())
        done = subprocess.run([tools_folder() / "ps-translate", "--import-onnx", path, "--check"], capture_output=True, timeout=60)
        assert done.returncode in (0, 1), done.stderr[-2000:]


@pytest.mark.parametrize("opset", [12, 26])
def test_opset_out_of_range(tmp_path, opset):
    path = tmp_path / "old.onnx"
    onnx_models.graph([helper.make_node("Relu", ["x"], ["y"])], X, ["y"], opset=opset, path=path)
    onnx_models.refuse(tmp_path, path, f"opset {opset}", "13 to 25")


def external(folder, location, offset=0, length=48, more=()):
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3, 4], data_location=TensorProto.EXTERNAL)
    for key, value in [("location", location), ("offset", offset), ("length", length), *more]:
        tensor.external_data.add(key=key, value=str(value))
    model = onnx_models.graph([helper.make_node("Add", ["x", "w"], ["y"])], X, ["y"])
    model.graph.initializer.append(tensor)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return folder / "model.onnx"


def test_external_data_that_is_refused(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(48))
    (folder / "short.bin").write_bytes(bytes(40))
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    onnx_models.refuse(folder, external(folder, "missing.bin"), "missing.bin", "does not exist")
    onnx_models.refuse(folder, external(folder, "short.bin\0x", 0, 40), "NUL byte", "its data")
    onnx_models.refuse(folder, external(folder, "short.bin", 0, 40, [("colour", "blue")]), "'colour' of its external data", "not supported")
    onnx_models.refuse(folder, external(folder, "short.bin", 0, 40, [("offset", 4)]), "'offset' of its external data twice")
    found = hashlib.sha1(bytes(40)).hexdigest()
    onnx_models.refuse(folder, external(folder, "short.bin", 0, 40, [("checksum", "0" * 40)]), "checksum (SHA-1)", found, "copy the file again")
    onnx_models.refuse(folder, external(folder, "../secret.bin"), "outside the model's folder")
    onnx_models.refuse(folder, external(folder, str(tmp_path / "secret.bin")), "outside the model's folder")
    onnx_models.refuse(folder, external(folder, "link.bin"), "a link to a file outside the model's folder")
    onnx_models.refuse(folder, external(folder, "short.bin"), "short.bin", "truncated")
    onnx_models.refuse(folder, external(folder, "short.bin", 2**64 - 8, 48), "truncated")
    onnx_models.refuse(folder, external(folder, "short.bin", 0, 40), "has 40 bytes, but its shape needs 48")
    onnx_models.refuse(folder, external(folder, "short.bin", "many"), "malformed")


def test_tensors_that_are_refused(tmp_path):
    path = tmp_path / "model.onnx"

    def save(**changes):
        tensor = onnx_models.constant("w", torch.zeros(3, 4))
        for name, value in changes.items():
            if name == "dims":
                del tensor.dims[:]
                tensor.dims.extend(value)
            else:
                setattr(tensor, name, value)
        model = onnx_models.graph([helper.make_node("Add", ["x", "w"], ["y"])], X, ["y"])
        model.graph.initializer.append(tensor)
        path.write_bytes(model.SerializeToString())
        return path

    onnx_models.refuse(tmp_path, save(dims=[3, 5]), "'w' has 48 bytes, but its shape needs 60")
    onnx_models.refuse(tmp_path, save(dims=[2**40, 2**40]), "impossible shape")
    onnx_models.refuse(tmp_path, save(dims=[-1, 4]), "impossible shape")
    onnx_models.refuse(tmp_path, save(data_type=TensorProto.COMPLEX64), "complex64", "not supported")
    onnx_models.refuse(tmp_path, save(data_type=TensorProto.UINT16, dims=[24]), "uint16", "not supported")


def test_unsupported_ops_are_listed_at_once(tmp_path):
    """The list has the number of nodes per op and, if torch recorded them, the module and source line."""
    nodes = [helper.make_node("NonZero", ["x"], ["a"]), helper.make_node("Det", ["x"], ["b"]), helper.make_node("NonZero", ["x"], ["c"]),
             helper.make_node("Fancy", ["x"], ["d"], domain="com.example"), helper.make_node("Unique", ["x"], ["unread"])]  # fmt: skip
    for key, value in {"pkg.torch.onnx.name_scopes": "['', 'layers.0', 'det']",
                       "pkg.torch.onnx.stack_trace": 'File "model.py", line 7, in forward\n    x = f(x)'}.items():  # fmt: skip
        nodes[1].metadata_props.add(key=key, value=value)
    path = tmp_path / "model.onnx"
    onnx_models.graph(nodes, X, list("abcd"), path=path, domains=["com.example"])
    said = onnx_models.refuse(tmp_path, path, "3 ops of the model", "NonZero: 2 uses", "Det: 1 use, the first in layers.0 (model.py:7)",
                              "com.example.Fancy: 1 use")
    assert "Unique" not in said


# ---- the list of ops -----------------------------------------------------------------------------------------------

LIST = ROOT / "docs/onnx-ops.md"
HEAD = """\
# Supported ONNX ops

`build/venv/bin/python test/python/test_onnx_ops.py` writes this page from the importer's tables
(`lib/Import/Onnx`). It lists ops of the domain `ai.onnx`, opsets 13 to 25. Functions that the file
defines are inlined. If a model has other ops, the import ends with an error that lists them with
their source lines.

The ONNX format cannot represent stopped gradients and writes of buffers. PyTorch's exporter drops
`detach()`, `torch.no_grad()` and writes of buffers (running averages), and the file does not show
this. A model that uses one of these trains with other gradients, so export it with `torch.export`
instead.

Some ops have limits:

* Shapes, axes, split sizes, pads, repeats and ranges must follow from the dims of the inputs.
* `Gather` takes rows of a table of floats, or constant indices (at most 16 arithmetic
  progressions). `GatherElements` needs an index tensor of size 1 along the gathered dim. `GatherND`
  takes constant progressions, elements of a constant, or rows of a table. Indices from a model
  input must not be negative.
* `Mod` takes integers only. `Pow` of integers takes the exponents 1, 2 and 3. `Pad` pads with a
  constant. `NegativeLogLikelihoodLoss` takes the result of a `LogSoftmax`.
* `TopK` is always sorted. Of equal elements, those with the lowest indices come first.
* `MaxPool` gives values, not indices. `BatchNormalization` uses running statistics, or those of the
  batch without updating the running statistics.
* `Resize` interpolates to the nearest element or linearly, without antialiasing. `Einsum` takes
  floats. `ScatterElements` and `ScatterND` write to constant progressions of indices. Space dims
  are never split over ranks; the batch dim may be.
* `Attention` supports neither past keys and values nor a soft cap. `LayerNormalization` computes
  its statistics in float32.
* The condition of an `If` must be known at import; the chosen branch replaces the op. `Loop` and
  `Scan` are not supported.
* Sequences must have a known length.

If the importer does not use an attribute or an input of a node, the import ends with an error that
names it, unless the attribute or input does not affect the result.

| family | ops |
|---|---|
"""


def listed():
    """Markdown: the ops of each file of converters."""
    lines = []
    for path in sorted((ROOT / "lib/Import/Onnx").glob("Convert?*.cpp")):
        if names := re.findall(r'table\["(\w+)"\] *=', path.read_text()):
            lines.append(f"| {path.stem.removeprefix('Convert').lower()} | {' '.join(f'`{name}`' for name in sorted(names))} |")
    return HEAD + "\n".join(lines) + "\n"


def test_the_list_is_current():
    assert LIST.read_text() == listed()


def test_every_op_of_the_list_is_tested():
    tested = {case[0] for case in OPS.values()} | set(re.findall(r'make_node\("(\w+)"', pathlib.Path(__file__).read_text()))
    assert set(re.findall(r"`(\w+)`", listed().split("|---|")[1])) - tested == {"NegativeLogLikelihoodLoss"}


if __name__ == "__main__":
    LIST.write_text(listed())
    print(f"wrote {LIST}", file=sys.stderr)
