"""auto_accelerate, with the signature of ATorch: trains a model under a strategy, which is a list of methods, or is searched for."""

from __future__ import annotations

import collections
import inspect
import os
import re
import types
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from unittest import mock

import torch
from torch.utils._pytree import tree_flatten_with_path, tree_map_only, tree_unflatten

from parashard.errors import InputError, Unsupported
from parashard.jobs import write_once
from parashard.model import CompiledModel
from parashard.optimizer import Optimizer
from parashard.parallel import parallelize
from parashard.plan import Plan, parse_json, write_mesh
from parashard.planner import generate_plan
from parashard.strategies import Option, check_tunable, constrain, free_tunable, make_plan, read_methods

if TYPE_CHECKING:
    from parashard.annotations import Drive, Path

__all__ = ["ARGUMENTS", "auto_accelerate"]


class Result(NamedTuple):
    """The result of `auto_accelerate`, as in ATorch. args: how the loop calls the optimizer."""

    model: CompiledModel
    optim: Optimizer
    dataloader: torch.utils.data.DataLoader[Any]
    loss_func: Callable[..., Any] | None
    prepare_input: Callable[..., Any]
    args: dict[str, bool]
    lr_scheduler: Any


# ATorch's `args` of a result: how the loop calls the optimizer.
LOOP = {"use_optim_backward": False, "requires_set_gradient_accumulation_boundary": False}
FORMATS = (None, "unpack_sequence", "unpack_dict")
# The arguments of auto_accelerate. Those that have `values` take only these.
ARGUMENTS = {
    "model": Option("a torch.nn.Module; its weights are copied"),
    "optim_func": Option("`optim_func(parameters, **optim_args)` makes an SGD, Adam or AdamW of PyTorch"),
    "dataset": Option("a dataset of PyTorch; its first samples give the shapes of a batch"),
    "loss_func": Option("`loss_func(input, output)` returns the loss, or a list or tuple that begins with the loss"),
    "prepare_input": Option("`prepare_input(data, device)` makes the input from a batch of the data loader; all its values are tensors"),
    "model_input_format": Option("`None`: `model(input)`; `\"unpack_sequence\"`: `model(*input)`; `\"unpack_dict\"`: `model(**input)`"),
    "optim_args": Option("arguments of `optim_func`"),
    "optim_param_func": Option("`optim_param_func(model)` returns the parameters or the groups of parameters"),
    "dataloader_args": Option("arguments of `torch.utils.data.DataLoader`. `batch_size` is that of all ranks. A smaller last batch is dropped"),
    "distributed_sampler_cls": Option("a class with the interface of `DistributedSampler`; one process reads the samples of all ranks"),
    "excluded": Option("names of methods that the search omits"),
    "included": Option("methods, as in `load_strategy`, that the search must use"),
    "load_strategy": Option("a list of methods, a `Plan`, the path of a plan file, or the text of such a file. `None`: search with ps-plan"),
    "lr_scheduler_cls": Option("`lr_scheduler_cls(optim, **lr_scheduler_args)` makes the scheduler of the result"),
    "lr_scheduler_args": Option("arguments of `lr_scheduler_cls`"),
    "finetune_strategy": Option("search for the flags that `load_strategy` does not set, and for those of methods with `tunable=True`"),
    "save_strategy_to_file": Option("a path: writes the strategy as a plan file, which `ps-compile --plan` reads"),
    "ignore_dryrun_on_load_strategy": Option("the compiler checks a strategy, and nothing runs for a trial; remove the argument", {"True": {}}),
    "verbose": Option("print the strategy, and where the loss is computed"),
    "time_limit": Option("seconds after which the search ends with the best plan so far"),
    "find_unused_parameters": Option("parameters that forward does not use are always found; remove the argument", {"False": {}}),
    "ranks": Option("number of ranks: threads of this process. Needed for a search, and for `\"parallel_mode\"` without sizes"),
    "cluster": Option("cluster of the search, as in `generate_plan`"),
    "drive": Option("`\"step\"`: `loss_func` becomes a part of the graph; `\"autograd\"`: PyTorch computes the loss from the outputs"),
    "threads": Option("threads per rank, as in `parallelize`"),
    "seed": Option("seed of dropout, as in `parallelize`"),
}


