"""The oracle: trains a model of the zoo in PyTorch and as a compiled program on the same batches, and compares both.

Compares the loss of every step, and every gradient of step 0 (with PyTorch in float64). After the last step, compares the
UPDATE of each parameter and running statistic, |dw - dw_torch| / |dw_torch|, since losses alone do not reveal wrong optimizers.
"""
import contextlib
import copy
import dataclasses
import functools
import os
import pathlib
import re
import subprocess
import unittest.mock

import language
import models
import numpy as np
import once
import torch
import vision
from conftest import ROOT, tools_folder
from safetensors.torch import load_file, save_file
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

STEPS = 8
LOSS_TOLERANCE = 1e-5
STATISTICS_TOLERANCE = 1e-4
OPTIMIZERS = {
    # name: (flag of ps-compile, PyTorch's optimizer, tolerance of updates)
    "sgd": (
        "sgd(lr=0.05,momentum=0.9,nesterov=true)",
        lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
        1e-3,
    ),
    "adamw": (
        "adamw(lr=1e-3,betas=(0.9,0.95),eps=1e-8,weight_decay=0.1)",
        lambda p: torch.optim.AdamW(p, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1),
        5e-3,
    ),
}


# ---- batches -------------------------------------------------------------------------------------------------------


def draw_batches(model, micro_batches, steps=STEPS, seed=100):
    """Draws all samples of a run, by input name: [steps x micro_batches x batch, ...], in reading order.

    Later rows of a micro-batch have more ignored labels, so that ranks have different counts. If a step has several
    micro-batches, all labels of one of them are ignored. For models with batch norms, later micro-batches have more ignored
    labels instead.
    """
    parts = []
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        for index in range(micro_batches):
            part = model.draw_inputs(seed + 1 + step * micro_batches + index)
            if "labels" in part:
                labels = part["labels"]
                rows = labels.shape[0]
                most = 0.9 * (index + 1) / micro_batches if model.has_statistics else 0.6
                share = torch.linspace(0.0, most, rows).reshape([rows] + [1] * (labels.dim() - 1))
                labels[torch.rand(labels.shape, generator=generator) < share] = models.IGNORED
                if micro_batches > 1 and index == step % micro_batches and not model.has_statistics:
                    labels[:] = models.IGNORED
            parts.append(part)
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def rows_of_step(batches, step, steps=STEPS):
    """Returns the samples of all micro-batches of one step."""
    out = {}
    for name, value in batches.items():
        rows = value.shape[0] // steps
        out[name] = value[step * rows : (step + 1) * rows]
    return out


# ---- PyTorch -------------------------------------------------------------------------------------------------------


class InFloat64(TorchFunctionMode):
    """Makes code that requests float32 explicitly (rotary tables, norms, losses) compute in float64."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.Tensor.float:
            function = torch.Tensor.double
        args = tuple(torch.float64 if a is torch.float32 else a for a in args)
        kwargs = {k: torch.float64 if v is torch.float32 else v for k, v in (kwargs or {}).items()}
        return function(*args, **kwargs)


def backward(module, rows, parts=1):
    """Returns the loss of a step, and leaves the gradients in the module.

    Splits `rows` into `parts`, and weights the loss of each part by its share of the labels that are not ignored.
    """
    if parts == 1:
        loss = models.first_loss(module(**rows))
        loss.backward()
        return loss.item()
    total, sum_ = (rows["labels"] != models.IGNORED).sum(), 0.0
    for part in range(parts):
        batch = {name: value.chunk(parts)[part] for name, value in rows.items()}
        share = (batch["labels"] != models.IGNORED).sum() / total.double()
        loss = models.first_loss(module(**batch)) * share
        loss.backward()
        sum_ += loss.item()
    return sum_


def loss_and_gradients(module, inputs, dtype, parts=1):
    """Returns (loss, {name: gradient}) of a copy of `module` in `dtype`.

    Uses PyTorch's math backend of attention. The fused backends give another gradient to a query that attends to no key.
    """
    module = copy.deepcopy(module).to(dtype)
    with sdpa_kernel(SDPBackend.MATH), InFloat64() if dtype == torch.float64 else contextlib.nullcontext():
        loss = backward(module, models.cast(inputs, dtype), parts)
    return loss, {n: p.grad.detach() for n, p in module.named_parameters() if p.grad is not None}


@dataclasses.dataclass
class Reference:
    """PyTorch's results for one model, number of micro-batches and optimizer."""

    losses: list
    gradients: dict  # of step 0, float32
    exact_gradients: dict  # of step 0, float64
    before: dict  # parameters before the first step
    after: dict
    aliases: dict  # every name of a parameter -> its name in the other members
    statistics: dict = dataclasses.field(default_factory=dict)  # buffers that training changes: (before, after)


