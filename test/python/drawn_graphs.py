"""Draws random graphs of all ops that have a derivative (except dropout and float8), as MLIR and as PyTorch functions."""
import dataclasses
import itertools
import math
import random
import re

import op_cases
import torch
from torch.nn import functional as F

MOST_ELEMENTS, MOST_VALUE = 2000, 1e5


@dataclasses.dataclass
class Node:
    """A value of the graph: its operands (indices of nodes), its shape, its ops as MLIR text and as a PyTorch function.

    The text of a parameter is None. In a text, `{0}` and `{1}` are operands, `{y}` is the result, and `{T0}` and `{Ty}` are
    their types. Names of intermediate values begin with `{t}`.
    """

    kind: str
    operands: list
    shape: tuple
    text: str = None
    function: object = None


def type_of(shape, element="f64"):
    return "tensor<" + "".join(f"{size}x" for size in shape) + element + ">"


class Drawing:
    """Draws the nodes of one graph."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.nodes = []

    def parameter(self, shape):
        self.nodes.append(Node("parameter", [], tuple(shape)))
        return len(self.nodes) - 1

    def add(self, kind, operands, shape, text, function):
        self.nodes.append(Node(kind, list(operands), tuple(shape), text, function))
        return len(self.nodes) - 1

    def shape_of(self, value):
        return self.nodes[value].shape

    def draw(self):
        """Draws a graph: its nodes, and the indices of its outputs."""
        rank = self.random.randint(1, 5)
        shape = [self.random.randint(1, 7 if rank < 4 else 4) for _ in range(rank)]
        is_long = self.random.random() < 0.15  # a sum over more than 128 rows is split into parts
        if is_long:
            shape = [self.random.randint(129, 300), *[self.random.randint(1, 3) for _ in range(self.random.randint(0, 2))]]
            self.random.shuffle(shape)
        self.parameter(shape)
        if is_long and self.random.random() < 0.7:
            self.step()
            value = self.pick()
            long = [dim for dim, size in enumerate(self.shape_of(value)) if size > 128]
            if long:
                reduce_of(self, value, "sum", long)
        for _ in range(self.random.randint(3, 8)):
            self.step()
        used = {operand for node in self.nodes for operand in node.operands}
        ends = [i for i, node in enumerate(self.nodes) if i not in used and node.text]
        inner = [i for i, node in enumerate(self.nodes) if i in used and node.text]
        outputs = ends + self.random.sample(inner, min(len(inner), self.random.randint(0, 1)))
        return Graph(self.nodes, outputs or [len(self.nodes) - 1])

    def pick(self):
        """Returns the index of a value, most often of the last one, so that ops form chains."""
        computed = [i for i, node in enumerate(self.nodes) if node.text] or [0]
        return computed[-1] if self.random.random() < 0.7 else self.random.choice(computed)

    def step(self):
        """Draws an op, and adds it if it fits the drawn value."""
        value = self.pick()
        maker = self.random.choice(MAKERS)
        before = len(self.nodes)
        result = maker(self, value, self.shape_of(value))
        if result is None or math.prod(self.shape_of(result)) > MOST_ELEMENTS:
            del self.nodes[before:]


# ---- ops -----------------------------------------------------------------------------------------------------------

MAKERS = []


def maker(weight):
    def register(function):
        MAKERS.extend([function] * weight)
        return function

    return register


UNARY = {name: (f"%{{y}} = ps.{name} %{{0}} : {{Ty}}", function) for name, function in
         [*op_cases.UNARY.items(), *op_cases.STEPS.items()] if name not in ("exp", "expm1")}  # fmt: skip
UNARY["gelu_erf"] = ("%{y} = ps.gelu erf %{0} : {Ty}", F.gelu)
UNARY["gelu_tanh"] = ("%{y} = ps.gelu tanh %{0} : {Ty}", lambda a: F.gelu(a, approximate="tanh"))
for _name in ["exp", "expm1"]:  # tanh limits the operand
    UNARY[_name] = (f"%{{t}}0 = ps.tanh %{{0}} : {{Ty}}\n%{{y}} = ps.{_name} %{{t}}0 : {{Ty}}",
                    lambda a, f=op_cases.UNARY[_name]: f(a.tanh()))
for _name, _function in op_cases.POSITIVE.items():
    UNARY[_name] = (f"%{{t}}0 = ps.mul %{{0}}, %{{0}} : {{Ty}}\n%{{t}}1 = ps.constant dense<0.5> : {{Ty}}\n"
                    f"%{{t}}2 = ps.add %{{t}}0, %{{t}}1 : {{Ty}}\n%{{y}} = ps.{_name} %{{t}}2 : {{Ty}}",
                    lambda a, f=_function: f(a * a + 0.5))
POSITIVE_RIGHT = "%{t}0 = ps.mul %{1}, %{1} : {Ty}\n%{t}1 = ps.constant dense<0.5> : {Ty}\n%{t}2 = ps.add %{t}0, %{t}1 : {Ty}\n"
BINARY = {name: (f"%{{y}} = ps.{name} %{{0}}, %{{1}} : {{Ty}}", function) for name, function in
          {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "max": torch.maximum, "min": torch.minimum}.items()}
BINARY["div"] = (POSITIVE_RIGHT + "%{y} = ps.div %{0}, %{t}2 : {Ty}", lambda a, b: a / (b * b + 0.5))
BINARY["pow"] = (POSITIVE_RIGHT + "%{t}3 = ps.tanh %{0} : {Ty}\n%{y} = ps.pow %{t}2, %{t}3 : {Ty}",
                 lambda a, b: (b * b + 0.5) ** a.tanh())
BINARY["select"] = ("%{t}0 = ps.compare lt %{0}, %{1} : {Ty} -> {By}\n%{t}1 = ps.neg %{1} : {Ty}\n"
                    "%{y} = ps.select %{t}0, %{0}, %{t}1 : {By}, {Ty}", lambda a, b: torch.where(a < b, a, -b))
BINARY["logic"] = ("%{t}0 = ps.compare lt %{0}, %{1} : {Ty} -> {By}\n%{t}1 = ps.neg %{1} : {Ty}\n"
                   "%{t}2 = ps.compare gt %{0}, %{t}1 : {Ty} -> {By}\n%{t}3 = ps.and %{t}0, %{t}2 : {By}\n"
                   "%{t}4 = ps.not %{t}2 : {By}\n%{t}5 = ps.or %{t}3, %{t}4 : {By}\n"
                   "%{y} = ps.select %{t}5, %{0}, %{t}1 : {By}, {Ty}",
                   lambda a, b: torch.where(((a < b) & (a > -b)) | ~(a > -b), a, -b))
BINARY["binary_cross_entropy"] = (
    "%{t}0 = ps.sigmoid %{0} : {Ty}\n%{t}1 = ps.sigmoid %{1} : {Ty}\n%{t}2 = ps.stop_gradient %{t}1 : {Ty}\n"
    "%{y} = ps.binary_cross_entropy %{t}0, %{t}2 : {Ty}",
    lambda a, b: F.binary_cross_entropy(a.sigmoid(), b.sigmoid().detach(), reduction="none"))
BINARY["stopped"] = ("%{t}0 = ps.stop_gradient %{1} : {Ty}\n%{y} = ps.mul %{0}, %{t}0 : {Ty}", lambda a, b: a * b.detach())


@maker(5)
def unary(d, value, shape):
    name = d.random.choice(list(UNARY))
    return d.add(name, [value], shape, *UNARY[name])


@maker(7)
def binary(d, value, shape):
    others = [i for i, node in enumerate(d.nodes) if node.shape == shape and i != value]
    other = d.random.choice(others) if others and d.random.random() < 0.7 else d.parameter(shape)
    name = d.random.choice(list(BINARY))
    pair = [value, other] if d.random.random() < 0.5 else [other, value]
    return d.add(name, pair, shape, *BINARY[name])


@maker(4)
def binary_spread(d, value, shape):
    """Adds a binary op of a value and of another value or parameter that is broadcast to its shape."""
    dims = sorted(d.random.sample(range(len(shape)), d.random.randint(0, len(shape))))
    part = tuple(shape[dim] for dim in dims)
    others = [i for i, node in enumerate(d.nodes) if node.shape == part]
    other = d.random.choice(others) if others and d.random.random() < 0.6 else d.parameter(part)
    return binary_of(d, value, broadcast_to(d, other, shape, dims), shape)


def binary_of(d, value, other, shape):
    name = d.random.choice(list(BINARY))
    return d.add(name, [value, other], shape, *BINARY[name])


def broadcast_to(d, value, shape, dims):
    ones = [shape[i] if i in dims else 1 for i in range(len(shape))]
    return d.add("broadcast", [value], shape, f"%{{y}} = ps.broadcast %{{0}} dims {dims} : {{T0}} -> {{Ty}}",
                 lambda a: a.reshape(ones).expand(shape))  # fmt: skip


@maker(4)
def broadcast(d, value, shape):
    rank = d.random.randint(len(shape), min(5, len(shape) + 2))
    dims = sorted(d.random.sample(range(rank), len(shape)))
    result = [shape[dims.index(i)] if i in dims else d.random.randint(1, 4) for i in range(rank)]
    return broadcast_to(d, value, result, dims)


def reshape_to(d, value, result):
    return d.add("reshape", [value], result, "%{y} = ps.reshape %{0} : {T0} -> {Ty}", lambda a: a.reshape(result))


@maker(5)
def reshape(d, value, shape):
    """Splits dims into divisors of their sizes, and merges neighboring dims."""
    sizes = list(shape)
    for _ in range(d.random.randint(1, 3)):
        choice = d.random.random()
        if choice < 0.5 and len(sizes) > 1:
            at = d.random.randrange(len(sizes) - 1)
            sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
        elif choice < 0.8 and sizes and len(sizes) < 5:
            at = d.random.randrange(len(sizes))
            divisor = d.random.choice([i for i in range(1, sizes[at] + 1) if sizes[at] % i == 0])
            sizes[at : at + 1] = [divisor, sizes[at] // divisor]
        elif len(sizes) < 5:
            sizes.insert(d.random.randint(0, len(sizes)), 1)
    return reshape_to(d, value, sizes)


def transpose_to(d, value, order):
    shape = d.shape_of(value)
    return d.add("transpose", [value], [shape[i] for i in order],
                 f"%{{y}} = ps.transpose %{{0}} {order} : {{T0}} -> {{Ty}}", lambda a: a.permute(order))  # fmt: skip


@maker(4)
def transpose(d, value, shape):
    return transpose_to(d, value, d.random.sample(range(len(shape)), len(shape)))


@maker(3)
def with_itself(d, value, shape):
    """Combines a value with its transpose, f(x) + f(x).T, or all pairs of elements of a dim, f(x)[:, None] - f(x)[None]."""
    if not shape:
        return None
    value = unary(d, value, shape)
    equal = [pair for pair in itertools.combinations(range(len(shape)), 2) if shape[pair[0]] == shape[pair[1]]]
    if equal and d.random.random() < 0.7:
        first, second = d.random.choice(equal)
        order = list(range(len(shape)))
        order[first], order[second] = second, first
        return binary_of(d, value, transpose_to(d, value, order), shape)
    if len(shape) == 5:
        return None
    dim = d.random.randrange(len(shape))
    paired = [*shape[: dim + 1], *shape[dim:]]
    sides = [broadcast_to(d, value, paired, [i for i in range(len(paired)) if i != left_out]) for left_out in (dim, dim + 1)]
    return binary_of(d, *sides, paired)


def slice_of(d, value, begins, ends, steps):
    result = [max(0, -(-(end - begin) // step)) for begin, end, step in zip(begins, ends, steps)]
    cut = tuple(slice(*bounds) for bounds in zip(begins, ends, steps))
    return d.add("slice", [value], result, f"%{{y}} = ps.slice %{{0}} {begins} to {ends} by {steps} : {{T0}} -> {{Ty}}",
                 lambda a: a[cut])  # fmt: skip


@maker(5)
def slice_some(d, value, shape):
    begins, ends, steps = [0] * len(shape), list(shape), [1] * len(shape)
    chosen = [d.random.randrange(len(shape))] if shape and d.random.random() < 0.5 else range(len(shape))
    for dim in chosen:
        if d.random.random() < 0.8:
            begins[dim] = (d.random.random() < 0.5 and 0) or d.random.randrange(shape[dim])
            ends[dim] = d.random.randint(begins[dim] + 1, shape[dim])
            steps[dim] = d.random.randint(1, 3)
    return slice_of(d, value, begins, ends, steps)


@maker(3)
def select_index(d, value, shape):
    """Selects one index of a dim, x[:, i, None]. The dim is removed, or becomes a dim of size 1 at any position."""
    if not shape:
        return None
    dim = d.random.randrange(len(shape))
    at = d.random.choice([0, d.random.randrange(shape[dim]), shape[dim] - 1])
    begins, ends = [0] * len(shape), list(shape)
    begins[dim], ends[dim] = at, at + 1
    one = slice_of(d, value, begins, ends, [1] * len(shape))
    rest = [size for i, size in enumerate(shape) if i != dim]
    if d.random.random() < 0.5:
        rest.insert(d.random.randint(0, len(rest)), 1)
    return reshape_to(d, one, rest)


@maker(6)
def pad(d, value, shape):
    low, high, steps = [0] * len(shape), [0] * len(shape), [1] * len(shape)
    few = d.random.random() < 0.6 and len(shape) > 0
    if few:
        high[d.random.randrange(len(shape))] = d.random.randint(1, 5)
    for dim in range(len(shape)):
        if not few and d.random.random() < 0.6:
            low[dim], high[dim] = d.random.choice([(0, 1), (0, 5), (1, 0), (2, 1), (d.random.randint(0, 3), d.random.randint(0, 3))])
            steps[dim] = d.random.choice([1, 1, 1, 2, 3])
    result = [lo + (size - 1) * step + 1 + hi for lo, hi, step, size in zip(low, high, steps, shape)]
    inside = tuple(slice(lo, lo + (size - 1) * step + 1, step) for lo, step, size in zip(low, steps, shape))

    def function(a):
        padded = a.new_zeros(result)
        padded[inside] = a
        return padded

    return d.add("pad", [value], result, f"%{{y}} = ps.pad %{{0}} low {low} high {high} by {steps} : {{T0}} -> {{Ty}}", function)


def concat_of(d, values, dim):
    shapes = [d.shape_of(value) for value in values]
    result = list(shapes[0])
    result[dim] = sum(shape[dim] for shape in shapes)
    names = ", ".join(f"%{{{i}}}" for i in range(len(values)))
    types = ", ".join(f"{{T{i}}}" for i in range(len(values)))
    return d.add("concat", values, result, f"%{{y}} = ps.concat {names} dim {dim} : ({types}) -> {{Ty}}",
                 lambda *parts: torch.cat(parts, dim))  # fmt: skip


@maker(4)
def concat(d, value, shape):
    if not shape:
        return None
    dim = d.random.randrange(len(shape))
    fitting = [i for i, node in enumerate(d.nodes) if len(node.shape) == len(shape)
               and all(a == b or j == dim for j, (a, b) in enumerate(zip(node.shape, shape)))]  # fmt: skip
    values = [value, *d.random.choices(fitting, k=d.random.randint(1, 2))]
    d.random.shuffle(values)
    return concat_of(d, values, dim)


@maker(3)
def flip_or_roll(d, value, shape):
    if not shape:
        return None
    dim = d.random.randrange(len(shape))
    size = shape[dim]
    pieces = [(i, i + 1) for i in reversed(range(size))] if d.random.random() < 0.5 else []
    if not pieces:
        turn = d.random.randrange(size)
        pieces = [(turn, size), (0, turn)] if turn else [(0, size)]
    parts = []
    for low, high in pieces:
        begins, ends = [0] * len(shape), list(shape)
        begins[dim], ends[dim] = low, high
        parts.append(slice_of(d, value, begins, ends, [1] * len(shape)))
    return concat_of(d, parts, dim)


def reduce_of(d, value, kind, dims):
    shape = d.shape_of(value)
    functions = {"sum": torch.sum, "max": torch.amax, "min": torch.amin}
    return d.add(f"reduce_{kind}", [value], [size for i, size in enumerate(shape) if i not in dims],
                 f"%{{y}} = ps.reduce {kind} %{{0}} dims {dims} : {{T0}} -> {{Ty}}",
                 lambda a: functions[kind](a, tuple(dims)) if dims else a)  # fmt: skip


@maker(8)
def reduce(d, value, shape):
    """Reduces some dims by sum, mean, max or min. These dims are then kept with size 1, broadcast, or removed."""
    if not shape:
        return None
    dims = sorted(d.random.sample(range(len(shape)), d.random.randint(1, len(shape))))
    result = reduce_of(d, value, d.random.choice(["sum", "sum", "max", "min"]), dims)
    rest = list(d.shape_of(result))
    if d.random.random() < 0.4:
        count = float(math.prod(shape[dim] for dim in dims))
        result = d.add("mean", [result], rest, f"%{{t}}0 = ps.constant dense<{count}> : {{Ty}}\n%{{y}} = ps.div %{{0}}, %{{t}}0 : {{Ty}}",
                       lambda a: a / count)  # fmt: skip
    choice = d.random.random()
    if choice < 0.3:
        result = reshape_to(d, result, [1 if i in dims else size for i, size in enumerate(shape)])
    elif choice < 0.6:
        kept = [i for i in range(len(shape)) if i not in dims]
        result = binary_of(d, value, broadcast_to(d, result, shape, kept), shape)
    return result


@maker(4)
def reduce_and_move(d, value, shape):
    """Combines a reduction directly with movement ops. Their gradient has the opposite order. Example: x[:, 0, None].expand(...).mean(1)."""
    if not shape or len(shape) > 4:
        return None
    if d.random.random() < 0.5:
        dim = d.random.randrange(len(shape))
        begins, ends = [0] * len(shape), list(shape)
        begins[dim] = d.random.choice([0, 0, shape[dim] - 1])
        ends[dim] = begins[dim] + 1
        value = slice_of(d, value, begins, ends, [1] * len(shape))
        value = reshape_to(d, value, [size for i, size in enumerate(shape) if i != dim])
        rest = d.shape_of(value)
        at = d.random.randint(0, len(rest))
        spread = [*rest[:at], d.random.randint(1, 5), *rest[at:]]
        value = broadcast_to(d, value, spread, [i for i in range(len(spread)) if i != at])
        return reduce_of(d, value, d.random.choice(["sum", "max"]), [d.random.choice([at, d.random.randrange(len(spread))])])
    value = reduce_of(d, value, d.random.choice(["sum", "sum", "max", "min"]), [d.random.randrange(len(shape))])
    return d.random.choice([pad, pad, slice_some, transpose, reshape, concat])(d, value, d.shape_of(value))


ROWS = {
    "softmax": ("%{y} = ps.softmax %{0} : {Ty}", lambda a: a.softmax(-1)),
    "log_softmax": ("%{y} = ps.log_softmax %{0} : {Ty}", lambda a: a.log_softmax(-1)),
    "layer_norm": ("%{y}, %{t}r = ps.layer_norm %{0} epsilon 1.0e-2 : {Ty} -> {Ty}, {Ry}",
                   lambda a: F.layer_norm(a, a.shape[-1:], eps=1e-2)),
}


@maker(5)
def rows(d, value, shape):
    name = d.random.choice(list(ROWS))
    return d.add(name, [value], shape, *ROWS[name]) if shape else None


@maker(2)
def cumsum(d, value, shape):
    """Adds a cumulative sum, as the importer builds it: a contraction with a triangle of ones."""
    if not shape:
        return None
    size, letters = shape[-1], list(range(len(shape)))
    triangle = f"tensor<{size}x{size}x"
    text = (f"%{{t}}0 = ps.iota dim 0 : {triangle}i64>\n%{{t}}1 = ps.iota dim 1 : {triangle}i64>\n"
            f"%{{t}}2 = ps.compare le %{{t}}0, %{{t}}1 : {triangle}i64> -> {triangle}i1>\n"
            f"%{{t}}3 = ps.convert %{{t}}2 : {triangle}i1> -> {triangle}{{E}}>\n"
            f"%{{y}} = ps.contract %{{0}} {letters}, %{{t}}3 [{len(shape) - 1}, {len(shape)}] -> "
            f"{[*letters[:-1], len(shape)]} : ({{T0}}, {triangle}{{E}}>) -> {{Ty}}")
    return d.add("cumsum", [value], shape, text, lambda a: a.cumsum(-1))


@maker(6)
def contract(d, value, shape):
    """Contracts with another value or a parameter. Each dim is a batch dim, contracted, or free."""
    roles = [d.random.choice(["batch", "inner", "free"]) for _ in shape]
    others = [i for i, node in enumerate(d.nodes) if node.shape == shape]
    labels = list(range(len(shape)))
    if others and d.random.random() < 0.3:  # a product such as x y^T
        other = d.random.choice(others)
        right = [label if role != "free" else label + 10 for label, role in zip(labels, roles)]
    else:
        right = [label for label, role in zip(labels, roles) if role != "free"] + [20] * d.random.randint(0, 1)
        d.random.shuffle(right)
        other = d.parameter([shape[label] if label < 20 else d.random.randint(1, 6) for label in right])
    sizes = {**dict(zip(labels, shape)), **dict(zip(right, d.shape_of(other)))}
    result = [label for label in sizes if label >= 10 or roles[label] != "inner"]
    if d.random.random() < 0.5:
        d.random.shuffle(result)
    letter = {label: chr(ord("a") + i) for i, label in enumerate(sizes)}
    equation = "{},{}->{}".format(*("".join(letter[label] for label in side) for side in [labels, right, result]))
    return d.add("contract", [value, other], [sizes[label] for label in result],
                 f"%{{y}} = ps.contract %{{0}} {labels}, %{{1}} {right} -> {result} : ({{T0}}, {{T1}}) -> {{Ty}}",
                 lambda a, b: torch.einsum(equation, a, b)) if len(result) <= 5 else None  # fmt: skip


@maker(2)
def mask(d, value, shape):
    """Keeps a value where the index of one dim is <= the index of another (a causal mask); elsewhere, takes the index instead."""
    if not shape:
        return None
    i, j = (d.random.randrange(len(shape)) for _ in range(2))
    text = (f"%{{t}}0 = ps.iota dim {i} : {{Iy}}\n%{{t}}1 = ps.iota dim {j} : {{Iy}}\n"
            "%{t}2 = ps.compare le %{t}0, %{t}1 : {Iy} -> {By}\n%{t}3 = ps.convert %{t}0 : {Iy} -> {Ty}\n"
            "%{y} = ps.select %{t}2, %{0}, %{t}3 : {By}, {Ty}")

    def function(a):
        places = [torch.arange(shape[dim]).reshape([-1 if k == dim else 1 for k in range(len(shape))]) for dim in (i, j)]
        return torch.where(places[0] <= places[1], a, places[0].to(a.dtype).expand(shape))

    return d.add("mask", [value], shape, text, function)


# ---- ops of libraries ----------------------------------------------------------------------------------------------


def whole_numbers(values, shape):
    """Returns the text of an i64 constant."""
    return f"dense<{torch.tensor(values).reshape(shape).tolist()}> : {type_of(shape, 'i64')}"


@maker(2)
def embedding(d, value, shape):
    """Looks up rows of a table by indices, some of which are equal."""
    if len(shape) != 2:
        return None
    places = [d.random.randint(1, 3) for _ in range(d.random.randint(1, 3))]
    chosen = [d.random.randrange(shape[0]) for _ in range(math.prod(places))]
    text = (f"%{{t}}0 = ps.constant {whole_numbers(chosen, places)}\n"
            f"%{{y}} = ps.embedding %{{0}}, %{{t}}0 : {{T0}}, {type_of(places, 'i64')} -> {{Ty}}")
    return d.add("embedding", [value], [*places, shape[1]], text, lambda a: a[torch.tensor(chosen).reshape(places)])


@maker(2)
def cross_entropy(d, value, shape):
    """Adds a cross entropy per row, with labels of which some are ignored."""
    if not shape:
        return None
    rows, classes = math.prod(shape[:-1]), shape[-1]
    value = reshape_to(d, value, [rows, classes])
    labels = [d.random.choice([-100, *range(classes)]) for _ in range(rows)]
    smoothing = d.random.choice([0.0, 0.1])
    text = (f"%{{t}}0 = ps.constant {whole_numbers(labels, [rows])}\n"
            f"%{{y}}, %{{t}}l = ps.cross_entropy %{{0}}, %{{t}}0 ignore -100{' smoothing 0.1' if smoothing else ''} : "
            f"{{T0}}, {type_of([rows], 'i64')} -> {{Ty}}")
    return d.add("cross_entropy", [value], [rows], text, lambda a: F.cross_entropy(
        a, torch.tensor(labels), reduction="none", label_smoothing=smoothing))


@maker(2)
def convolution(d, value, shape):
    """Adds a convolution with groups, strides, padding and dilation."""
    if len(shape) not in (3, 4):
        return None
    groups = d.random.choice([i for i in range(1, shape[1] + 1) if shape[1] % i == 0])
    window = [d.random.randint(1, min(3, size)) for size in shape[2:]]
    strides, low, dilation = ([d.random.randint(least, 2) for _ in window] for least in (1, 0, 1))
    kernel = d.parameter([groups * d.random.randint(1, 3), shape[1] // groups, *window])
    spatial = [(size + 2 * before - apart * (width - 1) - 1) // step + 1
               for size, before, apart, width, step in zip(shape[2:], low, dilation, window, strides)]
    if min(spatial) < 1:
        return None
    function = F.conv1d if len(window) == 1 else F.conv2d
    return d.add("convolution", [value, kernel], [shape[0], d.shape_of(kernel)[0], *spatial],
                 f"%{{y}} = ps.convolution %{{0}}, %{{1}} by {strides} low {low} dilation {dilation} : ({{T0}}, {{T1}}) -> {{Ty}}",
                 lambda a, w: function(a, w, None, strides, low, dilation, groups))  # fmt: skip


@maker(2)
def max_pool(d, value, shape):
    if len(shape) not in (3, 4):
        return None
    window = [d.random.randint(1, min(3, size)) for size in shape[2:]]
    strides, low = [d.random.randint(1, 2) for _ in window], [d.random.randint(0, width // 2) for width in window]
    spatial = [(size + 2 * before - width) // step + 1 for size, before, width, step in zip(shape[2:], low, window, strides)]
    function = F.max_pool1d if len(window) == 1 else F.max_pool2d
    return d.add("max_pool", [value], [*shape[:2], *spatial],
                 f"%{{y}} = ps.max_pool %{{0}} window {window} by {strides} low {low} dilation {[1] * len(window)} : {{T0}} -> {{Ty}}",
                 lambda a: function(a, window, strides, low))  # fmt: skip


@maker(2)
def attention(d, value, shape):
    """Adds attention in f32, the only type of the op. Queries are [batch, heads, length, width]; keys and values may have fewer heads and another length."""
    if len(shape) != 4:
        return None
    is_causal = d.random.random() < 0.5
    heads = d.random.choice([i for i in range(1, shape[1] + 1) if shape[1] % i == 0])
    others = [shape[0], heads, shape[2] if is_causal else d.random.randint(1, 5), shape[3]]
    keys, values = d.parameter(others), d.parameter(others)
    narrow = [type_of(size, "f32") for size in (shape, others, others)]
    text = "".join(f"%{{t}}{i} = ps.convert %{{{i}}} : {{T{i}}} -> {type_}\n" for i, type_ in enumerate(narrow))
    text += (f"%{{t}}3, %{{t}}l = ps.attention %{{t}}0, %{{t}}1, %{{t}}2{' causal' if is_causal else ''} scale 0.5 : "
             f"({', '.join(narrow)}) -> ({narrow[0]}, {type_of(shape[:-1], 'f32')})\n"
             f"%{{y}} = ps.convert %{{t}}3 : {narrow[0]} -> {{Ty}}")

    def function(*operands):  # computes in f32, like the op. With a causal mask, row 0 of the result is row 0 of the values
        narrow = F.scaled_dot_product_attention(*(x.float() for x in operands), is_causal=is_causal, scale=0.5, enable_gqa=True)
        return narrow.to(operands[0].dtype)

    return d.add("attention", [value, keys, values], shape, text, function)


# ---- one graph -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Graph:
    nodes: list
    outputs: list

    @property
    def is_rounded(self):
        """Returns whether an op computes in f32."""
        return any(self.nodes[i].kind == "attention" for i in self.live())

    @property
    def tolerance(self):
        return 1e-3 if self.is_rounded else 1e-8

    def live(self):
        """Returns the indices of the nodes that an output needs, in order."""
        needed, work = set(), list(self.outputs)
        while work:
            node = work.pop()
            if node not in needed:
                needed.add(node)
                work += self.nodes[node].operands
        return sorted(needed)

    def parameters(self, seed):
        """Draws the values of the parameters and of the weights of the outputs, by name."""
        generator = torch.Generator().manual_seed(seed)
        shapes = {f"v{i}": self.nodes[i].shape for i in self.live() if not self.nodes[i].text}
        shapes |= {f"w{k}": self.nodes[i].shape for k, i in enumerate(self.outputs)}
        return {name: torch.randn(shape, dtype=torch.float64, generator=generator) for name, shape in shapes.items()}

    def gradients(self, parameters, dtype=torch.float64, nudge=0.0):
        """Computes the loss and the gradients with PyTorch.

        `nudge` perturbs the operands of roundings to whole numbers (floor, ceil), and multiplies each result of an inexact
        function by 1 + `nudge` or 1 - `nudge`. Values that are equal only because of rounding errors then differ.
        """
        leaves = {name: value.to(dtype).requires_grad_() for name, value in parameters.items()}
        values = {}
        for i in self.live():
            node = self.nodes[i]
            rounds = re.search(r"ps\.(trunc|floor|ceil|round) ", node.text or "")
            operands = [values[k] * (1 + nudge) + nudge if rounds else values[k] for k in node.operands]
            values[i] = node.function(*operands) if node.text else leaves[f"v{i}"]
            if nudge and re.search(INEXACT, node.text or ""):
                signs = torch.randint(2, values[i].shape, generator=torch.Generator().manual_seed(i)) * 2 - 1
                values[i] = values[i] * (1 + nudge * signs)
        loss = sum((values[i] * leaves[f"w{k}"]).sum() for k, i in enumerate(self.outputs))
        found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
        zeros = {name: torch.zeros_like(leaf) for name, leaf in leaves.items()}
        return loss.detach(), {name: zeros[name] if g is None else g for name, g in zip(leaves, found)}

    def text(self, prefix, element):
        """Returns (variables, ops, names of the terms of the loss) as MLIR text."""
        variables, lines, terms = [], [], []

        def read(name, shape):
            type_ = type_of(shape, element)
            variables.append(f"ps.variable parameter @{prefix}{name} : {type_}")
            lines.append(f"%{prefix}{name} = ps.read @{prefix}{name} : {type_}")

        for i in self.live():
            node = self.nodes[i]
            if not node.text:
                read(f"v{i}", node.shape)
                continue
            words = {"y": f"{prefix}v{i}", "t": f"{prefix}v{i}.t", "E": element, "Ty": type_of(node.shape, element),
                     "By": type_of(node.shape, "i1"), "Iy": type_of(node.shape, "i64"), "Ry": type_of(node.shape[:-1], element)}
            for k, operand in enumerate(node.operands):
                words |= {str(k): f"{prefix}v{operand}", f"T{k}": type_of(self.nodes[operand].shape, element)}
            lines.append(re.sub(r"\{(\w+)\}", lambda match, words=words: words[match[1]], node.text))
        for k, i in enumerate(self.outputs):
            shape = self.nodes[i].shape
            type_, name = type_of(shape, element), f"{prefix}w{k}"
            read(f"w{k}", shape)
            lines.append(f"%{name}.p = ps.mul %{prefix}v{i}, %{name} : {type_}")
            lines.append(f"%{name}.s = ps.reduce sum %{name}.p dims {list(range(len(shape)))} : {type_} -> tensor<{element}>")
            terms.append(f"%{name}.s")
        return variables, lines, terms


INEXACT_OPS = (
    "sqrt rsqrt exp expm1 log log1p tanh sin cos atan erf sigmoid silu softplus gelu pow div softmax log_softmax layer_norm attention"
)
INEXACT = rf"ps\.({'|'.join(INEXACT_OPS.split())}) "


def draw_graph(seed):
    """Draws a graph whose values are finite and not too large, and hardly change if the parameters change a little."""
    for attempt in itertools.count():
        graph = Drawing(f"{seed}.{attempt}").draw()
        parameters = graph.parameters(seed)
        loss, exact = graph.gradients(parameters)
        if not all(value.isfinite().all() and value.abs().max() < MOST_VALUE for value in [loss, *exact.values()]):
            continue
        nudge = 1e-6 if graph.is_rounded else 1e-12
        nudged = {name: value * (1 + nudge) for name, value in parameters.items()}
        others = [graph.gradients(nudged)[1], *(graph.gradients(parameters, nudge=n)[1] for n in (nudge, -nudge))]
        if all(is_close(other[name], exact[name], exact, graph.tolerance) for other in others for name in exact):
            return graph


def is_close(found, exact, all_exact, relative):
    largest = max(1.0, *(float(value.abs().max()) for value in all_exact.values()))
    return bool(((found.double() - exact.double()).abs() <= relative * largest).all())