def auto_accelerate(
    model: torch.nn.Module, optim_func: Callable[..., torch.optim.Optimizer] | None = None,
    dataset: torch.utils.data.Dataset[Any] | None = None, loss_func: Callable[[Any, Any], Any] | None = None,
    prepare_input: Callable[[Any, Any], Any] | None = None, model_input_format: Literal["unpack_sequence", "unpack_dict"] | None = None,
    optim_args: dict[str, Any] | None = None, optim_param_func: Callable[[Any], Iterable[Any]] | None = None,
    dataloader_args: dict[str, Any] | None = None, distributed_sampler_cls: Callable[..., torch.utils.data.Sampler[Any]] | None = None,
    excluded: Sequence[Any] | None = None, included: Sequence[Any] | None = None, load_strategy: Sequence[Any] | Plan | Path | bytes | None = None,
    lr_scheduler_cls: Callable[..., Any] | None = None, lr_scheduler_args: dict[str, Any] | None = None, finetune_strategy: bool = False,
    save_strategy_to_file: Path | None = None, *, ignore_dryrun_on_load_strategy: bool = True, verbose: bool = False,
    time_limit: float | None = None, find_unused_parameters: bool = False, ranks: int | None = None, cluster: Path | None = None,
    drive: Drive | None = None, threads: int = 0, seed: int = 0,
) -> tuple[bool, Result, Plan]:  # fmt: skip
    """Compiles a model for many ranks. Returns (status, result, best_strategy), as ATorch does: docs/python.md has the arguments.

    status: True; failures are exceptions. result: a namedtuple of model, optim, dataloader, loss_func, prepare_input, args and
    lr_scheduler. best_strategy: a `Plan`, which `load_strategy` accepts. Raises ExportFailed, CompileError, InputError or Unsupported.
    """
    ARGUMENTS["ignore_dryrun_on_load_strategy"].read("ignore_dryrun_on_load_strategy", ignore_dryrun_on_load_strategy)
    ARGUMENTS["find_unused_parameters"].read("find_unused_parameters", find_unused_parameters)
    if lr_scheduler_args and not lr_scheduler_cls:
        raise InputError("lr_scheduler_args needs lr_scheduler_cls")
    if optim_func is None or dataset is None:
        raise InputError(f"give {'dataset' if optim_func else 'optim_func'}: a program is compiled for an optimizer and the shapes of a batch")
    loader = make_loader(dataset, dataloader_args or {}, distributed_sampler_cls)
    prepare = prepare_input or move
    batch = Batch(model, model_input_format, loss_func, prepare(read_batch(dataset, loader), torch.device("cpu")))

    def optimizer_fn(module):
        return optim_func(optim_param_func(module) if optim_param_func else module.parameters(), **(optim_args or {}))

    def scheduler_fn(optimizer):
        return lr_scheduler_cls(optimizer, **(lr_scheduler_args or {})) if lr_scheduler_cls else None

    search = {"included": included, "excluded": excluded, "time_limit": time_limit, "cluster": cluster}
    strategy = check_strategy(load_strategy, finetune_strategy, search)
    plan = choose_plan(strategy, finetune_strategy, ranks, {**search, "optimizer_fn": optimizer_fn}, batch)
    drive = choose_drive(plan, drive, loss_func)
    with batch.graph(loss_func is not None and drive == "step"):
        found = parallelize(plan, model, optimizer_fn, scheduler_fn, example=batch.example, drive=drive, threads=threads, seed=seed)
    if save_strategy_to_file is not None:
        write_once(save_strategy_to_file, lambda: plan.save(save_strategy_to_file))
    if verbose:
        print(f"strategy: {plan}\nloss_func: {'in the program' if batch.has_loss else 'in PyTorch' if loss_func else 'none'}")
    return True, Result(found[0], found[1], loader, batch.connect(found[0]), prepare, dict(LOOP), found[2]), plan


def choose_drive(plan, drive, loss_func):
    """Returns the drive: "step" if the plan needs the loss in the graph. None: `parallelize` chooses, for a model that returns its loss."""
    needs = {
        "a pipeline": plan.mesh.get("pp", 1) > 1,
        "several micro-batches": str(plan.flags.get("micro-batches", 1)) != "1",
        "a scaled loss (fp16)": str(plan.flags.get("precision")).startswith("fp16"),
    }
    reason = next((text for text, is_needed in needs.items() if is_needed), None)
    if drive == "autograd" and reason:
        raise Unsupported(f"drive=\"autograd\" computes the loss in PyTorch, but the strategy has {reason}; remove drive")
    return drive or (None if loss_func is None else "step" if reason else "autograd")


