"""Computes the expected results of ops with PyTorch on the CPU: small ops of test/python/test_import_ops.py, and large ops with many blocks."""
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

MOST_COMPARED = 512  # maximum number of elements that are compared per tensor
CASES = {}  # name -> (function, shapes of its operands)


def case(name, function, *shapes):
    CASES[name] = (function, shapes)


def attention(heads, groups, queries, keys, depth, **options):
    shapes = [(2, heads, queries, depth), (2, groups, keys, depth), (2, groups, keys, depth)]
    return (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=heads != groups, **options), *shapes)


INDICES = (torch.arange(1024) * 7919 % 3000).reshape(4, 256) // 2
case("linear", F.linear, (1024, 512), (768, 512), (768,))
case("linear_odd", F.linear, (777, 321), (1001, 321), (1001,))
case("batched", torch.matmul, (24, 128, 64), (24, 64, 200))
case("outer_sum", lambda a, b: a.T @ b, (2000, 96), (2000, 130))
case("bias_gelu", lambda x, b: F.gelu(x[:, None] + b, approximate="tanh"), (2048,), (1536,))
case("bias_gelu_erf", lambda x, b: F.gelu(x[:, None] + b), (999,), (777,))
case("gated", lambda x, y: F.silu(x) * y, (256, 688), (256, 688))
case("layer_norm", lambda x, w, b: F.layer_norm(x, w.shape, w, b), (512, 768), (768,), (768,))
case("layer_norm_wide", lambda x, w, b: F.layer_norm(x, w.shape, w, b), (64, 5000), (5000,), (5000,))
case("layer_norm_odd", lambda x, w, b: F.layer_norm(x, w.shape, w, b), (333, 777), (777,), (777,))
case("rms_norm", lambda x, w: F.rms_norm(x, w.shape, w), (200, 2048), (2048,))
case("softmax", lambda x: x.softmax(-1) * 100, (256, 1111))
case("cross_entropy", lambda x, w: F.cross_entropy(x @ w.T, torch.arange(len(x)) * 37 % len(w), reduction="none"), (256, 64), (8195, 64))
case("causal", *attention(4, 4, 384, 384, 64, is_causal=True))
case("grouped", *attention(4, 2, 256, 256, 128, is_causal=True))
case("cross", *attention(3, 3, 130, 70, 80))
case("masked", *attention(2, 2, 200, 200, 32, attn_mask=torch.arange(200)[:, None] % 7 != torch.arange(200) % 5))
case("embedding", lambda w: F.embedding(INDICES, w), (1500, 128))
case("convolution", lambda x, w, b: F.conv2d(x, w, b, padding=1), (4, 32, 28, 28), (64, 32, 3, 3), (64,))
case("convolution_strided", lambda x, w: F.conv2d(x, w, stride=2, padding=3), (2, 3, 65, 65), (32, 3, 7, 7))
case("convolution_depth", lambda x, w: F.conv2d(x, w, padding=1, groups=64), (2, 64, 15, 15), (64, 1, 3, 3))
case("convolution_transposed", lambda x, w: F.conv_transpose2d(x, w, stride=2), (2, 32, 14, 14), (32, 16, 2, 2))
case("max_pool", lambda x: F.max_pool2d(x, 3, 2, 1), (4, 16, 33, 33))
case("sort", lambda x: x.sort(dim=1, stable=True).values + x.sort(dim=0, descending=True, stable=True).values, (300, 1000))
case("topk", lambda x: x.topk(8).values, (64, 5000))
case("avg_pool", lambda x: F.avg_pool2d(x, 2), (4, 16, 33, 33))
case("batch_norm", lambda x, w, b: F.gelu(F.batch_norm(x, None, None, w, b, training=True)), (8, 32, 14, 14), (32,), (32,))
case("group_norm", lambda x, w, b: F.group_norm(x, 8, w, b), (4, 32, 14, 14), (32,), (32,))
case("sum_of_rows", lambda x: x.sum(0) * 0.01, (5000, 100))
case("max_of_rows", lambda x: x.amax(1), (300, 1000))
case("turned", lambda x, y: x.permute(2, 0, 1).reshape(64, -1) * y, (30, 40, 64), (64, 1200))


