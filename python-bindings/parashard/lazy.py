"""Models and optimizers that are compiled at the first call of the model, when the shapes of its inputs and its criterion are known."""

from __future__ import annotations

import collections.abc
import contextlib
import copy
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, overload

import torch
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from parashard.errors import ExportFailed, InputError, Unsupported
from parashard.export import replace_forward
from parashard.model import CompiledModel, bind
from parashard.optimizer import CompiledGroups, Optimizer

__all__ = ["LazyModel", "LazyOptimizer"]


class LazyModel(torch.nn.Module):
    """A model that is compiled at its first call. Its parameters are those of the original module, then those of the compiled model."""

    def __init__(self, module: torch.nn.Module, optimizer: LazyOptimizer | None, build: Callable[..., Any]) -> None:
        """optimizer: its `LazyOptimizer`, or None: the model only evaluates.

        build: `build(module, optimizer, inputs, keeps_outputs)` returns a `CompiledModel` and the `CompiledGroups` of the optimizer.
        """
        super().__init__()
        empty = set(self.__dict__)
        self._kind = type(module)
        self._signature = inspect.signature(module.forward)
        self._attributes = {name: value for name, value in vars(module).items() if name not in {*empty, "forward"}}  # such as a configuration
        self._optimizer = optimizer
        self._build = build
        self._criterion: tuple[Callable[..., torch.Tensor], Any] | None = None  # the criterion in the program, and the names of its second argument
        self._extras: list[str] = []  # inputs of the program that only the criterion uses
        self._modes = {name: part.training for name, part in module.named_modules()} if module.training else {}
        self.training = module.training
        self._hold(module)

    def _hold(self, module):
        """Takes the parameters, buffers and submodules of a module."""
        for name in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            self.__dict__[name] = module.__dict__[name]
        self.__dict__["_held"] = module  # not as a submodule, which would change the names of the parameters

    def __getattr__(self, name: str) -> Any:
        attributes = self.__dict__.get("_attributes", {})
        return attributes[name] if name in attributes else super().__getattr__(name)

    @property
    def is_compiled(self) -> bool:
        return isinstance(self._held, CompiledModel)

    # ---- calls ----------------------------------------------------------------------------------------------------

    def forward(self, *arguments: Any, **options: Any) -> Any:
        self._check_mode()
        if not self.is_compiled:
            self._compile(bind(self._signature, self._kind.__name__, arguments, options))
        self._held.training = self.training
        if not self._criterion:
            return self._held(*arguments, **options)
        if self.training:
            raise Unsupported(
                f"{self._kind.__name__} was compiled with the criterion of execute_pipeline: call execute_pipeline, or model.eval(); "
                "for a loss outside of the graph, give the original model to initialize again"
            )
        return self._held(*arguments, **options, **self._draw_extras())[1]

    def run_with(self, criterion: Callable[..., torch.Tensor], batch: Any, returns_outputs: bool, keeps_outputs: bool) -> Any:
        """Returns (loss, outputs) of a batch, with the criterion in the program.

        returns_outputs: whether the outputs need values. keeps_outputs: whether a later call in training mode may need values.
        """
        self._check_mode()
        inputs, extras, names = self._name_batch(dict(batch) if isinstance(batch, collections.abc.Mapping) else batch)
        if not self.is_compiled:
            self._criterion, self._extras = (criterion, names), list(extras)
            try:
                with replace_forward(self._held, make_forward(self._held.forward, criterion, list(extras), names), extras):
                    self._compile({**inputs, **extras}, keeps_outputs or (self.training and returns_outputs))
            except BaseException:
                self._criterion, self._extras = None, []
                raise
        self._check_criterion(criterion, names)
        if self.training:
            self._choose_outputs(returns_outputs)
        self._held.training = self.training
        return self._held(**inputs, **extras)

    def _choose_outputs(self, returned):
        """Chooses whether the next step reads its outputs. Raises InputError if the program does not keep them."""
        if returned and not self._keeps_outputs:
            raise InputError(
                "return_outputs=True: the program does not keep outputs in training mode, because the first call of execute_pipeline had "
                "no return_outputs=True, or was in evaluation mode; give Engine(..., keep_outputs=True)"
            )
        self._held._drive.returns_outputs = returned

    def _check_mode(self):
        if self._optimizer is None and self.training:
            raise InputError(
                f"{self._kind.__name__} has no optimizer, so it only evaluates: call model.eval(), or give its optimizer to initialize, too"
            )

    def _check_criterion(self, criterion, names):
        if not self._criterion:
            raise InputError(
                f"{self._kind.__name__} was compiled without a criterion, because it was called before execute_pipeline; "
                "use one of both, or give the original model to initialize again"
            )
        if not is_same(criterion, self._criterion[0]):
            raise InputError(f"{self._kind.__name__} was compiled with another criterion; give the same one in all calls")
        if names != self._criterion[1]:
            raise InputError(f"the batch has the structure {names}, but the first one had {self._criterion[1]}; give all batches the same")

    def _name_batch(self, batch):
        """Returns (inputs of forward, inputs of the criterion only, the names of the criterion's second argument).

        The batch is a tensor, the arguments of forward, or a dict. A tuple with one tensor more than forward has parameters, or with
        the inputs in a structure, ends with labels. Example: (x, y) is ({"x": x}, {"labels": y}, "labels") for forward(x), and
        ({"x": x, "y": y}, {}, ("x", "y")) for forward(x, y).
        """
        parameters = [p for p in self._signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        is_open = any(p.kind is p.VAR_POSITIONAL for p in self._signature.parameters.values())
        if isinstance(batch, (tuple, list)):
            if len(batch) == 2 and not isinstance(batch[0], torch.Tensor):
                return self._name_labels(*batch)
            if len(batch) == len(parameters) + 1 and not is_open:
                return self._name_labels(tuple(batch[:-1]), batch[-1])
        inputs, extras = self._name_inputs(batch)
        if isinstance(batch, dict):
            return inputs, extras, {name: name for name in batch}
        names = tuple(parameter.name for parameter in parameters)
        return inputs, extras, names[: len(batch)] if isinstance(batch, (tuple, list)) else names[0]

    def _name_labels(self, batch, labels):
        inputs, extras = self._name_inputs(batch)
        leaves, spec = tree_flatten(labels)
        prefix = "labels"
        while any(name.startswith(prefix) for name in [*self._signature.parameters, *extras]):
            prefix = f"target_{prefix}"
        names = [prefix if len(leaves) == 1 else f"{prefix}_{index}" for index in range(len(leaves))]
        return inputs, {**extras, **dict(zip(names, leaves))}, tree_unflatten(names, spec)

    def _name_inputs(self, batch):
        """Returns (inputs of forward, other tensors of the batch), by name."""
        kind = self._kind.__name__
        if not isinstance(batch, dict):
            return bind(self._signature, kind, tuple(batch) if isinstance(batch, (tuple, list)) else (batch,), {}), {}
        is_open = any(p.kind is p.VAR_KEYWORD for p in self._signature.parameters.values())
        taken = {name: value for name, value in batch.items() if is_open or name in self._signature.parameters}
        return bind(self._signature, kind, (), taken), {name: value for name, value in batch.items() if name not in taken}

    def _draw_extras(self):
        """Returns zeros for the inputs that only the criterion uses."""
        described = {name: self._held._program.describe("inputs", name) for name in self._extras}
        return {name: torch.zeros(shape, dtype=getattr(torch, dtype)) for name, (dtype, shape) in described.items()}

    # ---- compilation ----------------------------------------------------------------------------------------------

    def _compile(self, inputs, keeps_outputs=False):
        if self._optimizer and any(parameter.grad is not None for parameter in self.parameters()):
            raise Unsupported(f"{self._kind.__name__} has gradients that PyTorch computed, before its first call; call zero_grad() first")
        with self._training_modes() if self._optimizer else contextlib.nullcontext():
            compiled, groups = self._build(self._held, self._optimizer, inputs, keeps_outputs)
        self._keeps_outputs = keeps_outputs
        if self._optimizer:
            self._optimizer.attach(compiled, groups)
        self._hold(compiled)
        if not self.training:
            self.eval()

    @contextlib.contextmanager
    def _training_modes(self):
        """Sets the modes of training while the model is compiled at a call in evaluation mode."""
        if self.training:
            self._held.training = True
            yield
            return
        before = {part: part.training for part in self._held.modules()}
        for name, part in self._held.named_modules():
            part.training = self._modes.get(name, True)
        try:
            yield
        finally:
            for part, mode in before.items():
                part.training = mode

    # ---- the methods of a model -----------------------------------------------------------------------------------

    def state_dict(self, *arguments: Any, **options: Any) -> Any:
        return self._held.state_dict(*arguments, **options)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        return self._held.load_state_dict(state_dict, strict, assign)

    def zero_grad(self, set_to_none: bool = True) -> None:
        self._held.zero_grad(set_to_none)

    def register_parameter(self, name: str, parameter: torch.nn.Parameter | None) -> None:
        self._held.register_parameter(name, parameter)

    def generate(self, inputs: torch.Tensor | None = None, **options: Any) -> Any:
        """Generates tokens as the Hugging Face model does. Before the first call of the model, PyTorch computes them."""
        if self.training:
            raise Unsupported("call model.eval() before generate(); a training step returns no logits")
        if not hasattr(self._kind, "generate"):
            raise Unsupported(f"{self._kind.__name__} has no generate(); use a causal language model of Hugging Face")
        self._held.training = False
        return self._held.generate(inputs, **options)

    def no_sync(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context for the accumulation of gradients, which are summed over all calls until zero_grad()."""
        return contextlib.nullcontext()

    def close(self) -> None:
        """Stops the ranks, and frees their memory."""
        if self.is_compiled:
            self._held.close()

    _apply = CompiledModel._apply
    __reduce_ex__ = CompiledModel.__reduce_ex__
    __deepcopy__ = CompiledModel.__deepcopy__


class LazyOptimizer(Optimizer):
    """The optimizer of a `LazyModel`. Until the model is compiled, it has the parameters of the original module."""

    def __init__(self, source: torch.optim.Optimizer) -> None:
        """source: the optimizer of PyTorch."""
        torch.optim.Optimizer.__init__(self, [dict(group) for group in source.param_groups], source.defaults)
        self._source = source
        if source.state:
            torch.optim.Optimizer.load_state_dict(self, source.state_dict())

    @property
    def is_compiled(self) -> bool:
        return hasattr(self, "_model")

    def attach(self, model: CompiledModel, groups: CompiledGroups) -> None:
        """Takes the parameters of a compiled model, and moves its state there. groups: its `CompiledGroups`."""
        state = torch.optim.Optimizer.state_dict(self)
        self._bind(model, groups)
        del self._source  # and the original parameters
        self.state.clear()
        if state["state"]:
            super().load_state_dict(state)

    def get_current(self) -> torch.optim.Optimizer:
        """Returns an optimizer of PyTorch with the current options of the groups."""
        result = copy.copy(self._source)
        result.param_groups = self.param_groups
        return result

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
        if self.is_compiled:
            self._update()
        elif any(parameter.grad is not None for group in self.param_groups for parameter in group["params"]):
            raise Unsupported("the gradients were computed by PyTorch, before the first call of the model; call the model first")
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Sets all gradients of the model to zero."""
        if self.is_compiled:
            super().zero_grad(set_to_none)
        else:
            torch.optim.Optimizer.zero_grad(self, set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """Returns a state dict that the optimizer of PyTorch also loads."""
        return super().state_dict() if self.is_compiled else torch.optim.Optimizer.state_dict(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state dict of this class or of the optimizer of PyTorch."""
        if self.is_compiled:
            super().load_state_dict(state_dict)
        else:
            torch.optim.Optimizer.load_state_dict(self, state_dict)


def make_forward(forward, criterion, extras, names):
    """Returns a forward that returns (loss, outputs). extras: inputs of the criterion only. names: those of its second argument."""

    signature = inspect.signature(forward)

    def forward_with_criterion(self, *arguments, **options):
        values = {name: options.pop(name) for name in extras}
        bound = signature.bind(*arguments, **options).arguments
        variadic = [p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD]
        values.update(bound, **(bound.get(variadic[0], {}) if variadic else {}))
        outputs = forward(*arguments, **options)
        loss = criterion(outputs, tree_map(values.get, names))
        if not isinstance(loss, torch.Tensor) or loss.dim() or not loss.is_floating_point():
            found = f"{loss.dtype} with {loss.dim()} dims" if isinstance(loss, torch.Tensor) else type(loss).__name__
            raise ExportFailed(f"the criterion returns {found}; expected a floating-point scalar")
        return loss, outputs

    return forward_with_criterion


def is_same(first, second):
    """Returns whether two criteria compute the same: a function that a loop defines again has the same code and the same values."""
    if first == second or not (isinstance(first, types.FunctionType) and isinstance(second, types.FunctionType)):
        return first == second
    values = [[id(cell.cell_contents) for cell in function.__closure__ or ()] for function in (first, second)]
    return values[0] == values[1] and all(getattr(first, part) == getattr(second, part) for part in ("__code__", "__defaults__", "__kwdefaults__"))
