"""The signed unit rows of many label sets on a device: one matrix for all, with a sign per entry.

What concerns all rows is one product with that matrix, whatever the label sets: the signs go before
or after it. A search has a working set of a few rows for each label set, which are gathered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

__all__ = ["SignedRows", "halves"]


@dataclass(frozen=True)
class SignedRows:
    """A_l: row i is signs[l, i] * unit[i]; sign 0 leaves it out."""

    unit: Tensor
    """(n, d), float64"""
    signs: Tensor
    """(L, n), int8"""
    unknown: bool
    """Whether any sign is 0."""

    def __getitem__(self, which: Tensor) -> SignedRows:
        return replace(self, signs=self.signs[which])

    def margins(self, w: Tensor) -> Tensor:
        """(L, n): A w, infinite for rows that are left out."""
        margins = (w @ self.unit.T).mul_(self.signs)
        return margins.masked_fill_(self.signs == 0, torch.inf) if self.unknown else margins

    def mean(self) -> Tensor:
        """(L, d): A' lam of `halves` of all rows."""
        return (halves(self.signs) * self.signs) @ self.unit

    def some(self, which: Tensor) -> Tensor:
        """(L, k, d): rows by number."""
        return self.unit[which] * self.signs.gather(1, which)[..., None]

    def working(self, which: Tensor) -> Tensor:
        """(L, k, d + 1): G = [A -1] of rows by number; 0 for rows that are left out."""
        signs = self.signs.gather(1, which)[..., None]
        rows = self.unit.new_empty(*which.shape, self.unit.shape[1] + 1)
        torch.mul(self.unit[which], signs, out=rows[..., :-1])
        rows[..., -1:] = -signs.abs()
        return rows


def halves(signs: Tensor) -> Tensor:
    """(L, k): half of the weight on the labels that are on, half on those that are off."""
    on, off = (signs == 1).double(), (signs == -1).double()
    lam = on / on.sum(1, keepdim=True).clamp_min(1) + off / off.sum(1, keepdim=True).clamp_min(1)
    return lam / lam.sum(1, keepdim=True)
