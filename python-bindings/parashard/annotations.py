"""Types that annotations of several modules share. Only type checkers need this module."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, TypeVar

import torch
from typing_extensions import Never, TypedDict

from parashard.caching import Generation

__all__ = ["Batch", "ChangedFlags", "Drive", "LoaderOptions", "Path", "PlanFlags", "ProgramOptions"]

Path = str | os.PathLike[str]
Drive = Literal["step", "autograd"]
# The example of a batch: a tensor, the arguments of forward, or the arguments by name.
Batch = torch.Tensor | tuple[torch.Tensor | None, ...] | list[torch.Tensor] | dict[str, torch.Tensor] | dict[str, torch.Tensor | None]
Removed = TypeVar("Removed")


class Flags(TypedDict, Generic[Removed], total=False):
    """The flags that a plan may set (docs/ps-compile-flags.md). Removed: the type of a value that removes a flag."""

    align_dims: int | str | Removed
    batch: int | Removed
    cluster: str | Removed
    global_batch: int | Removed
    gradient_reduction: str | Removed
    loss_average: str | Removed
    matmul_epilogues: str | Removed
    micro_batches: int | Removed
    num_chunks: int | Removed
    offload: str | Removed
    overlap: int | str | Removed
    precision: str | Removed
    recompute: str | Removed
    schedule: str | Removed
    sharding_policy: str | dict[str, Any] | Removed
    split_method: str | Removed
    target: str | Removed
    zero: int | Removed


PlanFlags = Flags[Never]
ChangedFlags = Flags[None]


class ProgramOptions(TypedDict, total=False):
    """Arguments of `parallelize` on which the number of returned objects does not depend."""

    criterion: Callable[..., torch.Tensor] | None
    drive: Drive | None
    keep_outputs: str | Sequence[str]
    threads: int
    seed: int
    generation: Generation | dict[str, int] | None
    batch_size: int | None


class LoaderOptions(ProgramOptions, total=False):
    """Arguments of `parallelize` with a dataset."""

    example: Batch | None
    loader_options: dict[str, Any] | None