class Large(torch.nn.Module):
    """A model whose loss is the sum of the mean squares of all cases."""

    def __init__(self, cases):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.cases, self.operands = cases, torch.nn.ParameterDict()
        for name, (_, shapes) in cases.items():
            for i, shape in enumerate(shapes):
                value = torch.randn(shape, generator=generator)
                self.operands[f"{name}_{i}"] = torch.nn.Parameter((value * 8).round() / 8)  # exact in bf16, and compresses well

    def forward(self, x):
        values = {}
        for name, (function, shapes) in self.cases.items():
            values[name] = function(*(self.operands[f"{name}_{i}"] for i in range(len(shapes)))).float().square().mean()
        return {"loss": sum(values.values()) * x.mean(), **values}


def keep(exact, allowed, by="norm"):
    """Returns the expected values of at most MOST_COMPARED evenly spaced elements of a tensor, with the allowed error."""
    flat = exact.detach().flatten()
    places = torch.linspace(0, flat.numel() - 1, min(MOST_COMPARED, flat.numel())).long().unique()
    return {"count": flat.numel(), "places": places.tolist(), "values": flat[places].tolist(), "allowed": float(allowed), "by": by}


def expect_large(cases, precision):
    """Returns the expected values and gradients, computed in float64. Allowed errors are relative to a tensor's norm."""
    module = Large(cases).double()
    allowed, allowed_value = {"fp32": (1e-5, 1e-4), "bf16": (4e-2, 4e-2)}[precision]  # a value is a sum of millions of squares
    values, gradients = {}, {}
    for name, (function, shapes) in cases.items():
        leaves = [module.operands[f"{name}_{i}"] for i in range(len(shapes))]
        value = function(*leaves).square().mean()
        values[name] = keep(value, allowed_value)
        for i, gradient in enumerate(torch.autograd.grad(value, leaves)):
            gradients[f"operands.{name}_{i}"] = keep(gradient, allowed)
    return values, gradients


def expect_small(small):
    """Returns the expected values and gradients of the cases of test_import_ops.

    As in test_import_ops, the allowed error is four times PyTorch's error in float32, plus some rounding errors.
    """
    values, gradients = {}, {}
    for name in small.CASES:
        (value, exact), (single_value, single) = (small.in_torch(dtype)[name] for dtype in (torch.float64, torch.float32))
        values[name] = keep(value, 4 * (single_value.double() - value).abs() + 2e-5 * value.abs().clamp_min(1), by="place")
        for i, (gradient, rounded) in enumerate(zip(exact, single)):
            allowed = 4 * (rounded.double() - gradient).abs().max() + 2e-6 * gradient.abs().max() + 1e-30
            gradients[f"operands.{name}_{i}"] = keep(gradient, allowed, by="place")
    return values, gradients


def about(weights, values, gradients):
    return {"data": "ones.safetensors", "weights": weights, "values": values, "gradients": gradients}


def prepare(folder, compile_program, small, rehearsal):
    """Compiles the programs. Returns the expected results of each program, by name. `small` is the module test_import_ops."""
    ones = {"x": torch.ones(4, 3)}
    save_file(ones, folder / "ones.safetensors")
    archive = folder / "ops.pt2"
    torch.export.save(small.exported(torch.float32), archive)
    compile_program(archive, "ops-small", "--weights", "copy", "--optimizer", "sgd(lr=0)")
    wanted = {"ops-small": about(None, *expect_small(small))}
    cases = {name: CASES[name] for name in ["linear_odd", "layer_norm_odd", "cross", "max_of_rows"]} if rehearsal else CASES
    module = Large(cases)
    save_file({f"operands.{name}": value.detach() for name, value in module.operands.items()}, folder / "large.safetensors")
    torch.export.save(torch.export.export(module, (), ones), archive)
    for precision in ["fp32", "bf16"]:
        compile_program(archive, f"ops-{precision}", "--weights", "none", "--optimizer", "sgd(lr=0)", "--precision", precision)
        wanted[f"ops-{precision}"] = about("large.safetensors", *expect_large(cases, precision))
    archive.unlink()
    return wanted
