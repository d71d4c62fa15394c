"""Which digits features keep: all of large numbers, of others those of float32."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["has_long", "long_kept"]

LONG = 1 << 20
"""From here on the digits that float32 drops may be those that tell rows apart."""
BLOCK = 8192
"""Rows that are compared together."""


def has_long(t: Tensor) -> bool:
    """Whether float32 would round any large number."""
    if t.element_size() < 4 or t.dtype == torch.float32:
        return False
    parts = t.split(BLOCK)  # type: ignore[no-untyped-call]
    return any(
        bool(((b.abs() >= LONG) & (b != b.float())).any()) for b in map(Tensor.double, parts)
    )


def long_kept(t: Tensor) -> Tensor:
    """float64: large numbers in full, others as in float32. So a number is the same whatever
    numbers lie beside it, also where rows come block by block.

    >>> long_kept(torch.tensor([1.7e9 + 3, 0.1], dtype=torch.float64)).tolist()
    [1700000003.0, 0.10000000149011612]
    """
    kept = t.to(torch.float64, copy=True)
    for b in kept.split(BLOCK):  # type: ignore[no-untyped-call]
        b.copy_(torch.where(b.abs() >= LONG, b, b.float().double()))
    return kept
