"""Compiles a model and its optimizer for many ranks."""

from __future__ import annotations

import contextlib
import inspect
import pathlib
import tempfile
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

import torch

from parashard.caching import Generation, export_entries
from parashard.compiler import compile_archive
from parashard.deferred import draw_parameters, is_deferred
from parashard.drives import AutogradDrive, StepDrive
from parashard.errors import InputError, Unsupported
from parashard.export import add_loss, export
from parashard.jobs import _runtime, find_job
from parashard.loading import make_loader
from parashard.model import CompiledModel, bind_inputs, label_outputs, make_model
from parashard.optimizer import Optimizer, compile_groups
from parashard.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Unpack

    from parashard.annotations import Batch, Drive, LoaderOptions, ProgramOptions
    from parashard.loading import BatchLoader
    from parashard.model import CompiledModel

__all__ = ["parallelize"]

Model = TypeVar("Model", bound=torch.nn.Module)
Scheduler = TypeVar("Scheduler")
Sample = TypeVar("Sample")


@overload
def parallelize(
    plan: Plan | str | Mapping[str, int], model: Model, optimizer_fn: Callable[[Model], torch.optim.Optimizer],
    lr_scheduler_fn: None = None, dataset: None = None, *, example: Batch, **options: Unpack[ProgramOptions],
) -> tuple[CompiledModel, Optimizer]: ...  # fmt: skip


@overload
def parallelize(
    plan: Plan | str | Mapping[str, int], model: Model, optimizer_fn: Callable[[Model], torch.optim.Optimizer],
    lr_scheduler_fn: Callable[[Optimizer], Scheduler], dataset: None = None, *, example: Batch, **options: Unpack[ProgramOptions],
) -> tuple[CompiledModel, Optimizer, Scheduler]: ...  # fmt: skip


@overload
def parallelize(
    plan: Plan | str | Mapping[str, int], model: Model, optimizer_fn: Callable[[Model], torch.optim.Optimizer],
    lr_scheduler_fn: None = None, *, dataset: torch.utils.data.Dataset[Sample], **options: Unpack[LoaderOptions],
) -> tuple[CompiledModel, Optimizer, BatchLoader[Sample]]: ...  # fmt: skip


@overload
def parallelize(
    plan: Plan | str | Mapping[str, int], model: Model, optimizer_fn: Callable[[Model], torch.optim.Optimizer],
    lr_scheduler_fn: None, dataset: torch.utils.data.Dataset[Sample], **options: Unpack[LoaderOptions],
) -> tuple[CompiledModel, Optimizer, BatchLoader[Sample]]: ...  # fmt: skip


@overload
def parallelize(
    plan: Plan | str | Mapping[str, int], model: Model, optimizer_fn: Callable[[Model], torch.optim.Optimizer],
    lr_scheduler_fn: Callable[[Optimizer], Scheduler], dataset: torch.utils.data.Dataset[Sample], **options: Unpack[LoaderOptions],
) -> tuple[CompiledModel, Optimizer, Scheduler, BatchLoader[Sample]]: ...  # fmt: skip


