"""Losses that are a sum over rows or entries: two numbers travel, the sum and what it is of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labelset import _csr
from labelset.distributed._ranks import ALONE, Grid, total
from labelset.labels import Labels
from labelset.losses._base import Loss, reduce
from labelset.losses._separable import Separable
from labelset.losses._ways import WayLoss
from labelset.losses.lpr import LPR

__all__ = ["Rows", "averaged", "counted", "over_lines"]


@dataclass(frozen=True)
class Rows:
    """sum_r (sum of the rows of rank r) / sum_r (entries, or rows, of rank r that count).

    Of a loss of entries ranks may also hold some labels of all rows. The local sum is computed by
    whatever computes the loss fastest. Both numbers travel in float64, in which counts are exact
    however many entries there are.
    """

    summed: Loss
    """The loss with `reduction="sum"`, or with "none"."""
    mean: bool

    @classmethod
    def of(cls, loss: Loss, **changes: Any) -> Rows:
        """From a loss in any reduction."""
        if loss.reduction != "none":
            changes["reduction"] = "sum"
        return cls(loss._with(**changes), loss.reduction == "mean")

    def __call__(self, logits: Tensor, labels: Any, grid: Grid) -> Tensor:
        value = self.summed(logits, labels)
        if self.summed.reduction == "none":
            return value
        count = counted(self.summed, value.dtype, labels) if self.mean else None
        return averaged(value, count, grid.labels, grid.rows)


def averaged(value: Tensor, count: Tensor | None, *groups: Any) -> Tensor:
    """The sum over ranks of `value`, divided by that of `count` where there is one."""
    value = value.double()
    if count is None:
        return total(value, *groups)
    value, count = total(torch.stack([value, torch.as_tensor(count).to(value)]), *groups)
    count = count.detach()
    return value / torch.where(count > 0, count, 1.0)


def over_lines(values: Tensor, weights: Tensor, reduction: str, group: Any) -> Tensor:
    """What `reduce` makes of rows (or columns) that are spread over the ranks of the group."""
    if group is ALONE or reduction == "none":
        return reduce(values, weights, reduction)
    value = reduce(values, weights, "sum")
    return averaged(value, weights.sum() if reduction == "mean" else None, group)


def counted(loss: Loss, dtype: torch.dtype, labels: Any) -> Tensor:
    """What the mean of this loss is over: known entries, or rows that count."""
    if isinstance(loss, WayLoss) and loss.needs_on:
        return (on_per_row(labels, dtype) > 0).sum()
    known = known_per_row(labels)
    if isinstance(loss, Separable):
        return known.sum()
    return (known > (1 if isinstance(loss, LPR) else 0)).sum()


def on_per_row(labels: Any, dtype: torch.dtype) -> Tensor:
    """(rows,): how many labels are on; of soft ones, those above 0 in the dtype of the scores."""
    if isinstance(labels, Labels):
        return labels.counts()
    y = _csr.as_tensor(labels)
    return (y.to(dtype) > 0).sum(1) if y.is_floating_point() else y.count_nonzero(1)


def known_per_row(labels: Any) -> Tensor:
    """(rows,): how many labels are known."""
    if isinstance(labels, Labels):
        return labels.n - (labels.indptr.diff() - labels.counts())
    y = _csr.as_tensor(labels)
    rows, n = y.shape
    if not y.is_floating_point():
        return torch.full((rows,), n, device=y.device)
    return n - y.isnan().count_nonzero(1)
