"""Losses of several terms, and summed losses: a step of several micro-batches equals PyTorch on the whole batch, on every layout."""
import copy
import json
import re

import capi
import models
import oracle
import pytest
import torch
import torch.nn.functional as F
from conftest import tools_folder
from refusals import refuse
from safetensors.torch import load_file, save_file

STEPS = 3
SGD, make_sgd, UPDATE_TOLERANCE = oracle.OPTIMIZERS["sgd"]
LAYOUTS = [("dp=1", 1), ("dp=1", 4), ("dp=2", 4), ("tp=2", 4), ("dp=2,tp=2", 1)]


class Network(torch.nn.Module):
    """Two layers on rows of 12 elements. Its loss is `loss(self, x, hidden, logits, labels, others)`."""

    def __init__(self, loss):
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = torch.nn.Linear(12, 24), torch.nn.Linear(24, 10)
        self.register_buffer("weights", torch.linspace(0.5, 2, 10))
        self.loss, self.parts = loss, 1

    def forward(self, x, labels, others):
        hidden = torch.tanh(self.up(x))
        return self.loss(self, x, hidden, self.down(hidden), labels, others)


def z_loss(network, x, hidden, logits, labels, others):
    return F.cross_entropy(logits, labels) + 0.1 * logits.logsumexp(-1).square().mean()


def counted_z_loss(network, x, hidden, logits, labels, others):
    """A z-loss over the labels that are not ignored: part of the same mean as the cross entropy."""
    rows = F.cross_entropy(logits, labels, reduction="none") + 0.1 * logits.logsumexp(-1).square() * (labels != -100)
    return rows.sum() / (labels != -100).sum()


def two_counts(network, x, hidden, logits, labels, others):
    return F.cross_entropy(logits, labels) - 0.5 * -F.cross_entropy(2 * logits, others)


def penalty(network, x, hidden, logits, labels, others):
    return F.cross_entropy(logits, labels) + 0.01 * network.up.weight.square().sum()


def balance(network, x, hidden, logits, labels, others):
    """Adds a product of two means over a micro-batch. This term is averaged over micro-batches."""
    terms = [part.mean(0) for part in logits.softmax(-1).chunk(network.parts)]
    return F.cross_entropy(logits, labels) + sum((10 * m * m).sum() for m in terms) / network.parts


def all_kinds(network, x, hidden, logits, labels, others):
    """Adds two masked means, a sum over the batch, a mean over the batch, and a term that does not depend on the batch."""
    return (two_counts(network, x, hidden, logits, labels, others) + 0.01 * hidden.square().sum()
            + logits.square().mean() + penalty(network, x, hidden, logits, labels, others))  # fmt: skip


def clamped(network, x, hidden, logits, labels, others):
    """Divides by a count of at least 1. The minimum applies to the count of the step, not of each micro-batch."""
    counted = labels != -100
    return (F.cross_entropy(logits, labels, reduction="none") * counted).sum() / counted.sum().clamp(min=1)


def clamped_counts(network, x, hidden, logits, labels, others):
    return (clamped(network, x, hidden, logits, others, labels) / 2 + clamped(network, x, hidden, logits, labels, others)
            + z_loss(network, x, hidden, logits, labels, others))  # fmt: skip


def negative_count(network, x, hidden, logits, labels, others):
    """A negative log-likelihood with the minus sign in the denominator."""
    counted = labels != -100
    return (-F.cross_entropy(logits, labels, reduction="none") * counted).sum() / -counted.sum()


def weighted(network, x, hidden, logits, labels, others):
    """Divides by a sum of class weights, which are a buffer of the model."""
    return F.cross_entropy(logits, labels, weight=network.weights)


def summed(network, x, hidden, logits, labels, others):
    return F.cross_entropy(logits, labels, reduction="sum")


def sums(network, x, hidden, logits, labels, others):
    """Adds two sums, one of them with a factor, as in a variational autoencoder."""
    return F.mse_loss(logits, x[:, :10], reduction="sum") - 0.5 * (1 + hidden - hidden.exp()).sum()


def summed_samples(network, x, hidden, logits, labels, others):
    return (logits - x[:, :10]).square().mean(1).sum()


