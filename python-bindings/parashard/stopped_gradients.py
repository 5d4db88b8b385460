"""Keeps stopped gradients in an exported graph, where torch.export and run_decompositions forget them."""
import contextlib
import pathlib
import sys
from unittest import mock

import torch

_TORCH = str(pathlib.Path(torch.__file__).parent)
_REGION = "wrap_with_set_grad_enabled"


@contextlib.contextmanager
def data_is_detached():
    """Makes `tensor.data` in a model's code a detach().

    torch.export does not record `.data`: of a parameter it makes a constant, elsewhere a gradient would flow through it.
    """
    plain = torch.Tensor.data

    def read(tensor):
        of_torch = sys._getframe(1).f_code.co_filename.startswith(_TORCH)
        return plain.__get__(tensor) if of_torch else tensor.detach()

    with mock.patch.object(torch.Tensor, "data", property(read, plain.__set__)):
        yield


def detach_no_grad_regions(program):
    """Puts an `aten.detach` behind every float that a no_grad region of an exported program returns or writes.

    `run_decompositions` inlines the regions and keeps the detach. Without it, a gradient would flow through
    `with torch.no_grad(): w = weight / weight.norm()`.
    """
    graph = program.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or _REGION not in str(node.target) or node.args[0] is not False:
            continue
        body = getattr(program.graph_module, node.args[1].target)
        _detach_results(graph, node, body)
        _detach_written(graph, node, body)
    program.graph_module.recompile()


def _detach_results(graph, region, body):
    results = next(n for n in body.graph.nodes if n.op == "output").args[0]
    for user in list(region.users):
        result = results[user.args[1]]
        if result.op != "placeholder":  # an input that the region returns as it is keeps its gradient
            _detach_uses(graph, user, user, list(user.users))


def _detach_written(graph, region, body):
    """Later reads of what the region writes in place: a buffer, most often."""
    order = {n: i for i, n in enumerate(graph.nodes)}
    places = [n for n in body.graph.nodes if n.op == "placeholder"]
    written = {n.args[0] for n in body.graph.nodes if n.op == "call_function" and _writes_in_place(n.target)}
    for place, value in zip(places, region.args[2:]):
        if place in written:
            _detach_uses(graph, region, value, [u for u in value.users if order[u] > order[region] and u.op != "output"])


def _writes_in_place(target):
    schema = getattr(target, "_schema", None)
    return bool(schema and schema.arguments and schema.arguments[0].alias_info and schema.arguments[0].alias_info.is_write)


def _detach_uses(graph, after, value, users):
    meta = value.meta.get("val")
    if not users or not isinstance(meta, torch.Tensor) or not meta.is_floating_point():
        return
    with graph.inserting_after(after):
        detached = graph.call_function(torch.ops.aten.detach.default, (value,))
    detached.meta = dict(value.meta)
    for user in users:
        user.replace_input_with(value, detached)
