"""Rows that weigh differently, through a loop that knows only a loss and labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labelset import _csr, check
from labelset.labels import Labels
from labelset.losses import Loss
from labelset.losses._confusion import ConfusionLoss
from labelset.losses._elsewhere import Elsewhere
from labelset.losses._separable import Separable
from labelset.losses._sum import Sum
from labelset.losses._ways import WayLoss
from labelset.losses.lpr import LPR
from labelset.losses.spa_lpr import SPAPairs

__all__ = ["RowWeighted", "WeightedLabels"]


@dataclass(frozen=True, eq=False, repr=False)
class WeightedLabels(Labels):
    """Labels with a weight per row, which goes wherever the row goes."""

    weights: Tensor | None = None
    """(rows,) float64, with mean 1."""

    @classmethod
    def of(cls, labels: Labels, weights: Tensor) -> WeightedLabels:
        """The same labels, weighted."""
        return cls(labels.indptr, labels.indices, labels.n, labels.values, weights)

    def __getitem__(self, rows: Any) -> WeightedLabels:
        assert self.weights is not None
        chosen = _csr.row_numbers(rows, len(self), self.device)
        return WeightedLabels.of(super().__getitem__(chosen), self.weights[chosen])

    def to(self, device: torch.device | str, non_blocking: bool = False) -> WeightedLabels:
        """On another device."""
        assert self.weights is not None
        there = self.weights.to(device, non_blocking=non_blocking)
        return WeightedLabels.of(super().to(device, non_blocking), there)


@dataclass(frozen=True, kw_only=True, eq=False)
class RowWeighted(Elsewhere):
    """sum_i w_i (loss of row i) / (what the mean is over), for `WeightedLabels` with weights w.

    Only a loss that is a sum over rows has this; others compare rows with one another.

    >>> from labelset.losses import build
    >>> y = WeightedLabels.of(Labels.from_dense([[1], [0]]), torch.tensor([0.5, 1.5]))
    >>> RowWeighted(of=build("mse"))(torch.tensor([[0.0], [9.0]]), y)
    tensor(0.8123)
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        for _, part in _added(self.of):
            if not _by_row(part):
                raise ValueError(
                    f"{type(part).__name__} compares rows with one another, so that a row has no "
                    "loss of its own to be weighted; give whole numbers as sample_weight (up to "
                    "20 on average), which repeat rows, or take another loss"
                )

    def __call__(self, logits: Tensor, labels: Any) -> Tensor:
        if not isinstance(labels, WeightedLabels) or labels.weights is None:
            return self.of(logits, labels)
        v, weights = check.logits(logits), labels.weights
        parts = [f * _weighted(part, v, labels, weights.to(v.dtype)) for f, part in _added(self.of)]
        return torch.stack(parts).sum(0)


def _added(loss: Loss) -> list[tuple[float, Loss]]:
    """What a sum adds up, with its factors."""
    if isinstance(loss, SPAPairs):
        loss = loss._sum
    if isinstance(loss, Sum):
        return [(f * inner, part) for f, one in loss.parts for inner, part in _added(one)]
    return [(1.0, loss)]


def _by_row(loss: Loss) -> bool:
    """Whether the first axis of its terms is that of rows."""
    if isinstance(loss, WayLoss):
        return loss.way == "sample"
    if isinstance(loss, ConfusionLoss):
        return loss.average == "samples"
    return isinstance(loss, (Separable, LPR))


def _weighted(loss: Loss, v: Tensor, labels: Labels, weights: Tensor) -> Tensor:
    """The sum or mean of the terms, those of row i times w_i; the mean is over what is known."""
    ((values, known),) = loss.groups(v, labels)
    each = weights if values.ndim == 1 else weights[:, None]
    if known is None:
        known = torch.ones_like(values)
    total = (torch.where(known > 0, values, 0.0) * known * each).sum()
    return total / known.sum().clamp(min=1) if loss.reduction == "mean" else total
