"""Compares the gradient of every op (ps-autodiff, reference evaluator) with torch.autograd in float64.

A case is a name, the ops that compute %y from the trained tensors %a, %b, ..., the shapes of these tensors, and a PyTorch function.
In the ops, {a} is the type of %a, and {y} is the type of %y. The loss is sum(y * c) for a random c.
"""
import subprocess

import op_cases
import pytest
import torch
import torch.nn.functional as F
from conftest import tools_folder
from safetensors.torch import load_file, save_file

CASES = {}


def case(name, ops, shapes, reference, positive=False, **inputs):
    """Adds a case. `inputs` has further tensors that are not trained, by name ({name} is their type in `ops`)."""
    CASES[name] = (ops, shapes, reference, positive, inputs)


def unary(name, reference, op=None, positive=False):
    case(name, f"%y = ps.{op or name} %a : {{y}}", {"a": (3, 4)}, reference, positive)


def binary(name, reference, positive=False):
    case(name, f"%y = ps.{name} %a, %b : {{y}}", {"a": (3, 4), "b": (3, 4)}, reference, positive)


for _name, _reference in op_cases.UNARY.items():
    unary(_name, _reference)
for _name, _reference in op_cases.POSITIVE.items():
    unary(_name, _reference, positive=True)
for _name, _reference in op_cases.STEPS.items():
    case(_name, f"%s = ps.{_name} %a : {{a}}\n%y = ps.add %s, %a : {{y}}", {"a": (3, 4)},
         lambda a, step=_reference: step(a) + a)
unary("gelu_erf", F.gelu, op="gelu erf")
unary("gelu_tanh", lambda a: F.gelu(a, approximate="tanh"), op="gelu tanh")
for _name, _reference in {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "max": torch.maximum,
                          "min": torch.minimum}.items():
    binary(_name, _reference)
for _name, _reference in {"div": torch.div, "pow": torch.pow}.items():
    binary(_name, _reference, positive=True)
case("binary_cross_entropy", """%p = ps.sigmoid %a : {a}
%t = ps.sigmoid %b : {b}
%y = ps.binary_cross_entropy %p, %t : {y}""", {"a": (3, 4), "b": (3, 4)},
     lambda a, b: F.binary_cross_entropy(a.sigmoid(), b.sigmoid(), reduction="none"))
MASK = torch.tensor([[True, False, True, True]] * 3)
case("select", "%y = ps.select %m, %a, %b : {m}, {y}", {"a": (3, 4), "b": (3, 4)},
     lambda a, b: torch.where(MASK, a, b), m=MASK)
case("convert", "%h = ps.convert %a : {a} -> tensor<3x4xf32>\n%y = ps.convert %h : tensor<3x4xf32> -> {y}",
     {"a": (3, 4)}, lambda a: a.float().double())

case("reshape", "%y = ps.reshape %a : {a} -> {y}", {"a": (3, 4)}, lambda a: a.reshape(2, 6))
case("transpose", "%y = ps.transpose %a [2, 0, 1] : {a} -> {y}", {"a": (2, 3, 4)}, lambda a: a.permute(2, 0, 1))
case("broadcast", "%y = ps.broadcast %a dims [1] : {a} -> {y}", {"a": (3,)}, lambda a: a[None, :, None].expand(2, 3, 4))
case("slice", "%y = ps.slice %a [0, 1] to [3, 6] by [1, 2] : {a} -> {y}", {"a": (3, 7)}, lambda a: a[:, 1:6:2])
case("pad", "%y = ps.pad %a low [0, 1] high [2, 0] by [1, 1] : {a} -> {y}", {"a": (3, 4)},
     lambda a: F.pad(a, (1, 0, 0, 2)))
case("pad_between", "%y = ps.pad %a low [1] high [0] by [2] : {a} -> {y}", {"a": (3,)},
     lambda a: torch.stack([torch.zeros_like(a), a], 1).reshape(-1))
case("concat", "%y = ps.concat %a, %b dim 1 : ({a}, {b}) -> {y}", {"a": (3, 4), "b": (3, 2)},
     lambda a, b: torch.cat([a, b], 1))
case("reduce_sum", "%y = ps.reduce sum %a dims [0, 2] : {a} -> {y}", {"a": (2, 3, 4)}, lambda a: a.sum((0, 2)))
case("reduce_max", "%y = ps.reduce max %a dims [1] : {a} -> {y}", {"a": (3, 4)}, lambda a: a.amax(1))
case("reduce_min", "%y = ps.reduce min %a dims [1] : {a} -> {y}", {"a": (3, 4)}, lambda a: a.amin(1))

