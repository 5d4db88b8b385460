"""Tensors whose values are in a running program. Reading one copies it to the host; writing to one copies it back."""

import torch
from torch.utils._pytree import tree_map_only

__all__ = ["RemoteTensor", "Variable"]


class Variable:
    """A variable of a program: a parameter, a buffer, or a gradient. `name` is its name in the C API."""

    def __init__(self, program, name):
        self.program = program
        self.name = name
        dtype, self.shape = program.describe("variables", name)
        self.dtype = getattr(torch, dtype)

    def read(self):
        """Returns (the values, the values)."""
        values = torch.empty(self.shape, dtype=self.dtype)
        self.program.get_variable(self.name, values)
        return values, values

    def write(self, values):
        self.program.set_variable(self.name, values.contiguous())


class View:
    """A view of a remote tensor, such as weight[0] or weight.T."""

    def __init__(self, base, function, arguments, options):
        self.base = base
        self.function = function
        self.arguments = arguments
        self.options = options

    def read(self):
        """Returns (the values of the view, the values of the whole variable, which share memory)."""
        values, whole = self.base.read()
        return self.function(values, *self.arguments, **self.options), whole

    def write(self, whole):
        self.base.write(whole)


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
        return repr(self.source.read()[0])

    def __reduce_ex__(self, protocol):
        return self.source.read()[0].__reduce_ex__(protocol)

    def __deepcopy__(self, memo):
        return self.source.read()[0]

    def numpy(self, *, force=False):
        return self.source.read()[0].numpy(force=force)

    def tolist(self):
        return self.source.read()[0].tolist()

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), options=None):
        options = options or {}
        if is_view(function):
            return view(cls, function, arguments, options)
        read = {}

        def fetch(tensor):
            if id(tensor) not in read:
                read[id(tensor)] = (tensor, *tensor.source.read())
            return read[id(tensor)][1]

        result = function(*tree_map_only(cls, fetch, arguments), **tree_map_only(cls, fetch, options))
        written = [tensor for tensor in find_written(function, arguments, options) if isinstance(tensor, cls)]
        for tensor in written:
            tensor.source.write(read[id(tensor)][2])
        # An in-place op returns its argument.
        back = {id(values): tensor for tensor, values, _ in read.values()}
        return tree_map_only(torch.Tensor, lambda value: back.get(id(value), value), result)


def is_view(function):
    """Returns whether an op returns one tensor that shares the memory of its first argument."""
    returned = function._schema.returns
    aliases = function._schema.arguments[0].alias_info if function._schema.arguments else None
    return aliases is not None and not aliases.is_write and len(returned) == 1 and str(returned[0].type) == "Tensor"


def view(cls, function, arguments, options):
    """Applies a view op to the remote tensor `arguments[0]`."""
    base, *rest = arguments
    source = base.source
    layout = torch.empty_strided(base.shape, base.stride(), dtype=base.dtype, device="meta")
    if function is torch.ops.aten.detach.default or function is torch.ops.aten.alias.default:
        return cls(source, layout)
    return cls(View(source, function, rest, options), function(layout, *rest, **options))


def find_written(function, arguments, options):
    """Yields the tensors that an op writes to."""
    for index, argument in enumerate(function._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = arguments[index] if index < len(arguments) else options.get(argument.name)
        yield from value if isinstance(value, (list, tuple)) else [value]
