"""global_batch: a loss over the rows of all ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from labelset import check
from labelset.distributed._reductions import AxisSums, BothAxes, ConfusionSums, PairSums, RowSums
from labelset.distributed.collectives import Grid, ranks, scale_gradient
from labelset.losses import AxisLoss, ConfusionLoss, DelegatingLoss, Loss, Separable, Sum, as_loss
from labelset.losses.lpr import LPR
from labelset.losses.spa_lpr import SPAPairs

Reduction = Callable[[Tensor, Any, Grid], Tensor]
"""This rank's logits and labels, and the grid of ranks, to a value over all ranks, in float64."""


def reductions_of(loss: Loss, cut_rows: bool = False) -> list[tuple[float, Reduction]]:
    """What is added up, with its factor.

    `cut_rows` says that ranks hold some labels of each row: a loss of rows, which otherwise is
    computed by whatever computes it fastest, is then put together from what ranks know of a row.
    """
    if isinstance(loss, SPAPairs):
        loss = loss._sum
    if isinstance(loss, Sum):
        return [
            (w * f, reduction)
            for w, one in loss.parts
            for f, reduction in reductions_of(one, cut_rows)
        ]
    return [(1.0, reduction_of(loss, cut_rows))]


def reduction_of(loss: Loss, cut_rows: bool) -> Reduction:
    """Of one loss that is no sum."""
    if isinstance(loss, ConfusionLoss) and type(loss).terms is ConfusionLoss.terms:
        whole = loss.average == "samples" and not cut_rows
        return RowSums.of(loss) if whole else ConfusionSums(loss)
    if isinstance(loss, AxisLoss) and type(loss).rows is AxisLoss.rows:
        rows = AxisSums(loss, "sample") if cut_rows else RowSums.of(loss, way="sample")
        if loss.way == "both":
            return BothAxes(rows, loss)
        return rows if loss.way == "sample" else AxisSums(loss, loss.way)
    if isinstance(loss, LPR):
        return PairSums(loss) if cut_rows else RowSums.of(loss)
    if isinstance(loss, Separable):
        return RowSums.of(loss)
    raise TypeError(
        "over ranks the losses of the catalogue are known, their sums and Separable losses, got "
        f"{type(loss).__name__}, of which one cannot know what to add up over ranks; derive it "
        "from labelset.losses.Separable, or gather the logits yourself"
    )


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
class OverRanks(DelegatingLoss):
    """A loss that is computed by several ranks."""

    group: Any = None
    ddp: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class GlobalBatch(OverRanks):
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
        values = [factor * reduction(logits, labels, grid) for factor, reduction in self._parts]
        value = torch.stack(values).sum(0).to(check.logits(logits[:0]).dtype)
        return scale_gradient(value, world) if self.ddp else value

    @cached_property
    def _parts(self) -> list[tuple[float, Reduction]]:
        return reductions_of(self.of)
