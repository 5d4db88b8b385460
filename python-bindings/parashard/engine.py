"""The engine of ColossalAI. It returns models, optimizers, schedulers and data loaders that run on many ranks; the training loop stays."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal

import torch

from parashard import checkpoint_folders
from parashard.checkpoint import HasState, LoadsState, get_state, read_state, write_state
from parashard.errors import InputError, Unsupported
from parashard.jobs import write_once
from parashard.lazy import LazyModel, LazyOptimizer
from parashard.optimizer import compile_groups
from parashard.parallel import compile_model
from parashard.plan import Plan
from parashard.plugins import Plugin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parashard.annotations import Path

__all__ = ["Engine"]

# Flags of a plan that matter for evaluation. A program that only evaluates warns of the others.
EVALUATED = ("precision", "sharding-policy", "overlap", "align-dims", "matmul-epilogues", "cluster", "split-method", "target")
PRECISIONS = ("fp32", "bf16", "fp16", "half", "fp8")


class Engine:
    """Trains models by a plan. Several engines with different plans may be used at once.

    device: "cpu" or "cuda"; by default, the target of the plan.
    precision: fp32, bf16, fp16, half or fp8; by default, that of the plan. fp16 needs `execute_pipeline`.
    grad_clipping_type, grad_clipping_value: "norm" and the norm to which each update clips the gradients of a model; 0: no clipping.
    parallelism_plugin: a plugin of `parashard.plugins`. plan: instead of a plugin, a `Plan` or a mesh such as "dp=2,tp=2".
    keep_outputs: allows return_outputs=True in later calls of `execute_pipeline` in training mode, even if the first call does not set it.
    threads, seed: those of `parallelize`.
    """

    def __init__(
        self, device: str | torch.device | None = None, precision: str | None = None, grad_clipping_type: str = "norm",
        grad_clipping_value: float = 0.0, parallelism_plugin: Plugin | None = None, *, plan: Plan | str | Mapping[str, int] | None = None,
        keep_outputs: bool = False, threads: int = 0, seed: int = 0,
    ) -> None:  # fmt: skip
        if parallelism_plugin is not None and not isinstance(parallelism_plugin, Plugin):
            raise InputError(f"parallelism_plugin is {type(parallelism_plugin).__name__}; give a plugin of parashard.plugins, or plan=Plan(...)")
        if parallelism_plugin is not None and plan is not None:
            raise InputError("both parallelism_plugin and plan are given; give one of them")
        plan = parallelism_plugin.plan if parallelism_plugin else plan or Plan()
        plan = plan if isinstance(plan, Plan) else Plan(plan)
        self.plan: Plan = set_precision(set_device(plan, device), precision)
        if "offload" in self.plan.flags and not str(self.plan.flags.get("target", "cpu")).startswith("cuda"):
            raise Unsupported("offloading needs a GPU, because a CPU has no other memory; give device=\"cuda\", or remove it")
        self.clip_norm = choose_norm(grad_clipping_type, grad_clipping_value, parallelism_plugin)
        self._options = {"threads": threads, "seed": seed}
        self._keeps_outputs = keep_outputs
        self._iterators: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()  # by data loader

    # ---- initialization -------------------------------------------------------------------------------------------

    def initialize(self, *args: Any) -> list[Any]:
        """Returns models, optimizers, schedulers and data loaders in the order in which they were given.

        A model is compiled at its first call, with the shapes of this batch. Its optimizer is the one that has its parameters; a model
        without an optimizer only evaluates. Schedulers then drive the returned optimizers.
        """
        for index, value in enumerate(args):
            check_argument(index, value)
        models = [value for value in args if isinstance(value, torch.nn.Module)]
        optimizers = {id(value): LazyOptimizer(value) for value in args if isinstance(value, torch.optim.Optimizer)}
        owners = find_owners(models, [value for value in args if isinstance(value, torch.optim.Optimizer)])
        made = {id(model): LazyModel(model, optimizers.get(owners.get(id(model))), self._build) for model in models}
        for scheduler in (value for value in args if is_scheduler(value)):
            rebind(scheduler, optimizers)
        return [{**made, **optimizers}.get(id(value), value) for value in args]

    def _build(self, module, optimizer, inputs, keeps_outputs):
        """Compiles a model. Returns (a `CompiledModel`, the `CompiledGroups` of its optimizer).

        keeps_outputs: whether outputs have values in training mode.
        """
        if optimizer is None:
            flags = {name: value for name, value in self.plan.flags.items() if name in EVALUATED}
            return compile_model(Plan(dict(self.plan.mesh), **flags), module, None, inputs, None, self._options), None
        groups = compile_groups(module, optimizer.get_current())
        if self.clip_norm:
            groups.arguments += ["--clip-norm", repr(self.clip_norm)]
        kept = "all" if keeps_outputs else ()
        return compile_model(count_parts(self.plan, inputs), module, groups, inputs, None, self._options, kept), groups

    # ---- steps ----------------------------------------------------------------------------------------------------

    def backward(self, loss: torch.Tensor, optimizer: torch.optim.Optimizer) -> None:
        """Runs backward of a loss, for the model of an optimizer. The gradients are added to those of earlier calls."""
        check_optimizer(optimizer)
        loss.backward()
        if all(parameter.grad is None for group in optimizer.param_groups for parameter in group["params"]):
            raise InputError("the loss does not depend on the model of this optimizer; give the optimizer of the model that made the loss")

    def execute_pipeline(
        self, data_iter: Any, model: torch.nn.Module, criterion: Callable[..., torch.Tensor], optimizer: torch.optim.Optimizer | None = None,
        return_loss: bool = True, return_outputs: bool = False,
    ) -> Any:  # fmt: skip
        """Runs forward and backward of all micro-batches of the next batch, with the criterion in the program.

        data_iter: an iterator, a data loader (its next batch; after the last one, it starts again), or a batch.
        criterion: `criterion(outputs, labels)` if the batch ends with labels that forward does not take, as (x, y) for forward(x);
            else `criterion(outputs, batch)`.
        optimizer: that of the model; None in evaluation mode, which runs no backward.
        return_outputs: return (loss, outputs). In training mode, the first call decides whether the program keeps outputs, unless
            the engine has keep_outputs=True.
        Returns the loss, or None without return_loss.
        """
        if not isinstance(model, LazyModel):
            raise InputError(f"model is {type(model).__name__}; give the model that initialize returned")
        if model.training and optimizer is None:
            raise InputError("the model is in training mode; give its optimizer, or call model.eval()")
        if optimizer is not None and optimizer is not model._optimizer:
            raise InputError("the optimizer is not that of the model; give the one that initialize returned with the model")
        if isinstance(criterion, torch.nn.Module) and next(criterion.parameters(), None) is not None:
            raise Unsupported("the criterion has parameters, which would not be trained; make it a part of the model")
        loss, outputs = model.run_with(criterion, self._read_batch(data_iter), return_outputs, self._keeps_outputs)
        if model.training:
            loss.backward()
        loss = loss.detach() if return_loss else None
        return (loss, outputs) if return_outputs else loss

    def _read_batch(self, source):
        """Returns the next batch of an iterator or of a data loader, or the batch itself."""
        if not isinstance(source, torch.utils.data.DataLoader):
            return next(source) if hasattr(source, "__next__") else source
        batch = next(self._iterators.get(source, iter(())), None)
        if batch is None:  # another epoch begins
            self._iterators[source] = iter(source)
            batch = next(self._iterators[source], None)
        if batch is None:
            raise InputError("the data loader has no batch; check its dataset, batch_size and drop_last")
        return batch

    def no_sync(self, model: torch.nn.Module) -> AbstractContextManager[None]:
        """Returns a context for the accumulation of gradients, which are summed over all calls until zero_grad()."""
        if not isinstance(model, LazyModel):
            raise InputError(f"model is {type(model).__name__}; give the model that initialize returned")
        return model.no_sync()

    # ---- checkpoints ----------------------------------------------------------------------------------------------

    def save(
        self, obj: HasState, path_like: Path, plan: Literal["torch", "huggingface"] = "torch", max_file_size_gb: float | None = None
    ) -> None:
        """Writes the state of a model, an optimizer or a scheduler.

        plan: "torch" writes a file, as `torch.save(obj.state_dict(), path)`. "huggingface" writes into a folder: a model as
        `save_pretrained` does, an optimizer as ColossalAI does, in files of at most `max_file_size_gb` (default 5).
        """
        if check_format(plan):
            return checkpoint_folders.save(obj, path_like, 5 if max_file_size_gb is None else max_file_size_gb)
        if max_file_size_gb is not None:
            raise InputError("max_file_size_gb is for folders; add plan=\"huggingface\", or remove it")
        state = get_state("obj", obj)
        write_once(path_like, lambda: write_state(path_like, state))

    def load(self, obj: LoadsState, path_like: Path, plan: Literal["torch", "huggingface"] = "torch") -> None:
        """Reads what `save` wrote into a model, an optimizer or a scheduler, which may have another plan."""
        if check_format(plan):
            return checkpoint_folders.load(obj, path_like)
        if not hasattr(obj, "load_state_dict"):
            raise InputError(f"obj is {type(obj).__name__}; give a model, an optimizer or a scheduler")
        obj.load_state_dict(read_state(path_like))


# ---- options of an engine ----------------------------------------------------------------------------------------------


def set_device(plan, device):
    """Returns a plan with the target of a device."""
    if device is None:
        return plan
    name = str(device)
    if name == "cuda":
        if not torch.cuda.is_available():
            raise InputError("device is \"cuda\", but PyTorch finds no GPU; give device=\"cpu\"")
        name = "cuda:sm_{}{}".format(*torch.cuda.get_device_capability())
    elif name != "cpu" and not name.startswith("cuda:sm_"):
        raise Unsupported(f"device {name} is not supported; give \"cpu\" or \"cuda\", whose ranks use the GPUs in order")
    if plan.flags.get("target", name) != name:
        raise InputError(f"device is {name}, but the plan has the target {plan.flags['target']}; give one of them")
    return plan.replace(target=name)


def set_precision(plan, precision):
    """Returns a plan with a precision."""
    if precision is None:
        return plan
    if precision not in PRECISIONS:
        raise Unsupported(f"precision {precision!r} is not supported; give one of {', '.join(PRECISIONS)}")
    if plan.flags.get("precision", precision) != precision:
        raise InputError(f"precision is {precision}, but the plan has {plan.flags['precision']}; give one of them")
    return plan.replace(precision=precision)


def choose_norm(kind, value, plugin):
    """Returns the norm to which gradients are clipped, or 0."""
    if kind != "norm":
        raise Unsupported(f"grad_clipping_type {kind!r} is not supported; use \"norm\"")
    if not isinstance(value, (int, float)) or value < 0:
        raise InputError(f"grad_clipping_value is {value!r}; expected a norm, or 0 for no clipping")
    given = plugin.clip_norm if plugin else 0.0
    if value and given and value != given:
        raise InputError(f"grad_clipping_value is {value}, but max_norm of the plugin is {given}; give one of them")
    return float(value or given)


def count_parts(plan, inputs):
    """Returns a plan with a number of micro-batches, if it has only their size."""
    if "batch" not in plan.flags or "micro-batches" in plan.flags:
        return plan
    rows = next((value.size(0) for value in inputs.values() if value.dim()), 1)
    size = int(plan.flags["batch"])
    if rows % size:
        raise InputError(f"the batch has {rows} samples, which micro-batches of {size} samples do not divide; give another size")
    return plan.replace(micro_batches=rows // size)


def check_format(plan):
    """Returns whether a checkpoint is a folder of Hugging Face."""
    if plan not in ("torch", "huggingface"):
        raise InputError(f"plan is {plan!r}; give \"torch\" (a file) or \"huggingface\" (a folder)")
    return plan == "huggingface"


# ---- arguments of initialize -------------------------------------------------------------------------------------------


class UnchangedRates(torch.optim.lr_scheduler.LRScheduler):
    """Keeps learning rates. Making a scheduler lets PyTorch count the steps of its optimizer."""

    def get_lr(self):
        return [group["lr"] for group in self.optimizer.param_groups]


def is_scheduler(value):
    return hasattr(value, "optimizer") and hasattr(value, "step") and not isinstance(value, (torch.nn.Module, torch.optim.Optimizer))


def check_argument(index, value):
    """Raises InputError if `initialize` cannot take a value."""
    kinds = (LazyModel, LazyOptimizer)
    if isinstance(value, kinds):
        raise InputError(f"argument {index} of initialize was returned by initialize before; give the original object")
    if isinstance(value, torch.nn.Module) and next(value.parameters(), None) is None:
        raise InputError(f"argument {index} of initialize, {type(value).__name__}, has no parameters; a criterion needs no initialize")
    if isinstance(value, torch.utils.data.DataLoader):
        check_loader(value)
    elif not isinstance(value, (torch.nn.Module, torch.optim.Optimizer)) and not is_scheduler(value):
        raise InputError(
            f"argument {index} of initialize is {type(value).__name__}; give models, optimizers of PyTorch, schedulers or data loaders"
        )


def check_loader(loader):
    """Raises InputError if the last batch of a data loader has fewer samples, which a compiled model does not take."""
    if loader.batch_size is None or loader.drop_last or not hasattr(loader.dataset, "__len__"):
        return
    left = len(loader.sampler) % loader.batch_size
    if left:
        raise InputError(f"the last batch of the data loader has {left} samples instead of {loader.batch_size}; give drop_last=True")


def find_owners(models, optimizers):
    """Returns the id of each model's optimizer, by the id of the model. Raises if an optimizer does not fit exactly one model."""
    owners = {}
    for optimizer in optimizers:
        parameters = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        found = [model for model in models if any(id(parameter) in parameters for parameter in model.parameters())]
        if not found:
            raise InputError(f"no model of initialize has the parameters of {type(optimizer).__name__}; give its model, too")
        if len(found) > 1:
            raise Unsupported(f"{type(optimizer).__name__} has parameters of {len(found)} models; make an optimizer for each model")
        if id(found[0]) in owners:
            raise Unsupported(f"{type(found[0]).__name__} has two optimizers; make one optimizer with parameter groups")
        compile_groups(found[0], optimizer)  # raises if the optimizer is not supported
        owners[id(found[0])] = id(optimizer)
    return owners


def rebind(scheduler, optimizers):
    """Lets a scheduler, and those that it is made of, change the rates of the returned optimizer. optimizers: by id of the original."""
    if scheduler.optimizer in optimizers.values():
        return
    if id(scheduler.optimizer) not in optimizers:
        raise InputError(f"the optimizer of {type(scheduler).__name__} is not among the arguments of initialize; give it, too")
    for part in getattr(scheduler, "_schedulers", []):
        rebind(part, optimizers)
    scheduler.optimizer = optimizers[id(scheduler.optimizer)]
    UnchangedRates(scheduler.optimizer)


def check_optimizer(optimizer):
    if not isinstance(optimizer, LazyOptimizer):
        raise InputError(f"optimizer is {type(optimizer).__name__}; give the optimizer that initialize returned")
