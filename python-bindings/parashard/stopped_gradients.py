"""Keeps stopped gradients (no_grad, .data, detach) in an exported graph. torch.export and run_decompositions lose some of them."""
import contextlib
import pathlib
import sys
from unittest import mock

import torch

from parashard.custom_gradients import Dropped, caller

_TORCH = str(pathlib.Path(torch.__file__).parent)
_REGION = "wrap_with_set_grad_enabled"


@contextlib.contextmanager
def data_is_detached():
    """Makes `tensor.data` in a model's code return `tensor.detach()`, and refuses to set `.data`.

    torch.export does not record `.data`. Without this change, `.data` of a parameter would become a constant, and gradients would flow
    through `.data` of other tensors. A tensor that the model assigns to `.data` would be lost.
    """
    plain = torch.Tensor.data

    def read(tensor):
        of_torch = sys._getframe(1).f_code.co_filename.startswith(_TORCH)
        return plain.__get__(tensor) if of_torch else tensor.detach()

    def set_(tensor, value):
        caller = sys._getframe(1)
        if not caller.f_code.co_filename.startswith(_TORCH):
            raise Dropped(
                f"{caller.f_code.co_filename}:{caller.f_lineno} sets .data of a tensor, which torch.export drops; compute a new "
                "tensor, or write to a buffer with copy_()"
            )
        plain.__set__(tensor, value)

    with mock.patch.object(torch.Tensor, "data", property(read, set_)):
        yield


def _is_of_the_model(frame):
    """Returns whether a frame runs code of the model or of torch.nn. All other frames in PyTorch are part of the tracer."""
    around = (f"{_TORCH}/autograd/", f"{_TORCH}/utils/_contextlib.py")  # no_grad as a decorator
    while frame.f_back and frame.f_code.co_filename.startswith(around):
        frame = frame.f_back
    name = frame.f_code.co_filename
    return not name.startswith(_TORCH) or name.startswith(f"{_TORCH}/nn/")


@contextlib.contextmanager
def stops_in_autocast_are_refused():
    """Refuses no_grad regions inside an autocast region, because torch.export drops them.

    A region that disables autocast while autocast is already off has no effect. Such regions are skipped, so that no_grad
    regions inside them are kept.
    """
    autocast = torch.amp.autocast_mode.autocast
    enter, leave = autocast.__enter__, autocast.__exit__
    skipped = []  # a stack with one bool per open region: whether it is skipped

    def enter_unless_nothing(region):
        skipped.append(not region._enabled and not torch.is_autocast_enabled(region.device))
        return region if skipped[-1] else enter(region)

    def leave_unless_nothing(region, *error):
        return None if skipped.pop() else leave(region, *error)

    def refusing(method):
        def turn(region, *mode):
            if not all(skipped) and _is_of_the_model(sys._getframe(1)):
                raise Dropped(
                    f"{caller()} turns gradients off (or on) in a region of autocast, which torch.export drops; enter autocast inside "
                    "the no_grad region, or detach() the results"
                )
            return method(region, *mode)

        return turn

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.multiple(autocast, __enter__=enter_unless_nothing, __exit__=leave_unless_nothing))
        for region, method in _GRAD_MODES:
            stack.enter_context(mock.patch.object(region, method, refusing(getattr(region, method))))
        yield


# The classes that turn gradients on or off, and for each the method that does so.
_GRAD_MODES = [(torch.no_grad, "__enter__"), (torch.enable_grad, "__enter__"), (torch.inference_mode, "__enter__"), (torch.set_grad_enabled, "__init__")]


@contextlib.contextmanager
def trained_tensors_stay_trained():
    """Refuses a model whose forward changes requires_grad of a trained tensor or a frozen parameter: torch.export drops the change."""
    flag, method = torch.Tensor.requires_grad, torch.Tensor.requires_grad_

    def check(tensor, value):
        is_known = flag.__get__(tensor) == value or (value and not isinstance(tensor, torch.nn.Parameter))
        if not is_known and _is_of_the_model(sys._getframe(2)):
            raise Dropped(
                f"{caller()} sets requires_grad of a tensor to {value}, which torch.export drops; set it before the export, or "
                "detach() the tensor"
            )

    def set_(tensor, value):
        check(tensor, value)
        flag.__set__(tensor, value)

    def call(tensor, requires_grad=True):
        check(tensor, requires_grad)
        return method(tensor, requires_grad)

    with mock.patch.multiple(torch.Tensor, requires_grad=property(flag.__get__, set_), requires_grad_=call):
        yield


def _of_detach(node):
    """Returns whether a value is the result of detach(), or a view of one. A write to this value also changes the original tensor."""
    while isinstance(node, torch.fx.Node) and node.op == "call_function":
        if node.target == torch.ops.aten.detach.default:
            return True
        schema = getattr(node.target, "_schema", None)
        if not schema or not node.args or not any(argument.alias_info for argument in schema.arguments):
            return False
        node = node.args[0]
    return False


def _find_untracked_writes(program):
    """Yields in-place writes that autograd does not see: those in no_grad regions, and those to results of detach()."""
    regions = [n for n in program.graph.nodes if n.op == "call_function" and _REGION in str(n.target) and n.args[0] is False]
    for region in regions:
        body = getattr(program.graph_module, region.args[1].target).graph
        yield from (n for n in body.nodes if n.op == "call_function" and _writes_in_place(n.target))
    for node in program.graph.nodes:
        if node.op == "call_function" and _writes_in_place(node.target) and node.args and _of_detach(node.args[0]):
            yield node


def has_untracked_writes(program):
    """Returns whether an exported program has in-place writes that autograd does not see.

    `run_decompositions` would replace such writes by ops that autograd sees.
    """
    return any(True for _ in _find_untracked_writes(program))


def refuse_untracked_writes(program):
    for node in _find_untracked_writes(program):
        place = node.meta.get("stack_trace", str(node.target)).strip()
        raise Dropped(
            "a no_grad region (or .data) writes in place, and the model has functions that an archive cannot contain, such as torch.vmap. To remove "
            "these functions, the export would have to replace the write by ops that autograd sees. Compute a new value instead of the write:\n"
            f"{place}"
        )


def detach_no_grad_regions(program):
    """Inserts an `aten.detach` after every float that a no_grad region of an exported program returns.

    `run_decompositions` inlines the regions and keeps each detach. Without the detach, a gradient would flow through
    `with torch.no_grad(): w = weight / weight.norm()`.
    """
    graph = program.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or _REGION not in str(node.target) or node.args[0] is not False:
            continue
        _detach_results(graph, node, getattr(program.graph_module, node.args[1].target))
    program.graph_module.recompile()


def _detach_results(graph, region, body):
    results = next(n for n in body.graph.nodes if n.op == "output").args[0]
    for user in list(region.users):
        result = results[user.args[1]]
        if result.op != "placeholder":  # an input that the region returns unchanged keeps its gradient
            _detach_uses(graph, user, user, list(user.users))


def _writes_in_place(target):
    schema = getattr(target, "_schema", None)
    return bool(schema) and any(argument.alias_info and argument.alias_info.is_write for argument in schema.arguments)


def _detach_uses(graph, after, value, users):
    meta = value.meta.get("val")
    if not users or not isinstance(meta, torch.Tensor) or not meta.is_floating_point():
        return
    with graph.inserting_after(after):
        detached = graph.call_function(torch.ops.aten.detach.default, (value,))
    detached.meta = dict(value.meta)
    for user in users:
        user.replace_input_with(value, detached)
