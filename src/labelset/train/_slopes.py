"""What solvers share: the slopes of a loss as tables, its stages, and what a solution is."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from labelset.losses import Loss, Separable

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
        total = sum((weight * getattr(loss, side)(v)).sum() for weight, loss in bound)
        sides.append(torch.autograd.grad(total, v)[0].T)  # type: ignore[arg-type]
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


@dataclass
class Solution:
    """What is known of a problem so far; several threads write to different parts of it."""

    scores: Tensor
    """(rows, labels), each row's by the member that leaves it out."""
    weight: Tensor
    """(features, labels) of the fit to all rows."""
    bias: Tensor
    lacked: Tensor
    """(members,) float64: what is left of the equations of each fit, squared."""
    length: Tensor
    """(members,) float64: what that is measured against, squared."""
    passes: int = 0
    seconds: float = 0.0
    complete: bool = True
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def empty(cls, rows: int, width: int, labels: int, fits: int, refit: bool) -> Solution:
        """Of that many fits, of which the last is to all rows if `refit`."""
        weight = torch.zeros(width if refit else 0, labels)
        nothing = torch.zeros(fits, dtype=torch.float64)
        scores, bias = torch.zeros(rows, labels), torch.zeros(labels)
        return cls(scores, weight, bias, nothing, nothing.clone())

    def add(self, fit: int, passes: int, lacked: Any, length: Any, seconds: float) -> None:
        """Count in some labels of a fit."""
        with self.lock:
            self.lacked[fit] += lacked
            self.length[fit] += length
            self.passes = max(self.passes, passes)
            self.seconds += seconds

    @property
    def residual(self) -> float:
        """The largest share of the equations of any fit that is not solved."""
        shares = torch.where(self.lacked > 0, self.lacked / self.length, self.lacked).sqrt()
        return float(shares.max()) if len(shares) else 0.0
