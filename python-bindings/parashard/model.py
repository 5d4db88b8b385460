"""A compiled model as a torch.nn.Module: forward and backward run in the program, the loss in PyTorch."""

import inspect
import weakref

import torch
from torch.utils._pytree import tree_unflatten

from parashard.errors import InputError, Unsupported
from parashard.remote import RemoteTensor, Variable

__all__ = ["CompiledModel", "bind_inputs"]


def bind_inputs(module, arguments, options):
    """Returns the arguments of a module's forward by name, without those that are None.

    Raises InputError if the arguments do not fit the signature of forward, or if one is not a tensor.
    """
    return bind(inspect.signature(module.forward), type(module).__name__, arguments, options)


def bind(signature, name, arguments, options):
    try:
        bound = signature.bind(*arguments, **options).arguments
    except TypeError as error:
        raise InputError(f"{name}.forward: {error}") from None
    inputs = {argument: value for argument, value in bound.items() if value is not None}
    for argument, value in inputs.items():
        if not isinstance(value, torch.Tensor):
            raise InputError(f"argument {argument} of {name}.forward is {type(value).__name__}; expected a tensor")
    return inputs


class Slot:
    """A slot of the program, which keeps the activations of a forward until its backward, or until the graph is freed."""

    def __init__(self, free):
        if not free:
            raise Unsupported(
                "too many forwards wait for their backward; call the model in torch.no_grad() if you do not need gradients, "
                "and delete losses that you do not use"
            )
        self.free = free
        self.index = free.pop()

    def __del__(self):
        if hasattr(self, "index"):
            self.free.append(self.index)


class Forward(torch.autograd.Function):
    """Runs forward in the program, so that backward of a loss runs backward in the program."""

    @staticmethod
    def forward(ctx, anchor, model, inputs):
        ctx.model = model
        ctx.slot = Slot(model._free)
        outputs = model._call("forward", ctx.slot.index, inputs)
        ctx.mark_non_differentiable(*(value for value in outputs if not value.is_floating_point()))
        return tuple(outputs)

    @staticmethod
    def backward(ctx, *cotangents):
        if ctx.slot is None:
            raise Unsupported("the backward of this forward has run; call the model again instead of using retain_graph")
        ctx.model._backward(ctx.slot.index, cotangents)
        ctx.slot = None
        return None, None, None


class Part(torch.nn.Module):
    """A part of a compiled model: has the parameters and buffers of the original, and no forward."""

    def __init__(self, original):
        super().__init__()
        self._original = (type(original).__name__, original.extra_repr())

    def _get_name(self):
        return self._original[0]

    def extra_repr(self):
        return self._original[1]


class CompiledModel(torch.nn.Module):
    """A model that a program computes. Its parameters are in the program: reading one copies it to the host.

    Made by `parallelize`. Inputs and outputs are whole (unsharded) tensors on the CPU, with the batch of the example.
    """

    def __init__(self, module, program, outputs, spec, trained):
        """outputs: names of the tensors among the model's outputs, or None for other values; spec: their structure;
        trained: names of the parameters that the optimizer trains."""
        super().__init__()
        self._program = program
        self._signature = inspect.signature(module.forward)
        self._name = type(module).__name__
        self._outputs = list(dict.fromkeys(name for name in outputs if name is not None))  # each once
        self._positions = outputs
        self._spec = spec
        self._free = list(range(16))
        self._trained = trained
        self._anchor = torch.zeros((), requires_grad=True)
        self._accumulated = False
        self._copy_structure(module)
        for part, original in zip(self.modules(), module.modules()):
            part.training = original.training
        weakref.finalize(self, program.close)  # also when Python exits

    # ---- calls ----------------------------------------------------------------------------------------------------

    def forward(self, *arguments, **options):
        inputs = self._bind(arguments, options)
        if self.training and torch.is_grad_enabled():
            values = Forward.apply(self._anchor, self, inputs)
        elif self.training:
            values = self._call("forward", Slot(self._free).index, inputs)
        else:
            values = self._call("evaluate", 0, inputs)
        found = dict(zip(self._outputs, values))
        return tree_unflatten([found.get(name) for name in self._positions], self._spec)

    def _bind(self, arguments, options):
        inputs = bind(self._signature, self._name, arguments, options)
        for name, value in inputs.items():
            if value.requires_grad:
                raise Unsupported(f"input {name} requires a gradient; gradients of inputs are not supported yet: detach it")
        return {name: value.detach().cpu().contiguous() for name, value in inputs.items()}

    def _call(self, entry, slot, inputs):
        values = []
        for name in self._outputs:
            dtype, shape = self._program.describe(f"outputs:{entry}", name)
            values.append(torch.empty(shape, dtype=getattr(torch, dtype)))
        self._program.call(entry, slot, inputs, dict(zip(self._outputs, values)))
        return values

    def _backward(self, slot, cotangents):
        given = {
            name: value.contiguous()
            for name, value in zip(self._outputs, cotangents)
            if value is not None and value.is_floating_point()
        }
        self._program.backward(slot, given)
        self._accumulated = True
        self._set_gradients()

    # ---- parameters -----------------------------------------------------------------------------------------------

    def _copy_structure(self, module):
        """Creates the submodules, parameters and buffers of a module, with the values in the program."""
        variables = set(self._program.names("variables"))
        self._gradients = {name for name in self._trained if f"grad.{name}" in variables}  # the others are not used by forward
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
                    value = RemoteTensor.of(self._program, full) if full in variables else buffer
                    target.register_buffer(name, value, name not in part._non_persistent_buffers_set)

    def _make_part(self, path, original):
        *above, last = path.split(".")
        if not last:
            return self
        parent = self.get_submodule(".".join(above))
        parent.add_module(last, Part(original))
        return parent._modules[last]

    def _make_parameter(self, name, parameter):
        result = torch.nn.Parameter(RemoteTensor.of(self._program, name), requires_grad=name in self._trained)
        if name in self._gradients:
            result.register_post_accumulate_grad_hook(lambda changed: self._take_gradient(name, changed))
        return result

    def _set_gradients(self):
        """Gives each trained parameter its gradient in the program."""
        for name, parameter in self.named_parameters():
            if name in self._gradients and parameter.grad is None:
                parameter.grad = RemoteTensor.of(self._program, f"grad.{name}")

    def _take_gradient(self, name, parameter):
        """Adds a gradient that PyTorch computed, of a term outside of the model, to the one in the program."""
        if not isinstance(parameter.grad, RemoteTensor):
            outside = parameter.grad
            parameter.grad = RemoteTensor.of(self._program, f"grad.{name}")
            with torch.no_grad():
                parameter.grad.add_(outside)
        self._accumulated = True

    def zero_grad(self, set_to_none=True):
        """Sets all gradients to zero. They are accumulated until the next call."""
        self._program.zero_grad()
        self._accumulated = False
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None

    def _read(self, name):
        """Returns a copy of a variable of the program, such as "optimizer.adamw.mean.weight"."""
        return Variable(self._program, name).read()

    def _write(self, name, value):
        """Sets a variable of the program. `value` must have its shape; other dtypes are converted."""
        variable = Variable(self._program, name)
        variable.write(value.detach().to("cpu", variable.dtype).reshape(variable.shape))

    def _apply(self, function, recurse=True):
        raise Unsupported(
            "a compiled model keeps the devices and dtypes of its plan; choose them in the plan, such as target=\"cuda:sm_90\" "
            "or precision=\"bf16\""
        )

    def close(self):
        """Stops the ranks and frees their memory."""
        self._program.close()
