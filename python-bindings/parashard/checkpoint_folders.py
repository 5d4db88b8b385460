"""Checkpoints as folders: a model as Hugging Face writes it, an optimizer as ColossalAI does."""

from __future__ import annotations

import json
import pathlib
from typing import TYPE_CHECKING

import torch

from parashard.checkpoint import HasState, LoadsState, get_state, read_state, write_state
from parashard.errors import Error, InputError
from parashard.jobs import write_once
from parashard.lazy import LazyModel, LazyOptimizer

if TYPE_CHECKING:
    from parashard.annotations import Path

__all__ = ["load", "save"]

# Files of an optimizer: its states in several files, its groups, and which file has the state of which parameter, by index.
STATES, GROUPS, STATES_INDEX = "pytorch_optim-{:05}.bin", "pytorch_optim_group.bin", "pytorch_optim.bin.index.json"
WEIGHTS, SCHEDULER = "model.safetensors", "scheduler.pt"


def save(value: HasState, folder: Path, gigabytes: float) -> None:
    """Writes the state of a model, an optimizer or a scheduler into a folder, in files of at most so many gigabytes."""
    if not isinstance(gigabytes, (int, float)) or gigabytes <= 0:
        raise InputError(f"max_file_size_gb is {gigabytes!r}; expected a positive number")
    folder = pathlib.Path(folder)
    limit = max(1, int(gigabytes * 1e9))
    state = read_weights(value) if isinstance(value, LazyModel) else get_state("obj", value)

    def write():
        folder.mkdir(parents=True, exist_ok=True)
        if isinstance(value, LazyModel):
            save_model(value, state, folder, limit)
        elif isinstance(value, LazyOptimizer):
            save_optimizer(state, folder, limit)
        else:
            write_state(folder / SCHEDULER, state)

    write_once(folder, write)


def load(value: LoadsState, folder: Path) -> None:
    """Reads what `save` wrote."""
    folder = pathlib.Path(folder)
    if isinstance(value, LazyModel):
        load_model(value, folder)
    elif isinstance(value, LazyOptimizer):
        value.load_state_dict(load_optimizer(folder))
    else:
        value.load_state_dict(read_state(find(folder, SCHEDULER)))


def find(folder, name):
    """Returns the path of a file in a folder. Raises InputError if it is missing."""
    if not (folder / name).is_file():
        raise InputError(f"{folder}: the folder has no {name}; give a folder that save(..., plan=\"huggingface\") wrote")
    return folder / name


# ---- models ------------------------------------------------------------------------------------------------------------


def import_safetensors():
    """Returns (huggingface_hub, safetensors.torch). Raises Error if one is not installed."""
    try:
        import huggingface_hub
        import safetensors.torch
    except ImportError as error:
        raise Error(f"plan=\"huggingface\" needs the package {error.name}: pip install huggingface_hub safetensors") from None
    return huggingface_hub, safetensors.torch


def read_weights(model):
    """Returns copies of the tensors of a model, by name. Names of one tensor have one copy."""
    tensors = model.state_dict(keep_vars=True)
    copies = {id(tensor): tensor.detach().clone() for tensor in tensors.values()}
    return {name: copies[id(tensor)] for name, tensor in tensors.items()}


def save_model(model, weights, folder, limit):
    """Writes safetensors files with an index. A model of Hugging Face is written by its `save_pretrained`, with its configuration."""
    hub, _ = import_safetensors()
    if not hasattr(model._kind, "save_pretrained"):
        hub.save_torch_state_dict(weights, folder, max_shard_size=limit)
        return
    with torch.device("meta"):  # only its configuration is written
        shell = model._kind(model.config)
    shell.generation_config = getattr(model, "generation_config", None)
    shell.save_pretrained(folder, state_dict=weights, max_shard_size=limit)


def load_model(model, folder):
    """Reads safetensors files into a model. Tied weights may be in the files once."""
    _, safetensors = import_safetensors()
    index = folder / f"{WEIGHTS}.index.json"
    names = sorted(set(json.loads(index.read_text())["weight_map"].values())) if index.is_file() else [WEIGHTS]
    weights = {}
    for name in names:
        weights.update(safetensors.load_file(find(folder, name)))
    tied = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        tied.setdefault(id(tensor), []).append(name)
    for group in tied.values():
        known = [name for name in group if name in weights]
        weights.update({name: weights[known[0]] for name in group if known and name not in weights})
    model.load_state_dict(weights)


# ---- optimizers --------------------------------------------------------------------------------------------------------


def save_optimizer(state, folder, limit):
    """Writes a state dict: the groups, and the states of parameters, by index, in files of at most `limit` bytes."""
    for old in folder.glob("pytorch_optim-*.bin"):
        old.unlink()
    parts, sizes = [{}], [0]
    for index, values in state["state"].items():
        size = sum(value.numel() * value.element_size() for value in values.values() if isinstance(value, torch.Tensor))
        if parts[-1] and sizes[-1] + size > limit:
            parts.append({})
            sizes.append(0)
        parts[-1][index] = values
        sizes[-1] += size
    places = {}
    for number, part in enumerate(parts, 1):
        write_state(folder / STATES.format(number), part)
        places.update(dict.fromkeys(part, STATES.format(number)))
    write_state(folder / GROUPS, state["param_groups"])
    metadata = {"param_groups": GROUPS, "total_size": sum(sizes)}
    (folder / STATES_INDEX).write_text(json.dumps({"metadata": metadata, "weight_map": places}, indent=2) + "\n")


def load_optimizer(folder):
    """Returns the state dict that `save_optimizer` wrote."""
    index = json.loads(find(folder, STATES_INDEX).read_text())
    state = {}
    for name in sorted(set(index["weight_map"].values())):
        state.update(read_state(find(folder, name)))
    return {"state": state, "param_groups": read_state(find(folder, index["metadata"]["param_groups"]))}
