"""A loss by what rows, or entries, count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labelset import check
from labelset.labels import Labels
from labelset.losses import AxisLoss, ConfusionLoss, DelegatingLoss, Loss, Separable, Sum
from labelset.losses.lpr import LPR
from labelset.losses.spa_lpr import SPAPairs


@dataclass(frozen=True, kw_only=True, eq=False)
class Weighted(DelegatingLoss):
    """sum_i w_i (loss of row i) / (what the mean is over), for `Labels` that carry weights w.

    Only a loss that is a sum over rows has this; others compare rows with one another. Where each
    entry has a weight, it must be a sum over entries.

    >>> from dataclasses import replace
    >>> from labelset.losses import build
    >>> y = replace(Labels.from_dense([[1], [0]]), weights=torch.tensor([0.5, 1.5]))
    >>> Weighted(of=build("mse"))(torch.tensor([[0.0], [9.0]]), y)
    tensor(0.8123)
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        for _, term in _added(self.of):
            if not _by_row(term):
                raise ValueError(
                    f"{type(term).__name__} compares rows with one another, so that neither a row "
                    "nor an entry has a loss of its own to be weighted; give one whole number for "
                    "each row (up to 20 on average), which repeats it, or take another loss"
                )

    def __call__(self, logits: Tensor, labels: Any) -> Tensor:
        if not isinstance(labels, Labels) or labels.weights is None:
            return self.of(logits, labels)
        v, weights = check.logits(logits), labels.weights
        parts = [f * _weighted(term, v, labels, weights.to(v.dtype)) for f, term in _added(self.of)]
        return torch.stack(parts).sum(0)


def _added(loss: Loss) -> list[tuple[float, Loss]]:
    """What a sum adds up, with its factors."""
    if isinstance(loss, SPAPairs):
        loss = loss._sum
    if isinstance(loss, Sum):
        return [(f * inner, term) for f, one in loss.parts for inner, term in _added(one)]
    return [(1.0, loss)]


def _by_row(loss: Loss) -> bool:
    """Whether the first axis of its terms is that of rows."""
    if isinstance(loss, AxisLoss):
        return loss.way == "sample"
    if isinstance(loss, ConfusionLoss):
        return loss.average == "samples"
    return isinstance(loss, (Separable, LPR))


def _weighted(loss: Loss, v: Tensor, labels: Any, weights: Tensor) -> Tensor:
    """The sum or mean of the terms, each by what it counts; the mean is over what is known."""
    ((values, known),) = loss.groups(v, labels)
    if weights.ndim == 2 and values.shape != weights.shape:
        raise ValueError(
            f"{type(loss).__name__} is no sum over entries, so that weights of entries say nothing "
            "to it; give one weight for each row, or take another loss"
        )
    each = weights if values.ndim == weights.ndim else weights[:, None]
    if known is None:
        known = torch.ones_like(values)
    total = (torch.where(known > 0, values, 0.0) * known * each).sum()
    return total / known.sum().clamp(min=1) if loss.reduction == "mean" else total