def parallelize(
    plan: Plan | str | Mapping[str, int], model: Model, optimizer_fn: Callable[[Model], torch.optim.Optimizer],
    lr_scheduler_fn: Callable[[Optimizer], Any] | None = None, dataset: torch.utils.data.Dataset[Any] | None = None, *,
    example: Batch | None = None, batch_size: int | None = None, criterion: Callable[..., torch.Tensor] | None = None,
    drive: Drive | None = None, keep_outputs: str | Sequence[str] = (), threads: int = 0, seed: int = 0,
    loader_options: dict[str, Any] | None = None, generation: Generation | dict[str, int] | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Compiles a model for the ranks of a plan. Returns (model, optimizer), and then the scheduler and the data loader if requested.

    plan: a `Plan`, or a mesh such as "dp=2,tp=2". The ranks are threads of this process, or the processes of a job (`launch`).
    model: a torch.nn.Module. Its weights are copied; in a job, all ranks get the weights of rank 0. The module itself is not
        changed. The current mode (train or eval) of each submodule is compiled.
    optimizer_fn, lr_scheduler_fn: `optimizer_fn(model)` makes an optimizer of PyTorch (SGD, Adam or AdamW), and
        `lr_scheduler_fn(optimizer)` a scheduler.
    dataset: a dataset of PyTorch. The data loader reads it in an order that `seed` determines, in batches of whole steps.
    batch_size: the number of samples of a step. By default, the number of samples of the example.
    example: a batch, as a tensor, a tuple of the arguments of forward, or a dict from names to arguments. Later batches must have
        the shapes of the example. By default, the first batch of the dataset.
    criterion: `criterion(outputs, labels)` becomes a part of the graph. The compiled model also takes `labels`, which must be in
        `example`, and returns (loss, outputs...).
    drive: "step" if the model or `criterion` computes the loss in the graph. "autograd" if the loss is computed in PyTorch from
        the outputs. By default, "step" if the first output of the model is a floating-point scalar.
    keep_outputs: with the loss in the graph: the names of other outputs that have values in training mode too, or "all". They take
        memory for the samples of a whole step.
    threads: threads per rank; 0: the cores of this machine, divided among the ranks.
    seed: the seed of dropout masks and of the order of the data.
    loader_options: options of torch.utils.data.DataLoader for the data loader, such as {"num_workers": 2}. The loader has a
        state_dict(), and continues in the middle of an epoch.
    generation: {"batch_size": B, "max_length": L} lets generate() of a causal language model of Hugging Face use a KV cache, for B
        sequences of up to L tokens.

    The training loop of PyTorch does not change: `loss = criterion(model(x), y)`, `loss.backward()`, `optimizer.step()`,
    `optimizer.zero_grad()`.
    Raises ExportFailed, CompileError, InputError or Unsupported.
    """
    if loader_options and dataset is None:
        raise InputError("loader_options are for the data loader of a dataset; give dataset, or remove them")
    if drive not in (None, "step", "autograd"):
        raise InputError(f"drive is {drive!r}; expected \"step\", \"autograd\" or None")
    plan = plan if isinstance(plan, Plan) else Plan(plan)
    if dataset is None and example is None:
        raise InputError("the shapes of a batch are not known; give example=batch, or a dataset and batch_size=N")
    if dataset is not None and example is None:
        if batch_size is None:
            raise InputError("the number of samples of a step is not known; give batch_size=N")
        samples = len(dataset)  # type: ignore[arg-type] # checked at run time
        if batch_size > samples:
            raise InputError(f"the dataset has {samples} samples, fewer than a batch of {batch_size}")
        collate = (loader_options or {}).get("collate_fn", torch.utils.data.default_collate)
        example = collate([dataset[index] for index in range(batch_size)])
    if isinstance(model, CompiledModel):
        raise InputError("the model is compiled already; parallelize the original model")
    if isinstance(optimizer_fn, torch.optim.Optimizer):
        kind = type(optimizer_fn).__name__
        raise InputError(f"optimizer_fn is an optimizer; give a function, such as lambda model: torch.optim.{kind}(model.parameters())")
    optimizer = optimizer_fn(model)
    groups = compile_groups(model, optimizer)
    with add_loss(model, criterion) if criterion else contextlib.nullcontext():
        inputs = name_inputs(model, example)
        compiled = compile_model(plan, model, groups, inputs, drive, {"threads": threads, "seed": seed}, keep_outputs, generation)
    optimizer = Optimizer(compiled, optimizer, groups)
    result = [compiled, optimizer]
    if lr_scheduler_fn:
        result.append(lr_scheduler_fn(optimizer))
    if dataset is not None:
        result.append(make_loader(dataset, batch_size or count_rows(inputs), seed, loader_options or {}))
    return tuple(result)


def compile_model(plan, model, groups, inputs, drive, options, keep_outputs=(), generation=None):
    """Returns a `CompiledModel` with the weights of `model`.

    groups: the `CompiledGroups` of its optimizer; None: the program only evaluates. inputs: an example of the whole batch, by name.
    options: the options of the program. keep_outputs, generation: as in `parallelize`.
    """
    check_data(model)
    micro_batches = count_micro_batches(plan, inputs)
    job = find_job(plan.ranks)
    with tempfile.TemporaryDirectory() as folder:
        part = first_rows(inputs, micro_batches)
        exported = export(model, part, pathlib.Path(folder) / "model.pt2", train=model.training)
        names, spec = list_outputs(exported.program)
        loss = choose_loss(plan, exported, names, drive) if groups else None
        arguments = flag_training(names, loss, groups, keep_outputs) if groups else ["--inference"]
        entries = export_entries(model, Generation.of(generation), pathlib.Path(folder)) if generation else {}
        arguments += ["--batch-dim", "cache_slot=none"] if entries else []
        library = compile_archive(exported.path, [*plan.arguments(), *arguments], entries)
    program = _runtime.Program(str(library), ranks=plan.ranks, job=job, **options)
    positions = label_outputs(names, program.names(f"outputs:{'forward' if groups and not loss else 'evaluate'}"), spec)
    outputs = list(dict.fromkeys(name for name in positions if name is not None))  # each once
    if loss:
        compiled_drive = StepDrive(program, outputs, positions[names.index(loss)], micro_batches)
    else:
        compiled_drive = AutogradDrive(program, outputs, inspect.signature(model.forward).parameters)
    compiled = make_model(model, program, compiled_drive, positions, spec, groups.trained if groups else set(), set(inputs))
    copy_values(model, compiled)
    if groups:
        program.zero_grad()
    return compiled


def check_data(model):
    """Raises InputError if a tensor of the model has no data, unless `deferred_init` has deferred it."""
    for name, value in [*model.named_buffers(), *([] if is_deferred(model) else model.named_parameters())]:
        if value.device.type == "meta":
            raise InputError(f"{name} has no data (its device is meta); build the model with parashard.deferred_init")


def copy_values(model, compiled):
    """Copies the parameters and buffers of a model to a compiled model. Draws those that `deferred_init` has deferred."""
    values = model.state_dict()
    without = [name for name, value in values.items() if value.device.type == "meta"]
    compiled.load_state_dict({name: value for name, value in values.items() if value.device.type != "meta"}, strict=not without)
    if without:
        for name, drawn in draw_parameters(model):
            compiled._write(name, drawn)


def choose_loss(plan, exported, names, drive):
    """Returns the name of the output that is the loss of the step drive, or None for the autograd drive."""
    first = next((name for name in names if name is not None), None)
    if drive == "step" and not exported.loss:
        raise InputError("drive=\"step\" needs a model that returns its loss as a scalar, or a criterion")
    if drive != "autograd" and exported.loss and (drive == "step" or exported.loss == first):
        return exported.loss
    if plan.mesh.get("pp", 1) > 1:
        raise Unsupported(
            "a pipeline axis needs the loss in the graph: give a criterion (an Engine: to execute_pipeline), or return the loss as the "
            "first output of the model"
        )
    if int(plan.flags.get("micro-batches", 1)) > 1:
        raise Unsupported(
            "micro-batches need the loss in the graph: give a criterion (an Engine: to execute_pipeline), return the loss as the first "
            "output of the model, or call the model several times before optimizer.step()"
        )
    if str(plan.flags.get("precision", "")).startswith("fp16"):
        raise Unsupported("fp16 scales the loss, so the loss must be in the graph; give a criterion, or use precision=\"bf16\"")
    return None


def flag_training(names, loss, groups, keep_outputs):
    """Returns the arguments of ps-compile for a training program."""
    if not loss:
        if keep_outputs:
            raise InputError("keep_outputs needs the loss in the graph; with drive=\"autograd\", all outputs have values: remove it")
        return ["--loss", "none", *groups.arguments]
    kept = keep_outputs if isinstance(keep_outputs, str) else ",".join(keep_outputs)
    return [*flag_loss(names, loss), *(["--keep-outputs", kept] if kept else []), *groups.arguments]


def flag_loss(names, loss):
    """Returns the arguments of ps-compile that select the loss by its index. The names of outputs may be replaced by the keys of a dict."""
    return ["--loss-output", str([name for name in names if name is not None].index(loss))]


def count_micro_batches(plan, inputs):
    """Returns the number of micro-batches of a step. Raises InputError if the batch of the example is not divisible by this number."""
    given = plan.flags.get("micro-batches", 1)
    if "global-batch" in plan.flags or not str(given).isdecimal() or int(given) < 1:
        raise Unsupported("give the number of micro-batches as Plan(..., micro_batches=N); the example has the global batch")
    count, rows = int(given), count_rows(inputs)
    if rows % count:
        raise InputError(
            f"the example has {rows} samples, which is not divisible by {count} micro-batches; use another number of samples or "
            "micro-batches"
        )
    if int(plan.flags.get("batch", rows // count)) != rows // count:
        raise InputError(
            f"the plan has a micro-batch of {plan.flags['batch']} samples, but the example has {rows} samples in {count} micro-batches; "
            f"give an example of {count * int(plan.flags['batch'])} samples"
        )
    return count


def count_rows(inputs):
    """Returns the number of samples of an example: the size of dim 0 of its first tensor with dims."""
    return next((value.size(0) for value in inputs.values() if value.dim()), 1)


def first_rows(inputs, micro_batches):
    """Returns the inputs of the first micro-batch of an example."""
    rows = count_rows(inputs)
    return {
        name: value[: rows // micro_batches] if micro_batches > 1 and value.dim() and value.size(0) == rows else value
        for name, value in inputs.items()
    }


def name_inputs(module, example):
    """Returns the tensors of an example by the names of forward's parameters."""
    if isinstance(example, dict):
        return bind_inputs(module, (), example)
    return bind_inputs(module, tuple(example) if isinstance(example, (tuple, list)) else (example,), {})


def list_outputs(program):
    """Returns (names of the outputs, their structure). The name of an output None is None. Fails for other outputs that are not tensors."""
    spec = program.call_spec.out_spec
    names = list(program.graph_signature.user_outputs)
    for value in names:
        if value is not None and not isinstance(value, str):
            raise Unsupported(f"the model returns {value!r} in addition to tensors; return tensors only")
    return names, spec