# ---- strategies ----------------------------------------------------------------------------------------------------


def read_strategy(strategy):
    """Returns a `Plan`, or a list of methods (name, config, tunable)."""
    if isinstance(strategy, Plan):
        return strategy
    name = "load_strategy"
    if isinstance(strategy, os.PathLike) or (isinstance(strategy, str) and strategy.lstrip()[:1] not in ("{", "[")):
        name = os.fspath(strategy)
        try:
            with open(strategy, "rb") as file:
                strategy = file.read()
        except OSError as error:
            raise InputError(f"load_strategy={name!r}: {error.strerror}; give the path of a plan file, or a list of methods") from None
    if isinstance(strategy, bytes) and strategy.startswith(b"\x80"):
        raise Unsupported(f"{name}: pickled strategies are not read; give a list of methods, or a file of save_strategy_to_file")
    if isinstance(strategy, (str, bytes)):
        strategy = parse_json(strategy, name)
        if not isinstance(strategy, list):
            return Plan.from_values(strategy, name)
    return read_methods(strategy)


def check_strategy(given, finetune, search):
    """Returns a `Plan`, a list of methods, or None for a search. Raises InputError if arguments of a search have no effect."""
    if given is None and finetune:
        raise InputError("finetune_strategy=True needs load_strategy")
    for name, value in search.items() if given is not None else ():
        if value is not None and (not finetune or name in ("included", "excluded")):
            raise InputError(f"{name} is for a search; remove it, or load_strategy")
    strategy = None if given is None else read_strategy(given)
    if isinstance(strategy, list) and not finetune:
        check_tunable(strategy)
    return strategy


def choose_plan(strategy, finetune, ranks, search, batch):
    """Returns the plan of a strategy, or searches for it."""
    if isinstance(strategy, Plan):
        if ranks not in (None, strategy.ranks):
            raise InputError(f"the strategy has {strategy.ranks} ranks, which do not fit ranks={ranks}; change one of them")
        if not finetune:
            return strategy
        constraints, ranks = {"mesh": write_mesh(strategy.mesh), **strategy.flags}, strategy.ranks
    elif strategy is not None:
        if not finetune:
            return make_plan(strategy, batch.model, ranks)
        constraints, ranks = free_tunable(strategy, batch.model, ranks)
    else:
        lists = [read_methods(search[name] or []) for name in ("included", "excluded")]
        constraints = constrain(*lists, batch.model, ranks)
    if str(constraints.get("recompute")).startswith("modules="):
        raise Unsupported("a search does not choose the modules of \"checkpoint\"; give \"checkpoint\" without a config, or no search")
    options = {"ranks": ranks, **{name: search[name] for name in ("cluster", "time_limit", "optimizer_fn") if search[name] is not None}}
    return batch.search(constraints, options)


# ---- data ----------------------------------------------------------------------------------------------------------


def make_loader(dataset, arguments, sampler_class):
    """Returns the data loader of all ranks. Batches have equal sizes, because programs have fixed shapes."""
    arguments = dict(arguments)
    if not arguments.get("batch_size"):
        raise InputError("give dataloader_args={\"batch_size\": N, ...}, with the number of samples of a step on all ranks")
    if hasattr(dataset, "__len__") and len(dataset) < arguments["batch_size"]:
        raise InputError(f"the dataset has {len(dataset)} samples, which are fewer than the batch_size {arguments['batch_size']}")
    if sampler_class:
        if arguments.get("sampler") is not None:
            raise InputError("distributed_sampler_cls and the sampler of dataloader_args contradict each other; remove one")
        arguments["sampler"] = sampler_class(dataset, num_replicas=1, rank=0, shuffle=arguments.pop("shuffle", False))
    loader = torch.utils.data.DataLoader(dataset, **{"drop_last": True, **arguments})
    if not loader.drop_last and hasattr(dataset, "__len__") and len(dataset) % loader.batch_size:
        raise Unsupported(
            f"drop_last=False: {len(dataset)} samples do not divide into batches of {loader.batch_size}, but programs have fixed "
            "shapes; remove drop_last"
        )
    return loader


def read_batch(dataset, loader):
    """Returns a batch, whose values do not matter. Random numbers and the order of the loader stay as they are."""
    with torch.random.fork_rng(devices=[]):
        if isinstance(dataset, torch.utils.data.IterableDataset):
            return next(iter(loader))
        return loader.collate_fn([dataset[index] for index in range(loader.batch_size)])