def summed_with_penalty(network, x, hidden, logits, labels, others):
    return summed(network, x, hidden, logits, labels, others) + penalty(network, x, hidden, logits, others, labels)


CASES = {
    # name: (loss, text of --info about its averaging)
    "z-loss": (z_loss, "loss averaged over the whole batch, added terms averaged over micro-batches"),
    "counted z-loss": (counted_z_loss, "loss averaged over the whole batch\n"),
    "two counts": (two_counts, "loss averaged over the whole batch\n"),
    "penalty": (penalty, "loss averaged over the whole batch, added terms averaged over micro-batches"),
    "balance": (balance, "loss averaged over the whole batch, added terms averaged over micro-batches"),
    "all kinds": (
        all_kinds,
        "loss averaged over the whole batch, added terms summed over the whole batch, added terms averaged over micro-batches",
    ),
    "clamped": (clamped, "loss averaged over the whole batch\n"),
    "clamped counts": (clamped_counts, "loss averaged over the whole batch, added terms averaged over micro-batches"),
    "negative count": (negative_count, "loss averaged over the whole batch\n"),
    "weighted": (weighted, "loss averaged over the whole batch\n"),
    "sum": (summed, "loss summed over the whole batch\n"),
    "sums": (sums, "loss summed over the whole batch\n"),
    "summed samples": (summed_samples, "loss summed over the whole batch\n"),
    "sum and mean": (
        summed_with_penalty,
        "loss averaged over the whole batch, added terms summed over the whole batch, added terms averaged over micro-batches",
    ),
}


def network(name):
    inputs = {"x": torch.randn(8, 12), "labels": torch.zeros(8, dtype=torch.long), "others": torch.zeros(8, dtype=torch.long)}
    return models.Model(name, Network(CASES[name][0]), inputs, vocabulary=10)


def draw(model, micro_batches):
    """Draws batches whose ignored labels differ between ranks and micro-batches. In one micro-batch, all are ignored.

    `others` has the mask of `labels` in reverse order.
    """
    batches = oracle.draw_batches(model, micro_batches, STEPS)
    if "others" in batches:
        masked = (batches["labels"] == models.IGNORED).flip(0)
        batches["others"][masked] = models.IGNORED
    return batches


def train_both(folder, model, mesh, micro_batches):
    """Trains in PyTorch on whole batches, and as a compiled program. Returns (PyTorch's results, the program's results, output of --info)."""
    batches = draw(model, micro_batches)
    archive = model.export(folder / "model.pt2")
    model.module.parts = micro_batches
    ref = oracle.train_in_torch(model, batches, make_sgd, STEPS)
    result = oracle.train_compiled(folder, archive, batches, mesh, micro_batches, SGD, steps=STEPS)
    return ref, result, oracle.run([folder / "program", "--info"], folder)


@pytest.mark.cover(1)
@pytest.mark.parametrize("mesh,micro_batches", LAYOUTS)
@pytest.mark.parametrize("name", CASES)
def test_equals_pytorch_on_the_whole_batch(tmp_path, name, mesh, micro_batches):
    ref, result, info = train_both(tmp_path, network(name), mesh, micro_batches)
    assert oracle.compare(ref, result, UPDATE_TOLERANCE).failures() == []
    assert CASES[name][1] in info


class WithZLoss(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, labels):
        loss, logits = self.model(input_ids, labels)
        return loss + 0.01 * logits.logsumexp(-1).square().mean()


@pytest.mark.parametrize("mesh,micro_batches", [("dp=2", 4), ("tp=2", 4), ("dp=2,tp=2", 2)])
def test_a_z_loss_over_a_split_vocabulary(tmp_path, mesh, micro_batches):
    gpt = models.gpt()
    model = models.Model("z", WithZLoss(gpt.module), gpt.inputs, vocabulary=gpt.vocabulary)
    ref, result, _ = train_both(tmp_path, model, mesh, micro_batches)
    assert oracle.compare(ref, result, UPDATE_TOLERANCE).failures() == []


