"""The optimizer of a compiled model, as a torch.optim.Optimizer: schedulers and state dicts of PyTorch work with it."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

import torch

from parashard.compiler import write_cached
from parashard.errors import InputError, Unsupported

if TYPE_CHECKING:
    from parashard.model import CompiledModel

__all__ = ["CompiledGroups", "Optimizer", "compile_groups"]

# By the class of PyTorch: the name in --optimizer, and the hyperparameters besides lr and weight_decay. Other options of the
# class must have their default values.
KINDS = {
    torch.optim.SGD: ("sgd", ("momentum", "dampening", "nesterov")),
    torch.optim.Adam: ("adam", ("betas", "eps")),
    torch.optim.AdamW: ("adamw", ("betas", "eps")),
}
# Options that choose an implementation. They do not change what is computed.
IGNORED = ("params", "foreach", "fused", "capturable", "differentiable")
# By the name in PyTorch: the scalars of the program that hold a hyperparameter and may change between steps.
SCALARS = {"lr": ("lr",), "weight_decay": ("weight_decay",), "momentum": ("momentum",), "betas": ("beta1", "beta2")}
# Hyperparameters that a program has only if their compiled values are not 0.
OMITTED_AT_ZERO = ("weight_decay", "momentum")
# Names of optimizer state: in PyTorch, and in the program.
STATE = {
    "sgd": {"momentum_buffer": "momentum"},
    "adam": {"exp_avg": "mean", "exp_avg_sq": "square"},
    "adamw": {"exp_avg": "mean", "exp_avg_sq": "square"},
}


@dataclasses.dataclass
class CompiledGroups:
    """The parameter groups of an optimizer, as they are compiled.

    kind: sgd, adam or adamw. keys: the hyperparameters besides lr, such as betas. arguments: the arguments of ps-compile. members: per
    group, the names of all its parameters. trained: the names of the parameters that have an update. suffixes: per group, the
    suffixes of its scalars in the program, such as ".0" of "lr.0".
    """

    kind: str
    keys: tuple[str, ...]
    arguments: list[str]
    members: list[list[str]]
    trained: set[str]
    suffixes: list[list[str]]


def describe_group(kind, keys, group, defaults):
    """Returns the specification of a parameter group for --optimizer, such as "sgd(lr=0.1,momentum=0.9)"."""
    for key, value in group.items():
        if key in defaults and key not in ("lr", *keys, *IGNORED) and value != defaults[key]:
            raise Unsupported(f"the option {key}={value!r} of the optimizer is not supported; remove it")
    values = []
    for key in ("lr", *keys):
        value = group[key]
        if isinstance(value, bool):
            text = str(value).lower()
        elif isinstance(value, (tuple, list)):
            text = "(" + ",".join(repr(float(v)) for v in value) + ")"
        else:
            text = repr(float(value))
        values.append(f"{key}={text}")
    return f"{kind}({','.join(values)})"


def compile_groups(module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> CompiledGroups:
    """Returns the `CompiledGroups` of an optimizer of PyTorch over the parameters of `module`."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InputError(f"optimizer_fn returned a {type(optimizer).__name__}; expected an optimizer of torch.optim")
    if type(optimizer) not in KINDS:
        known = ", ".join(f"torch.optim.{known.__name__}" for known in KINDS)
        raise Unsupported(f"optimizer {type(optimizer).__name__} is not supported; use {known}")
    kind, keys = KINDS[type(optimizer)]
    result = CompiledGroups(kind, ("weight_decay", *keys), [], [], set(), [])
    names = {parameter: name for name, parameter in module.named_parameters()}
    for group in optimizer.param_groups:
        unknown = [parameter for parameter in group["params"] if parameter not in names]
        if unknown:
            raise InputError(
                f"the optimizer has a parameter of shape {tuple(unknown[0].shape)} that is not in the model; make the optimizer "
                "from model.parameters()"
            )
        result.members.append([names[parameter] for parameter in group["params"]])
        result.trained.update(names[parameter] for parameter in group["params"] if parameter.requires_grad)
    if not result.trained:
        raise InputError("the optimizer trains no parameter of the model")
    for name in names.values():
        if name not in result.trained:
            result.arguments += ["--freeze", name]
    add_specifications(result, optimizer)
    return result


def add_specifications(result, optimizer):
    """Adds the arguments --optimizer: the largest group for all parameters, after a file with the parameters of the other groups."""
    defaults = type(optimizer)([torch.nn.Parameter(torch.zeros(1))], lr=0.1).defaults
    trained = [[name for name in names if name in result.trained] for names in result.members]
    largest = max(range(len(trained)), key=lambda index: len(trained[index]))
    specs = [describe_group(result.kind, result.keys, group, defaults) for group in optimizer.param_groups]
    result.suffixes = [[] for _ in specs]
    written = [index for index, names in enumerate(trained) if names and index != largest]
    for number, index in enumerate(written):
        result.suffixes[index].append(f".{number}")
    if written:
        groups = [{"optimizer": specs[index], "parameters": trained[index]} for index in written]
        result.arguments += ["--optimizer", f"@{write_cached('groups', json.dumps({'groups': groups}, indent=1))}"]
    result.arguments += ["--optimizer", specs[largest]]
    result.suffixes[largest].append(f".{len(written)}" if written else "")


