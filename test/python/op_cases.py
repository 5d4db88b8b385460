"""Lists one call of every op, for tests of all ops: MLIR text, operand types, and how to draw the operands.

In a text, `ATTRIBUTES` is the placeholder of the attributes. Some sizes are odd, so that two shards do not divide them evenly.
"""
import dataclasses
import re

import torch
import torch.nn.functional as F


@dataclasses.dataclass
class OpCase:
    name: str
    text: str
    operands: dict  # name -> type
    results: list  # types
    below: dict = dataclasses.field(default_factory=dict)  # integer operands: name -> exclusive limit
    permuted: dict = dataclasses.field(default_factory=dict)  # operands that are permutations along a dim: name -> dim
    positive: bool = False
    unit: bool = False  # floats are drawn from (0, 1)


CASES = {}


def case(name, text, operands, results, **options):
    CASES[name] = OpCase(name, text, operands, results, **options)


# Unary ops and PyTorch's functions for them. The ops of POSITIVE need positive operands.
UNARY = {"neg": torch.neg, "abs": torch.abs, "exp": torch.exp, "tanh": torch.tanh, "erf": torch.erf, "sin": torch.sin,
         "cos": torch.cos, "atan": torch.atan, "sigmoid": torch.sigmoid, "relu": torch.relu, "silu": F.silu,
         "expm1": torch.expm1, "softplus": F.softplus}
POSITIVE = {"log": torch.log, "log1p": torch.log1p, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt}
# Ops whose gradient is 0.
STEPS = {"floor": torch.floor, "ceil": torch.ceil, "trunc": torch.trunc, "round": torch.round,
         "stop_gradient": torch.Tensor.detach}

X = "tensor<4x5xf32>"
for name in [*UNARY, *STEPS, "gelu erf", "gelu tanh"]:
    case(name.replace(" ", "_"), f"%r0 = ps.{name} %a ATTRIBUTES : {X}", {"a": X}, [X])
for name in POSITIVE:
    case(name, f"%r0 = ps.{name} %a ATTRIBUTES : {X}", {"a": X}, [X], positive=True)
for name in ["add", "sub", "mul", "max", "min", "gelu_grad erf", "gelu_grad tanh", "silu_grad"]:
    case(name.replace(" ", "_"), f"%r0 = ps.{name} %a, %b ATTRIBUTES : {X}", {"a": X, "b": X}, [X])
for name in ["div", "pow"]:
    case(name, f"%r0 = ps.{name} %a, %b ATTRIBUTES : {X}", {"a": X, "b": X}, [X], positive=True)
case("binary_cross_entropy", f"%r0 = ps.binary_cross_entropy %a, %b ATTRIBUTES : {X}", {"a": X, "b": X}, [X], unit=True)
BOOL = "tensor<4x5xi1>"
case("not", f"%r0 = ps.not %a ATTRIBUTES : {BOOL}", {"a": BOOL}, [BOOL])
for name in ["and", "or"]:
    case(name, f"%r0 = ps.{name} %a, %b ATTRIBUTES : {BOOL}", {"a": BOOL, "b": BOOL}, [BOOL])
INT = "tensor<4x5xi64>"
for name in ["add", "sub", "mul", "max", "min", "and", "or"]:
    case(f"{name}_int", f"%r0 = ps.{name} %a, %b ATTRIBUTES : {INT}", {"a": INT, "b": INT}, [INT])
for bits in [8, 16, 32, 64]:  # some divisors are 0, and the size is not divisible by the vector width
    INTS = f"tensor<3x7xi{bits}>"
    case(f"div_i{bits}", f"%r0 = ps.div %a, %b ATTRIBUTES : {INTS}", {"a": INTS, "b": INTS}, [INTS])
case("compare", f"%r0 = ps.compare lt %a, %b ATTRIBUTES : {X} -> {BOOL}", {"a": X, "b": X}, [BOOL])
for name in ["eq", "ne", "le", "gt", "ge"]:
    case(f"compare_{name}", f"%r0 = ps.compare {name} %a, %b ATTRIBUTES : {INT} -> {BOOL}", {"a": INT, "b": INT}, [BOOL])