@pytest.mark.part(2)
@pytest.mark.parametrize("level", ["training", "partitioned", "scheduled"])
@pytest.mark.parametrize("name", ["all kinds", "clamped counts", "sum"])
def test_every_level_equals_the_compiled_program(tmp_path, name, level):
    model, micro_batches, mesh = network(name), 2, "dp=2"
    batches = draw(model, micro_batches)
    archive = model.export(tmp_path / "model.pt2")
    result = oracle.train_compiled(tmp_path, archive, batches, mesh, micro_batches, SGD, steps=STEPS)
    module = oracle.compile_model(
        tmp_path, archive, mesh, "--micro-batches", micro_batches, "--optimizer", SGD, "--stop-after", level, out="m.mlir"
    )
    said = oracle.run(
        [tools_folder() / "ps-run", module, "--entry", "step", "--micro-batches", micro_batches, "--steps", STEPS,
         "--inputs", "data.safetensors", "--outputs", "after.safetensors"],
        tmp_path,
    )  # fmt: skip
    losses = [float(line.split()[-1]) for line in said.splitlines() if line.startswith("step ")]
    assert losses == pytest.approx(result.losses, rel=1e-5)
    after = load_file(tmp_path / "after.safetensors")
    for parameter, value in result.after.items():
        assert torch.allclose(after[parameter], value, rtol=0, atol=1e-5), parameter


def test_the_loss_of_an_evaluation_is_that_of_all_its_data(tmp_path):
    """Each masked mean is divided by its count over all batches. Added terms are averaged over the batches."""
    model = network("z-loss")
    batches = draw(model, 2)
    program = oracle.compile_model(tmp_path, model.export(tmp_path / "model.pt2"), "dp=2")
    save_file(batches, tmp_path / "data.safetensors")
    said = oracle.run([program, "--eval", "--eval-data", "data.safetensors"], tmp_path)
    assert float(said.split("eval loss ")[1].split()[0]) == pytest.approx(model.module(**batches).item(), rel=1e-5)


def test_a_step_that_counts_nothing_changes_nothing(tmp_path):
    """A step without labels is skipped, although its added terms are not zero. PyTorch's loss would be NaN."""
    model = network("z-loss")
    batches = draw(model, 2)
    batches["labels"][: 2 * 8] = models.IGNORED
    result = oracle.train_compiled(
        tmp_path, model.export(tmp_path / "model.pt2"), batches, "dp=2", 2, SGD, steps=1
    )
    assert result.losses == [0.0]
    for name, parameter in model.module.named_parameters():
        assert torch.equal(result.after[name], parameter), name


WARNING = "differs from the loss of the whole batch"


class Nested(torch.nn.Module):
    """A function of a masked mean, so that the mean is not a term of the loss."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(12, 10)

    def forward(self, x, labels):
        return F.cross_entropy(self.layer(x), labels).exp()


def test_a_mean_that_is_not_a_term_is_averaged_over_micro_batches(tmp_path):
    """The loss is the mean of PyTorch's losses of the micro-batches. A warning says that the loss of the whole batch differs."""
    torch.manual_seed(0)
    x, labels = torch.randn(16, 12), torch.randint(0, 10, (16,))
    labels[1:8] = models.IGNORED  # the first micro-batch has one label, the second eight
    model = models.Model("nested", Nested(), {"x": x[:8], "labels": labels[:8]})
    archive = model.export(tmp_path / "model.pt2")
    save_file({"x": x, "labels": labels}, tmp_path / "data.safetensors")
    halves = [model.module(x[i : i + 8], labels[i : i + 8]).item() for i in (0, 8)]
    assert abs(sum(halves) / 2 - model.module(x, labels).item()) > 0.01

    def compile_and_train(*flags):
        said = oracle.run([tools_folder() / "ps-compile", archive, "-o", tmp_path / "program", *flags], tmp_path)
        oracle.run([tmp_path / "program", "--data", "data.safetensors", "--losses", "losses.txt"], tmp_path)
        return said, oracle.read_losses(tmp_path / "losses.txt")

    said, losses = compile_and_train("--micro-batches", "2")
    assert WARNING in said and "2 micro-batches" in said
    assert losses == [pytest.approx(sum(halves) / 2, rel=1e-5)]
    said, losses = compile_and_train("--micro-batches", "2", "--loss-average", "micro-batch")
    assert WARNING not in said
    assert losses == [pytest.approx(sum(halves) / 2, rel=1e-5)]
    assert WARNING not in compile_and_train()[0]
    refused = oracle.run(
        [tools_folder() / "ps-compile", archive, "-o", tmp_path / "p", "--loss-average", "step"], tmp_path, expect=1
    )
    assert "it must be a sum over the batch, or such a sum divided by a count" in refused