def read_values(value):
    """Returns the numbers of a hyperparameter as a tuple, such as (0.9, 0.999) of betas."""
    return tuple(float(part) for part in value) if isinstance(value, (tuple, list)) else (float(value),)


def is_fixed(key, values):
    """Returns whether a hyperparameter with these compiled values cannot change between steps."""
    return key not in SCALARS or (key in OMITTED_AT_ZERO and values == (0.0,))


def describe_fixed(key, value):
    """Returns the message for a change of a hyperparameter that is compiled into the program."""
    if key in SCALARS:
        return (
            f"{key} changed to {value}, but the program was compiled with {key}=0, without the arithmetic of {key}; make the "
            f"optimizer with a {key} above 0 in optimizer_fn"
        )
    return f"{key} changed to {value}, but is compiled into the program; only {', '.join(SCALARS)} may change between steps"


class Optimizer(torch.optim.Optimizer):
    """Runs the update of a compiled model. Made by `parallelize` from an optimizer of PyTorch.

    The hyperparameters of each group in `SCALARS` may change between steps. The other ones are compiled into the program.
    """

    def __init__(self, model: CompiledModel, source: torch.optim.Optimizer, compiled: CompiledGroups) -> None:
        """source: the optimizer of PyTorch over the original model. compiled: its `CompiledGroups`."""
        super().__init__([dict(group) for group in source.param_groups], source.defaults)
        self._bind(model, compiled)

    def __deepcopy__(self, memo: Any) -> Any:
        raise Unsupported("the optimizer of a compiled model cannot be copied; use state_dict(), and parallelize the original model again")

    def _bind(self, model, compiled):
        """Replaces the parameters of the original model by those of the compiled one."""
        self._model = model
        self._program = model._program
        self._compiled = compiled
        parameters = dict(model.named_parameters())
        for group, names in zip(self.param_groups, compiled.members):
            group["params"] = [parameters[name] for name in names]
        # Per group: the suffixes of its scalars (none for parameters without a gradient), the values in the program, and the
        # hyperparameters that cannot change. If the model has a tensor "lr", the name of the scalar is "state.lr".
        known = set(self._program.names("variables"))
        self._suffixes = [[end for end in ends if known & {f"lr{end}", f"state.lr{end}"}] for ends in compiled.suffixes]
        self._sent = [{key: read_values(group[key]) for key in ("lr", *compiled.keys)} for group in self.param_groups]
        self._fixed = [{key for key, values in sent.items() if is_fixed(key, values)} for sent in self._sent]

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Updates the parameters by their gradients. Does nothing if all gradients are None."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._update()
        return loss

    def _update(self):
        self._send_scalars()
        if self._model._send_gradients(is_update=True):
            self._model._drive.update()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Sets all gradients of the model to zero."""
        self._model.zero_grad(set_to_none)

    def add_param_group(self, group: dict[str, Any]) -> None:
        if hasattr(self, "_sent"):
            raise Unsupported("a compiled optimizer takes no further parameter groups; call parallelize with all groups")
        super().add_param_group(group)

    def _send_scalars(self):
        """Sends the hyperparameters that changed since the last step to the program."""
        for group, sent, fixed, suffixes in zip(self.param_groups, self._sent, self._fixed, self._suffixes):
            for key, old in sent.items():
                values = read_values(group[key])
                if values == old or not suffixes:
                    continue
                if key in fixed:
                    raise Unsupported(describe_fixed(key, group[key]))
                for name, value in zip(SCALARS[key], values):
                    for suffix in suffixes:
                        self._program.set_scalar(name + suffix, value)
                sent[key] = values

    # ---- state ----------------------------------------------------------------------------------------------------

    def _variables(self):
        """Yields (index of the parameter in a state dict, names of its state: in PyTorch, in the program)."""
        kinds = STATE[self._compiled.kind]
        index, known = 0, set(self._program.names("variables"))
        for names in self._compiled.members:
            for name in names:
                state = {key: f"optimizer.{self._compiled.kind}.{ours}.{name}" for key, ours in kinds.items()}
                yield index, {key: variable for key, variable in state.items() if variable in known}
                index += 1

    def state_dict(self) -> dict[str, Any]:
        """Returns a state dict that the optimizer of PyTorch also loads."""
        result = super().state_dict()
        if self._program.step:
            for index, names in self._variables():
                if names:
                    result["state"][index] = {key: self._model._read(name) for key, name in names.items()}
                    if self._compiled.kind != "sgd":  # PyTorch increases each tensor in place
                        result["state"][index]["step"] = self._model._read(self._counts()[0])
        return result

    def _counts(self):
        """Returns the names of the variables that count the updates of each group."""
        return [name for name in self._program.names("variables") if re.fullmatch(r"optimizer\.(\d+\.)?count", name)]

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state dict of this class or of the optimizer of PyTorch."""
        state = state_dict["state"]
        super().load_state_dict({"state": {}, "param_groups": state_dict["param_groups"]})
        for index, names in self._variables():
            for key, name in names.items():
                value = state.get(index, {}).get(key)
                self._model._write(name, torch.zeros(()) if value is None else value)
        steps = {int(values["step"]) for values in state.values() if "step" in values}
        if len(steps) > 1:
            raise Unsupported(f"the parameters have different step numbers, {min(steps)} and {max(steps)}; a program supports only one")
        step = max(steps, default=1 if state else 0)
        for name in self._counts():
            self._model._write(name, torch.tensor(float(step)))
        self._program.step = step
