"""Graphs drawn at random: loss and gradients equal PyTorch's in float64.

There are two kinds. Graphs by torch.export combine ops that models seldom combine, on one rank and sharded; `pytest -k "graph7-"`
runs the graph of seed 7 alone. Graphs of all ops as MLIR (random_graphs.py) are different each day. A failure prints the smallest
graph that fails and its number; PARASHARD_RANDOM_SEED=NUMBER PARASHARD_RANDOM_GRAPHS=1 runs it again. PARASHARD_RANDOM_GRAPHS=200
sets the number of graphs of both kinds. By default, the middle lane runs 8 of the 16 graphs by torch.export, and half of the 200
graphs as MLIR.
"""
import datetime
import os
import random

import drawn_graphs
import pytest
import random_graphs
import torch
from oracle import first_step, loss_and_gradients
from torch import nn
from torch.nn import functional as F

ASKED = os.environ.get("PARASHARD_RANDOM_GRAPHS")
GRAPHS = int(ASKED or 16)
BATCH, LARGEST = 4, 4000


def in_lanes(numbers, most):
    """Returns numbers as pytest parameters. The middle lane runs the first `most`, or all if PARASHARD_RANDOM_GRAPHS is set."""
    return [pytest.param(n, marks=pytest.mark.full if i >= most and not ASKED else ()) for i, n in enumerate(numbers)]


class Drawn(nn.Module):
    """A chain of up to 7 ops, each on one of the last two values. The loss weights each element of the last two values by its index."""

    def __init__(self, seed):
        super().__init__()
        drawing = random.Random(seed)
        self.seed = seed
        self.rows, self.width = drawing.choice([1, 3, 5, 7]), drawing.choice([2, 4, 6, 12])
        self.vector = nn.Parameter(torch.randn(self.width) * 0.5)
        self.column = nn.Parameter(torch.randn(self.rows, 1) * 0.5)
        self.table = nn.Parameter(torch.randn(self.rows, self.width) * 0.5)
        self.linear = nn.Linear(self.width, self.width)

    def add_vector(self, a):
        fits = a.dim() and a.shape[-1] == self.width
        return a * self.vector + self.vector.flip(0) if fits else a + self.vector.sum()

    def add_table(self, a):
        return a + self.table if a.shape[-2:] == self.table.shape else a * self.column.mean()

    def step(self, drawing, a):
        dims = a.dim()
        dim = drawing.randrange(dims) if dims else 0
        start = drawing.randrange(a.shape[dim]) if dims else 0
        count = drawing.randint(1, a.shape[dim] - start) if dims else 0
        pad = [drawing.randint(0, 2), drawing.randint(0, 2)]
        choices = [lambda: torch.tanh(a), lambda: self.add_vector(a), lambda: self.add_table(a), lambda: a.reshape(-1)]
        if dims:
            choices += [
                lambda: a.sum(dim, keepdim=True), lambda: F.pad(a, pad), lambda: a.narrow(dim, start, count),
                lambda: torch.softmax(a, dim), lambda: torch.cat([a, a * a.mean()], dim),
                lambda: a - a.amax(dim, keepdim=True), lambda: torch.roll(a, 1, dim),
            ]  # fmt: skip
        if dims > 1:
            choices += [lambda: a.mean(dim), lambda: a.transpose(0, dims - 1)]
        if dims and a.shape[-1] > 1:
            choices.append(lambda: F.layer_norm(a, a.shape[-1:]) * 0.5)
        if dims and a.shape[-1] % 2 == 0:
            choices.append(lambda: torch.sigmoid(a.chunk(2, -1)[0]) * a.chunk(2, -1)[1])
        return drawing.choice(choices)()

    def forward(self, x):
        drawing = random.Random(self.seed + 1000)
        values = [x, self.linear(x)]
        for _ in range(drawing.randint(3, 7)):
            value = self.step(drawing, drawing.choice(values[-2:]))
            if value.numel() < LARGEST:
                values.append(value)
        weighted = [v.square() * torch.linspace(0.5, 1.5, v.numel(), dtype=v.dtype).reshape(v.shape) for v in values[-2:]]
        return sum(v.mean() for v in weighted) + 1e-2 * sum(p.square().sum() for p in self.parameters())


@pytest.mark.parametrize("mesh", ["dp=1", "dp=2,tp=2"])
@pytest.mark.parametrize("seed", in_lanes(range(GRAPHS), 8), ids="graph{}".format)
def test_equals_pytorch(tmp_path, seed, mesh):
    torch.manual_seed(seed)
    module = Drawn(seed)
    data = {"x": torch.randn(BATCH, module.rows, module.width)}
    torch.export.save(torch.export.export(module, (), data), tmp_path / "model.pt2")
    exact_loss, exact = loss_and_gradients(module, data, torch.float64)
    _, rounded = loss_and_gradients(module, data, torch.float32)
    loss, gradients = first_step(tmp_path, tmp_path / "model.pt2", data, mesh=mesh)
    assert loss == pytest.approx(exact_loss, rel=1e-5)
    largest = max(float(g.abs().max()) for g in exact.values())
    for name, gradient in exact.items():
        rounding = float((rounded[name].double() - gradient).abs().max())
        error = float((gradients[name].double() - gradient).abs().max())
        assert error <= 4 * rounding + 1e-6 * largest, name


PER_DAY, BATCH_OF_GRAPHS = 1000, 50
SEED = int(os.environ.get("PARASHARD_RANDOM_SEED", datetime.date.today().toordinal() * PER_DAY))
SEEDS = range(SEED, SEED + int(ASKED or 200))


@pytest.mark.part(2)
@pytest.mark.parametrize("first", SEEDS[::BATCH_OF_GRAPHS], ids="from{}".format)
def test_all_ops_equal_pytorch(tmp_path, first):
    """Batches run alternately on the CPU and as replayed GPU kernels, because LLVM takes most of the time of either."""
    seeds = range(first, min(first + BATCH_OF_GRAPHS, SEEDS[-1] + 1))
    way = ["cpu", "cuda:replay"][(first - SEED) // BATCH_OF_GRAPHS % 2]
    print(f"graphs {seeds[0]} to {seeds[-1]}, {way}")
    wrong = random_graphs.check(seeds, [way], tmp_path)
    assert not wrong, "\n".join(wrong)


def test_a_failing_graph_is_reduced_to_the_wrong_op(tmp_path):
    """The reduction of a failing graph keeps the op that fails: here one with a wrong derivative, which the test inserts."""
    drawing = drawn_graphs.Drawing(0)
    value = drawing.parameter([3, 4])
    for name in ["tanh", "sin", "cos", "erf"]:
        text, function = drawn_graphs.UNARY[name]
        wrong = (lambda a: a.sin() * 1.01) if name == "sin" else function
        value = drawing.add(name, [value], [3, 4], text, wrong)
    graph = random_graphs.reduce_graph(0, drawn_graphs.Graph(drawing.nodes, [value]), ["evaluated"], tmp_path)
    assert [graph.nodes[i].kind for i in graph.live()] == ["parameter", "sin"]
