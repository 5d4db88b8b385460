"""Refuses models with custom gradients that torch.export would drop.

torch.export keeps only the forward of a `torch.autograd.Function`, and drops gradient hooks.
"""
import contextlib
import copy
import pathlib
import sys
import types
from unittest import mock

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing

_TORCH = str(pathlib.Path(torch.__file__).parent)
_PACKAGE = str(pathlib.Path(__file__).parent)


class Dropped(Exception):
    """The model does something that torch.export drops and that changes gradients."""


def caller():
    """Returns the current line of the model's code, FILE:LINE: the innermost frame outside PyTorch and this package."""
    frame = sys._getframe(1)
    while frame and frame.f_code.co_filename.startswith((_TORCH, _PACKAGE)):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "the model"


class _Context:
    """A fake `ctx` for a forward: stores the tensors that are saved for backward, and ignores calls such as mark_dirty."""

    def __init__(self, needs_grad):
        self.needs_input_grad = tuple(needs_grad)

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors

    save_for_forward = save_for_backward

    def ignore(self, *_):
        pass

    mark_dirty = mark_non_differentiable = set_materialize_grads = ignore


def _is_float(value):
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _draw(value, requires_grad):
    """Returns a random tensor with the shape and type of a traced tensor. Other values are copied.

    Floats have both signs. Integers (labels, indices) and bools are 0 or 1, which are valid in most models.
    """
    if not isinstance(value, torch.Tensor):
        return copy.deepcopy(value)  # the model's code may write to the value
    shape = [size if isinstance(size, int) else size.node.hint for size in value.shape]
    if value.is_floating_point():
        return torch.randn(shape, dtype=torch.float32).to(value.dtype).requires_grad_(requires_grad)
    return torch.randint(2, shape).to(value.dtype)


def _gradients(call, arguments, scale):
    """Returns the gradients of a weighted sum of all results of `call`. The weights are `scale` times random numbers."""
    leaves = [a for a in arguments if isinstance(a, torch.Tensor) and a.requires_grad]

    def weighted_sum(*values):
        given = iter(values)
        results = call(*(next(given) if any(a is leaf for leaf in leaves) else a for a in arguments))
        results = [r for r in (results if isinstance(results, (tuple, list)) else [results]) if _is_float(r)]
        generator = torch.Generator().manual_seed(1)
        weights = [(scale * torch.randn(r.shape, generator=generator)).to(r.dtype) for r in results]
        return sum((r * w).sum() for r, w in zip(results, weights))

    try:
        found = torch.autograd.grad(weighted_sum(*leaves), leaves, allow_unused=True)
    except RuntimeError:  # PyTorch runs a Function's forward without autograd, so the forward may overwrite values that its derivative needs
        indices = tuple(range(len(leaves)))
        found = torch.func.grad(torch.func.functionalize(weighted_sum), argnums=indices)(*(leaf.detach() for leaf in leaves))
    return [torch.zeros_like(leaf) if gradient is None else gradient for leaf, gradient in zip(leaves, found)]


# Scales of the incoming gradients. A backward that clips gradients equals the derivative for small gradients only.
SCALES = (1.0, 2.0**13)


def _is_derivative(function, apply, arguments, needs_grad):
    """Returns whether the backward of a Function equals the derivative of its forward.

    Compares the gradients for random arguments. `needs_grad` has one bool per argument: whether the argument requires a gradient.
    """

    def forward(*values):
        values = [v.clone() if isinstance(v, torch.Tensor) else v for v in values]
        if function.setup_context is not torch.autograd.Function.setup_context:
            return function.forward(*values)
        return function.forward(_Context(needs_grad), *values)

    def gradients(call, scale):
        torch.manual_seed(0)  # both calls get the same arguments and dropout masks
        drawn = [_draw(value, requires_grad) for value, requires_grad in zip(arguments, needs_grad)]
        return _gradients(call, drawn, scale)

    def agree(scale):
        pairs = zip(gradients(apply, scale), gradients(forward, scale))
        return all(torch.allclose(a, b, rtol=1e-3 if a.dtype.itemsize > 2 else 1e-2, atol=1e-4 * scale) for a, b in pairs)

    with unset_fake_temporarily(), disable_proxy_modes_tracing(), torch.enable_grad(), torch.random.fork_rng():
        return all(agree(scale) for scale in SCALES)


