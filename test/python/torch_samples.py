"""Compares ops with PyTorch on the samples that PyTorch's own tests draw for them (`torch.testing`, OpInfo).

`python torch_samples.py --ops 700 --samples 20` compares the ops that the compiler imports, and lists the others. Each sample
is a module whose tensors are parameters (floats) or buffers. Many samples are joined into one program. The comparison covers
the value of each sample, which is a weighted sum of the op's results, and the gradients of all its floats.
"""
import argparse
import itertools
import pathlib
import random
import subprocess
import tempfile
import warnings

import torch
from conftest import tools_folder
from oracle import ToolFailed, first_step
from torch import nn
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map_only

RANDOM = {
    "bernoulli", "cauchy", "empty", "empty_like", "empty_permuted", "empty_strided", "exponential", "geometric", "log_normal", "multinomial",
    "new_empty", "new_empty_strided", "nn.functional.alpha_dropout", "nn.functional.dropout", "nn.functional.dropout2d",
    "nn.functional.dropout3d", "nn.functional.feature_alpha_dropout", "nn.functional.multi_head_attention_forward", "nn.functional.rrelu",
    "normal", "pca_lowrank", "rand_like", "randint", "randint_like", "randn", "randn_like", "svd_lowrank", "uniform",
}  # fmt: skip
MOST_ELEMENTS = 20000  # in all tensors of one sample
VALUE, GRADIENT = 2e-4, 2e-3  # relative; a gradient may also differ by 2e-4 times the largest gradient of its sample


class Sample(nn.Module):
    """One call of an op; forward gives the weighted sum of its results."""

    def __init__(self, name, op, sample, seed):
        super().__init__()
        self.name, self.op, self.tensors = name, op, 0
        self.arguments = tree_map_only(torch.Tensor, self.keep, (sample.input, list(sample.args), sample.kwargs))
        drawing = torch.Generator().manual_seed(seed)
        for i, result in enumerate(self.results()):
            weight = torch.randn if result.is_floating_point() else lambda shape, generator: torch.randint(1, 4, shape, generator=generator)
            self.register_buffer(f"weight{i}", weight(result.shape, generator=drawing))

    def keep(self, tensor):
        """Registers a tensor; returns its placeholder among the arguments."""
        name, value = f"t{self.tensors}", tensor.detach().clone()
        self.tensors += 1
        if value.is_floating_point():
            self.register_parameter(name, nn.Parameter(value))
        else:
            self.register_buffer(name, value)
        return Kept(name)

    def results(self):
        first, rest, options = tree_map_only(Kept, lambda kept: getattr(self, kept.name), self.arguments)
        return [r for r in tree_flatten(self.op.op(first, *rest, **options))[0] if isinstance(r, torch.Tensor) and not r.is_complex()]

    def forward(self):
        total = 0
        for i, result in enumerate(self.results()):
            wide = result.float() if result.is_floating_point() else result.long()
            total = total + (wide * getattr(self, f"weight{i}")).sum().float()
        return total


class Kept:
    """The placeholder of a tensor of a Sample."""

    def __init__(self, name):
        self.name = name


class Joined(nn.Module):
    """Many samples in one loss. The gradient of `factors` holds the value of each sample."""

    def __init__(self, samples):
        super().__init__()
        self.samples, self.factors = nn.ModuleList(samples), nn.Parameter(torch.ones(len(samples)))

    def forward(self, x):
        return (torch.stack([sample() for sample in self.samples]) * self.factors).sum() + x.mean()


DATA = {"x": torch.ones(2)}


def gradients_in_torch(module):
    module.zero_grad()
    module(**DATA).backward()
    return {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in module.named_parameters()}


def save(samples, folder):
    path = folder / "model.pt2"
    torch.export.save(torch.export.export(Joined(samples), (), DATA), path)
    return path


def why_not_imported(sample, folder):
    """Returns the importer's error in one line; empty if it imports the sample."""
    try:
        path = save([sample], folder)
    except Exception as error:  # noqa: BLE001 - PyTorch cannot export the sample
        return f"torch.export: {error}".splitlines()[0]
    done = subprocess.run([tools_folder() / "ps-translate", "--import-pt2", path, "--check"], capture_output=True, text=True)
    assert done.returncode in (0, 1), f"{sample.name}: ps-translate ended with {done.returncode}\n{done.stderr}"
    return " ".join(done.stderr.split()).removeprefix("ps-translate: error: ") if done.returncode else ""


