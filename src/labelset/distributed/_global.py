"""global_batch: a loss over the rows of all ranks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from labelset import check
from labelset.distributed._parts import Part, parts
from labelset.distributed._ranks import Grid, ranks, steeper
from labelset.losses._base import as_loss
from labelset.losses._elsewhere import Elsewhere

__all__ = ["GlobalBatch", "Spread", "global_batch"]


def global_batch(loss: Any, group: Any = None, ddp: bool = False) -> GlobalBatch:
    """The loss over the global batch of all ranks: value and gradient of one process with all rows.

    `loss` is a loss of the catalogue (or its name), a sum of such losses, or a `Separable` one of
    your own. Every rank of `group` (None: all) calls it at the same time with its own rows, any
    number of them and also none, and gets

        value = loss(rows of all ranks),  the same on every rank
        gradient of its logits = d value / d logits, or that times the number of ranks (`ddp`)

    DistributedDataParallel and FSDP divide the sum of the ranks' gradients by the number of
    ranks. With `ddp=True` that division is made good, and the gradients they leave in the
    parameters are those of one process. What travels is sums, counts and log-sum-exps: two
    numbers for a loss of entries or rows, five per label for one of columns; never logits.

    Without a process group, or with one rank, it is the loss itself.

    >>> loss = global_batch("sigmoid-f1")
    >>> loss(torch.tensor([[0.0], [0.0]]), torch.tensor([[1.0], [0.0]]))
    tensor(0.5000)
    """
    loss = as_loss("loss", loss)
    return GlobalBatch(of=loss, group=group, ddp=ddp, reduction=loss.reduction, impl=loss.impl)


@dataclass(frozen=True, kw_only=True, eq=False)
class Spread(Elsewhere):
    """A loss that is computed by several ranks."""

    group: Any = None
    ddp: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class GlobalBatch(Spread):
    """What `global_batch` makes; its link, parameters and epochs are those of the loss `of`."""

    reductions = ("mean", "sum")

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._parts  # what cannot be summed over ranks is refused here, not in training

    def __call__(self, logits: Tensor, labels: Any) -> Tensor:
        world = ranks(self.group)
        if world == 1:
            return self.of(logits, labels)
        grid = Grid(rows=self.group)
        values = [factor * part(logits, labels, grid) for factor, part in self._parts]
        value = torch.stack(values).sum(0).to(check.logits(logits[:0]).dtype)
        return steeper(value, world) if self.ddp else value

    @cached_property
    def _parts(self) -> list[tuple[float, Part]]:
        return parts(self.of)
