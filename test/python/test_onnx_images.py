"""Ops on images from ONNX: values and gradients equal PyTorch's, and invalid sizes are refused.

A case is a node, its operands, and a PyTorch function. All cases form one model, in which every operand is a parameter and
every case is an output.
"""
import functools

import onnx_models
import oracle
import pytest
import torch
import torch.nn.functional as F
from conftest import tools_folder
from onnx import helper
from oracle import run
from safetensors.torch import load_file, save_file

CASES = {}  # name -> (op, attributes, operands, PyTorch function, further constant inputs)


def case(name, op, function, *shapes, constants=(), **attributes):
    generator = torch.Generator().manual_seed(len(CASES))
    operands = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    CASES[name] = (op, attributes, operands, function, constants)


def pad(x, *amounts):
    return F.pad(x, amounts)


case("conv", "Conv", lambda x, w, b: F.conv2d(x, w, b, (2, 1), (1, 0), (1, 2)), (2, 3, 7, 8), (4, 3, 3, 2), (4,),
     strides=[2, 1], pads=[1, 0, 1, 0], dilations=[1, 2])
case("conv_one_dim", "Conv", lambda x, w: F.conv1d(pad(x, 0, 2), w, stride=2), (2, 3, 9), (4, 3, 3), strides=[2], pads=[0, 2])
case("conv_asymmetric", "Conv", lambda x, w: F.conv2d(pad(x, 1, 3, 2, 0), w, groups=2), (2, 4, 6, 5), (6, 2, 3, 3),
     group=2, pads=[2, 1, 0, 3])
case("conv_far_behind", "Conv", lambda x, w: F.conv2d(pad(x, 0, 4, 0, 5), w, stride=(2, 3)), (1, 2, 4, 4), (3, 2, 2, 1),
     pads=[0, 0, 5, 4], strides=[2, 3])
case("conv_depth", "Conv", lambda x, w: F.conv2d(x, w, stride=2, padding=2, groups=4), (2, 4, 6, 5), (4, 1, 5, 5),
     group=4, pads=[2, 2, 2, 2], strides=[2, 2])
case("conv_same", "Conv", lambda x, w: F.conv2d(pad(x, 1, 1, 1, 2), w), (2, 3, 7, 8), (4, 3, 4, 3), auto_pad="SAME_UPPER")
case("conv_same_below", "Conv", lambda x, w: F.conv2d(pad(x, 1, 0, 2, 1), w), (2, 3, 7, 8), (4, 3, 4, 2), auto_pad="SAME_LOWER")
case("conv_same_strides", "Conv", lambda x, w: F.conv2d(pad(x, 0, 1, 1, 2), w, stride=(2, 3)), (2, 3, 7, 8), (4, 3, 4, 3),
     auto_pad="SAME_UPPER", strides=[2, 3])
case("conv_space_of_three", "Conv", lambda x, w: F.conv3d(x, w, padding=(0, 1, 0)), (2, 2, 3, 4, 5), (3, 2, 2, 3, 2),
     pads=[0, 1, 0, 0, 1, 0])
case("transposed", "ConvTranspose", lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1), (2, 3, 4, 5), (3, 4, 3, 3), (4,),
     strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1])
case("transposed_groups", "ConvTranspose", lambda x, w: F.conv_transpose2d(x, w, stride=(1, 2), groups=2, dilation=2),
     (2, 4, 4, 5), (4, 3, 2, 3), strides=[1, 2], group=2, dilations=[2, 2])
case("transposed_asymmetric", "ConvTranspose", lambda x, w: F.conv_transpose1d(x, w, stride=2)[..., :-4], (2, 3, 4), (3, 2, 2),
     strides=[2], pads=[0, 4])
case("transposed_same", "ConvTranspose", lambda x, w: F.conv_transpose1d(x, w, stride=2)[..., :-1], (2, 3, 4), (3, 2, 3),
     strides=[2], auto_pad="SAME_UPPER")
case("transposed_to_a_shape", "ConvTranspose", lambda x, w: F.conv_transpose2d(x, w, stride=(3, 2))[..., 1:, 1:],
     (1, 2, 3, 3), (2, 2, 3, 4), strides=[3, 2], output_shape=[8, 7], auto_pad="SAME_LOWER", pads=[9, 9, 9, 9])
