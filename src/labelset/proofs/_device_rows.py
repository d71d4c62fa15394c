"""The signed unit rows of many label sets on a device: one matrix for all, with a sign per entry.

Everything a search needs of them is a product with that one matrix, whatever the label sets: the
signs go before or after it, and cancel in A'DA.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

__all__ = ["SignedRows", "outer_products"]

DEAR = 2**26  # multiplications from which on A'DA costs more than the rest of a step
BLOCK = 2**25  # numbers of a block of outer products
STORED = 2**29  # numbers of outer products up to which they are computed only once


@dataclass(frozen=True)
class SignedRows:
    """A_l: row i is signs[l, i] * unit[i]; sign 0 leaves it out."""

    unit: Tensor
    """(n, d), float64"""
    signs: Tensor
    """(L, n), int8"""
    unknown: bool
    """Whether any sign is 0."""
    outer: tuple[Tensor, ...] = ()
    """The outer products of unit rows, if they are stored."""

    def __getitem__(self, which: Tensor) -> SignedRows:
        return replace(self, signs=self.signs[which])

    @property
    def dear(self) -> bool:
        """Whether A'DA is what a step takes its time for."""
        n, d = self.unit.shape
        return n * d * d > DEAR

    def margins(self, w: Tensor) -> Tensor:
        """(L, n): A w."""
        return (w @ self.unit.T).mul_(self.signs)

    def combine(self, weights: Tensor) -> Tensor:
        """(L, d): A' weights."""
        return (weights * self.signs) @ self.unit

    def known(self, values: Tensor, other: float) -> Tensor:
        """(L, n) values, with another in the place of rows that are left out; in place."""
        return values.masked_fill_(self.signs == 0, other) if self.unknown else values

    def some(self, which: Tensor) -> Tensor:
        """(L, k, d): rows by number."""
        return self.unit[which] * self.signs.gather(1, which)[..., None]

    def grams(self, weights: Tensor) -> Tensor:
        """(L, d (d + 1) / 2): the lower triangles of A' diag(weights) A.

        For all label sets together they are one product, of the weights with the outer products of
        the rows.
        """
        d, first = self.unit.shape[1], 0
        sums = weights.new_zeros(len(weights), d * (d + 1) // 2)
        for block in self.outer or _blocks(self.unit):
            sums.addmm_(weights[:, first : first + len(block)], block)
            first += len(block)
        return sums

    def grams_of(self, which: Tensor, weights: Tensor) -> Tensor:
        """The same where only (L, k) rows have a weight."""
        i, j = torch.tril_indices(*2 * self.unit.shape[1:], device=weights.device)
        rows = self.unit[which]
        return torch.bmm((rows * weights[..., None]).mT, rows)[:, i, j]


def outer_products(unit: Tensor) -> tuple[Tensor, ...]:
    """The lower triangles of a_i a_i' for all rows, in blocks; none if they are too many."""
    n, d = unit.shape
    return tuple(_blocks(unit)) if n * d * (d + 1) // 2 <= STORED else ()


def _blocks(unit: Tensor) -> Iterator[Tensor]:
    i, j = torch.tril_indices(*2 * unit.shape[1:], device=unit.device)
    for rows in torch.split(unit, max(BLOCK // len(i), 1)):
        yield rows[:, i] * rows[:, j]