CONTRACT = "%y = ps.contract %a {}, %b {} -> {} : ({{a}}, {{b}}) -> {{y}}".format
case("contract_linear", CONTRACT([0, 1, 2], [3, 2], [0, 1, 3]), {"a": (2, 3, 4), "b": (5, 4)}, F.linear)
case("contract_batch", CONTRACT([0, 1, 2], [0, 2, 3], [0, 1, 3]), {"a": (2, 3, 4), "b": (2, 4, 5)}, torch.matmul)
case("contract_transposed", CONTRACT([1, 0], [1, 2], [2, 0]), {"a": (4, 3), "b": (4, 5)}, lambda a, b: b.T @ a)
case("contract_bias", "%y = ps.contract %a [0, 1, 2], %b [3, 2] -> [0, 1, 3] bias %c : ({a}, {b}, {c}) -> {y}",
     {"a": (2, 3, 4), "b": (6, 4), "c": (6,)}, F.linear)  # fmt: skip
case("contract_outer", CONTRACT([0], [1], [0, 1]), {"a": (3,), "b": (5,)}, torch.outer)
case("contract_two_dims", CONTRACT([0, 1, 2], [1, 2, 3], [0, 3]), {"a": (2, 3, 4), "b": (3, 4, 5)},
     lambda a, b: torch.tensordot(a, b, 2))
case("contract_elementwise", CONTRACT([0, 1], [0, 1], [1, 0]), {"a": (3, 4), "b": (3, 4)}, lambda a, b: (a * b).T)

def bilinear(op, strides, low, dilation):
    return f"%y = ps.{op} %a, %b by {strides} low {low} dilation {dilation} : ({{a}}, {{b}}) -> {{y}}"


case("convolution", bilinear("convolution", [2, 1], [1, 0], [1, 2]), {"a": (2, 3, 7, 8), "b": (4, 3, 3, 2)},
     lambda a, b: F.conv2d(a, b, stride=(2, 1), padding=(1, 0), dilation=(1, 2)))
case("convolution_groups", bilinear("convolution", [1], [1], [1]), {"a": (2, 6, 5), "b": (9, 2, 3)},
     lambda a, b: F.conv1d(a, b, padding=1, groups=3))
case("convolution_depth", bilinear("convolution", [2, 2], [1, 1], [1, 1]), {"a": (2, 4, 5, 6), "b": (4, 1, 3, 3)},
     lambda a, b: F.conv2d(a, b, stride=2, padding=1, groups=4))
case("convolution_rest", bilinear("convolution", [3], [0], [1]), {"a": (2, 2, 9), "b": (3, 2, 2)},
     lambda a, b: F.conv1d(a, b, stride=3))
case("convolution_volume", bilinear("convolution", [1, 1, 2], [0, 1, 0], [1, 1, 1]),
     {"a": (2, 2, 3, 4, 5), "b": (3, 2, 2, 3, 2)}, lambda a, b: F.conv3d(a, b, stride=(1, 1, 2), padding=(0, 1, 0)))
case("convolution_input", bilinear("convolution_input", [2, 3], [1, 0], [1, 2]), {"a": (2, 4, 3, 4), "b": (4, 3, 3, 2)},
     lambda a, b: F.conv_transpose2d(a, b, stride=(2, 3), padding=(1, 0), output_padding=(1, 2), dilation=(1, 2)))
case("convolution_input_groups", bilinear("convolution_input", [2], [0], [1]), {"a": (2, 6, 4), "b": (6, 2, 2)},
     lambda a, b: F.conv_transpose1d(a, b, stride=2, groups=3))
case("convolution_kernel", bilinear("convolution_kernel", [2, 1], [1, 0], [1, 2]), {"a": (2, 3, 7, 8), "b": (2, 4, 4, 6)},
     lambda a, b: F.conv2d(a.transpose(0, 1), b.transpose(0, 1), stride=(1, 2), padding=(1, 0),
                           dilation=(2, 1)).transpose(0, 1)[:, :, :3, :2])
POOL = "%p = ps.relu %a : {{a}}\n%y = ps.max_pool %p {} : {{a}} -> {{y}}".format
case("max_pool", POOL("window [3, 2] by [2, 1] low [1, 0] dilation [1, 2]"), {"a": (2, 3, 7, 6)},
     lambda a: F.max_pool2d(F.relu(a), (3, 2), (2, 1), (1, 0), (1, 2)))
case("max_pool_rest", POOL("window [2] by [2] low [0] dilation [1]"), {"a": (2, 3, 7)},
     lambda a: F.max_pool1d(F.relu(a), 2, ceil_mode=True))
case("by_mode", "%c = ps.constant dense<2.0> : {y}\n%y = ps.by_mode %a, %c : {y}", {"a": (3, 4)}, lambda a: a * 1)
case("by_mode_evaluation", "%c = ps.constant dense<2.0> : {y}\n%y = ps.by_mode %c, %a {training = false} : {y}",
     {"a": (3, 4)}, lambda a: a * 1)

