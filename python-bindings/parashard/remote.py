"""Tensors whose values are in a running program. Reading a tensor copies its values to the host; writing to a tensor copies the values back."""

import torch
from torch.utils._pytree import tree_map_only

from parashard.errors import Unsupported

__all__ = ["RemoteTensor", "Variable", "find_written"]


class Variable:
    """A variable of a program: a parameter, a buffer, or a gradient. `name` is its name in the C API."""

    def __init__(self, program, name):
        self.program = program
        self.name = name
        dtype, self.shape = program.describe("variables", name)
        self.dtype = getattr(torch, dtype)

    @property
    def variable(self):
        return self

    def read(self, copies=None):
        """Returns the values. `copies` has the variables that were already read, by name; each is read once."""
        copies = {} if copies is None else copies
        if self.name not in copies:
            copies[self.name] = torch.empty(self.shape, dtype=self.dtype)
            self.program.get_variable(self.name, copies[self.name])
        return copies[self.name]

    def write(self, values):
        self.program.set_variable(self.name, values.contiguous())


class View:
    """A view of a remote tensor, such as weight[0] or weight.T. `index`: which result of the op, if it returns several."""

    def __init__(self, base, function, arguments, options, index=None):
        self.base = base
        self.function = function
        self.arguments = arguments
        self.options = options
        self.index = index
        self.variable = base.variable

    def read(self, copies=None):
        """Returns the values of the view. They share the memory of the whole variable in `copies`."""
        result = self.function(self.base.read(copies), *self.arguments, **self.options)
        return result if self.index is None else result[self.index]


class RemoteTensor(torch.Tensor):
    """A tensor without memory. Ops read its values from its source, and in-place ops write them back."""

    @staticmethod
    def __new__(cls, source, like):
        return torch.Tensor._make_wrapper_subclass(
            cls, like.shape, strides=like.stride(), storage_offset=like.storage_offset(), dtype=like.dtype, device="cpu"
        )

    def __init__(self, source, like):
        self.source = source

    @classmethod
    def of(cls, program, name):
        """Returns a tensor for the variable `name` of a program."""
        variable = Variable(program, name)
        return cls(variable, torch.empty(variable.shape, dtype=variable.dtype, device="meta"))

    def __repr__(self, *, tensor_contents=None):
        try:
            return repr(self.source.read())
        except Unsupported as error:  # an output without values, which printing a whole result must not end
            return f"<no values: {error}>"

    def __reduce_ex__(self, protocol):
        return self.source.read().__reduce_ex__(protocol)

    def __deepcopy__(self, memo):
        return self.source.read()

    @property
    def data(self):
        return self.detach()

    @data.setter
    def data(self, values):
        with torch.no_grad():
            self.copy_(values)

    def __dlpack__(self, **options):
        return self.source.read().__dlpack__(**options)

    def data_ptr(self):
        raise Unsupported("the values are in the program, and have no address here; call clone() first")

    def register_hook(self, hook):
        raise Unsupported("hooks on parameters of a compiled model are not supported; change parameter.grad after backward()")

    register_post_accumulate_grad_hook = register_hook

    def numpy(self, *, force=False):
        return self.source.read().numpy(force=force)

    def tolist(self):
        return self.source.read().tolist()

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), options=None):
        options = options or {}
        if arguments and isinstance(arguments[0], cls) and is_view(function):
            return make_view(cls, function, arguments, options)
        copies, back = {}, {}  # per program; the remote tensor of a value

        def read(tensor):
            values = tensor.source.read(copies.setdefault(id(tensor.source.variable.program), {}))
            back[id(values)] = tensor
            return values

        result = function(*tree_map_only(cls, read, arguments), **tree_map_only(cls, read, options))
        targets = (tensor.source.variable for tensor in find_written(function, arguments, options) if isinstance(tensor, cls))
        written = {(id(v.program), v.name): v for v in targets}
        for (program, name), variable in written.items():
            variable.write(copies[program][name])
        # An in-place op returns its argument.
        return tree_map_only(torch.Tensor, lambda value: back.get(id(value), value), result)


def is_view(function):
    """Returns whether the results of an op share the memory of its first argument."""
    aliases = function._schema.arguments[0].alias_info
    return aliases is not None and not aliases.is_write


def make_view(cls, function, arguments, options):
    """Applies a view op to the remote tensor `arguments[0]`."""
    base, *rest = arguments
    layout = torch.empty_strided(base.shape, base.stride(), dtype=base.dtype, device="meta")
    if function in (torch.ops.aten.detach.default, torch.ops.aten.alias.default):
        return cls(base.source, layout)
    results = function(layout, *rest, **options)
    if isinstance(results, torch.Tensor):
        return cls(View(base.source, function, rest, options), results)
    return type(results)(cls(View(base.source, function, rest, options, i), result) for i, result in enumerate(results))


def find_written(function, arguments, options):
    """Yields the tensors that an op writes to."""
    for index, argument in enumerate(function._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = arguments[index] if index < len(arguments) else options.get(argument.name)
            yield from value if isinstance(value, (list, tuple)) else [] if value is None else [value]