case("select", f"%r0 = ps.select %c, %a, %b ATTRIBUTES : {BOOL}, {X}", {"c": BOOL, "a": X, "b": X}, [X])
case("float8_scale", f"%r0 = ps.float8_scale e4m3 %a margin 0 ATTRIBUTES : {X}", {"a": X}, [X], positive=True)
for name, bits in [("e4m3", "tensor<4x5xf8E4M3FN>"), ("e5m2", "tensor<4x5xf8E5M2>")]:
    case(f"quantize_{name}", f"%r0 = ps.quantize %a, %b ATTRIBUTES : {X}, {X} -> {bits}", {"a": X, "b": X}, [bits], positive=True)
    case(f"dequantize_{name}", f"%r0 = ps.dequantize %a, %b ATTRIBUTES : {bits}, {X} -> {X}", {"a": bits, "b": X}, [X], positive=True)
case("convert", f"%r0 = ps.convert %a ATTRIBUTES : {X} -> tensor<4x5xf64>", {"a": X}, ["tensor<4x5xf64>"])
for name, source, target in [("bool", BOOL, X), ("int", INT, X), ("truncated", X, INT)]:
    case(f"convert_{name}", f"%r0 = ps.convert %a ATTRIBUTES : {source} -> {target}", {"a": source}, [target])

case("constant", "%r0 = ps.constant ATTRIBUTES dense<[[1., 2., 3.], [4., 5., 6.]]> : tensor<2x3xf32>", {},
     ["tensor<2x3xf32>"])
case("constant_splat", f"%r0 = ps.constant ATTRIBUTES dense<2.0> : {X}", {}, [X])
for dim in [0, 1]:
    case(f"iota_{dim}", f"%r0 = ps.iota dim {dim} ATTRIBUTES : {INT}", {}, [INT])


def movement(name, text, operands, result):
    case(name, f"%r0 = ps.{text} ATTRIBUTES : {', '.join(operands.values())} -> {result}", operands, [result])


movement("reshape_split", "reshape %a", {"a": "tensor<2x3x12xf32>"}, "tensor<2x3x3x4xf32>")
movement("reshape_merge", "reshape %a", {"a": "tensor<2x3x4xf32>"}, "tensor<6x4xf32>")
movement("reshape_regroup", "reshape %a", {"a": "tensor<6x4xf32>"}, "tensor<3x8xf32>")
movement("reshape_mixed", "reshape %a", {"a": "tensor<4x6xf32>"}, "tensor<3x8xf32>")
movement("transpose", "transpose %a [2, 0, 1]", {"a": "tensor<2x3x5xf32>"}, "tensor<5x2x3xf32>")
movement("broadcast", "broadcast %a dims [1]", {"a": "tensor<5xf32>"}, "tensor<4x5xf32>")
movement("broadcast_scalar", "broadcast %a dims []", {"a": "tensor<f32>"}, "tensor<4x5xf32>")
movement("broadcast_rows", "broadcast %a dims [0]", {"a": "tensor<4xf32>"}, "tensor<4x5xf32>")
movement("slice", "slice %a [0, 1] to [4, 4] by [1, 1]", {"a": X}, "tensor<4x3xf32>")
movement("slice_border", "slice %a [0, 3] to [4, 6] by [1, 1]", {"a": "tensor<4x9xf32>"}, "tensor<4x3xf32>")
movement("slice_stride", "slice %a [0, 0] to [4, 5] by [1, 2]", {"a": X}, "tensor<4x3xf32>")
movement("pad", "pad %a low [0, 1] high [0, 2] by [1, 1]", {"a": X}, "tensor<4x8xf32>")
movement("pad_border", "pad %a low [0, 5] high [0, 10] by [1, 1]", {"a": X}, "tensor<4x20xf32>")
case("concat", f"%r0 = ps.concat %a, %b dim 1 ATTRIBUTES : ({X}, tensor<4x3xf32>) -> tensor<4x8xf32>",
     {"a": X, "b": "tensor<4x3xf32>"}, ["tensor<4x8xf32>"])
