"""The formulas as one writes them down in PyTorch: what a loss costs without this package."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

__all__ = ["PLAIN"]

SMALLEST = 1e-8  # inside a logarithm, as the published programs have it


def _focal(v: Tensor, y: Tensor) -> Tensor:
    p = torch.sigmoid(v)
    right = p * y + (1 - p) * (1 - y)
    return -((1 - right) ** 2 * (y * logsigmoid(v) + (1 - y) * logsigmoid(-v))).mean()


def _asl(v: Tensor, y: Tensor) -> Tensor:
    p = torch.sigmoid(v)
    off = (1 - p + 0.05).clamp(max=1)
    logs = y * p.clamp(min=SMALLEST).log() + (1 - y) * off.clamp(min=SMALLEST).log()
    right = p * y + off * (1 - y)
    return -((1 - right) ** (4 * (1 - y)) * logs).mean()


def _hill(v: Tensor, y: Tensor) -> Tensor:
    p, q = torch.sigmoid(v), torch.sigmoid(v - 1)
    on, off = -((1 - q) ** 2) * logsigmoid(v - 1), (1.5 - p) * p**2
    return (y * on + (1 - y) * off).mean()


def _spa(v: Tensor, y: Tensor) -> Tensor:
    return (y * softplus(-v) + (1 - y) * softplus(3 * (v - 1)) / 5).mean()


def _sigmoid_f1(v: Tensor, y: Tensor) -> Tensor:
    s = torch.sigmoid(v)
    tp, fp, fn = (s * y).sum(0), (s * (1 - y)).sum(0), ((1 - s) * y).sum(0)
    return (1 - 2 * tp / (2 * tp + fn + fp + 1e-16)).mean()


def _two_way(v: Tensor, y: Tensor) -> Tensor:
    on = y > 0
    high, low = v.masked_fill(on, -torch.inf), (-v / 4).masked_fill(~on, -torch.inf)
    ways = [
        softplus(high.logsumexp(dim) + 4 * low.logsumexp(dim))[on.any(dim)].mean() for dim in (0, 1)
    ]
    return ways[0] + ways[1]


PLAIN: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "asl": _asl,
    "focal": _focal,
    "hill": _hill,
    "sigmoid-f1": _sigmoid_f1,
    "spa": _spa,
    "two-way": _two_way,
}
"""Loss -> its function of scores and a floating-point target, at the settings measured here."""
