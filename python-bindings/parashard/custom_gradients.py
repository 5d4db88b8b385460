"""Finds gradients that a model gives itself: torch.export keeps the forward of a `torch.autograd.Function`, and no hook."""
import contextlib
import pathlib
import sys
import types
from unittest import mock

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing

_TORCH = str(pathlib.Path(torch.__file__).parent)


class CustomGradient(Exception):
    """A gradient of the model's own that the exported graph would not have."""


def _caller():
    """Where the model's code stands: the innermost frame that is neither PyTorch's nor of this module."""
    frame = sys._getframe(1)
    while frame and (frame.f_code.co_filename.startswith(_TORCH) or frame.f_code.co_filename == __file__):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "the model"


class _Context:
    """Takes what a forward keeps for its backward."""

    def __init__(self, count):
        self.needs_input_grad = (True,) * count

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors

    save_for_forward = save_for_backward

    def ignore(self, *_):
        pass

    mark_dirty = mark_non_differentiable = set_materialize_grads = ignore


def _draw(value):
    """A real tensor like one of the trace, with numbers of both signs."""
    if not isinstance(value, torch.Tensor):
        return value
    shape = [size if isinstance(size, int) else size.node.hint for size in value.shape]
    if value.is_floating_point():
        return torch.randn(shape, dtype=torch.float32).to(value.dtype).requires_grad_()
    return torch.zeros(shape, dtype=value.dtype)


def _gradients(call, arguments):
    """The gradients of a weighed sum of all that `call` returns."""
    results = call(*arguments)
    results = [r for r in (results if isinstance(results, (tuple, list)) else [results]) if isinstance(r, torch.Tensor)]
    drawing = torch.Generator().manual_seed(1)
    total = sum((r * torch.randn(r.shape, generator=drawing).to(r.dtype)).sum() for r in results if r.is_floating_point())
    leaves = [a for a in arguments if isinstance(a, torch.Tensor) and a.requires_grad]
    found = torch.autograd.grad(total, leaves, allow_unused=True)
    return [torch.zeros_like(leaf) if gradient is None else gradient for leaf, gradient in zip(leaves, found)]


def _is_derivative(function, apply, arguments):
    """Whether the backward of a Function is what autograd makes of its forward, on random numbers."""

    def forward(*values):
        values = [v.clone() if isinstance(v, torch.Tensor) else v for v in values]
        if function.setup_context is not torch.autograd.Function.setup_context:
            return function.forward(*values)
        return function.forward(_Context(len(values)), *values)

    with unset_fake_temporarily(), disable_proxy_modes_tracing(), torch.enable_grad(), torch.random.fork_rng():
        torch.manual_seed(0)
        drawn = [_draw(value) for value in arguments]
        pairs = [_gradients(call, drawn) for call in (apply, forward)]
    return all(torch.allclose(a, b, rtol=1e-2 if a.dtype in (torch.float16, torch.bfloat16) else 1e-3, atol=1e-4) for a, b in zip(*pairs))


_APPLY = torch.autograd.Function.apply.__func__
_apply = types.FunctionType(_APPLY.__code__, _APPLY.__globals__, "apply", _APPLY.__defaults__, _APPLY.__closure__)


def _check_and_apply(function, arguments, options):
    if not function.__module__.startswith("torch."):
        try:
            is_right = _is_derivative(function, lambda *values: _apply(function, *values, **options), arguments)
        except Exception:  # noqa: BLE001: whatever its code raises, nothing is known of it
            is_right = False
        if not is_right:
            raise CustomGradient(
                f"{function.__qualname__} ({_caller()}) has a backward of its own, which torch.export drops: the gradient would be that of its "
                "forward; write it with detach(), as y + (x - y).detach() has the forward of x and the gradient of y, and "
                "(1 + s) * x.detach() - s * x the gradient of x times -s"
            )
    return _apply(function, *arguments, **options)


def _code_of_apply(captured):
    """The code that stands for that of `Function.apply`, which a model may hold as `reverse = Reverse.apply`. It has one free variable too."""

    def apply(cls, *arguments, **options):
        from parashard.custom_gradients import _check_and_apply

        return _check_and_apply(cls, arguments, options) if captured else None

    return apply.__code__


def _refuse_hook(tensor, hook):
    raise CustomGradient(
        f"{_caller()} registers a hook on a tensor, which torch.export drops; leave it out of the exported model, or write what it does "
        "with detach()"
    )


@contextlib.contextmanager
def custom_gradients_are_refused():
    """While a model is traced: a Function whose backward is another than that of its forward fails, and so does a hook."""
    with mock.patch.object(torch.Tensor, "register_hook", _refuse_hook):
        _APPLY.__code__ = _code_of_apply(True)
        try:
            yield
        finally:
            _APPLY.__code__ = _apply.__code__


def check_hooks(module):
    """Fails for hooks on parameters. Returns notes about backward hooks of modules, which may only watch."""
    for name, parameter in module.named_parameters():
        if getattr(parameter, "_backward_hooks", None):
            raise CustomGradient(f"parameter {name} has a hook (register_hook), which torch.export drops; remove it before the export")
    watched = [name or type(module).__name__ for name, part in module.named_modules() if part._backward_hooks or part._backward_pre_hooks]
    return [f"backward hooks are not exported: those of {', '.join(watched[:5])}"] if watched else []
