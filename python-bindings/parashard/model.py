"""A compiled model as a torch.nn.Module: forward and backward run in the program."""

from __future__ import annotations

import contextlib
import inspect
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import TreeSpec, tree_unflatten

from parashard.drives import LOSS_PART, AutogradDrive, StepDrive, name_gradient
from parashard.errors import InputError, Unsupported
from parashard.generation import generate
from parashard.remote import RemoteTensor, Variable

if TYPE_CHECKING:
    from parashard._runtime import Program

__all__ = ["CompiledModel", "bind", "bind_inputs", "label_outputs"]


def bind_inputs(module, arguments, options):
    """Returns the arguments of a module's forward by name, without those that are None.

    Raises InputError if the arguments do not fit the signature of forward, or if one is not a tensor.
    """
    return bind(inspect.signature(module.forward), type(module).__name__, arguments, options)


def bind(signature, name, arguments, options):
    """Returns the arguments of `NAME.forward`, which has a signature, by name."""
    try:
        bound = signature.bind(*arguments, **options).arguments
    except TypeError as error:
        raise InputError(f"{name}.forward: {error}") from None
    inputs = {argument: value for argument, value in bound.items() if value is not None}
    for argument, value in inputs.items():
        if not isinstance(value, torch.Tensor):
            raise InputError(
                f"argument {argument} of {name}.forward is {type(value).__name__}; expected a tensor: convert lists and arrays by "
                "torch.as_tensor, and give other values to the model before parallelize, such as functools.partial(model.forward, "
                "flag=True) as model.forward"
            )
        if value.is_complex() or value.is_quantized:
            raise InputError(f"argument {argument} of {name}.forward is {value.dtype}, which programs do not support")
    return inputs


def label_outputs(names, labels, spec):
    """Returns the name in the program of each output of the model, or None for a value that is not a tensor.

    names: the names in the graph, in order. labels: the names in the program, in any order: the keys if the model returns a flat dict
    with the structure `spec`, else the names in the graph. Labels such as "loss.sum", which are parts of a loss, are not outputs.
    """
    if {name for name in names if name is not None} <= set(labels):
        return names
    keys = list(spec.context) if isinstance(spec.context, (list, tuple)) else []
    if len(keys) == len(names) and all(name is None or key in labels for name, key in zip(names, keys)):
        return [None if name is None else key for name, key in zip(names, keys)]
    labels = [label for label in labels if label in names or not LOSS_PART.fullmatch(label)]
    if sum(name is not None for name in names) != len(labels):
        return names
    left = iter(labels)
    return [None if name is None else next(left) for name in names]


def make_model(module, *arguments):
    """Returns a `CompiledModel` whose forward has the signature of a module's forward, which tools such as Hugging Face's Trainer read."""

    def forward(self, *values, **options):
        return CompiledModel.forward(self, *values, **options)

    parameters = inspect.signature(module.forward).parameters.values()
    forward.__signature__ = inspect.Signature([inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY), *parameters])
    return type("CompiledModel", (CompiledModel,), {"forward": forward, "__doc__": CompiledModel.__doc__})(module, *arguments)


class Fixed(torch.nn.Module):
    """A module whose parameters cannot be replaced, because the program would keep the old ones."""

    def register_parameter(self, name: str, parameter: torch.nn.Parameter | None) -> None:
        if self._parameters.get(name) is not None:
            raise Unsupported(f"parameter {name} of a compiled model cannot be replaced; write its values: {name}.copy_(...)")
        super().register_parameter(name, parameter)


class Part(Fixed):
    """A part of a compiled model: has the parameters and buffers of the original, and no forward."""

    def __init__(self, original):
        super().__init__()
        self._original = (type(original).__name__, original.extra_repr())
        self.training = original.training

    def _get_name(self):
        return self._original[0]

    def extra_repr(self):
        return self._original[1]


