"""Dense features of mean 0 and deviation 1, by what the training rows say."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["moments", "standardised"]

BLOCK = 8192
"""Rows taken to float64 together."""
FAR = 1e3
"""Deviations beyond which a number is cut off, so that one wild row stays finite."""


def moments(x: Tensor) -> dict[str, Tensor]:
    """Mean and deviation of each column, NaN left out: float32, from sums in float64.

    A column that never changes, or is never known, has deviation 1.
    """
    count = (~x.isnan()).sum(0).clamp(min=1).double()
    mean = (
        sum((b.double().nansum(0) for b in torch.split(x, BLOCK)), torch.zeros_like(count)) / count
    )
    squares = sum(
        ((b.double() - mean).square().nansum(0) for b in torch.split(x, BLOCK)),
        torch.zeros_like(count),
    )
    deviation = (squares / count).sqrt().float()
    changes = _ends(x)[0] < _ends(x)[1]
    deviation = torch.where(changes & (deviation > 0), deviation, 1.0)
    return {"mean": mean.float(), "deviation": deviation}


def standardised(x: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
    """(x - mean) / deviation, 0 where a measurement is missing.

    >>> standardised(torch.tensor([[3.0, torch.nan]]), torch.ones(2), 2 * torch.ones(2))
    tensor([[1., 0.]])
    """
    z = (x - mean).div_(deviation)
    return z.nan_to_num_(0.0).clamp_(-FAR, FAR)


def _ends(x: Tensor) -> tuple[Tensor, Tensor]:
    """The lowest and the highest number of each column; (inf, -inf) where none is known."""
    if not len(x):
        return x.new_full(x.shape[1:], torch.inf), x.new_full(x.shape[1:], -torch.inf)
    low = x.nan_to_num(torch.inf, posinf=torch.inf).amin(0)
    high = x.nan_to_num(-torch.inf, neginf=-torch.inf).amax(0)
    return low, high