case("layer_norm", "%y, %r = ps.layer_norm %a epsilon 1.0e-5 : {a} -> {y}, tensor<3xf64>", {"a": (3, 8)},
     lambda a: F.layer_norm(a, (8,)))
unary("softmax", lambda a: a.softmax(-1))
unary("log_softmax", lambda a: a.log_softmax(-1))

LABELS = torch.tensor([1, -100, 0, 3])
CROSS_ENTROPY = "%y, %lse = ps.cross_entropy %a, %t ignore -100{} : {{a}}, {{t}} -> {{y}}".format
case("cross_entropy", CROSS_ENTROPY(""), {"a": (4, 5)},
     lambda a: F.cross_entropy(a, LABELS, reduction="none"), t=LABELS)
case("cross_entropy_smoothed", CROSS_ENTROPY(" smoothing 0.1"), {"a": (4, 5)},
     lambda a: F.cross_entropy(a, LABELS, reduction="none", label_smoothing=0.1), t=LABELS)
case("cross_entropy_lse", "%l, %s = ps.cross_entropy %a, %t ignore -100 : {a}, {t} -> {y}\n%y = ps.add %l, %s : {y}",
     {"a": (4, 5)}, lambda a: F.cross_entropy(a, LABELS, reduction="none") + a.logsumexp(-1), t=LABELS)

INDICES = torch.tensor([[1, 0, 3], [1, 5, 1]])
EMBEDDING = "%y = ps.embedding %a, %i{} : {{a}}, {{i}} -> {{y}}".format
case("embedding", EMBEDDING(""), {"a": (6, 4)}, lambda a: F.embedding(INDICES, a), i=INDICES)
case("embedding_padding", EMBEDDING(" padding 1"), {"a": (6, 4)},
     lambda a: F.embedding(INDICES, a, padding_idx=1), i=INDICES)