case("concat_border", f"%r0 = ps.concat %a, %b dim 1 ATTRIBUTES : ({X}, tensor<4x10xf32>) -> tensor<4x15xf32>",
     {"a": X, "b": "tensor<4x10xf32>"}, ["tensor<4x15xf32>"])
for kind in ["sum", "max", "min"]:
    movement(f"reduce_{kind}", f"reduce {kind} %a dims [1]", {"a": X}, "tensor<4xf32>")
    movement(f"reduce_{kind}_int", f"reduce {kind} %a dims [1]", {"a": "tensor<4x5xi64>"}, "tensor<4xi64>")
for kind in ["max", "min"]:
    movement(f"reduce_{kind}_bool", f"reduce {kind} %a dims [1]", {"a": "tensor<4x5xi1>"}, "tensor<4xi1>")
movement("reduce_all", "reduce sum %a dims [0, 1]", {"a": X}, "tensor<f32>")
movement("reduce_columns", "reduce sum %a dims [0, 2]", {"a": "tensor<3x4x5xf32>"}, "tensor<4xf32>")

CONTRACT = "%r0 = ps.contract %a {}, %b {} -> {} ATTRIBUTES : ({}, {}) -> {}"
for name, left, right, out, a, b, y in [
    ("linear", [0, 1, 2], [3, 2], [0, 1, 3], "tensor<2x3x5xf32>", "tensor<7x5xf32>", "tensor<2x3x7xf32>"),
    ("batched", [0, 1, 2], [0, 2, 3], [0, 1, 3], "tensor<2x3x5xf32>", "tensor<2x5x4xf32>", "tensor<2x3x4xf32>"),
    ("outer", [0], [1], [0, 1], "tensor<3xf32>", "tensor<5xf32>", "tensor<3x5xf32>"),
    ("all", [0, 1], [1, 0], [], "tensor<3x5xf32>", "tensor<5x3xf32>", "tensor<f32>"),
    ("weight", [0, 1, 2], [0, 1, 3], [3, 2], "tensor<2x3x5xf32>", "tensor<2x3x7xf32>", "tensor<7x5xf32>"),
]:
    case(f"contract_{name}", CONTRACT.format(left, right, out, a, b, y), {"a": a, "b": b}, [y])
case("contract_bias", "%r0 = ps.contract %a [0, 1, 2], %b [3, 2] -> [0, 1, 3] bias %c ATTRIBUTES : "
     "(tensor<2x4x5xf32>, tensor<7x5xf32>, tensor<7xf32>) -> tensor<2x4x7xf32>",
     {"a": "tensor<2x4x5xf32>", "b": "tensor<7x5xf32>", "c": "tensor<7xf32>"}, ["tensor<2x4x7xf32>"])  # fmt: skip
case("contract_sums", "%r0, %r1 = ps.contract %a [0, 1, 2], %b [0, 1, 3] -> [3, 2] sums of 1 ATTRIBUTES : "
     "(tensor<2x3x5xf32>, tensor<2x3x7xf32>) -> (tensor<7x5xf32>, tensor<7xf32>)",
     {"a": "tensor<2x3x5xf32>", "b": "tensor<2x3x7xf32>"}, ["tensor<7x5xf32>", "tensor<7xf32>"])  # fmt: skip

# Windows: (spatial sizes of x, channels per group, groups, spatial sizes of w, spatial sizes of y, strides, low padding, dilation).
WINDOWS = {
    "": ([7, 8], (3, 5), 1, [3, 2], [4, 6], [2, 1], [1, 0], [1, 2]),
    "_groups": ([6], (2, 3), 3, [3], [5], [1], [1], [1]),
    "_depth": ([5, 6], (1, 1), 5, [3, 3], [5, 4], [1, 1], [1, 0], [1, 1]),
    "_rest": ([8, 6], (2, 3), 1, [2, 2], [3, 2], [3, 3], [0, 0], [1, 1]),
    "_volume": ([3, 4, 5], (2, 3), 1, [2, 3, 2], [2, 4, 2], [1, 1, 2], [0, 1, 0], [1, 1, 1]),
}


def tensor_type(*shape):
    return "tensor<" + "".join(f"{size}x" for size in shape) + "f32>"


