"""Saves and loads the state of a training: model, optimizer, scheduler and plan in one file."""

from __future__ import annotations

import os
import pathlib
import pickle
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import torch

from parashard.errors import InputError
from parashard.jobs import write_once
from parashard.plan import Plan

if TYPE_CHECKING:
    from parashard.annotations import Path

__all__ = ["get_state", "load", "read_state", "save", "write_state"]

PLAIN = (bool, int, float, str)  # types of values that are saved as they are


class HasState(Protocol):
    """An object whose state can be saved."""

    def state_dict(self) -> dict[str, Any]: ...


class LoadsState(Protocol):
    """An object whose state can be loaded."""

    def load_state_dict(self, state_dict: dict[str, Any], /) -> object: ...


def save(path: Path, objects: Mapping[str, Any]) -> None:
    """Writes the state of objects to a file, completely or not at all. In a job, all processes call it, and rank 0 writes.

    objects: by name, a `Plan`, an object with a state_dict(), such as a model, an optimizer or a scheduler, or a number or a text, such
    as the epoch. The state of a model and an optimizer does not depend on the plan. `torch.load` reads the file; plans are dicts in it.
    """
    state = {name: get_value(name, value) for name, value in objects.items()}
    write_once(path, lambda: write_state(path, state))


def write_state(path, state):
    """Writes a state to a file with torch.save, completely or not at all."""
    path = pathlib.Path(path)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def load(path: Path, objects: Mapping[str, Any]) -> dict[str, Any]:
    """Reads the state of objects from a file that `save` wrote. Returns the plans, numbers and texts of the file, by name.

    objects: by name, objects with a load_state_dict(). They may be compiled for another plan than that of the file. Names that only
    the file has are ignored. Raises InputError if the file lacks a name, or cannot be read.
    """
    state = read_state(path)
    if not isinstance(state, dict):
        raise InputError(f"{path}: the file has a {type(state).__name__}; expected a dict of states, as parashard.save writes it")
    missing = [name for name in objects if name not in state]
    if missing:
        raise InputError(f"{path}: the file has no {missing[0]}; it has {', '.join(map(str, state))}")
    for name, value in objects.items():
        value.load_state_dict(state[name])
    plans = {name: read_plan(value) for name, value in state.items() if isinstance(value, dict) and value.get("kind") == "parashard.Plan"}
    return {**plans, **{name: value for name, value in state.items() if isinstance(value, PLAIN)}}


def read_state(path):
    """Reads a file of torch.save. Raises InputError if the file is another one."""
    try:
        return torch.load(path, weights_only=True)
    except (RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError) as error:
        raise InputError(f"{path}: the file is not a checkpoint of torch.save: {error}") from None


def get_value(name, value):
    """Returns what `save` writes for an object."""
    return write_plan(value) if isinstance(value, Plan) else value if isinstance(value, PLAIN) else get_state(name, value)


def get_state(name, value):
    """Returns the state of an object, whose tensors are on the host."""
    if not hasattr(value, "state_dict"):
        raise InputError(f"{name} is {type(value).__name__}, which has no state_dict(); save an object that has one, a Plan, a number or a text")
    return torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, value.state_dict())


def write_plan(plan):
    return {"kind": "parashard.Plan", "mesh": dict(plan.mesh), "flags": dict(plan.flags)}


def read_plan(state):
    return Plan(state["mesh"], **state["flags"])
