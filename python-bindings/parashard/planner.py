"""Finds the fastest predicted plan for a model with ps-plan."""

from __future__ import annotations

import contextlib
import json
import pathlib
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from parashard.compiler import describe_plan, run_planner
from parashard.errors import InputError
from parashard.export import add_loss, export
from parashard.jobs import env, share
from parashard.optimizer import compile_groups
from parashard.parallel import choose_loss, count_rows, flag_loss, list_outputs, name_inputs
from parashard.plan import Plan

if TYPE_CHECKING:
    from parashard.annotations import Batch, Path

__all__ = ["generate_plan"]

Model = TypeVar("Model", bound=torch.nn.Module)


def generate_plan(
    constraints: dict[str, Any] | Path, model: Model, *, example: Batch, ranks: int | None = None, cluster: Path = "cpu",
    criterion: Callable[..., torch.Tensor] | None = None, optimizer_fn: Callable[[Model], torch.optim.Optimizer] | None = None,
    time_limit: float | None = None,
) -> Plan:  # fmt: skip
    """Returns the `Plan` that is predicted to be the fastest of those that satisfy the constraints and fit the memory.

    constraints: a dict from flags of the plan to a value, a list of values, a range such as "<=8", or "*" (any value), or a path
        of such a JSON file. Flags without a constraint may have any value. Example: {"zero": [0, 1], "mesh": "tp=<=2"}. The keys of
        veScale's constraints are accepted too.
    model, example, criterion, optimizer_fn: as in `parallelize`; the example has the samples of a whole step. The optimizer is
        AdamW by default.
    ranks: the number of ranks. By default, the number of processes of the job, or else of ranks of the cluster.
    cluster: a preset such as "h100-sxm:64", a cluster file, or "cpu" for this machine, which is measured on first use.
    time_limit: seconds after which the search ends with the best plan so far; by default, 30.

    Raises ExportFailed, InputError, Unsupported, or CompileError if no plan satisfies the constraints.
    """
    ranks = env.world_size if ranks is None and env.world_size > 1 else ranks
    if ranks is None and ":" not in str(cluster):
        raise InputError(f"cluster {cluster} has no number of ranks; give ranks=N, or a cluster such as h100-sxm:64")
    optimizer = (optimizer_fn or make_adamw)(model)
    groups = compile_groups(model, optimizer)
    with add_loss(model, criterion) if criterion else contextlib.nullcontext(), tempfile.TemporaryDirectory() as folder:
        inputs = name_inputs(model, example)
        exported = export(model, inputs, pathlib.Path(folder) / "model.pt2", train=model.training)
        names, _ = list_outputs(exported.program)
        loss = flag_loss(names, choose_loss(Plan(), exported, names, "step"))
        result = pathlib.Path(folder) / "plan.json"
        arguments = ["--cluster", str(cluster), "--global-batch", str(count_rows(inputs)), *loss, *groups.arguments]
        arguments += ["--ranks", str(ranks)] if ranks is not None else []
        arguments += ["--time-limit", str(time_limit)] if time_limit is not None else []
        arguments += ["--constraints", write_constraints(constraints, folder)] if constraints else []

        def search():
            run_planner(exported.path, [*arguments, "-o", str(result)])
            plan = Plan.load(result)
            described = describe_plan(exported.path, [*plan.arguments(), *loss, *groups.arguments])
            described["data"] = {**plan.data, **described["data"]}
            return json.dumps([json.loads(result.read_text()), described])

        values, described = json.loads(share(search))
        return Plan.from_values(values, result).with_data(**described)


def make_adamw(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters())


def write_constraints(constraints, folder):
    """Writes constraints to a file, unless they are in one. Returns its path."""
    if not isinstance(constraints, dict):
        return str(constraints)
    path = pathlib.Path(folder) / "constraints.json"
    path.write_text(json.dumps(constraints))
    return str(path)
