"""over_labels: a loss whose labels are spread over ranks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from labelset import check
from labelset.distributed._global import GlobalBatch, Spread
from labelset.distributed._parts import Part, parts
from labelset.distributed._place import Place, group_of, is_dtensor, placed
from labelset.distributed._ranks import ALONE, Grid, ranks, steeper
from labelset.distributed._slices import labels_at, loss_at
from labelset.losses._base import as_loss

__all__ = ["OverLabels", "over_labels"]


def over_labels(loss: Any, group: Any = None) -> OverLabels:
    """The loss of logits whose labels are spread over ranks: what one process with all computes.

    Every rank of `group` (None: all) calls it at the same time, with the logits of the same rows
    and of its own labels, any number of them and also none, and gets

        value = loss(logits of all labels),  the same on every rank
        gradient of its logits = d value / d logits

    `loss` is a loss of the catalogue (or its name), a sum of such losses, or a `Separable` one of
    your own. Logits are plain tensors, labels then lying in the order of the ranks, or DTensors
    sharded over their columns. Labels, and what the loss holds per label (`pos_weight`), are given
    for all labels, of which each rank takes its own, or for the rank's own. With
    `reduction="none"` each rank gets what it can tell: its entries, its labels, or all rows.

    `over_labels(global_batch(loss, group=rows), group=labels)` spreads rows and labels over the
    two dimensions of a grid of ranks. Without a process group it is the loss itself.

    >>> loss = over_labels("bce")
    >>> loss(torch.zeros(2, 3), torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]]))
    tensor(0.6931)
    """
    rows, ddp = ALONE, False
    if isinstance(loss, GlobalBatch):
        rows, ddp, loss = loss.group, loss.ddp, loss.of
    loss = as_loss("loss", loss)
    about = {"reduction": loss.reduction, "impl": loss.impl}
    return OverLabels(of=loss, group=group_of(group), rows=rows, ddp=ddp, **about)


@dataclass(frozen=True, kw_only=True, eq=False)
class OverLabels(Spread):
    """What `over_labels` makes; its link, parameters and epochs are those of the loss `of`."""

    rows: Any = ALONE

    def __post_init__(self) -> None:
        super().__post_init__()
        parts(self.of, cut_rows=True)  # what cannot be put together is refused here

    def __call__(self, logits: Tensor, labels: Any) -> Tensor:
        v, place = self._placed(logits)
        if place.grid == Grid():
            return self.of(v, labels.full_tensor() if is_dtensor(labels) else labels)
        y, pieces = labels_at(labels, place, v.device), self.parts_at(place)
        values = [factor * part(v, y, place.grid) for factor, part in pieces]
        if len({value.shape for value in values}) > 1:
            shapes = [tuple(value.shape) for value in values]
            raise ValueError(f'reduction="none" adds only losses of one shape, got {shapes}')
        value = torch.stack(values).sum(0) if len(values) > 1 else values[0]
        return self.finished(value.to(check.logits(v[:0]).dtype), place.grid)

    def finished(self, value: Tensor, grid: Grid) -> Tensor:
        """With the gradient that DistributedDataParallel wants, where it was asked for."""
        return steeper(value, ranks(grid.rows)) if self.ddp and grid.rows is not ALONE else value

    def log_odds(self, v: Any) -> Tensor:
        """Of this rank's logits, or of a DTensor."""
        local, place = self._placed(v)
        odds: Tensor = loss_at(self.of, place).log_odds(local)
        if not is_dtensor(v):
            return odds
        from torch.distributed.tensor import DTensor

        whole: Any = {"shape": v.shape, "stride": v.stride(), "run_check": False}
        return DTensor.from_local(odds, v.device_mesh, v.placements, **whole)

    def _placed(self, logits: Tensor) -> tuple[Tensor, Place]:
        check.scores(logits)
        check.same_place(logits, logits)  # that is, they are a matrix
        return placed(logits, 1, self.group, self.rows, len(logits))

    def parts_at(self, place: Place) -> list[tuple[float, Part]]:
        """The parts of the loss for this rank's labels, kept: kernels are made once for them."""
        key = place.labels, place.grid.labels is ALONE
        if key in self._kept:
            return self._kept[key]
        found = parts(loss_at(self.of, place), cut_rows=place.grid.labels is not ALONE)
        if not self.of._learns():  # a slice of what is learnt is part of one graph only
            self._kept[key] = found
        return found

    @cached_property
    def _kept(self) -> dict[Any, list[tuple[float, Part]]]:
        return {}
