"""The processes that work together: which one this is, and what they tell each other."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed

__all__ = ["Ranks"]

T = TypeVar("T")


@dataclass(frozen=True)
class Ranks:
    """This process among `size` of them, all of which make the same calls in the same order.

    >>> Ranks().share(torch.arange(3)), Ranks().once(lambda: 7)
    (tensor([0, 1, 2]), 7)
    """

    rank: int = 0
    size: int = 1

    @classmethod
    def running(cls) -> Ranks:
        """Those of torch's process group; one where there is none."""
        if not (distributed.is_available() and distributed.is_initialized()):
            return cls()
        return cls(distributed.get_rank(), distributed.get_world_size())

    @property
    def first(self) -> bool:
        """Whether this is the one that writes files and speaks."""
        return self.rank == 0

    def once(self, work: Callable[[], T]) -> T:
        """What the first rank gets from `work`, on every rank; the others wait for it."""
        if self.size == 1:
            return work()
        held: list[Any] = [work() if self.first else None]
        distributed.broadcast_object_list(held, src=0)
        found: T = held[0]
        return found

    def gathered(self, value: T) -> list[T]:
        """Every rank's value, on the first one; nothing on the others."""
        if self.size == 1:
            return [value]
        held: list[Any] | None = [None] * self.size if self.first else None
        distributed.gather_object(value, held, dst=0)
        return held or []

    def wait(self) -> None:
        """Until every rank has come here."""
        if self.size > 1:
            distributed.barrier()

    def share(self, rows: Tensor) -> Tensor:
        """The rows of this rank: one piece of a batch that was cut as evenly as can be."""
        return rows if self.size == 1 else rows.tensor_split(self.size)[self.rank]

    def padded_share(self, rows: Tensor) -> Tensor:
        """The same, of equal length on every rank, the last row standing in where there is none."""
        if self.size == 1:
            return rows
        each = -(-len(rows) // self.size)
        return rows[torch.arange(self.rank * each, (self.rank + 1) * each).clamp(max=len(rows) - 1)]

    def joined(self, mine: Tensor, rows: int) -> Tensor:
        """(rows, ...) from what each rank has made of its `padded_share`."""
        if self.size == 1:
            return mine
        mine = mine.contiguous()
        parts = [torch.empty_like(mine) for _ in range(self.size)]
        distributed.all_gather(parts, mine)
        return torch.cat(parts)[:rows]

    def dealt(self, items: Sequence[T]) -> Iterator[T]:
        """Each item on one rank only: whoever is free takes the next one."""
        if self.size == 1:
            yield from items
            return
        key, store = self.once(lambda: uuid.uuid4().hex), _store()
        while (at := int(store.add(key, 1)) - 1) < len(items):
            yield items[at]


def _store() -> Any:
    """Where the ranks of the process group found each other; it can count."""
    from torch.distributed.distributed_c10d import _get_default_store

    return _get_default_store()
