"""A loss as solvers see it: its slopes as tables, the best constant score, its stages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from labelset.labels import Labels
from labelset.losses import Loss, Separable
from labelset.train.fitted import weighted_loss

SPAN, POINTS = 16.0, 2049
"""Tables run from -SPAN to SPAN; csrc/solve/passes.c has the same numbers."""
EPOCHS = 20
"""In how many epochs a loss that changes with them is looked at."""


def stages(loss: Loss) -> list[Loss]:
    """The losses that are in force one after the other; most have one."""
    each = [loss.at(0)]
    for epoch in range(1, EPOCHS):
        if loss.at(epoch) != each[-1]:
            each.append(loss.at(epoch))
    return each


def separable_parts(loss: Loss) -> list[tuple[float, Separable]] | None:
    """The weighted separable losses that it is the sum of; None where it is no such sum."""
    parts: Any = getattr(loss, "parts", ((1.0, loss),))
    if all(isinstance(part, Separable) for _, part in parts):
        return [(weight, part) for weight, part in parts]
    return None


def slope_tables(parts: list[tuple[float, Separable]], labels: int) -> Tensor:
    """(labels or 1, 2, POINTS) float32: neg' and pos' on a grid, by autograd."""
    bound = [(weight, loss.bind(labels)) for weight, loss in parts]
    width = labels if any(loss.per_label() for _, loss in bound) else 1
    grid = torch.linspace(-SPAN, SPAN, POINTS, dtype=torch.float64, device="cpu")
    v = grid[:, None].repeat(1, width).requires_grad_()
    sides = []
    for side in ("neg", "pos"):
        total = torch.stack([(weight * getattr(loss, side)(v)).sum() for weight, loss in bound])
        sides.append(torch.autograd.grad(total.sum(), v)[0].T)
    return torch.stack(sides, dim=1).float().contiguous()


def best_constants(tables: Tensor, shares: Tensor) -> Tensor:
    """(labels,): the score that costs least if all rows get the same, by each label's frequency.

    For bce this is the log-odds, for squared hinge the frequency between -1 and 1. Intercepts
    start there and are shrunk towards it: a loss that is flat on negatives holds no other.
    """
    slopes = torch.lerp(tables[:, 0], tables[:, 1], shares.float()[:, None])
    middle = (slopes[:, 1:] + slopes[:, :-1]).double().cumsum(1)
    risk = torch.cat([torch.zeros_like(middle[:, :1]), middle], dim=1)
    return torch.linspace(-SPAN, SPAN, POINTS, device="cpu")[risk.argmin(1)]


def objective(loss: Loss, labels: Labels) -> Callable[[Tensor, Any], Tensor]:
    """Scores and labels -> the sum over entries; rows times the mean for a loss that is no sum.

    By what the labels count, where they say so.
    """
    parts = separable_parts(loss)
    if parts is not None and labels.weights is None:
        return sum_of(parts)
    if parts is not None:
        from labelset.losses import Sum

        summed = tuple((weight, replace(part, reduction="sum")) for weight, part in parts)
        loss = Sum(parts=summed, reduction="sum")
    own = weighted_loss(loss, labels)
    return lambda v, y: own(v, y) * (len(v) if parts is None and loss.reduction == "mean" else 1)


def sum_of(parts: list[tuple[float, Separable]]) -> Callable[[Tensor, Any], Tensor]:
    """Scores and labels -> the weighted sum of separable losses over all known entries."""
    sums = [(weight, replace(part, reduction="sum")) for weight, part in parts]
    return lambda v, y: torch.stack([weight * part(v, y) for weight, part in sums]).sum()
