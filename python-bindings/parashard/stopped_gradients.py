"""Keeps stopped gradients in an exported graph, where torch.export and run_decompositions forget them."""
import contextlib
import pathlib
import sys
from unittest import mock

import torch

_TORCH = str(pathlib.Path(torch.__file__).parent)
_REGION = "wrap_with_set_grad_enabled"


class UntrackedWrite(Exception):
    """A write in place that autograd does not see, in a model whose graph cannot keep it."""


@contextlib.contextmanager
def data_is_detached():
    """Makes `tensor.data` in a model's code a detach(), and refuses to set it.

    torch.export does not record `.data`: of a parameter it makes a constant, elsewhere a gradient would flow through it.
    What is set would be lost.
    """
    plain = torch.Tensor.data

    def read(tensor):
        of_torch = sys._getframe(1).f_code.co_filename.startswith(_TORCH)
        return plain.__get__(tensor) if of_torch else tensor.detach()

    def set_(tensor, value):
        caller = sys._getframe(1)
        if not caller.f_code.co_filename.startswith(_TORCH):
            raise UntrackedWrite(
                f"{caller.f_code.co_filename}:{caller.f_lineno} sets .data of a tensor, which torch.export drops; compute a new "
                "tensor, or write to a buffer with copy_()"
            )
        plain.__set__(tensor, value)

    with mock.patch.object(torch.Tensor, "data", property(read, set_)):
        yield


def _of_detach(node):
    """Whether a value is a detach(), or a view of one: what is written there is written to what was detached too."""
    while isinstance(node, torch.fx.Node) and node.op == "call_function":
        if node.target == torch.ops.aten.detach.default:
            return True
        schema = getattr(node.target, "_schema", None)
        if not schema or not node.args or not any(argument.alias_info for argument in schema.arguments):
            return False
        node = node.args[0]
    return False


def _find_untracked_writes(program):
    """Writes in place in no_grad regions, and through detach()."""
    regions = [n for n in program.graph.nodes if n.op == "call_function" and _REGION in str(n.target) and n.args[0] is False]
    for region in regions:
        body = getattr(program.graph_module, region.args[1].target).graph
        yield from (n for n in body.nodes if n.op == "call_function" and _writes_in_place(n.target))
    for node in program.graph.nodes:
        if node.op == "call_function" and _writes_in_place(node.target) and node.args and _of_detach(node.args[0]):
            yield node


def has_untracked_writes(program):
    """Whether an exported program writes in place unseen by autograd: `run_decompositions` makes such a write one that autograd sees."""
    return any(True for _ in _find_untracked_writes(program))


def refuse_untracked_writes(program):
    for node in _find_untracked_writes(program):
        place = node.meta.get("stack_trace", str(node.target)).strip()
        raise UntrackedWrite(
            "a no_grad region (or .data) writes in place, and the model has functions that no archive can hold (torch.vmap and the like), without which "
            f"the write would not be kept apart from autograd; compute a new value there:\n{place}"
        )


def detach_no_grad_regions(program):
    """Puts an `aten.detach` behind every float that a no_grad region of an exported program returns.

    `run_decompositions` inlines the regions and keeps the detach. Without it, a gradient would flow through
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
        if result.op != "placeholder":  # an input that the region returns as it is keeps its gradient
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