case("transposed_beyond", "ConvTranspose", lambda x, w: pad(F.conv_transpose1d(x, w, stride=2), 0, 3), (1, 2, 3), (2, 2, 2),
     strides=[2], output_shape=[9], auto_pad="SAME_UPPER")
case("max_pool", "MaxPool", lambda x: F.max_pool2d(x, 3, 2, 1), (2, 3, 4, 6), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
case("max_pool_ceil", "MaxPool", lambda x: F.max_pool2d(x, (2, 3), 2, ceil_mode=True), (2, 3, 5, 8), kernel_shape=[2, 3],
     strides=[2, 2], ceil_mode=1)
case("max_pool_ceil_padded", "MaxPool", lambda x: F.max_pool1d(x, 2, 3, 1, ceil_mode=True), (2, 3, 6), kernel_shape=[2], strides=[3],
     pads=[1, 1], ceil_mode=1)
case("max_pool_dilated", "MaxPool", lambda x: F.max_pool2d(F.pad(x, (0, 1, 1, 0), value=-1e9), 2, 1, 0, 2), (2, 3, 5, 7),
     kernel_shape=[2, 2], dilations=[2, 2], pads=[1, 0, 0, 1])
case("max_pool_same_below", "MaxPool", lambda x: F.max_pool1d(F.pad(x, (1, 0), value=-1e9), 3, 2), (2, 3, 8), kernel_shape=[3], strides=[2],
     auto_pad="SAME_LOWER")
case("average", "AveragePool", lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), (2, 3, 5, 7), kernel_shape=[3, 3],
     strides=[2, 2], pads=[1, 1, 1, 1])
case("average_padded", "AveragePool", lambda x: F.avg_pool2d(pad(x, 0, 1, 1, 2), 3, 2), (2, 3, 5, 7), kernel_shape=[3, 3],
     strides=[2, 2], pads=[1, 0, 2, 1], count_include_pad=1)
case("average_ceil", "AveragePool", lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), (2, 3, 6, 8), kernel_shape=[3, 3],
     strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1, count_include_pad=1)
case("average_tiles", "AveragePool", lambda x: F.avg_pool2d(x, 2), (2, 3, 5, 7), kernel_shape=[2, 2], strides=[2, 2])
case("average_dilated", "AveragePool", lambda x: (x[..., :-2] + x[..., 2:]) / 2, (2, 3, 7), kernel_shape=[2], dilations=[2])
case("global_average", "GlobalAveragePool", lambda x: x.mean((2, 3), keepdim=True), (2, 3, 4, 5))
case("global_max", "GlobalMaxPool", lambda x: F.adaptive_max_pool2d(x, 1), (2, 3, 4, 5))
case("batch_norm", "BatchNormalization", lambda x, w, b: F.batch_norm(x, torch.linspace(-1, 2, 3, dtype=x.dtype), torch.linspace(
    0.5, 3, 3, dtype=x.dtype), w, b, eps=1e-3), (4, 3, 5), (3,), (3,), epsilon=1e-3,
    constants=[torch.linspace(-1, 2, 3), torch.linspace(0.5, 3, 3)])
case("batch_norm_of_batch", "BatchNormalization", lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), (4, 3, 5, 2),
     (3,), (3,), training_mode=1, constants=[torch.zeros(3), torch.ones(3)])
case("instance_norm", "InstanceNormalization", lambda x, w, b: F.instance_norm(x, weight=w, bias=b), (2, 3, 5, 4), (3,), (3,))
case("group_norm", "GroupNormalization", lambda x, w, b: F.group_norm(x, 2, w, b), (2, 4, 5, 3), (4,), (4,), num_groups=2)
case("nearest", "Resize", lambda x: F.interpolate(x, size=(6, 8)), (1, 2, 3, 4), constants=["", "", torch.tensor([1, 2, 6, 8])],
     coordinate_transformation_mode="asymmetric", nearest_mode="floor")
case("nearest_uneven", "Resize", lambda x: F.interpolate(x, size=(7, 3)), (2, 3, 4, 5), constants=["", "", torch.tensor([2, 3, 7, 3])],
     coordinate_transformation_mode="asymmetric", nearest_mode="floor")
case("nearest_by_factor", "Resize", lambda x: F.interpolate(x, scale_factor=2.0), (2, 3, 4), coordinate_transformation_mode="asymmetric",
     nearest_mode="floor", constants=["", torch.tensor([1.0, 1.0, 2.0])])