def move(data, device):
    """Moves the tensors of a batch to a device: the default of prepare_input."""
    return tree_map_only(torch.Tensor, lambda value: value.to(device), data)


class Batch:
    """Gives a batch of any structure to a model. The graph has one input for each tensor of the batch."""

    def __init__(self, model, form, loss_func, data):
        if form not in FORMATS:
            raise InputError(f"model_input_format={form!r}; expected {', '.join(map(repr, FORMATS))}")
        if form == "unpack_dict" and not isinstance(data, collections.abc.Mapping):
            raise InputError(f"model_input_format=\"unpack_dict\" needs batches that are dicts, but they are {type(data).__name__}")
        if form == "unpack_sequence" and not isinstance(data, (list, tuple)):
            raise InputError(f"model_input_format=\"unpack_sequence\" needs batches that are lists or tuples, but they are {type(data).__name__}")
        self.model, self.form, self.loss_func = model, form, loss_func
        data = {"unpack_dict": dict, "unpack_sequence": tuple}.get(form, lambda value: value)(data)
        self.example = name_leaves(data)
        self.spec = tree_flatten_with_path(data)[1]
        self.has_loss = False
        self.last = None  # (loss, outputs) of the last call of the compiled model

    def graph(self, has_loss):
        """Returns a context in which forward of the model takes the tensors of a batch by name. has_loss: it returns (loss, outputs)."""
        forward, self.has_loss = self.model.forward, has_loss

        def forward_batch(self_, **tensors):
            data = tree_unflatten([tensors[name] for name in self.example], self.spec)
            outputs = forward(*data) if self.form == "unpack_sequence" else forward(**data) if self.form else forward(data)
            return (self.loss_func(data, outputs), outputs) if has_loss else outputs

        kinds = inspect.Parameter
        forward_batch.__signature__ = inspect.Signature(
            [kinds("self", kinds.POSITIONAL_OR_KEYWORD), *(kinds(name, kinds.KEYWORD_ONLY) for name in self.example)]
        )
        return mock.patch.object(self.model, "forward", types.MethodType(forward_batch, self.model), create=True)

    def search(self, constraints, options):
        """Returns the plan that ps-plan finds, with the loss in the graph."""
        with self.graph(self.loss_func is not None):
            return generate_plan(constraints, self.model, example=self.example, **options)

    def connect(self, compiled):
        """Lets a compiled model take batches as the original model does. Returns the loss function of the loop."""
        forward, self.model = compiled.forward, None  # the original model may be freed

        def call(*arguments, **options):
            values = forward(**self.flatten(arguments, options))
            self.last = values if self.has_loss else None
            return values[1] if self.has_loss else values

        compiled.forward = call
        return self.read_loss if self.has_loss else self.loss_func

    def flatten(self, arguments, options):
        """Returns the tensors of a call by name."""
        if self.form == "unpack_dict" and not arguments:
            return name_leaves(options)
        if self.form == "unpack_sequence" and not options:
            return name_leaves(arguments)
        if self.form is None and len(arguments) == 1 and not options:
            return name_leaves(arguments[0])
        call = {"unpack_dict": "model(**input)", "unpack_sequence": "model(*input)"}.get(self.form, "model(input)")
        raise InputError(f"with model_input_format={self.form!r}, call {call}")

    def read_loss(self, inputs, outputs):
        """Returns the loss, which the program computed together with the outputs."""
        if self.last is None or outputs is not self.last[1]:
            raise InputError("the program computes the loss; call loss_func with the outputs of the last call of the model")
        return self.last[0]


def name_leaves(data):
    """Returns the tensors of a batch by name, in order. Example: {"x": a, "y": (b, c)} has x, y_0 and y_1."""
    result = {}
    for path, value in tree_flatten_with_path(data)[0]:
        keys = [str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path]
        name = re.sub(r"\W", "_", "_".join(keys)) or "input"
        name = f"input_{name}" if name[0].isdigit() else name
        if not isinstance(value, torch.Tensor):
            raise InputError(f"{'.'.join(keys) or 'the batch'} is {type(value).__name__}; make prepare_input return tensors only")
        if name in result:
            raise InputError(f"two tensors of the batch have the name {name}; rename one")
        result[name] = value
    return result