class OfMean(torch.nn.Module):
    """A function of the error and a trained number. In general, it is not an average over samples."""

    def __init__(self, function):
        super().__init__()
        self.layer = torch.nn.Linear(12, 4)
        self.scale = torch.nn.Parameter(torch.tensor(2.0))
        self.function = function

    def forward(self, x, y):
        return self.function(self.layer(x) - y, self.scale)


FUNCTIONS = {
    "root": (lambda e, s: e.square().mean().sqrt(), True),
    "spread": (lambda e, s: e.std(), True),
    "contrast": (lambda e, s: (e @ e.t()).logsumexp(-1).mean(), True),
    "by place": (lambda e, s: (e.square() * torch.arange(len(e))[:, None]).mean(), True),
    "penalty of the sum": (lambda e, s: (e.square().sum() + s.square()) / e.abs().sum(), True),
    "by a spread": (lambda e, s: e.square().sum() / (e - e.mean()).square().sum(), True),
    "by column": (lambda e, s: (e.square() * torch.arange(4)).mean(), False),
    "masked": (lambda e, s: (e.square() * (torch.arange(4) > 1).expand(len(e), 4).float()).mean(), False),
    "mean plus root": (lambda e, s: e.abs().mean() + 0.1 * e.norm(), True),
    "mean": (lambda e, s: e.square().mean(), False),
    "by a mean": (lambda e, s: e.square().sum() / (1 + e.detach().square().mean()), True),
    "random count": (lambda e, s: e.square().sum() / (F.dropout(torch.ones(len(e))) > 0).sum().clamp(min=1), True),
    "learned factor": (lambda e, s: e.square().mean() * s.exp() + s.square(), False),
    "learned factor of a sum": (lambda e, s: e.square().sum() * s.exp() / (1 + s * s), False),
    "rows' roots": (lambda e, s: e.norm(dim=-1).mean() / 3 - s, False),
}


@pytest.mark.part(2)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_loss_that_is_not_an_average_over_samples_is_reported(tmp_path, name):
    """Without a warning, the loss of two micro-batches equals PyTorch's loss of the whole batch."""
    torch.manual_seed(0)
    function, is_uneven = FUNCTIONS[name]
    x, y = torch.randn(16, 12), torch.randn(16, 4)
    model = models.Model("of-mean", OfMean(function), {"x": x[:8], "y": y[:8]})
    archive = model.export(tmp_path / "model.pt2")
    save_file({"x": x, "y": y}, tmp_path / "data.safetensors")
    said = oracle.run([tools_folder() / "ps-compile", archive, "-o", tmp_path / "program", "--micro-batches", "2"], tmp_path)
    assert (WARNING in said) == is_uneven, said
    oracle.run([tmp_path / "program", "--data", "data.safetensors", "--losses", "losses.txt"], tmp_path)
    whole = model.module(x, y).item()
    assert (oracle.read_losses(tmp_path / "losses.txt") == [pytest.approx(whole, rel=1e-5)]) == (not is_uneven)