case("linear", "Resize", lambda x: F.interpolate(x, size=(5, 9), mode="bilinear"), (1, 2, 3, 4), mode="linear",
     coordinate_transformation_mode="pytorch_half_pixel", constants=["", "", torch.tensor([1, 2, 5, 9])])
case("linear_axes", "Resize", lambda x: F.interpolate(x, size=(5, 9), mode="bilinear"), (1, 2, 3, 4), mode="linear", axes=[-2, -1],
     coordinate_transformation_mode="half_pixel", constants=["", "", torch.tensor([5, 9])])
case("linear_corners", "Resize", lambda x: F.interpolate(x, size=(7, 4), mode="bilinear", align_corners=True), (2, 3, 4, 5), mode="linear",
     coordinate_transformation_mode="align_corners", constants=["", "", torch.tensor([2, 3, 7, 4])])
case("depth_to_space", "DepthToSpace", lambda x: F.pixel_shuffle(x, 2), (2, 12, 2, 3), blocksize=2, mode="CRD")
case("space_to_depth", "SpaceToDepth", lambda x: F.pixel_unshuffle(x, 2).reshape(2, 3, 2, 2, 2, 3).permute(0, 2, 3, 1, 4, 5).reshape(
    2, 12, 2, 3), (2, 3, 4, 6), blocksize=2)
case("einsum", "Einsum", lambda x, y: torch.einsum("bhid,bhjd->bhij", x, y), (2, 3, 4, 5), (2, 3, 6, 5), equation="bhid,bhjd->bhij")
case("scatter", "ScatterND", lambda x: torch.cat([x[:1], torch.ones(1, 3), x[2:3], torch.ones(1, 3), x[4:]]), (5, 3),
     constants=[torch.tensor([[1], [3]]), torch.ones(2, 3)])


def weights_of(name, dtype):
    """Returns the weights by which the result of a case is multiplied before it is summed."""
    _, _, operands, function, _ = CASES[name]
    result = function(*(x.to(dtype) for x in operands))
    return (torch.arange(result.numel(), dtype=dtype) + 1).cos().reshape(result.shape)


def write(path, dtype):
    """Writes the model of all cases. Each output is the weighted sum of a case. The loss is the sum of all outputs times the mean of `x`."""
    nodes, parameters = [], {}

    def constant(name, value, kind=dtype):
        value = value.to(kind) if value.is_floating_point() else value
        nodes.append(helper.make_node("Constant", [], [name], value=onnx_models.constant(name, value)))
        return name

    for name, (op, attributes, operands, _, constants) in CASES.items():
        inputs = [f"{name}_{i}" for i in range(len(operands))]
        parameters.update({key: value.to(dtype) for key, value in zip(inputs, operands)})
        kind = torch.float32 if op == "Resize" else dtype  # scales are always in f32
        inputs += ["" if isinstance(c, str) else constant(f"{name}_c{i}", c, kind) for i, c in enumerate(constants)]
        nodes += [
            helper.make_node(op, inputs, [f"{name}_y"], **attributes),
            helper.make_node("Mul", [f"{name}_y", constant(f"{name}_w", weights_of(name, dtype))], [f"{name}_m"]),
            helper.make_node("ReduceSum", [f"{name}_m"], [name], keepdims=0),
        ]
    nodes += [helper.make_node("Sum", list(CASES), ["all"]), helper.make_node("ReduceMean", ["x"], ["mean"], keepdims=0),
              helper.make_node("Mul", ["all", "mean"], ["loss"])]  # fmt: skip
    onnx_models.graph(nodes, {"x": (dtype, [4, 3])}, ["loss", *CASES], parameters, opset=21, path=path)
    return path


