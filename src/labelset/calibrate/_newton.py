"""Damped Newton for many small convex problems at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["State", "minimise"]

STEPS, CLOSE = 200, 1e-12

State = tuple[Tensor, Tensor, Tensor]
"""Value (n,), gradient (n, 2), Hessian (n, 2, 2)."""


def minimise(loss: Callable[[Tensor], State], x: Tensor, free: Tensor) -> Tensor:
    """The (n, 2) points of least loss, each its own problem; `free`: (2,) bool, what may move.

    A step is halved until it lowers the value (Armijo), and the last one is expected to gain less
    than 1e-12, so that what is left after it is rounding. There is no learning rate to choose.

    >>> centre = torch.tensor([[3.0, -1.0]])
    >>> curve = torch.tensor([[[2.0, 0.0], [0.0, 1.0]]])
    >>> def bowl(x):
    ...     slope = (curve @ (x - centre)[..., None])[..., 0]
    ...     return (slope * (x - centre)).sum(1) / 2, slope, curve
    >>> minimise(bowl, torch.zeros(1, 2), torch.tensor([True, True]))
    tensor([[ 3., -1.]])
    """
    value, slope, curve = loss(x)
    move, length = _direction(slope, curve, free), torch.ones_like(value)
    for _ in range(STEPS):
        gain = -(slope * move).sum(1)
        new = x + length[:, None] * move
        candidate = loss(new)
        rounding = 1e-14 * (1 + value.abs())
        lower = candidate[0] <= value - 1e-4 * length * gain + rounding
        x = torch.where(lower[:, None], new, x)
        value = torch.where(lower, candidate[0], value)
        slope = torch.where(lower[:, None], candidate[1], slope)
        curve = torch.where(lower[:, None, None], candidate[2], curve)
        if bool(((gain <= CLOSE) | (length < 1e-12)).all()):
            break
        move = torch.where(lower[:, None], _direction(slope, curve, free), move)
        length = torch.where(lower, 1.0, length / 2)
    return x


def _direction(slope: Tensor, curve: Tensor, free: Tensor) -> Tensor:
    """Newton's step; where curvature is lost in rounding, or none, it stays finite."""
    size = curve.diagonal(dim1=-2, dim2=-1)
    damped = curve + torch.diag_embed(torch.where(size > 0, 1e-13 * size, 1.0))
    damped = torch.where(free[:, None] & free, damped, torch.diag((~free).to(curve)))
    step: Tensor = torch.linalg.solve(damped, -torch.where(free, slope, 0.0))
    return step
