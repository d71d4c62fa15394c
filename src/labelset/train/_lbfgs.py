"""L-BFGS for linear heads, with inner products and a step length of its own for every column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from labelset.data import SparseRows

HISTORY, MOST, ENOUGH = 8, 200, 2e-3
"""Pairs of steps and changes of the gradient, iterations, and the residual that ends them."""
TRIALS = 6
"""Step lengths tried in one iteration."""
NOISE = 1e-2
"""Of a sum of slopes without their signs: a gradient that is less counts as this much."""
KEPT = 1 << 27
"""Numbers in the history, which is shorter where weights are many."""

Slopes = Callable[[Tensor], Tensor]
"""(rows, columns) scores to the slopes of the objective in them."""


class Products:
    """Rows times weights, of which the last row is the intercepts, and the transposed product."""

    lengths: Tensor
    """(rows,): of each row, its 1 for the intercept included."""

    def __init__(self, features: Tensor | SparseRows) -> None:
        self.dense = features if isinstance(features, Tensor) else None
        if isinstance(features, SparseRows):
            self.sparse = features.to_scipy()
            self.transposed = self.sparse.T.tocsr()
            squares = features.filled().square()
            sums = torch.zeros(len(features)).index_add_(0, features.rows(), squares)
        else:
            sums = features.square().sum(1)
        self.lengths = (sums + 1).sqrt()

    def forward(self, weight: Tensor) -> Tensor:
        """(rows, columns) of (features + 1, columns)."""
        if self.dense is not None:
            return torch.addmm(weight[-1:], self.dense, weight[:-1])
        return torch.from_numpy(self.sparse @ weight[:-1].numpy()) + weight[-1:]

    def back(self, slopes: Tensor) -> Tensor:
        """(features + 1, columns) of (rows, columns)."""
        if self.dense is not None:
            top = self.dense.T @ slopes
        else:
            top = torch.from_numpy(self.transposed @ slopes.numpy())
        return torch.cat([top, slopes.sum(0, keepdim=True)])


@dataclass(frozen=True)
class Minimum:
    """Where the iterations ended."""

    weight: Tensor
    """(features + 1, columns)."""
    lacked: Tensor
    """(columns,): the squared length of the gradient."""
    length: Tensor
    """(columns,): what it was at a weight of 0, and no less than what rounding may hide."""
    iterations: int


def by_column(
    x: Products, slopes: Slopes, weight: Tensor, start: Tensor, joint: bool = False
) -> Minimum:
    """Minimise objective + |w|^2 / 2, beginning at a weight.

    start: (columns,), added to all scores. joint: the objective is not a sum over columns, so that
    they share inner products and step lengths.
    """

    def inner(a: Tensor, b: Tensor) -> Tensor:
        each = (a * b).sum(0)
        return each.sum().expand_as(each) if joint else each

    v = x.forward(weight) + start
    gradient = weight + x.back(slopes(v))
    zero = slopes(start.expand_as(v))
    first = x.back(zero)
    # where the start is the optimum there is only noise: what it cancelled out of is the measure
    most = NOISE * (zero.abs() * x.lengths[:, None]).sum(0)
    first = inner(first, first) + (most.square().sum() if joint else most.square())
    pairs: list[tuple[Tensor, Tensor, Tensor]] = []
    room = max(3, min(HISTORY, KEPT // max(2 * weight.numel(), 1)))
    left, done = inner(gradient, gradient), 0
    while done < MOST and bool((left > ENOUGH**2 * first).any()) and bool(left.isfinite().all()):
        direction = _direction(gradient, pairs, inner)
        slope = inner(direction, gradient)
        uphill = slope >= 0
        unsolved = left > ENOUGH**2 * first
        direction = torch.where(uphill, -gradient, direction) * unsolved
        slope = torch.where(uphill, -left, slope) * unsolved
        length = None if pairs else slope.abs().clamp(min=1e-30).rsqrt()
        towards = x.forward(direction)
        step, after = _exact_step(
            slopes, v, towards, slope, inner(weight, direction), inner(direction, direction),
            length, joint,
        )  # fmt: skip
        weight, v = weight + step * direction, v + step * towards
        old, gradient = gradient, weight + x.back(after)
        change, moved = gradient - old, step * direction
        curvature = inner(moved, change)
        known = curvature > 0
        pairs.append((moved, change, torch.where(known, 1 / torch.where(known, curvature, 1.0), 0)))
        del pairs[:-room]
        left, done = inner(gradient, gradient), done + 1
    return Minimum(weight, left, first, done)


def _direction(
    gradient: Tensor,
    pairs: Sequence[tuple[Tensor, Tensor, Tensor]],
    inner: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """The two loops of L-BFGS, for each column."""
    out = -gradient
    shares = []
    for moved, change, over in reversed(pairs):
        share = over * inner(moved, out)
        out = out - share * change
        shares.append(share)
    if pairs:
        _, change, over = pairs[-1]
        length = inner(change, change) * over
        out = out * torch.where(length > 0, 1 / torch.where(length > 0, length, 1.0), 1.0)
    for (moved, change, over), share in zip(pairs, reversed(shares), strict=True):
        out = out + (share - over * inner(change, out)) * moved
    return out


def _exact_step(
    slopes: Slopes,
    v: Tensor,
    towards: Tensor,
    slope: Tensor,
    across: Tensor,
    length: Tensor,
    first: Tensor | None,
    joint: bool,
) -> tuple[Tensor, Tensor]:
    """Where each column's objective stops falling along its direction, and the slopes there.

    Scores are linear in the step, so that trials cost no products. slope: the derivative at 0;
    across, length: <w, d> and <d, d>.
    """
    step = torch.ones_like(slope) if first is None else first
    low, low_slope = torch.zeros_like(step), slope
    high, high_slope = torch.full_like(step, torch.inf), torch.zeros_like(step)
    for trial in range(TRIALS):
        after = slopes(v + step * towards)
        now = (after * towards).sum(0)
        now = (now.sum().expand_as(now) if joint else now) + across + step * length
        good = now.abs() <= 0.1 * slope.abs()
        if bool(good.all()) or trial == TRIALS - 1:
            break
        rises = now > 0
        high, high_slope = torch.where(rises, step, high), torch.where(rises, now, high_slope)
        between = high.isfinite()
        secant = low - low_slope * (step - low) / (now - low_slope)
        outside = torch.where((secant > step) & (secant < 10 * step), secant, 4 * step)
        low, low_slope = torch.where(rises, low, step), torch.where(rises, low_slope, now)
        inside = low - low_slope * (high - low) / (high_slope - low_slope)
        margin = 0.05 * (high - low)
        inside = torch.minimum(torch.maximum(inside, low + margin), high - margin)
        step = torch.where(good, step, torch.where(between, inside, outside))
    return step, after