@functools.cache
def in_torch(dtype):
    """Computes the value and the gradients of each case in PyTorch, independently of other cases."""
    found = {}
    for name, (_, _, operands, function, _) in CASES.items():
        leaves = [x.to(dtype).requires_grad_() for x in operands]
        value = (function(*leaves) * weights_of(name, dtype)).sum()
        found[name] = (value.detach(), torch.autograd.grad(value, leaves))
    return found


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """Returns values and gradients from the reference evaluator, in f64."""
    folder = tmp_path_factory.mktemp("images")
    path = write(folder / "images.onnx", torch.float64)
    run([tools_folder() / "ps-translate", "--import-onnx", path, "-o", "raw.mlir"], folder)
    run([tools_folder() / "ps-opt", "raw.mlir", "-canonicalize", "-cse", "-ps-autodiff", "-ps-verify-training", "-o",
         "training.mlir"], folder)  # fmt: skip
    save_file({"x": torch.ones(4, 3, dtype=torch.float64)}, folder / "in.safetensors")
    run([tools_folder() / "ps-run", "training.mlir", "--entry", "micro_batch", "--inputs", "in.safetensors", "--outputs",
         "out.safetensors"], folder)  # fmt: skip
    return load_file(folder / "out.safetensors")


@pytest.mark.parametrize("name", CASES)
def test_evaluated_equals_pytorch(evaluated, name):
    value, gradients = in_torch(torch.float64)[name]
    torch.testing.assert_close(evaluated[f"output.{name}"], value, rtol=1e-6, atol=1e-6)
    for i, gradient in enumerate(gradients):
        torch.testing.assert_close(evaluated[f"{name}_{i}.grad"], gradient, rtol=1e-6, atol=1e-6 * float(gradient.abs().max()))


@pytest.mark.part(2)
@pytest.mark.parametrize("mesh", ["dp=1", "tp=2"])
def test_compiled_equals_pytorch(tmp_path, mesh):
    """Runs one step of all cases in f32. The errors of gradients are at most about four times PyTorch's f32 errors."""
    path = write(tmp_path / "images.onnx", torch.float32)
    _, found = oracle.first_step(tmp_path, path, {"x": torch.ones(4, 3)}, mesh=mesh)
    wrong = []
    for name in CASES:
        for i, (exact, single) in enumerate(zip(in_torch(torch.float64)[name][1], in_torch(torch.float32)[name][1])):
            error = (found[f"{name}_{i}"].double() - exact).abs().max()
            allowed = 4 * (single.double() - exact).abs().max() + 2e-6 * exact.abs().max()
            if not error <= allowed:
                wrong.append(f"{name}_{i}: error {error:.1e}, allowed {allowed:.1e}")
    assert wrong == []


def test_factors_are_not_parameters(tmp_path):
    """Without torch's metadata, floating-point initializers with dims become parameters, except for the scales of a Resize."""
    torch.manual_seed(0)
    weight, x = torch.randn(3), torch.randn(2, 3, 4)
    nodes = [helper.make_node("Mul", ["x", "weight"], ["y"]),
             helper.make_node("Resize", ["y", "", "factors"], ["z"], mode="nearest", nearest_mode="floor",
                              coordinate_transformation_mode="asymmetric"),
             helper.make_node("ReduceMean", ["z"], ["loss"], keepdims=0)]  # fmt: skip
    initializers = {"weight": weight[:, None], "factors": torch.tensor([1.0, 1.0, 2.0])}
    onnx_models.graph(nodes, {"x": (torch.float32, [2, 3, 4])}, ["loss"], initializers, path=tmp_path / "model.onnx")
    loss, gradients = oracle.first_step(tmp_path, tmp_path / "model.onnx", {"x": x})
    assert set(gradients) == {"weight"} and loss == pytest.approx((x * weight[:, None]).mean().item(), rel=1e-5)


# ---- refusals -----------------------------------------------------------------------------------------------