def draw(op, count, folder):
    """Returns up to `count` samples of an op that are imported, and the error of the last one that is not."""
    name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
    if op.name in RANDOM or torch.float32 not in op.dtypes:
        return [], ""
    torch.manual_seed(0)
    random.seed(0)
    given = list(op.sample_inputs("cpu", torch.float32))
    random.Random(1).shuffle(given)
    taken, refused = [], ""
    for i, each in enumerate(given[: 3 * count]):
        if len(taken) == count or each.kwargs.get("dropout_p"):
            continue
        try:
            sample = Sample(f"{name} #{i}", op, each, seed=i)
            is_finite = all(g.isfinite().all() for g in gradients_in_torch(Joined([sample])).values())
        except Exception:  # noqa: BLE001 - PyTorch cannot run or differentiate the sample
            continue
        if not is_finite or sum(t.numel() for t in sample.state_dict().values()) > MOST_ELEMENTS:
            continue
        why = why_not_imported(sample, folder)
        refused = why or refused
        taken += [] if why else [sample]
    return taken, f"{name}: {refused}" if refused else ""


def largest_of(gradients):
    """Returns {number of a sample: largest absolute value in its gradients}."""
    largest = {}
    for name, gradient in gradients.items():
        number = int(name.split(".")[1])
        largest[number] = max(largest.get(number, 0), float(gradient.abs().max()) if gradient.numel() else 0)
    return largest


def is_refusal(error):
    """Returns whether ps-compile refused the model with an error message, for example because no kernel supports an element type."""
    return "exit status 1," in str(error) and "ps-compile'" in str(error) and ": error: " in str(error)


def compare(samples, folder):
    """Returns a text for each sample that differs, and a text for each sample that ps-compile refuses."""
    try:
        _, found = first_step(folder, save(samples, folder), DATA)
    except ToolFailed as error:
        if len(samples) == 1:
            text = [f"{samples[0].name}: {error}"]
            return ([], text) if is_refusal(error) else (text, [])
        wrong, refused = zip(*(compare([sample], folder) for sample in samples))
        return list(itertools.chain(*wrong)), list(itertools.chain(*refused))
    return differences(samples, found), []


def differences(samples, found):
    """Returns a text for each value and gradient that differs from PyTorch's."""
    expected = gradients_in_torch(Joined(samples))
    values = zip(samples, expected.pop("factors"), found["factors"])
    texts = [f"{sample.name}: value {b:.7g}, expected {a:.7g}" for sample, a, b in values if abs(a - b) > VALUE * max(1, abs(a))]
    largest = largest_of(expected)
    for name, gradient in expected.items():
        _, number, tensor = name.split(".")
        got = found.get(name, torch.zeros_like(gradient)).reshape(gradient.shape).to(gradient.dtype)
        if not torch.allclose(got, gradient, rtol=GRADIENT, atol=1e-6 + GRADIENT / 10 * largest[int(number)]):
            pair = f"{got.flatten()[:6].tolist()}, expected {gradient.flatten()[:6].tolist()}"
            texts.append(f"{samples[int(number)].name}: gradient of {tensor} {pair}")
    return texts


def check(ops, count, folder, joined=40):
    """Returns the number of samples compared, a text for each sample that differs, and a text for each one that the compiler refuses."""
    compared, wrong, refused, waiting = 0, [], [], []
    for op in [*ops, None]:
        if op:
            taken, why = draw(op, count, folder)
            waiting += taken
            refused += [why] if why else []
        while len(waiting) >= joined or (waiting and not op):
            differing, not_compiled = compare(waiting[:joined], folder)
            wrong += differing
            refused += not_compiled
            compared += len(waiting[:joined]) - len(not_compiled)
            del waiting[:joined]
    return compared, wrong, refused


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=0, help="the number of the first op")
    parser.add_argument("--ops", type=int, default=len(op_db))
    parser.add_argument("--samples", type=int, default=4, help="the most samples of each op")
    flags = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        compared, wrong, refused = check(op_db[flags.first : flags.first + flags.ops], flags.samples, pathlib.Path(name))
    print("\n".join([*(f"refused: {text}" for text in refused), *(f"WRONG {text}" for text in wrong)]))
    print(f"{compared} samples compared: {len(wrong)} differences; {len(refused)} ops or samples refused")
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