_APPLY = torch.autograd.Function.apply.__func__  # type: ignore[attr-defined] # a class method
_apply = types.FunctionType(_APPLY.__code__, _APPLY.__globals__, "apply", _APPLY.__defaults__, _APPLY.__closure__)


_enclosing: list[bool] = []  # a stack with one bool per Function whose forward is being traced: whether an argument requires a gradient


def _find_needs_grad(arguments):
    """Returns one bool per argument: whether it requires a gradient.

    In the forward of another Function, requires_grad is not known, since PyTorch turns autograd off there. If an argument of the outer Function
    requires a gradient, all floats count as differentiable.
    """
    if _enclosing:
        return [_enclosing[-1] and _is_float(a) for a in arguments]
    return [torch.is_grad_enabled() and _is_float(a) and a.requires_grad for a in arguments]


def _check(function, arguments, options, needs_grad):
    try:
        is_equal = _is_derivative(function, lambda *values: _apply(function, *values, **options), arguments, needs_grad)
    except Exception:  # noqa: BLE001 - after any error, the backward cannot be compared
        is_equal = False
    if not is_equal:
        raise Dropped(
            f"{function.__qualname__} ({caller()}) has a custom backward, which torch.export drops: the exported model would use the "
            "derivative of the forward. Write the custom gradient with detach(): y + (x - y).detach() has the value of x and the "
            "gradient of y; (1 + s) * x.detach() - s * x has the value of x and the gradient of x times -s"
        )


def _check_and_apply(function, arguments, options):
    needs_grad = _find_needs_grad(arguments)
    if any(needs_grad) and not function.__module__.startswith("torch."):
        _check(function, arguments, options, needs_grad)
    _enclosing.append(any(needs_grad))
    try:
        return _apply(function, *arguments, **options)
    finally:
        _enclosing.pop()


def _code_of_apply(captured):
    """Returns code that replaces the code of `Function.apply`.

    Replacing the code also affects methods that the model bound before, such as `reverse = Reverse.apply`. The new code has
    one free variable (`captured`), as the old code has.
    """

    def apply(cls, *arguments, **options):
        from parashard.custom_gradients import _check_and_apply

        return _check_and_apply(cls, arguments, options) if captured else None

    return apply.__code__


# Methods of a tensor that register hooks, with the attribute in which the tensor keeps these hooks.
_HOOKS = {"register_hook": "_backward_hooks", "register_post_accumulate_grad_hook": "_post_accumulate_grad_hooks"}


def _refuse_hook(*_):
    raise Dropped(
        f"{caller()} registers a hook on a tensor, which torch.export drops; remove the hook, or write its effect on the "
        "gradient with detach()"
    )


class _Node:
    """Wraps a node of autograd's graph (`grad_fn`) and refuses hooks on it."""

    register_hook = register_prehook = _refuse_hook

    def __init__(self, node):
        self._node = node

    def __getattr__(self, name):
        return getattr(self._node, name)


def _read_grad_fn(tensor):
    node = _GRAD_FN.__get__(tensor)
    of_torch = sys._getframe(1).f_code.co_filename.startswith(_TORCH)
    return node if node is None or of_torch else _Node(node)


_GRAD_FN = torch.Tensor.grad_fn


@contextlib.contextmanager
def custom_gradients_are_refused():
    """Refuses custom gradients while a model is traced.

    Refuses a Function whose backward differs from the derivative of its forward, and refuses hooks.
    """
    with contextlib.ExitStack() as stack:
        for name in _HOOKS:
            stack.enter_context(mock.patch.object(torch.Tensor, name, _refuse_hook))
        stack.enter_context(mock.patch.object(torch.Tensor, "grad_fn", property(_read_grad_fn)))
        _APPLY.__code__ = _code_of_apply(True)
        try:
            yield
        finally:
            _APPLY.__code__ = _apply.__code__


def check_hooks(module):
    """Fails for hooks on parameters. Returns a note about backward hooks of modules.

    Hooks of modules are not refused, since it is possible that they read gradients without changing them.
    """
    for name, parameter in module.named_parameters():
        hooks = [register for register, kept in _HOOKS.items() if getattr(parameter, kept, None)]
        if hooks:
            message = f"parameter {name} has a hook ({hooks[0]}), which torch.export drops; remove the hook before the export"
            raise Dropped(message)
    watched = [name or type(module).__name__ for name, part in module.named_modules() if part._backward_hooks or part._backward_pre_hooks]
    return [f"backward hooks of modules are not exported: {', '.join(watched[:5])}"] if watched else []