for name, (x, (c, o), groups, w, y, *lists) in WINDOWS.items():
    x, w, y = tensor_type(2, groups * c, *x), tensor_type(groups * o, c, *w), tensor_type(2, groups * o, *y)
    by = "by {} low {} dilation {}".format(*lists)
    for op, a, b, r in [("convolution", x, w, y), ("convolution_input", y, w, x), ("convolution_kernel", x, y, w)]:
        case(f"{op}{name}", f"%r0 = ps.{op} %a, %b {by} ATTRIBUTES : ({a}, {b}) -> {r}", {"a": a, "b": b}, [r])
for name, x, y, lists in [("", [7, 6], [4, 3], "window [3, 2] by [2, 2] low [1, 0] dilation [1, 1]"),
                          ("_line", [9], [4], "window [3] by [2] low [1] dilation [2]"),
                          ("_volume", [3, 4, 5], [2, 2, 3], "window [2, 2, 3] by [1, 2, 1] low [0, 0, 0] dilation [1, 1, 1]")]:
    x, y = tensor_type(2, 3, *x), tensor_type(2, 3, *y)
    case(f"max_pool{name}", f"%r0 = ps.max_pool %a {lists} ATTRIBUTES : {x} -> {y}", {"a": x}, [y])
    case(f"max_pool_grad{name}", f"%r0 = ps.max_pool_grad %g, %a {lists} ATTRIBUTES : {y}, {x}", {"g": y, "a": x}, [x])
case("by_mode", f"%r0 = ps.by_mode %a, %b ATTRIBUTES : {X}", {"a": X, "b": X}, [X])
case("by_mode_evaluation", f"%r0 = ps.by_mode %a, %b {{training = false, ATTRIBUTE_LIST}} : {X}", {"a": X, "b": X}, [X])

case("layer_norm", f"%r0, %r1 = ps.layer_norm %a epsilon 1.0e-5 ATTRIBUTES : {X} -> {X}, tensor<4xf32>", {"a": X},
     [X, "tensor<4xf32>"])
case("layer_norm_grad", f"%r0 = ps.layer_norm_grad %g, %a, %s ATTRIBUTES : {X}, tensor<4xf32>",
     {"g": X, "a": X, "s": "tensor<4xf32>"}, [X])
for name in ["softmax", "log_softmax"]:
    case(name, f"%r0 = ps.{name} %a ATTRIBUTES : {X}", {"a": X}, [X])
case("softmax_grad", f"%r0 = ps.softmax_grad %g, %a ATTRIBUTES : {X}", {"g": X, "a": X}, [X])

LABELS = "tensor<4xi64>"
case("cross_entropy", f"%r0, %r1 = ps.cross_entropy %a, %t ignore 2 ATTRIBUTES : {X}, {LABELS} -> tensor<4xf32>",
     {"a": X, "t": LABELS}, ["tensor<4xf32>", "tensor<4xf32>"], below={"t": 5})
case("cross_entropy_smoothed",
     f"%r0, %r1 = ps.cross_entropy %a, %t ignore 2 smoothing 0.1 ATTRIBUTES : {X}, {LABELS} -> tensor<4xf32>",
     {"a": X, "t": LABELS}, ["tensor<4xf32>", "tensor<4xf32>"], below={"t": 5})
case("cross_entropy_grad",
     f"%r0 = ps.cross_entropy_grad %a, %g, %t, %l ignore 2 ATTRIBUTES : {X}, tensor<4xf32>, {LABELS}",
     {"a": X, "g": "tensor<4xf32>", "t": LABELS, "l": "tensor<4xf32>"}, [X], below={"t": 5})
case("cross_entropy_grad_smoothed",
     f"%r0 = ps.cross_entropy_grad %a, %g, %t, %l ignore 2 smoothing 0.1 ATTRIBUTES : {X}, tensor<4xf32>, {LABELS}",
     {"a": X, "g": "tensor<4xf32>", "t": LABELS, "l": "tensor<4xf32>"}, [X], below={"t": 5})

INDICES = "tensor<2x3xi64>"
case("embedding", f"%r0 = ps.embedding %w, %i ATTRIBUTES : tensor<7x5xf32>, {INDICES} -> tensor<2x3x5xf32>",
     {"w": "tensor<7x5xf32>", "i": INDICES}, ["tensor<2x3x5xf32>"], below={"i": 7})
