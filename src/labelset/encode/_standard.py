"""Dense features of mean 0 and deviation 1, by what the training rows say."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from labelset.data import StoredRows
from labelset.data._stored import blocks

__all__ = ["moments", "moments_of", "scaled", "standardised"]

BLOCK = 8192
"""Rows taken to float64 together."""
FAR = 1e3
"""Deviations beyond which a number is cut off, so that one wild row stays finite."""


def moments(x: Tensor | StoredRows) -> dict[str, Tensor]:
    """Mean and deviation of each column, NaN left out: as precise as x, from sums in float64.

    A column that never changes, or is never known, has deviation 1.
    """
    if isinstance(x, StoredRows):
        return moments_of(lambda: blocks(x, rows=BLOCK), x.shape[1])
    return moments_of(lambda: x.split(BLOCK), x.shape[1])  # type: ignore[no-untyped-call]


def moments_of(parts: Callable[[], Iterable[Tensor]], width: int) -> dict[str, Tensor]:
    """The same of rows that come in blocks, and come twice."""
    total = torch.zeros(width, dtype=torch.float64)
    count, squares = torch.zeros_like(total), torch.zeros_like(total)
    low, high = torch.full_like(total, torch.inf), torch.full_like(total, -torch.inf)
    dtype = torch.float32
    for b in parts():
        dtype = torch.float64 if b.dtype == torch.float64 else dtype
        count += (~b.isnan()).sum(0)
        total += b.double().nansum(0)
        low = torch.minimum(low, b.nan_to_num(torch.inf, posinf=torch.inf).amin(0))
        high = torch.maximum(high, b.nan_to_num(-torch.inf, neginf=-torch.inf).amax(0))
    count.clamp_(min=1)
    mean = total / count
    for b in parts():
        squares += (b.double() - mean).square().nansum(0)
    deviation = (squares / count).sqrt().to(dtype)
    deviation = torch.where((low < high) & (deviation > 0), deviation, 1.0)
    return {"mean": mean.to(dtype), "deviation": deviation}


def standardised(x: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
    """(x - mean) / deviation, 0 where a measurement is missing; float32.

    Numbers that came in float64 are rounded only when what all of them share is gone.

    >>> standardised(torch.tensor([[3.0, torch.nan]]), torch.ones(2), 2 * torch.ones(2))
    tensor([[1., 0.]])
    """
    if torch.promote_types(x.dtype, mean.dtype) != torch.float64:
        return scaled(x, mean, deviation)
    z = torch.empty(x.shape, dtype=torch.float32)
    for start in range(0, len(x), BLOCK):
        z[start : start + BLOCK] = scaled(x[start : start + BLOCK], mean, deviation)
    return z


def scaled(x: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
    """The same in one piece, and as precise as the most precise of the three."""
    z = (x - mean).div_(deviation)
    return z.nan_to_num_(0.0).clamp_(-FAR, FAR)
