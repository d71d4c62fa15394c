"""Losses that are a sum over rows: two numbers travel, the sum and how much was counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labelset import _csr
from labelset.distributed._ranks import total
from labelset.labels import Labels
from labelset.losses._base import Loss
from labelset.losses._separable import Separable
from labelset.losses._ways import WayLoss
from labelset.losses.lpr import LPR

__all__ = ["Rows", "averaged"]


@dataclass(frozen=True)
class Rows:
    """sum_r (sum of the rows of rank r) / sum_r (entries, or rows, of rank r that count).

    The local sum is computed by whatever computes the loss fastest. Both numbers travel in
    float64, in which counts are exact however many entries there are.
    """

    summed: Loss
    """The loss with `reduction="sum"`."""
    mean: bool

    @classmethod
    def of(cls, loss: Loss, **changes: Any) -> Rows:
        """From a loss in either reduction."""
        return cls(loss._with(reduction="sum", **changes), loss.reduction == "mean")

    def __call__(self, logits: Tensor, labels: Any, group: Any) -> Tensor:
        value = self.summed(logits, labels)
        count = counted(self.summed, value.dtype, labels) if self.mean else None
        return averaged(value, count, group)


def averaged(value: Tensor, count: Tensor | None, group: Any) -> Tensor:
    """The sum over ranks of `value`, divided by that of `count` where there is one."""
    value = value.double()
    if count is None:
        return total(value, group)
    both = total(torch.stack([value, torch.as_tensor(count).to(value)]), group)
    return both[0] / both[1].detach().clamp(min=1)


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