class CompiledModel(Fixed):
    """A model that a program computes. Its parameters are in the program: reading one copies it to the host.

    Made by `parallelize`. Inputs and outputs are whole (unsharded) tensors on the CPU, with the batch of the example.
    """

    accepts_loss_kwargs = False  # tells Hugging Face's Trainer not to pass the number of labels: the program counts them

    def __init__(
        self, module: torch.nn.Module, program: Program, drive: AutogradDrive | StepDrive, positions: list[str | None], spec: TreeSpec,
        trained: set[str], given: set[str],
    ) -> None:  # fmt: skip
        """Copies the structure of a module, and opens its parameters in the program.

        drive: runs the program. positions: the names of the tensors among the model's outputs in order, or None for other values.
        spec: the structure of the outputs. trained: names of the parameters that the optimizer trains. given: names of the arguments
        in the example.
        """
        super().__init__()
        self._program = program
        self._signature = inspect.signature(module.forward)
        self._name = type(module).__name__
        self._original = (type(module), getattr(module, "config", None), getattr(module, "generation_config", None))
        self._positions = positions
        self._drive = drive
        self._inputs = set(program.names("inputs"))  # without arguments that forward does not use
        self._spec = spec
        self._trained = trained
        self._given = given
        self._copy_structure(module)
        self.training = module.training
        self._modes = {name: part.training for name, part in self.named_modules()}
        self._owned = {name: dict(part._parameters) for name, part in self.named_modules()}
        weakref.finalize(self, program.close)  # also when Python exits

    # ---- calls ----------------------------------------------------------------------------------------------------

    def forward(self, *arguments: Any, **options: Any) -> Any:
        inputs = self._bind(arguments, options)
        self._check_parts()
        if torch.is_autocast_enabled("cpu"):
            raise Unsupported("autocast has no effect on a compiled model; give the plan a precision, such as precision=\"bf16\", instead")
        values = self._drive.train(self, inputs) if self.training else self._drive.evaluate(inputs)
        found = dict(zip(self._drive.outputs, values))
        return tree_unflatten([found.get(name) for name in self._positions], self._spec)

    def _check_parts(self):
        """Raises Unsupported if the program differs from a part in its mode or parameters.

        The mode must be that of the compile, or evaluation for all parts.
        """
        for name, part in self.named_modules():
            if any(part._parameters[key] is not self._owned[name][key] for key in part._parameters):
                raise Unsupported(
                    f"a parameter of {name or 'the model'} was replaced, as torch.func.functional_call does, but the program computes with "
                    "its own parameters; assign values with parameter.data = x, or load_state_dict()"
                )
            if part.training != (self.training and self._modes[name]):
                raise Unsupported(
                    f"{name or 'the model'} is in {'training' if part.training else 'evaluation'} mode, but was compiled in the other; "
                    "set the modes before parallelize, or call eval() for the whole model"
                )
        if self.training and not self._modes[""]:
            raise Unsupported("the model was compiled in evaluation mode; call train() before parallelize")

    def _bind(self, arguments, options):
        inputs = bind(self._signature, self._name, arguments, options)
        for name, value in inputs.items():
            if name not in self._given:
                raise InputError(
                    f"argument {name} of {self._name}.forward is not in the example, so the compiled model does not use it; add the "
                    "argument to the example, or omit it"
                )
            if value.requires_grad:
                raise Unsupported(f"input {name} requires a gradient; gradients of inputs are not supported yet: detach it")
        return {name: value.detach().cpu().contiguous() for name, value in inputs.items() if name in self._inputs}

    def _show_gradients(self):
        """Lets the parameters have their gradients in the program."""
        for name, parameter in self.named_parameters():
            if name in self._gradients:
                parameter.grad = self._gradients[name]

    # ---- parameters -----------------------------------------------------------------------------------------------

    def _copy_structure(self, module):
        """Creates the submodules, parameters and buffers of a module, with the values in the program."""
        variables = set(self._program.names("variables"))
        gradients = {name: name_gradient(name, module) for name in sorted(self._trained)}  # in the same order in all processes
        # By parameter; those that forward does not use have no gradient.
        self._gradients = self._drive.make_gradients({name: grad for name, grad in gradients.items() if grad in variables})
        remote = {}
        for path, part in module.named_modules(remove_duplicate=False):
            target = self._make_part(path, part)
            for name, parameter in part._parameters.items():
                if parameter is None:
                    continue
                full = f"{path}.{name}" if path else name
                if parameter not in remote:
                    remote[parameter] = self._make_parameter(full, parameter)
                target.register_parameter(name, remote[parameter])
            for name, buffer in part._buffers.items():
                full = f"{path}.{name}" if path else name
                if buffer is not None:
                    if id(buffer) not in remote:
                        remote[id(buffer)] = RemoteTensor.of(self._program, full) if full in variables else buffer.clone()
                    target.register_buffer(name, remote[id(buffer)], name not in part._non_persistent_buffers_set)

    def _make_part(self, path, original):
        *above, last = path.split(".")
        if not last:
            return self
        parent = self.get_submodule(".".join(above))
        if last not in parent._modules and hasattr(parent, last):
            raise Unsupported(f"the submodule {path} has a name that a compiled model uses itself; rename the submodule")
        parent.add_module(last, Part(original))
        return parent._modules[last]

    def _make_parameter(self, name, parameter):
        result = torch.nn.Parameter(RemoteTensor.of(self._program, name), requires_grad=name in self._trained)
        return result

    def _send_gradients(self, is_update=False):
        """Writes gradients that were assigned to parameters, or set to None, to the program. Returns whether any is set.

        Before an update, some gradients may not be None while others are set: the program updates all parameters.
        """
        self._check_trained()
        parameters = {name: parameter for name, parameter in self.named_parameters() if name in self._trained}
        none = [name for name, parameter in parameters.items() if parameter.grad is None and name in self._gradients]
        is_any = len(none) < len(self._gradients)
        if not is_any:
            self._drive.zero_grad()
        elif none and is_update:
            raise Unsupported(f"the gradient of {none[0]} is None, but those of other parameters are set; set all of them or none")
        for name, parameter in parameters.items():
            if parameter.grad is not None and name not in self._gradients:
                raise Unsupported(f"{name} has a gradient, but forward does not use it; use it in forward, or train it in PyTorch")
            if is_any and parameter.grad is not self._gradients.get(name):
                with torch.no_grad():
                    self._gradients[name].copy_(torch.zeros(()) if parameter.grad is None else parameter.grad)
                if parameter.grad is not None:
                    parameter.grad = self._gradients[name]
        return is_any

    def _check_trained(self):
        for name, parameter in self.named_parameters():
            if parameter.requires_grad != (name in self._trained):
                raise Unsupported(
                    f"requires_grad of {name} changed to {parameter.requires_grad}, but which parameters are trained is compiled "
                    "into the program; call parallelize again"
                )

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Sets all gradients to None, or to zero. Gradients are accumulated until the next call."""
        self._drive.zero_grad()
        for name, parameter in self.named_parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None and name in self._gradients:
                parameter.grad = self._gradients[name]

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        if assign:
            raise Unsupported("assign=True would replace the parameters of the program; load without it")
        return super().load_state_dict(state_dict, strict)

    def _read(self, name):
        """Returns a copy of a variable of the program, such as "optimizer.adamw.mean.weight"."""
        return Variable(self._program, name).read()

    def _write(self, name, value):
        """Sets a variable of the program. `value` must have its shape; other dtypes are converted."""
        variable = Variable(self._program, name)
        variable.write(value.detach().to("cpu", variable.dtype).expand(variable.shape))

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise Unsupported("a compiled model cannot be copied or pickled; use state_dict(), or parallelize the original model again")

    def __deepcopy__(self, memo: Any) -> Any:
        return self.__reduce_ex__(2)

    def _apply(self, function, recurse=True):
        """Accepts conversions that change nothing, such as `to("cpu")`."""
        probes = [torch.empty(1, dtype=dtype) for dtype in {tensor.dtype for tensor in [*self.parameters(), *self.buffers()]}]
        with contextlib.suppress(AssertionError, NotImplementedError, RuntimeError):  # such as a device that this machine lacks
            if all((found.device, found.dtype) == (probe.device, probe.dtype) for probe in probes for found in [function(probe)]):
                return self
        raise Unsupported(
            "a compiled model keeps the devices and dtypes of its plan; choose them in the plan, such as target=\"cuda:sm_90\" "
            "or precision=\"bf16\""
        )

    def generate(self, inputs: torch.Tensor | None = None, **options: Any) -> Any:
        """Generates tokens as `generate` of the Hugging Face model does. Each token evaluates the compiled length again."""
        if self.training:
            raise Unsupported("call model.eval() before generate(); a training step returns no logits")
        if not hasattr(self._original[0], "generate") or self._original[1] is None:
            raise Unsupported(f"{self._name} has no generate(); use a causal language model of Hugging Face")
        if getattr(self._original[1], "is_encoder_decoder", False):
            raise Unsupported(
                f"generate() of {self._name}, which has an encoder and a decoder, is not supported; load the trained weights into the "
                "original model"
            )
        return generate(self, self._original, inputs, options)

    def no_sync(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context without effect, for loops written for DDP: gradients are summed over all calls until zero_grad()."""
        return contextlib.nullcontext()

    def close(self) -> None:
        """Stops the ranks and frees their memory."""
        self._program.close()