def train_in_torch(model, batches, make_optimizer, steps=STEPS, micro_batches=1):
    """Trains a copy of the model. A step runs all micro-batches as one batch, or separately for models with batch norms."""
    parts = micro_batches if model.has_statistics else 1
    module = copy.deepcopy(model.module)
    parameters = dict(module.named_parameters())
    before, started = copy_of(parameters), copy_of(dict(module.named_buffers()))
    first = rows_of_step(batches, 0, steps)
    optimizer = make_optimizer([p for p in parameters.values() if p.requires_grad])
    losses = []
    _, exact = loss_and_gradients(module, first, torch.float64, parts)
    _, gradients = loss_and_gradients(module, first, torch.float32, parts)
    with sdpa_kernel(SDPBackend.MATH):
        for step in range(steps):
            optimizer.zero_grad()
            losses.append(backward(module, rows_of_step(batches, step, steps), parts))
            optimizer.step()
    moved = {n: (started[n], b.clone()) for n, b in module.named_buffers() if not torch.equal(started[n], b)}
    return Reference(losses, gradients, exact, before, copy_of(parameters), aliases_of(module), moved)


def copy_of(tensors):
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def aliases_of(module):
    """Maps every name of a parameter to the first name of the same parameter. Example: tied weights have two names."""
    names = {}
    first = {id(p): n for n, p in module.named_parameters()}
    for name, p in module.named_parameters(remove_duplicate=False):
        names[name] = first[id(p)]
    return names


def reference(name, micro_batches, optimizer, importer="pt2"):
    """Returns PyTorch's results for a model of the zoo, which are computed once."""
    same = zoo(name, importer) is zoo(name)
    return train_of_zoo(name, micro_batches, optimizer, "pt2" if same else importer)


@functools.cache
def train_of_zoo(name, micro_batches, optimizer, importer):
    model = zoo(name, importer)
    batches = draw_batches(model, micro_batches)
    return train_in_torch(model, batches, OPTIMIZERS[optimizer][1], micro_batches=micro_batches)


ZOO = {**models.MODELS, **models.DEEP, **models.TABLES, **language.MODELS, **vision.MODELS}


@functools.cache
def zoo(name, importer="pt2"):
    """Returns a model by its name, in the form that a file for `importer` has."""
    if importer == "onnx":
        return zoo(name).as_in_onnx()
    return ZOO[name]()


# ---- compiled ------------------------------------------------------------------------------------------------------


class ToolFailed(AssertionError):
    """A tool ended with an unexpected exit status."""


def run(command, cwd, expect=0, timeout=600):
    """Runs a command and returns its stdout and stderr. Raises ToolFailed, with the command line, for another exit status."""
    command = [str(c) for c in command]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=timeout)
    if done.returncode != expect:
        raise ToolFailed(
            f"exit status {done.returncode}, expected {expect}\n(cd {cwd}; {' '.join(map(repr, command))})\n"
            f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        )
    assert "json.exception" not in done.stderr, "the name of a library's exception:\n" + done.stderr
    return done.stdout + done.stderr


def ranks_of(mesh):
    """Returns the number of ranks of a mesh. Example: dp=2,tp=2 has 4."""
    return int(np.prod([int(axis.split("=")[1]) for axis in mesh.split(",")]))


@dataclasses.dataclass
class Result:
    """The results of a compiled program."""

    losses: list
    gradients: dict
    after: dict
    folder: pathlib.Path
    output: str = ""  # what the program printed


def compile_model(folder, export, mesh, *flags, out="program", can_fail=False):
    """Runs ps-compile and returns the program's path. With `can_fail`, PSRT_TEST_FAIL can make a rank of the program fail."""
    program = pathlib.Path(folder) / out
    linker = {"PARASHARD_LINKER": str(ROOT / "runtime/conformance/link-with-faults")} if can_fail else {}
    with unittest.mock.patch.dict(os.environ, linker):
        run([tools_folder() / "ps-compile", export, "-o", program, "--mesh", mesh, *flags], folder)
    return program


