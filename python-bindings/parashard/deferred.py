"""Builds a model without memory for its parameters, and records how each parameter is initialized."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_map_only

from parashard.errors import Unsupported
from parashard.remote import find_written

__all__ = ["deferred_init", "draw_parameters", "is_deferred"]

Arguments = ParamSpec("Arguments")
Made = TypeVar("Made", bound=torch.nn.Module)

# Ops that write all elements of a tensor, and read none.
OVERWRITING = {"bernoulli_", "copy_", "exponential_", "fill_", "normal_", "random_", "uniform_", "zero_"}


def deferred_init(make: Callable[Arguments, Made], *arguments: Arguments.args, **options: Arguments.kwargs) -> Made:
    """Returns the module `make(*arguments, **options)`, whose parameters have no memory until `parallelize` draws them in the program.

    make: a class or function, such as a subclass of torch.nn.Module, or `AutoModelForCausalLM.from_config`. Buffers are computed at
    once. The values are those that `make` draws without this function, if its random numbers come from in-place initializers such
    as `torch.nn.init.normal_`. Raises Unsupported if a buffer is computed from a parameter.
    """
    recorder = Recorder()
    with recorder.registers(), recorder:
        module = make(*arguments, **options)
    module.__dict__["_deferred"] = recorder.finish(module)
    return module


def is_deferred(module):
    return "_deferred" in module.__dict__


def draw_parameters(module):
    """Yields (name, values) of the parameters that `deferred_init` has deferred. Keeps few values in memory at a time.

    Parameters that were replaced by others with data are not among them. Raises Unsupported if a parameter was changed.
    """
    recording = module.__dict__["_deferred"]
    parameters = {name: parameter for name, parameter in module.named_parameters() if parameter.device.type == "meta"}
    for name, parameter in parameters.items():
        if recording.versions.get(name) != parameter._version:
            raise Unsupported(f"parameter {name} was changed after deferred_init; change the compiled model, or load weights into it")
    return recording.draw(parameters)


@dataclasses.dataclass(frozen=True)
class Reference:
    """A tensor whose storage is deferred."""

    storage: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    @staticmethod
    def to(tensor):
        return Reference(get_storage(tensor), tuple(tensor.shape), tensor.stride(), tensor.storage_offset())

    def of(self, buffers):
        return buffers[self.storage].as_strided(self.size, self.stride, self.offset)


@dataclasses.dataclass
class Op:
    """A recorded call that reads or writes deferred storages."""

    function: object
    arguments: tuple[Any, Any]  # (positional, named), with `Reference`s
    read: set[int]  # storages
    written: list[Reference]  # references to tensors that the call changes
    made: dict[int, int]  # new storages, by the index of the result

    @property
    def is_random(self):
        return torch.Tag.nondeterministic_seeded in self.function.tags

    def find_overwritten(self, elements):
        """Returns the storages whose old elements do not matter after this op."""
        result = set(self.made.values())
        for target in self.written:
            is_whole = torch.Size(target.size).numel() == elements[target.storage]
            if is_whole and target.storage not in self.read and self.function._schema.name.split("::")[1] in OVERWRITING:
                result.add(target.storage)
        return result

    def run(self, buffers):
        positional, named = tree_map_only(Reference, lambda reference: reference.of(buffers), self.arguments)
        results = self.function(*positional, **named)
        results = results if isinstance(results, (list, tuple)) else [results]
        for index, storage in self.made.items():
            buffers[storage] = flatten_storage(results[index])


@dataclasses.dataclass
class Recording:
    """How to compute the values of parameters. names: by storage. sizes: (number of elements, dtype) by storage."""

    ops: list[Op]
    names: dict[int, Any]
    sizes: dict[int, Any]
    given: dict[int, torch.Tensor]  # values that existed before a parameter was registered, by storage
    state: torch.Tensor  # state of the random number generator when `make` was called
    versions: dict[str, int]  # the version counter of each parameter, by name

    def draw(self, parameters):
        """Yields (name, values) of all parameters, each as soon as its last op has run.

        Also draws values that are overwritten later, and drops them: their random numbers precede those of other parameters.
        """
        needed, last = self._find_needed()
        buffers = {storage: flatten_storage(values.clone()) for storage, values in self.given.items()}
        for storage in [storage for storage in self.names if storage not in last]:
            yield from self._take(storage, buffers, parameters)
        state = self.state
        for index, op in enumerate(self.ops):
            if index not in needed and not op.is_random:
                continue
            scratch = buffers if index in needed else dict(buffers)
            with torch.random.fork_rng(devices=[]), torch.no_grad():
                torch.set_rng_state(state)
                self._allocate(op, scratch)
                op.run(scratch)
                state = torch.get_rng_state()
            for storage in [storage for storage, final in last.items() if final == index]:
                if storage in self.names:
                    yield from self._take(storage, buffers, parameters)
                buffers.pop(storage, None)

    def _find_needed(self):
        """Returns (the ops whose results are not overwritten, the last op that reads or writes each storage)."""
        elements = {storage: count for storage, (count, _) in self.sizes.items()}
        needed, last, live = set(), {}, set(self.names)
        for index in range(len(self.ops) - 1, -1, -1):
            op = self.ops[index]
            changed = {reference.storage for reference in op.written} | set(op.made.values())
            if live.isdisjoint(changed):
                continue
            needed.add(index)
            for storage in changed | op.read:
                last.setdefault(storage, index)
            live -= op.find_overwritten(elements)
            live |= op.read
        return needed, last

    def _allocate(self, op, buffers):
        for storage in op.read | {reference.storage for reference in op.written}:
            if storage not in buffers:
                count, dtype = self.sizes[storage]
                buffers[storage] = torch.zeros(count, dtype=dtype)

    def _take(self, storage, buffers, parameters):
        """Yields (name, values) of the parameter with a storage. Memory that no op has written is zero."""
        parameter = parameters.get(self.names[storage])
        if parameter is None:
            return
        if storage not in buffers:
            count, dtype = self.sizes[storage]
            buffers[storage] = torch.zeros(count, dtype=dtype)
        yield self.names[storage], buffers[storage].as_strided(parameter.shape, parameter.stride(), parameter.storage_offset())


class Recorder(TorchDispatchMode):
    """Records the ops on parameters. Parameters are on the device `meta` from their registration on, and so are results of such ops."""

    def __init__(self):
        super().__init__()
        self.state = torch.get_rng_state()
        self.ops = []
        self.deferred = {}  # by storage: the storage, which stays alive, and its dtype
        self.given = {}
        self.unwritten = {}  # memory of torch.empty that no op has written

    @contextlib.contextmanager
    def registers(self):
        """Moves parameters to the device `meta` when a module registers them."""
        register = torch.nn.Module.register_parameter

        def register_deferred(module, name, parameter):
            register(module, name, self.defer(parameter) if parameter is not None else None)

        with mock.patch.object(torch.nn.Module, "register_parameter", register_deferred):
            yield

    def defer(self, parameter):
        """Returns a parameter on the device `meta` instead of `parameter`."""
        if parameter.device.type == "meta":
            return parameter
        values = parameter.detach()
        with _disable_current_modes():
            layout = torch.empty(values.shape, dtype=values.dtype, device="meta")
            result = torch.nn.Parameter(layout, requires_grad=parameter.requires_grad)
            self._track(result)
            if not self.unwritten.pop(get_storage(values), None):
                self.given[get_storage(result)] = values.contiguous()
        return result

    def _track(self, tensor):
        self.deferred[get_storage(tensor)] = (tensor.untyped_storage(), tensor.dtype)

    def finish(self, module):
        """Returns the recording of a module."""
        names = {}  # tied parameters have one name
        for name, parameter in module.named_parameters():
            if get_storage(parameter) not in self.deferred:
                raise Unsupported(f"parameter {name} was replaced while the model was built; build the model without deferred_init")
            names.setdefault(get_storage(parameter), name)
        for name, buffer in module.named_buffers():
            if get_storage(buffer) in self.deferred:
                raise Unsupported(f"buffer {name} is computed from a parameter; build the model without deferred_init")
        sizes = {key: (storage.nbytes() // dtype.itemsize, dtype) for key, (storage, dtype) in self.deferred.items()}
        versions = {name: parameter._version for name, parameter in module.named_parameters()}
        return Recording(self.ops, names, sizes, self.given, self.state, versions)

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        options = options or {}
        tensors = [value for value in tree_flatten((arguments, options))[0] if isinstance(value, torch.Tensor)]
        written = list(find_written(function, arguments, options))
        if not any(get_storage(tensor) in self.deferred for tensor in tensors):
            for tensor in written:
                self.unwritten.pop(get_storage(tensor), None)
            result = function(*arguments, **options)
            if function._schema.name in ("aten::empty", "aten::empty_strided", "aten::new_empty"):
                self.unwritten[get_storage(result)] = result.untyped_storage()
            return result
        positional, named = tree_map_only(torch.Tensor, lambda tensor: tensor.to("meta"), (arguments, options))
        results = function(*positional, **named)
        self._record(function, (arguments, options), tensors, written, results)
        return results

    def _record(self, function, arguments, tensors, written, results):
        made = {}
        for index, result in enumerate(results if isinstance(results, (list, tuple)) else [results]):
            if isinstance(result, torch.Tensor) and get_storage(result) not in self.deferred:
                made[index] = get_storage(result)
                self._track(result)
        if not made and not written:
            return  # a view
        targets = [Reference.to(tensor) for tensor in written]
        read = {get_storage(tensor) for tensor in tensors if get_storage(tensor) in self.deferred and not any(tensor is w for w in written)}
        kept = tree_map_only(
            torch.Tensor, lambda tensor: Reference.to(tensor) if get_storage(tensor) in self.deferred else tensor.detach().clone(), arguments
        )
        self.ops.append(Op(function, kept, read, targets, made))


def get_storage(tensor):
    """Returns a number that identifies the storage of a tensor."""
    return tensor.untyped_storage()._cdata


def flatten_storage(tensor):
    """Returns all elements of the storage of a tensor."""
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    return tensor.detach().as_strided((count,), (1,), 0)
