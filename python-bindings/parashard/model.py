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


def label_outputs(names, labels):
    """Returns the names of the outputs in the program: `labels` in order, which are the keys if the model returns a flat dict."""
    if sum(name is not None for name in names) != len(labels):
        return names
    left = iter(labels)
    return [None if name is None else next(left) for name in names]


def name_gradient(name, module):
    """Returns the name of a parameter's gradient in the program (psrt.h): "grad.NAME", unless the model has such a tensor."""
    prefix, known = "grad.", module.state_dict()
    while prefix + name in known:
        prefix += "self."
    return prefix + name


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
        ctx.step = model._program.step
        ctx.slot = Slot(model._free)
        outputs = model._call("forward", ctx.slot.index, inputs)
        ctx.mark_non_differentiable(*(value for name, value in zip(model._outputs, outputs) if name not in model._cotangents))
        return tuple(outputs)

    @staticmethod
    def backward(ctx, *cotangents):
        if ctx.slot is None:
            raise Unsupported("the backward of this forward has run; call the model again instead of using retain_graph")
        if ctx.model._program.step != ctx.step:
            raise Unsupported("optimizer.step() ran between the forward and this backward; run backward first")
        ctx.model._backward(ctx.slot.index, cotangents)
        ctx.slot = None
        return None, None, None


class Fixed(torch.nn.Module):
    """A module whose parameters cannot be replaced, because the program would keep the old ones."""

    def register_parameter(self, name, parameter):
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

    def __init__(self, module, program, outputs, spec, trained):
        """Copies the structure of a module, and opens its parameters in the program.

        outputs: names of the tensors among the model's outputs, or None for other values. spec: their structure. trained: names
        of the parameters that the optimizer trains.
        """
        super().__init__()
        self._program = program
        self._signature = inspect.signature(module.forward)
        self._name = type(module).__name__
        self._positions = label_outputs(outputs, program.names("outputs:forward"))
        self._outputs = list(dict.fromkeys(name for name in self._positions if name is not None))  # each once
        self._cotangents = set(program.names("inputs")).intersection(self._outputs).difference(self._signature.parameters)
        self._spec = spec
        self._free = list(range(16))
        self._trained = trained
        self._anchor = torch.zeros((), requires_grad=True)
        self._copy_structure(module)
        self.training = module.training
        self._modes = {name: part.training for name, part in self.named_modules()}
        weakref.finalize(self, program.close)  # also when Python exits

    # ---- calls ----------------------------------------------------------------------------------------------------

    def forward(self, *arguments, **options):
        inputs = self._bind(arguments, options)
        self._check_modes()
        if self.training and torch.is_grad_enabled() and self._cotangents:
            values = Forward.apply(self._anchor, self, inputs)
        elif self.training:
            values = self._call("forward", Slot(self._free).index, inputs)
        else:
            values = self._call("evaluate", 0, inputs)
        found = dict(zip(self._outputs, values))
        return tree_unflatten([found.get(name) for name in self._positions], self._spec)

    def _check_modes(self):
        """Raises Unsupported if a part is in another mode than the program: as compiled, or evaluation for all parts."""
        for name, part in self.named_modules():
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
        self._send_gradients()
        given = {name: value.contiguous() for name, value in zip(self._outputs, cotangents) if name in self._cotangents}
        self._program.backward(slot, given)
        for name, parameter in self.named_parameters():
            if name in self._gradients:
                parameter.grad = self._gradients[name]

    # ---- parameters -----------------------------------------------------------------------------------------------

    def _copy_structure(self, module):
        """Creates the submodules, parameters and buffers of a module, with the values in the program."""
        variables = set(self._program.names("variables"))
        gradients = {name: name_gradient(name, module) for name in self._trained}
        # By parameter; those that forward does not use have no gradient.
        self._gradients = {name: RemoteTensor.of(self._program, grad) for name, grad in gradients.items() if grad in variables}
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
        if len(none) == len(self._gradients):
            self._program.zero_grad()
        elif none and is_update:
            raise Unsupported(f"the gradient of {none[0]} is None, but those of other parameters are set; set all of them or none")
        for name, parameter in parameters.items():
            if parameter.grad is not None and name not in self._gradients:
                raise Unsupported(f"{name} has a gradient, but forward does not use it; use it in forward, or train it in PyTorch")
            if parameter.grad is not self._gradients.get(name):
                with torch.no_grad():
                    self._gradients[name].copy_(torch.zeros(()) if parameter.grad is None else parameter.grad)
                if parameter.grad is not None:
                    parameter.grad = self._gradients[name]
        return len(none) < len(self._gradients)

    def _check_trained(self):
        for name, parameter in self.named_parameters():
            if parameter.requires_grad != (name in self._trained):
                raise Unsupported(
                    f"requires_grad of {name} changed to {parameter.requires_grad}, but which parameters are trained is compiled "
                    "into the program; call parallelize again"
                )

    def zero_grad(self, set_to_none=True):
        """Sets all gradients to None, or to zero. Gradients are accumulated until the next call."""
        self._program.zero_grad()
        for name, parameter in self.named_parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None and name in self._gradients:
                parameter.grad = self._gradients[name]

    def load_state_dict(self, state_dict, strict=True, assign=False):
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

    def _apply(self, function, recurse=True):
        raise Unsupported(
            "a compiled model keeps the devices and dtypes of its plan; choose them in the plan, such as target=\"cuda:sm_90\" "
            "or precision=\"bf16\""
        )

    def close(self):
        """Stops the ranks and frees their memory."""
        self._program.close()
