"""A data loader that can continue in the middle of an epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import torch

from parashard.errors import InputError

__all__ = ["BatchLoader", "make_loader"]

Sample = TypeVar("Sample", covariant=True)


def make_loader(dataset: torch.utils.data.Dataset[Sample], rows: int, seed: int, options: dict[str, Any]) -> BatchLoader[Sample]:
    """Returns a loader of complete batches in random order. Drops the last samples if they are fewer than a batch.

    options: options of torch.utils.data.DataLoader. The order is that of a DataLoader with shuffle=True and a generator with `seed`,
    and does not depend on the plan or the number of processes.
    """
    for name in ("batch_sampler", "batch_size", "drop_last", "generator", "sampler", "shuffle"):
        if name in options:
            raise InputError(f"loader_options has {name}, which parallelize determines; use batch_size and seed, or a loader of your own")
    generator = torch.Generator().manual_seed(seed)
    order = torch.utils.data.RandomSampler(dataset, generator=generator)  # type: ignore[arg-type] # its len() is checked at run time
    sampler = Continued(torch.utils.data.BatchSampler(order, rows, drop_last=True))
    return BatchLoader(dataset, batch_sampler=sampler, generator=generator, **options)


class Continued(torch.utils.data.Sampler[list[int]]):
    """Omits the first `skipped` batches of the next epoch."""

    def __init__(self, batches: torch.utils.data.BatchSampler) -> None:
        self.batches = batches
        self.skipped = 0

    def __iter__(self) -> Iterator[list[int]]:
        skipped, self.skipped = self.skipped, 0
        for index, batch in enumerate(self.batches):
            if index >= skipped:
                yield batch

    def __len__(self) -> int:
        return len(self.batches)


class BatchLoader(torch.utils.data.DataLoader[Sample]):
    """A DataLoader with a state: the random numbers of the epoch, and the number of batches that the loop has received."""

    batch_sampler: Continued

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._begun = None  # state of the generator when the current epoch began; None: between epochs
        self._received = 0

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override] # PyTorch names its own iterator
        first = self.batch_sampler.skipped
        self._begun, self._received = self.generator.get_state(), first
        for batch in super().__iter__():
            self._received += 1
            yield batch
        self._begun, self._received = None, 0

    def state_dict(self) -> dict[str, Any]:
        """Returns the state, also in the middle of an epoch. Batches that workers have loaded in advance do not count."""
        return {"generator": self.generator.get_state() if self._begun is None else self._begun, "received": self._received}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues with the batch after the last one that the loop had received when the state was made."""
        self.generator.set_state(state_dict["generator"])
        self.batch_sampler.skipped = self._received = state_dict["received"]
        self._begun = None