def evaluate(folder, export, inputs, mesh):
    """Compiles a model and returns the loss that the program prints with --eval."""
    program = compile_model(folder, export, mesh, "--optimizer", "sgd(lr=0)")
    save_file(inputs, pathlib.Path(folder) / "data.safetensors")
    said = run([program, "--ranks", ranks_of(mesh), "--eval", "--data", "data.safetensors"], folder)
    return float(re.findall(r"loss\s+([\d.]+)", said)[-1])


def train_compiled(folder, export, batches, mesh, micro_batches, optimizer_flag, flags=(), steps=STEPS, run_flags=()):
    """Compiles a model, trains it for `steps` steps, and reads the files that the program wrote."""
    program = compile_model(
        folder, export, mesh, "--micro-batches", micro_batches, "--optimizer", optimizer_flag, *flags
    )
    return train_program(folder, program, batches, ranks_of(mesh), steps, run_flags)


def train_program(folder, program, batches, ranks, steps=STEPS, run_flags=()):
    """Trains for `steps` steps, and reads the files that the program wrote."""
    folder = pathlib.Path(folder)
    data = folder / "data.safetensors"
    save_file({n: v.contiguous() for n, v in batches.items()}, data)
    output = run(
        [program, "--ranks", ranks, "--data", data, "--steps", steps, "--losses", "losses.txt",
         "--gradients", "gradients.safetensors", "--export-weights", "weights.safetensors", "--quiet", *run_flags],
        folder,
    )  # fmt: skip
    gradients = {n.removeprefix("grad."): t for n, t in load_file(folder / "gradients.safetensors").items()}
    losses, weights = read_losses(folder / "losses.txt"), load_file(folder / "weights.safetensors")
    return Result(losses, gradients, weights, folder, output)


def first_step(folder, export, data, *flags, mesh="dp=1"):
    """Compiles a model and runs one step on `data`. Returns (loss, gradients by name)."""
    folder = pathlib.Path(folder)
    program = compile_model(folder, export, mesh, "--optimizer", "sgd(lr=0)", *flags)
    save_file({n: v.contiguous() for n, v in data.items()}, folder / "data.safetensors")
    run(
        [program, "--ranks", ranks_of(mesh), "--data", "data.safetensors", "--steps", "1", "--gradients", "g.safetensors",
         "--quiet"],
        folder,
    )  # fmt: skip
    found = load_file(folder / "g.safetensors")
    return float(found.pop("loss")), {name.removeprefix("grad."): value for name, value in found.items()}


def read_losses(path):
    """Returns the last number of each line."""
    return [float(line.split()[-1]) for line in pathlib.Path(path).read_text().splitlines() if line.strip()]


# ---- comparison ----------------------------------------------------------------------------------------------------


def noise_elements(ref, name):
    """Returns a bool tensor: whether each element of a gradient consists of rounding errors only (example: the key bias of attention).

    If this holds for most elements of a parameter, returns True for all. Reason: an element may be exactly zero in the first step, but not in later steps.
    """
    exact, single = ref.exact_gradients[name], ref.gradients[name].double()
    largest = max(g.abs().max() for g in ref.exact_gradients.values())
    noise = (exact.abs() < 1e-6 * largest) & ((single - exact).abs() > 0.05 * exact.abs())
    return torch.ones_like(noise) if 2 * noise.sum() > noise.numel() else noise


def worst_loss(ref, losses):
    """Returns the largest relative difference of a step's loss."""
    if len(losses) != len(ref.losses):
        return float("inf")
    return max(abs(a - b) / abs(b) for a, b in zip(losses, ref.losses))


def gradient_errors(ref, gradients):
    """Returns error / allowed error per parameter. Allowed: 4 x the error of PyTorch in float32 + 1e-6 x the model's largest gradient element."""
    largest = max(g.abs().max().item() for g in ref.exact_gradients.values())
    ours = {ref.aliases.get(name, name): value for name, value in gradients.items()}
    errors = {}
    for name, exact in ref.exact_gradients.items():
        if name not in ours or ours[name].shape != exact.shape:
            errors[name] = float("inf")
            continue
        allowed = 4 * (ref.gradients[name].double() - exact).abs().max().item() + 1e-6 * largest
        error = (ours[name].double() - exact).abs().max().item()
        errors[name] = error / allowed if np.isfinite(error) else float("inf")
    return errors