NUMBER = "the model uses the batch size here"
CONSTANT = "divides a sum over samples by a constant here"
WHOLE = "but not for the whole batch of a step"
OF_THE_NUMBER = {
    # name: (loss, the warning if the loss differs from that of the whole batch)
    "times": (lambda e, rows: e.square().mean() * rows, NUMBER),
    "plus": (lambda e, rows: e.square().mean() + rows, NUMBER),
    "tensor": (lambda e, rows: e.square().mean() * torch.tensor(rows), NUMBER),
    "by": (lambda e, rows: e.square().sum() / rows, None),
    "by one less": (lambda e, rows: e.square().sum() / (rows - 1), NUMBER),
    "by elements": (lambda e, rows: e.square().sum() / e.numel(), None),
    "by a multiple": (lambda e, rows: e.square().mean(1).sum() / 24, CONSTANT),
    "by a multiple that does not": (lambda e, rows: e.square().sum() / 16, CONSTANT),
    "a mean by the number": (lambda e, rows: e.square().mean() / rows, CONSTANT),
    "a mean of means": (lambda e, rows: e.repeat(1, 4).square().mean(1).mean(), None),
    "a sum of copies": (lambda e, rows: e.square().sum() + torch.arange(4.0).expand(rows, 4).sum(), NUMBER),
    "by a sum of ones": (lambda e, rows: e.square().sum() / torch.ones(rows, 4).sum(), None),
    "a factor that may be a count": (lambda e, rows: e.square().sum() * (1 / 32), CONSTANT),
    "a factor": (lambda e, rows: e.square().sum() * (1 / 16), None),
    # Losses that use all samples of one micro-batch of 8 samples, but not of two micro-batches.
    "the first rows": (lambda e, rows: e[:8].square().mean(), WHOLE),
    "the last rows beside": (lambda e, rows: e.square().mean() - 0.1 * e[-8:].mean(), WHOLE),
    "in groups": (lambda e, rows: e.view(-1, 8, 4).mean(0).square().mean(), WHOLE),
    "in eight parts": (lambda e, rows: torch.cat([e, e], 1).reshape(8, -1).softmax(1).square().sum(1).mean(), WHOLE),
    "halves": (lambda e, rows: (e[: rows // 2].square() + e[rows // 2 :].square()).mean() / 2, None),
}


@pytest.mark.part(3)
@pytest.mark.parametrize("name", OF_THE_NUMBER)
def test_a_loss_of_the_number_of_samples(tmp_path, name):
    """A micro-batch has fewer samples than the batch of the step.

    Warnings show where a model uses the batch size other than as a divisor, and where a constant factor is treated as a divisor.
    """
    torch.manual_seed(0)
    function, warning = OF_THE_NUMBER[name]
    x, y = torch.randn(16, 12), torch.randn(16, 4)
    batch = torch.export.Dim.AUTO
    module = OfMean(lambda e, _: function(e, e.shape[0]))
    model = models.Model("of-number", module, {"x": x, "y": y}, dynamic_shapes={"x": {0: batch}, "y": {0: batch}})
    archive = model.export(tmp_path / "model.pt2")
    save_file({"x": x, "y": y}, tmp_path / "data.safetensors")
    compiled = [tools_folder() / "ps-compile", archive, "-o", "program", "--batch", "8", "--micro-batches"]
    said = oracle.run([*compiled, "2"], tmp_path)
    assert [w for w in (NUMBER, CONSTANT, WHOLE) if w in said] == ([warning] if warning else []), said
    assert ("test_loss_terms.py" in said) == (warning in (NUMBER, CONSTANT)), said
    oracle.run(["./program", "--data", "data.safetensors", "--losses", "losses.txt"], tmp_path)
    whole = model.module(x, y).item()
    assert (oracle.read_losses(tmp_path / "losses.txt") == [pytest.approx(whole, rel=1e-5)]) == (warning is None)
    for flags in (["2", "--loss-average", "micro-batch"], ["1"]):
        said = oracle.run([*compiled, *flags], tmp_path)
        assert "test_loss_terms.py" not in said and WHOLE not in said


@pytest.mark.parametrize("name", ["z-loss", "sum"])
def test_terms_are_averaged_over_micro_batches_on_request(tmp_path, name):
    model, micro_batches = network(name), 2
    batches = draw(model, micro_batches)
    batches["labels"][:] = torch.arange(len(batches["labels"])) % 10
    batches["labels"][1:8] = models.IGNORED
    result = oracle.train_compiled(
        tmp_path, model.export(tmp_path / "model.pt2"), batches, "dp=2", micro_batches, SGD, steps=1,
        flags=("--loss-average", "micro-batch"),
    )  # fmt: skip
    halves = [model.module(**{n: v[i : i + 8] for n, v in batches.items()}).item() for i in (0, 8)]
    assert result.losses == [pytest.approx(sum(halves) / 2, rel=1e-5)]


@pytest.mark.parametrize("name,read", [("all kinds", ("x", "labels", "others")), ("sum", ("x", "labels"))])
def test_a_host_steps_through_the_c_api(tmp_path, name, read):
    """psrt_step takes the samples of all micro-batches in one call."""
    model = network(name)
    batch = oracle.rows_of_step(draw(model, 2), 0, STEPS)
    library = oracle.compile_model(
        tmp_path, model.export(tmp_path / "model.pt2"), "dp=2", "--micro-batches", 2, "--optimizer", SGD, out="program.so"
    )
    ref = oracle.train_in_torch(model, batch, make_sgd, 1)
    program = capi.Program(library)
    assert program.step({n: batch[n] for n in read}) == pytest.approx(ref.losses[0], rel=1e-5)
    for parameter, value in ref.after.items():
        after = program.get(parameter, torch.empty_like(value))
        assert torch.allclose(after, value, rtol=0, atol=1e-5), parameter
    program.close()


def test_a_further_output_that_is_returned_twice(tmp_path):
    """The log contains the output once."""
    class Twice(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 3)

        def forward(self, x):
            h = self.layer(x)
            part = h.square().mean()
            return h.mean() + part, part, part

    module, x = Twice(), torch.randn(8, 4)
    torch.export.save(torch.export.export(module, (x,)), tmp_path / "model.pt2")
    program = oracle.compile_model(tmp_path, tmp_path / "model.pt2", "dp=1")
    save_file({"x": x}, tmp_path / "data.safetensors")
    oracle.run([program, "--data", "data.safetensors", "--steps", "1", "--log", "log.jsonl"], tmp_path)
    record = json.loads((tmp_path / "log.jsonl").read_text())
    assert pytest.approx(module(x)[1].item(), rel=1e-5) in record.values(), record


# ---- evaluations with fewer samples than a batch ----------------------------------------------------------------


class Regression(torch.nn.Module):
    """Maps rows of 4 to rows of 3 elements. Its loss is `loss(network, found, y)`; it has no labels that could be ignored."""

    def __init__(self, loss):
        super().__init__()
        torch.manual_seed(1)
        self.layer, self.loss = torch.nn.Linear(4, 3), loss

    def forward(self, x, y):
        return self.loss(self, self.layer(x), y)


def of_samples(network, found, y):
    return (found - y).square().sum()


def of_weights(network, found, y):
    """A mean whose divisor is a sum of weights of the samples."""
    weights = y[:, 0].abs()
    return ((found - y).square().mean(-1) * weights).sum() / weights.sum()


def of_weights_and_one(network, found, y):
    """Adds the constant 1 to the count, once for any number of samples."""
    weights = y[:, 0].abs()
    return ((found - y).square().mean(-1) * weights).sum() / (weights.sum() + 1)


def with_penalty(network, found, y):
    return F.mse_loss(found, y) + found.abs().sum(-1).mean() + network.layer.weight.square().sum()


def contrast(network, found, y):
    return F.mse_loss(found, y).sqrt()


@pytest.mark.part(2)
@pytest.mark.parametrize("mesh", ["dp=1", "dp=2"])
@pytest.mark.parametrize("loss, parts", [(lambda n, found, y: F.mse_loss(found, y), 1), (of_samples, 8), (of_weights, 1), (with_penalty, 1), (contrast, 0),
                                         (of_weights_and_one, 1)],
                         ids=["mean", "sum", "weights", "penalty", "contrast", "plus one"])  # fmt: skip
def test_evaluation_is_over_all_samples(tmp_path, mesh, loss, parts):
    """The last, incomplete batch is evaluated by full batches of 8 samples.

    `parts` is 1 if the printed loss of n samples equals PyTorch's, 8 if it equals 8 / n times PyTorch's (a sum, averaged over batches),
    and 0 if the program skips an incomplete batch.
    """
    model = Regression(loss)
    torch.export.save(torch.export.export(model, (torch.randn(8, 4), torch.randn(8, 3))), tmp_path / "model.pt2")
    program = oracle.compile_model(tmp_path, tmp_path / "model.pt2", mesh, "--optimizer", "sgd(lr=0)")
    torch.manual_seed(2)
    for samples in (13, 3) if parts else (13,):
        x, y = torch.randn(samples, 4), torch.randn(samples, 3)
        save_file({"x": x, "y": y}, tmp_path / "data.safetensors")
        said = oracle.run([program, "--eval", "--eval-data", "data.safetensors"], tmp_path)
        assert ("are skipped" in said) == (not parts) and f"over {samples if parts else 8} samples" in said, said
        if parts:
            expected = model(x, y).item() * (8 / samples if parts == 8 else 1)
            assert float(said.split()[2]) == pytest.approx(expected, rel=1e-6)


class Masked(torch.nn.Module):
    """A masked loss that is divided by `count(self, mask)`."""

    def __init__(self, count):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.count = torch.nn.Linear(4, 3), count
        self.register_buffer("eps", torch.tensor(0.5))

    def forward(self, x, mask):
        return (self.layer(x).square().mean(1) * mask).sum() / self.count(self, mask)


COUNTS = {
    "least": lambda m, mask: mask.sum().clamp(min=1),
    "plus": lambda m, mask: mask.sum() + 0.5,
    "buffer": lambda m, mask: m.eps + mask.sum(),
    "both": lambda m, mask: (mask.sum() + m.eps).clamp(min=4) + 1,
    "least of integers": lambda m, mask: mask.bool().sum().clamp(min=1),
}


@pytest.mark.parametrize("name", COUNTS)
def test_a_constant_part_of_a_count_is_counted_once(tmp_path, name):
    """A constant part of a count is added once for several batches. One of the batches counts no samples."""
    model, x = Masked(COUNTS[name]), torch.randn(8, 4)
    mask = torch.tensor([1.0, 1, 0, 0, 0, 0, 0, 0])
    archive = models.Model("masked", model, {"x": x[:4], "mask": mask[:4]}).export(tmp_path / "model.pt2")
    save_file({"x": x, "mask": mask}, tmp_path / "data.safetensors")
    said = oracle.run([tools_folder() / "ps-compile", archive, "-o", "program", "--mesh", "dp=2", "--micro-batches", "2"], tmp_path)
    assert "warning" not in said
    expected = model(x, mask).item()
    oracle.run(["./program", "--data", "data.safetensors", "--losses", "losses.txt"], tmp_path)
    assert oracle.read_losses(tmp_path / "losses.txt") == [pytest.approx(expected, rel=1e-5)]
    said = oracle.run(["./program", "--eval", "--eval-data", "data.safetensors"], tmp_path)
    assert float(said.split()[2]) == pytest.approx(expected, rel=1e-5)


# ---- steps with fewer samples than a batch ----------------------------------------------------------------------


class Classifier(torch.nn.Module):
    """Classifies rows of 5 elements into 6 classes. Its loss is `loss(logits, y)`. `before` is a layer on the input."""

    def __init__(self, loss, before=None):
        super().__init__()
        torch.manual_seed(3)
        self.first, self.last, self.before, self.loss = torch.nn.Linear(5, 8), torch.nn.Linear(8, 6), before or torch.nn.Identity(), loss

    def forward(self, x, y):
        return self.loss(self.last(self.first(self.before(x)).tanh()), y)


class UnitRows(torch.nn.Module):
    """Normalizes rows. A row of zeros gives NaN, but no sample is such a row."""

    def forward(self, x):
        return x / x.norm(dim=-1, keepdim=True)


def counted_by_hand(logits, y):
    counts = (y != -100).float()
    return (F.cross_entropy(logits, y, reduction="none") * counts).sum() / counts.sum().clamp(min=1)


def taken_by_gather(logits, y):
    return -logits.log_softmax(-1).gather(1, y[:, None]).mean()


def two_ignored(logits, y):
    return F.cross_entropy(logits, y, ignore_index=0) + 0.5 * F.cross_entropy(2 * logits, y, ignore_index=1)


def beside_zeros(logits, y):
    counts = (y != 0).float()
    return F.cross_entropy(logits, y) + (logits.square().sum(-1) * counts).sum() / counts.sum()


# name: (model, whether rows with ignored labels fill up the last step). Otherwise, the samples of the last step are skipped.
LAST_STEPS = {
    "mean": (Classifier(F.cross_entropy), True),
    "unit rows": (Classifier(F.cross_entropy, UnitRows()), True),
    "class weights": (Classifier(lambda o, y: F.cross_entropy(o, y, weight=torch.arange(1.0, 7), label_smoothing=0.1)), True),
    "sum": (Classifier(lambda o, y: F.cross_entropy(o, y, reduction="sum")), True),
    "counted by hand": (Classifier(counted_by_hand), True),
    "static mean": (Classifier(taken_by_gather), False),
    "sum by rows": (Classifier(lambda o, y: F.nll_loss(o.log_softmax(-1), y, reduction="sum") / len(y)), False),
    "two ignored": (Classifier(two_ignored), False),
    "beside zeros": (Classifier(beside_zeros), False),
    "other term": (Classifier(lambda o, y: F.cross_entropy(o, y) + 0.1 * o.square().mean()), False),
    "next class": (Classifier(lambda o, y: F.cross_entropy(o, y) + F.cross_entropy(o, (y + 1) % 6)), False),
    "batch norm": (Classifier(F.cross_entropy, torch.nn.BatchNorm1d(5)), False),
}


@pytest.mark.part(2)
@pytest.mark.parametrize("flags", [("dp=2",), ("dp=1", "--micro-batches", "2")], ids=["dp=2", "micro-batches"])
@pytest.mark.parametrize("name", LAST_STEPS)
def test_last_steps_of_epochs(tmp_path, name, flags):
    """Training and evaluation on 20 samples in steps of 8 equal PyTorch's, with or without the last 4 samples."""
    module, fills = LAST_STEPS[name]
    if name == "batch norm" and len(flags) > 1:
        return  # PyTorch would use the statistics of the whole batch
    module = copy.deepcopy(module)
    torch.manual_seed(4)
    data = {"x": torch.randn(20, 5), "y": torch.randint(6, (20,))}
    if fills:
        data["y"][5] = -100
    size = 4 if len(flags) > 1 else 8
    model = models.Model("last", module, {n: v[:size] for n, v in data.items()})
    save_file(data, tmp_path / "data.safetensors")
    program = oracle.compile_model(tmp_path, model.export(tmp_path / "m.pt2"), *flags, "--optimizer", SGD)
    run = [program, "--data", "data.safetensors", "--epochs", 2, "--losses", "losses.txt", "--export-weights", "w.safetensors"]
    said = oracle.run([*run, "--eval-data", "data.safetensors", "--eval-every", 100], tmp_path)
    assert ("are skipped" in said) != fills, said
    optimizer, losses = make_sgd(module.parameters()), []
    for first in (0, 8, 16) * 2 if fills else (0, 8) * 2:
        optimizer.zero_grad()
        loss = module(**{n: v[first : first + 8] for n, v in data.items()})
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert oracle.read_losses(tmp_path / "losses.txt") == pytest.approx(losses, rel=1e-5)
    for key, value in load_file(tmp_path / "w.safetensors").items():
        assert torch.allclose(value, module.state_dict()[key], rtol=0, atol=1e-5), key
    if name != "sum":  # the eval loss of a sum is the mean per batch
        found = float(re.search(r"eval loss ([\d.]+) over 20", said)[1])
        assert found == pytest.approx(module.eval()(**data).item(), rel=1e-5)


@pytest.mark.parametrize("mesh", ["dp=1", "tp=2", "tp=4"])
@pytest.mark.parametrize("label", [0, 7])
def test_labels_of_no_class(tmp_path, mesh, label):
    """A label that the model computes, and that is not a class, gives a NaN loss, also if the classes are split over ranks."""
    model = models.Model("shifted", Classifier(lambda o, y: F.cross_entropy(o, y - 1)), {"x": torch.randn(8, 5), "y": torch.arange(8) % 6 + 1})
    program = oracle.compile_model(tmp_path, model.export(tmp_path / "m.pt2"), mesh)
    model.inputs["y"][3] = label
    save_file(model.inputs, tmp_path / "data.safetensors")
    refuse([program, "--data", "data.safetensors"], tmp_path, 1, "the loss of step 0 is nan", "an op of the model produces this value")
