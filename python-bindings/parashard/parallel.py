"""Compiles a model and its optimizer for many ranks."""

import pathlib
import tempfile

from parashard.compiler import compile_archive
from parashard.errors import Error, Unsupported
from parashard.export import export
from parashard.model import CompiledModel, bind_inputs
from parashard.optimizer import Optimizer, compile_groups
from parashard.plan import Plan

try:
    from parashard import _runtime
except ImportError as error:
    raise Error(
        f"the extension module of the runtime cannot be loaded ({error}); build Parashard, and add build/release/python to PYTHONPATH"
    ) from error

__all__ = ["parallelize"]


def parallelize(plan, model, optimizer_fn, lr_scheduler_fn=None, *, example, threads=0, seed=0):
    """Compiles a model for the ranks of a plan. Returns (model, optimizer), or (model, optimizer, scheduler).

    plan: a `Plan`, or a mesh such as "dp=2,tp=2". The ranks are threads of this process.
    model: a torch.nn.Module. Its weights are copied; the module itself is not changed. Its modes (train or eval) are compiled.
    optimizer_fn, lr_scheduler_fn: `optimizer_fn(model)` makes an optimizer of PyTorch (SGD, Adam or AdamW), and
        `lr_scheduler_fn(optimizer)` a scheduler.
    example: a batch: a tensor, a tuple of the arguments of forward, or a dict of them by name. Later batches need its shapes.
    threads: threads per rank; 0: the cores of this machine, divided among the ranks. seed: that of dropout.

    The loop of PyTorch stays: `loss = criterion(model(x), y)`, `loss.backward()`, `optimizer.step()`, `optimizer.zero_grad()`.
    Raises ExportFailed, CompileError, InputError or Unsupported.
    """
    plan = plan if isinstance(plan, Plan) else Plan(plan)
    if plan.mesh.get("pp", 1) > 1:
        raise Unsupported("a loss outside of the graph cannot be combined with a pipeline axis yet; use a mesh without pp")
    if str(plan.flags.get("precision", "")).startswith("fp16"):
        raise Unsupported("fp16 scales the loss, which a loop of PyTorch does not; use precision=\"bf16\"")
    optimizer = optimizer_fn(model)
    groups = compile_groups(model, optimizer)
    with tempfile.TemporaryDirectory() as folder:
        exported = export(model, name_inputs(model, example), pathlib.Path(folder) / "model.pt2", train=model.training)
        names, spec = list_outputs(exported.program)
        library = compile_archive(exported.path, [*plan.arguments(), "--loss", "none", *groups.arguments])
    program = _runtime.Program(str(library), ranks=plan.ranks, threads=threads, seed=seed)
    compiled = CompiledModel(model, program, names, spec, groups.trained)
    compiled.load_state_dict(model.state_dict())
    program.zero_grad()
    optimizer = Optimizer(compiled, optimizer, groups)
    return (compiled, optimizer, lr_scheduler_fn(optimizer)) if lr_scheduler_fn else (compiled, optimizer)


def name_inputs(module, example):
    """Returns the tensors of an example by the names of forward's parameters."""
    if isinstance(example, dict):
        return bind_inputs(module, (), example)
    return bind_inputs(module, tuple(example) if isinstance(example, (tuple, list)) else (example,), {})


def list_outputs(program):
    """Returns (names of the outputs, their structure). Outputs that are not tensors must be None: their name is None."""
    spec = program.call_spec.out_spec
    names = list(program.graph_signature.user_outputs)
    for value in names:
        if value is not None and not isinstance(value, str):
            raise Unsupported(f"the model returns {value!r} beside its tensors; return tensors only")
    return names, spec