MANY = 2**62
X, W = (2, 4, 6, 6), (6, 4, 3, 3)
REFUSED = {
    # name: (op, shapes of the operands, attributes, words of the message)
    "negative stride": ("Conv", [X, W], {"strides": [-1, 1]}, ["-1 in 'strides'"]),
    "no stride": ("Conv", [X, W], {"strides": [0, 1]}, ["0 in 'strides'"]),
    "many strides": ("MaxPool", [X], {"kernel_shape": [2, 2], "strides": [1, MANY]}, ["2^31"]),
    "wrong strides": ("Conv", [X, W], {"strides": [1, 1, 1]}, ["3 numbers in 'strides'", "expected 2"]),
    "no kernel": ("Conv", [X, (6, 4, 0, 3)], {}, ["size 0"]),
    "no kernel of a pool": ("MaxPool", [X], {"kernel_shape": [0, 2]}, ["0 in 'kernel_shape'"]),
    "no kernel_shape": ("AveragePool", [X], {}, ["has no 'kernel_shape'"]),
    "other kernel_shape": ("Conv", [X, W], {"kernel_shape": [3, 2]}, ["'kernel_shape' that differs from the shape of its weight"]),
    "large dilation": ("Conv", [X, W], {"dilations": [MANY, 1]}, ["2^31"]),
    "wide dilation": ("Conv", [X, W], {"dilations": [2**31 - 1, 1]}, ["over 4294967295 elements of a dim of size 6"]),
    "negative padding": ("Conv", [X, W], {"pads": [0, 0, -1, 0]}, ["-1 in 'pads'"]),
    "large padding": ("Conv", [X, W], {"pads": [0, 0, MANY, 0]}, ["2^31"]),
    "long padding": ("Conv", [X, W], {"pads": [2**29] * 4}, ["2^40 elements"]),
    "padding alone": ("MaxPool", [X], {"kernel_shape": [2, 2], "pads": [2, 0, 0, 0]}, ["window with only padding", "dim 0"]),
    "padding alone behind": ("AveragePool", [X], {"kernel_shape": [2, 2], "pads": [0, 0, 0, 2], "count_include_pad": 1},
                             ["window with only padding", "dim 1"]),
    "many averages": ("AveragePool", [(1, 1, 2**21)], {"kernel_shape": [3], "pads": [1, 1]}, ["averages 2097152 overlapping or padded windows", "1048576"]),
    "two paddings": ("Conv", [X, W], {"auto_pad": "SAME_LOWER", "pads": [1, 1, 1, 1]}, ["both 'pads' and 'auto_pad' = 'SAME_LOWER'"]),
    "unknown padding": ("Conv", [X, W], {"auto_pad": "ODD"}, ["'ODD'", "SAME_UPPER"]),
    "groups": ("Conv", [X, W], {"group": 3}, ["3 groups of 4 channels"]),
    "no groups": ("Conv", [X, W], {"group": 0}, ["0 groups"]), "many groups": ("ConvTranspose", [X, W], {"group": MANY}, ["groups"]),
    "groups of results": ("Conv", [X, (5, 2, 3, 3)], {"group": 2}, ["whole groups"]),
    "channels": ("ConvTranspose", [X, (6, 4, 3, 3)], {}, ["whole groups"]),
    "weight of other rank": ("Conv", [X, (6, 4, 3)], {}, ["has a weight tensor<6x4x3xf32>"]),
    "bias": ("Conv", [X, W, (5,)], {}, ["tensor<5xf32> for the 6 channels"]),
    "bias of two dims": ("Conv", [X, W, (6, 1)], {}, ["bias with 2 dims"]),
    "no space": ("Conv", [(2, 4), (6, 4)], {}, ["has a weight"]), "no space in a pool": ("GlobalMaxPool", [(2, 4)], {}, ["expected batch"]),
    "output_shape": ("ConvTranspose", [X, (4, 3, 2, 2)], {"output_shape": [-1, 4]}, ["size -1"]),
    "output_shape of others": ("ConvTranspose", [X, (4, 3, 2, 2)], {"output_shape": [4]}, ["1 size in 'output_shape'"]),
    "output_padding": ("ConvTranspose", [X, (4, 3, 2, 2)], {"output_padding": [MANY, 0]}, ["'output_padding'"]),
    "transposed far": ("ConvTranspose", [X, (4, 3, 2, 2)], {"strides": [2**31 - 1] * 2, "output_padding": [2**31 - 1] * 2}, ["of size 1"]),
    "transposed to nothing": ("ConvTranspose", [X, (4, 3, 2, 2)], {"pads": [4, 0, 4, 0]}, ["of size -1"]),
    "blocks": ("DepthToSpace", [X], {"blocksize": 3}, ["blocks of size 3"]), "no blocks": ("SpaceToDepth", [X], {"blocksize": 0}, ["size 0"]),
    "large blocks": ("DepthToSpace", [X], {"blocksize": MANY}, ["blocks of size"]),
    "groups of a norm": ("GroupNormalization", [X, (4,), (4,)], {"num_groups": 3}, ["4 channels into 3 groups"]),
    "no groups of a norm": ("GroupNormalization", [X, (4,), (4,)], {"num_groups": 0}, ["0 groups"]),
    "scale of a norm": ("InstanceNormalization", [X, (5,), (4,)], {}, ["tensor<5xf32> for the 4 channels"]),
    "mean of a norm": ("BatchNormalization", [X, (4,), (4,), (3,), (4,)], {}, ["tensor<3xf32> for the 4 channels"]),
    "equation": ("Einsum", [(2, 3), (3, 4)], {"equation": "ij,jk->iz"}, ["label"]),
    "twice in a result": ("Einsum", [(2, 3), (3, 4)], {"equation": "ij,jk->ii"}, ["repeated label"]),
    "signs in an equation": ("Einsum", [(2, 3)], {"equation": "i\xff->i"}, ["equation"]),
    "sizes of an equation": ("Einsum", [(2, 3), (4, 4)], {"equation": "ij,jk->ik"}, ["size 3 and 4"]),
    "terms of an equation": ("Einsum", [(2, 3)], {"equation": "ij,jk->ik"}, ["for 1 operand"]),
}  # fmt: skip