def statistics_errors(ref, after):
    """Returns |db - db_torch| / |db_torch| per running statistic."""
    errors = {}
    for name, (before, expected) in ref.statistics.items():
        found = after.get(name, torch.full_like(expected, 0)).double()
        error = (found - expected).norm() / (expected - before).double().norm()
        errors[name] = error.item() if torch.isfinite(error) else float("inf")
    return errors


def update_errors(ref, after):
    """Returns |dw - dw_torch| / |dw_torch| per parameter, without elements whose gradient consists of rounding errors.

    The difference of each element is reduced by two roundings of the weight. Reason: if two batch norms follow each other, the
    loss hardly depends on the scale of the first. The update of such a weight of 1 is then only about a dozen roundings of 1.2e-7.
    """
    errors, after = {}, {**{ref.aliases.get(name, name): value for name, value in after.items()}, **after}
    for name, before in ref.before.items():
        if name not in after or after[name].shape != before.shape:
            errors[name] = float("inf")
            continue
        keep = ~noise_elements(ref, name) if name in ref.gradients else torch.ones_like(before, dtype=torch.bool)
        if not keep.any():
            continue
        expected = (ref.after[name] - before)[keep].double()
        difference = (after[name] - ref.after[name])[keep].double().abs()
        rounding = 2 * torch.finfo(torch.float32).eps * ref.after[name][keep].double().abs()
        error = (difference - rounding).clamp_min(0).norm() / expected.norm().clamp_min(1e-30)
        errors[name] = error.item() if torch.isfinite(error) else float("inf")
    return errors


def left_out(ref):
    """Returns, per parameter, the number of elements whose update is not compared, if there are any."""
    counts = {name: int(noise_elements(ref, name).sum()) for name in ref.gradients}
    return {name: count for name, count in counts.items() if count}


@dataclasses.dataclass
class Comparison:
    """The largest error of each kind, with the tensor's name."""

    first_loss: float
    loss: float
    gradient: tuple  # (name, error / allowed)
    update: tuple  # (name, relative error)
    update_tolerance: float
    statistics: tuple  # (name, relative error)

    def failures(self):
        found = []
        if not self.loss <= LOSS_TOLERANCE:
            found.append(f"loss differs by {self.loss:.2e} (relative), allowed {LOSS_TOLERANCE:.0e}")
        if not self.gradient[1] <= 1:
            found.append(f"gradient of {self.gradient[0]} is {self.gradient[1]:.1f} x the error allowed")
        if not self.update[1] <= self.update_tolerance:
            found.append(
                f"update of {self.update[0]} differs by {self.update[1]:.1e}, allowed {self.update_tolerance:.0e}"
            )
        if not self.statistics[1] <= STATISTICS_TOLERANCE:
            found.append(
                f"running statistic {self.statistics[0]} differs by {self.statistics[1]:.1e}, allowed {STATISTICS_TOLERANCE:.0e}"
            )
        return found

    def __str__(self):
        return f"loss {self.loss:.1e}  gradient {self.gradient[1]:.2f}  update {self.update[1]:.1e} ({self.update[0]})"


def compare(ref, result, update_tolerance):
    """Compares the results of a program with PyTorch's. Returns a Comparison."""

    def worst(errors):
        return max(errors.items(), key=lambda item: item[1])

    return Comparison(
        worst_loss(dataclasses.replace(ref, losses=ref.losses[:1]), result.losses[:1]),
        worst_loss(ref, result.losses),
        worst(gradient_errors(ref, result.gradients)),
        worst(update_errors(ref, result.after)),
        update_tolerance,
        worst(statistics_errors(ref, result.after) or {"none": 0.0}),
    )


def export(name, folder, importer="pt2"):
    """Returns the model's exported file in `folder`, which is written once."""

    def build(path):
        model = zoo(name, importer)
        model.export_onnx(path) if importer == "onnx" else model.export(path)

    return once.make(pathlib.Path(folder) / f"{name}.{importer}", build)


def check_case(folder, exports, case):
    """Trains a `cases.Case` in PyTorch and as a compiled program. Returns the Comparison."""
    flag, _, tolerance = OPTIMIZERS[case.optimizer]
    ref = reference(case.model, case.micro_batches, case.optimizer, case.importer)
    batches = draw_batches(zoo(case.model, case.importer), case.micro_batches)
    archive = export(case.model, exports, case.importer)
    return compare(ref, train_compiled(folder, archive, batches, case.mesh, case.micro_batches, flag, case.flags()), tolerance)