def attention(name, heads=2, groups=2, queries=4, keys=4, options="causal", mask=None, **inputs):
    """Adds a case of attention. `mask` is PyTorch's mask ([..., queries, keys]); `inputs` has the mask operands of the op."""
    types = {"seen": " mask %seen", "padding": " padding %padding"}
    extra = "".join(types[key] for key in inputs)
    listed = ", ".join("{" + key + "}" for key in ["a", "b", "c", *inputs])
    ops = (f"%y, %lse = ps.attention %a, %b, %c{extra} {options} scale 0.5 : ({listed}) -> "
           f"({{y}}, tensor<2x{heads}x{queries}xf64>)")

    def reference(a, b, c):
        b, c = (x.repeat_interleave(heads // groups, 1) for x in (b, c))
        return F.scaled_dot_product_attention(a, b, c, attn_mask=mask, scale=0.5)

    shapes = {"a": (2, heads, queries, 3), "b": (2, groups, keys, 3), "c": (2, groups, keys, 3)}
    case(name, ops, shapes, reference, **inputs)


CAUSAL = torch.ones(4, 4, dtype=torch.bool).tril()
attention("attention", options="")
attention("attention_causal", mask=CAUSAL)
attention("attention_grouped", heads=4, groups=2, mask=CAUSAL)
attention("attention_one_group", heads=3, groups=1, mask=CAUSAL)
attention("attention_window", options="causal window 2", mask=CAUSAL & ~CAUSAL.tril(-2))
attention("attention_last_queries", queries=2, mask=CAUSAL[2:])
PADDING = torch.tensor([[True, True, True, False], [True, True, True, True]])
attention("attention_padding", options="", mask=PADDING[:, None, None], padding=PADDING)
BIAS = torch.linspace(-1, 1, 32, dtype=torch.float64).reshape(1, 2, 4, 4)
attention("attention_bias", options="", mask=BIAS, seen=BIAS)
attention("attention_mask", options="", mask=CAUSAL[None, None], seen=CAUSAL[None, None])


for _dim, _descending in [(1, False), (0, True)]:
    case(f"sort_{_dim}", f"%y, %i = ps.sort %a dim {_dim}{' descending' * _descending} : {{a}} -> tensor<3x4xi64>", {"a": (3, 4)},
         lambda a, dim=_dim, descending=_descending: a.sort(dim, descending).values)
case("sort_ties", "%h = ps.relu %a : {a}\n%y, %i = ps.sort %h dim 1 descending : {a} -> tensor<3x4xi64>", {"a": (3, 4)},
     lambda a: a.relu().sort(dim=1, descending=True, stable=True).values)


def type_of(tensor):
    elements = {torch.float64: "f64", torch.int64: "i64", torch.bool: "i1"}
    return "tensor<" + "".join(f"{size}x" for size in tensor.shape) + elements[tensor.dtype] + ">"


def run(folder, ops, trained, inputs, result, entry="micro_batch"):
    """Runs one call in ps-run. Returns the variables: gradients as NAME.grad, the loss as loss.sum."""
    cotangent = torch.randn(result.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    inputs = {**inputs, "cotangent": cotangent}
    types = {name: type_of(tensor) for name, tensor in {**trained, **inputs, "y": result}.items()}
    arguments = ", ".join(f'%{name}: {types[name]} {{ps.name = "{name}"}}' for name in inputs)
    dims = list(range(result.dim()))
    lines = [f"ps.variable parameter @{name} : {types[name]}" for name in trained]
    lines.append(f"func.func @forward({arguments}) -> tensor<f64> {{")
    lines += [f"%{name} = ps.read @{name} : {types[name]}" for name in trained]
    body = ops
    for name, text in types.items():
        body = body.replace("{" + name + "}", text)
    lines += [body, f"%weighted = ps.mul %y, %cotangent : {types['y']}",
              f"%loss = ps.reduce sum %weighted dims {dims} : {types['y']} -> tensor<f64>",
              "return %loss : tensor<f64>", "}"]
    source, training, given, out = (folder / name for name in ("a.mlir", "b.mlir", "in.safetensors", "out.safetensors"))
    source.write_text("\n".join(lines))
    save_file({name: tensor.contiguous() for name, tensor in {**trained, **inputs}.items()}, given)
    others = ";".join(f"{name}=none" for name, tensor in inputs.items() if tensor.shape[:1] != cotangent.shape[:1])
    for command in (["ps-opt", source, f"-ps-autodiff=batch-dims={others}" if others else "-ps-autodiff",
                     "-ps-verify-training", "-o", training],
                    ["ps-run", training, "--entry", entry, "--inputs", given, "--outputs", out]):
        done = subprocess.run([tools_folder() / command[0], *command[1:]], capture_output=True, text=True)
        assert done.returncode == 0, f"{done.stderr}\n{source.read_text()}"
    return load_file(out), cotangent


def make_trained(shapes, positive):
    generator = torch.Generator().manual_seed(0)
    trained = {name: torch.randn(shape, dtype=torch.float64, generator=generator) for name, shape in shapes.items()}
    return {name: (tensor.abs() + 0.5 if positive else tensor) for name, tensor in trained.items()}


@pytest.mark.parametrize("name", CASES)
def test_gradient(name, tmp_path):
    ops, shapes, reference, positive, inputs = CASES[name]
    trained = make_trained(shapes, positive)
    leaves = [tensor.clone().requires_grad_() for tensor in trained.values()]
    result = reference(*leaves)
    ours, cotangent = run(tmp_path, ops, trained, inputs, result)
    loss = (result * cotangent).sum()
    loss.backward()
    tolerance = {"rtol": 1e-6, "atol": 1e-6} if name == "convert" else {"rtol": 1e-9, "atol": 1e-9}
    torch.testing.assert_close(ours["loss.sum"], loss.detach(), **tolerance)
    for key, leaf in zip(trained, leaves):
        torch.testing.assert_close(ours[f"{key}.grad"], leaf.grad, **tolerance)


def test_dropout_drops_the_same_elements_backward(tmp_path):
    trained = {"a": torch.full((40, 50), 2.0, dtype=torch.float64)}
    ops = '%y = ps.dropout %a p 0.25 {ps.key = 1 : i64} : {y}'
    ours, cotangent = run(tmp_path, ops, trained, {}, trained["a"])
    kept = ours["a.grad"] != 0
    assert 0.7 < kept.double().mean() < 0.8
    torch.testing.assert_close(ours["a.grad"], kept * cotangent / 0.75, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(ours["loss.sum"], (kept * cotangent * 2 / 0.75).sum(), rtol=1e-6, atol=1e-6)


def test_attention_dropout_drops_the_same_probabilities_backward(tmp_path):
    """Attention is linear in the values v. Therefore, the loss must equal sum(v * dv)."""
    trained = make_trained({"a": (1, 2, 4, 3), "b": (1, 2, 4, 3), "c": (1, 2, 4, 3)}, False)
    ops = ("%y, %lse = ps.attention %a, %b, %c causal scale 0.5 {dropout = 0.5 : f64, ps.key = 1 : i64} : "
           "({a}, {b}, {c}) -> ({y}, tensor<1x2x4xf64>)")
    ours, _ = run(tmp_path, ops, trained, {}, trained["a"])
    torch.testing.assert_close(ours["loss.sum"], (trained["c"] * ours["c.grad"]).sum(), rtol=1e-9, atol=1e-9)
    step = 1e-6 * torch.randn(trained["a"].shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    moved, _ = run(tmp_path, ops, {**trained, "a": trained["a"] + step}, {}, trained["a"])
    change = moved["loss.sum"] - ours["loss.sum"]
    torch.testing.assert_close(change, (ours["a.grad"] * step).sum(), rtol=1e-4, atol=1e-12)