case("embedding_grad",
     f"%r0 = ps.embedding_grad %g, %i padding 3 ATTRIBUTES : tensor<2x3x5xf32>, {INDICES} -> tensor<7x5xf32>",
     {"g": "tensor<2x3x5xf32>", "i": INDICES}, ["tensor<7x5xf32>"], below={"i": 7})

BATCHES, ORDERS = "tensor<2x5x3xf32>", "tensor<2x5x3xi64>"
for name, dim in [("", 1), (" descending", 1), ("_first", 0), ("_last descending", 2)]:
    place = f"dim {dim}{' descending' if 'descending' in name else ''}"
    case(f"sort{name.replace(' ', '_')}", f"%r0, %r1 = ps.sort %a {place} ATTRIBUTES : {BATCHES} -> {ORDERS}",
         {"a": BATCHES}, [BATCHES, ORDERS])
case("sort_int", f"%r0, %r1 = ps.sort %a dim 1 ATTRIBUTES : {INT} -> {INT}", {"a": INT}, [INT, INT])
case("sort_bool", f"%r0, %r1 = ps.sort %a dim 1 descending ATTRIBUTES : {BOOL} -> {INT}", {"a": BOOL}, [BOOL, INT])
for dim in [0, 1]:
    case(f"sort_grad_{dim}", f"%r0 = ps.sort_grad %g, %i dim {dim} ATTRIBUTES : {BATCHES}, {ORDERS}",
         {"g": BATCHES, "i": ORDERS}, [BATCHES], permuted={"i": dim})

Q, K, L = "tensor<2x6x4x3xf32>", "tensor<2x3x4x3xf32>", "tensor<2x6x4xf32>"
# Forms of attention: (text before the scale, further operands, attributes)
FORMS = {
    "": ("causal", {}, ""),
    "_full": ("", {}, ""),
    "_window": ("causal window 2", {}, ""),
    "_padding": ("padding %p", {"p": "tensor<2x4xi1>"}, ""),
    "_mask": ("mask %m", {"m": "tensor<2x6x4x4xi1>"}, ""),
    "_mask_of_all_heads": ("mask %m", {"m": "tensor<1x1x4x4xi1>"}, ""),
    "_mask_of_keys": ("mask %m", {"m": "tensor<2x1x1x4xf32>"}, ""),
    "_bias": ("mask %m", {"m": "tensor<1x6x4x4xf32>"}, ""),
    "_dropout": ("causal", {}, "dropout = 0.5 : f64, ps.key = 1 : i64"),
}
for form, (words, further, attributes) in FORMS.items():
    marks = f"{{{attributes}, ATTRIBUTE_LIST}}" if attributes else "ATTRIBUTES"
    types = "".join(f", {text}" for text in further.values())
    case(f"attention{form}", f"%r0, %r1 = ps.attention %q, %k, %v {words} scale 0.5 {marks} : ({Q}, {K}, {K}{types}) -> "
         f"({Q}, {L})", {"q": Q, "k": K, "v": K, **further}, [Q, L])
    case(f"attention_grad{form}", f"%r0, %r1, %r2 = ps.attention_grad %g, %q, %k, %v, %o, %l {words} scale 0.5 {marks} : "
         f"({Q}, {Q}, {K}, {K}, {Q}, {L}{types}) -> ({Q}, {K}, {K})",
         {"g": Q, "q": Q, "k": K, "v": K, "o": Q, "l": L, **further}, [Q, K, K])
case("dropout", f"%r0 = ps.dropout %a p 0.5 {{ps.key = 3 : i64, ATTRIBUTE_LIST}} : {X}", {"a": X}, [X])


def write(text, attributes):
    """Returns the text of an op with `attributes` (text without braces) in place of the placeholder."""
    if not attributes:
        return re.sub(r", ATTRIBUTE_LIST| ATTRIBUTES", "", text)
    return text.replace("ATTRIBUTE_LIST", attributes).replace("ATTRIBUTES", "{" + attributes + "}")