def refused(folder, nodes, inputs, *words, opset=21):
    outputs = [name for node in nodes for name in node.output]
    path = folder / "refused.onnx"
    onnx_models.graph(nodes, inputs, outputs, opset=opset, path=path)
    return onnx_models.refuse(folder, path, *words)


@pytest.mark.parametrize("name", REFUSED)
def test_sizes_that_make_no_sense(tmp_path, name):
    op, shapes, attributes, words = REFUSED[name]
    inputs = {f"x{i}": (torch.float32, list(shape)) for i, shape in enumerate(shapes)}
    refused(tmp_path, [helper.make_node(op, list(inputs), ["y"], **attributes)], inputs, f"'{op}'", *words)


RESIZE = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


@pytest.mark.parametrize("sizes,scales,attributes,words", [
    ([1, 0], None, {}, ["a dim of size 4 to 0"]), ([-1, 4], None, {}, ["to -1"]), ([2**40, 4], None, {}, ["2^24"]),
    ([4], None, {}, ["1 size or factors for 2 dims"]), (None, [1.0, float("nan")], {}, ["above 0"]), (None, [1.0, -2.0], {}, ["above 0"]),
    (None, [1e-3, 1.0], {}, ["to 0"]), (None, [3e38, 1.0], {}, ["above 0"]), ([4, 4], None, {"mode": "cubic"}, ["mode 'cubic'", "linear"]),
    ([8, 4], None, {"coordinate_transformation_mode": "tf_crop_and_resize"}, ["tf_crop_and_resize"]), ([8, 4], None, {"antialias": 1}, ["antialias"]),
    ([8, 4], None, {"keep_aspect_ratio_policy": "not_larger"}, ["not_larger"]), ([8], None, {"axes": [7]}, ["does not have"]),
    ([8, 4], None, {"axes": [1, -1]}, ["one dim twice"]), ([2**14, 2**14], None, {"mode": "linear"}, ["2^22"]),
])  # fmt: skip
def test_resizes_that_are_refused(tmp_path, sizes, scales, attributes, words):
    shape = [2**11, 4] if sizes == [2**14] * 2 else [3, 4]
    given = ["", torch.tensor(scales)] if scales else ["", "", torch.tensor(sizes)]
    nodes = [helper.make_node("Constant", [], [f"c{i}"], value=onnx_models.constant("c", c)) for i, c in enumerate(given) if not isinstance(c, str)]
    inputs = ["x", *("" if isinstance(c, str) else f"c{i}" for i, c in enumerate(given))]
    path = tmp_path / "resize.onnx"
    onnx_models.graph([*nodes, helper.make_node("Resize", inputs, ["y"], **{**RESIZE, **attributes})], {"x": (torch.float32, shape)}, ["y"], path=path)
    onnx_models.refuse(tmp_path, path, "'Resize'", *words)


def test_unsupported_results(tmp_path):
    image, vector = (torch.float32, list(X)), (torch.float32, [4])
    refused(tmp_path, [helper.make_node("MaxPool", ["x"], ["y", "places"], kernel_shape=[2, 2])], {"x": image}, "'places'", "indices of the maxima")
    inputs = {"x": image, **dict.fromkeys("sbmv", vector)}
    refused(tmp_path, [helper.make_node("BatchNormalization", list(inputs), ["y", "mean", "variance"], training_mode=1)], inputs,
            "new running statistics", "training_mode = 1")  # fmt: skip
