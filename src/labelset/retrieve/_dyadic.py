"""Exact arithmetic on many doubles at once: whole numbers over one power of two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Dyadic"]


@dataclass(frozen=True)
class Dyadic:
    """numbers / 2^bits, exactly; sums and products of doubles stay in this form.

    >>> third = Dyadic.of(np.array([0.25, 0.75]))
    >>> (third * third.one_minus()).numbers.tolist()
    [3, 3]
    """

    numbers: NDArray[Any]
    """Python's whole numbers, of any size."""
    bits: int

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Dyadic:
        """Finite doubles >= 0, as they are."""
        distinct, place = np.unique(values, return_inverse=True)
        ratios = [value.as_integer_ratio() for value in distinct.tolist()]
        bits = max((below.bit_length() - 1 for _, below in ratios), default=0)
        whole = np.empty(len(ratios), dtype=object)
        whole[:] = [above << (bits + 1 - below.bit_length()) for above, below in ratios]
        return cls(whole[place], bits)

    def one_minus(self) -> Dyadic:
        """1 - x."""
        return Dyadic((1 << self.bits) - self.numbers, self.bits)

    def __mul__(self, other: Dyadic) -> Dyadic:
        return Dyadic(self.numbers * other.numbers, self.bits + other.bits)

    def __add__(self, other: Dyadic) -> Dyadic:
        bits = max(self.bits, other.bits)
        return Dyadic(self._over(bits) + other._over(bits), bits)

    def _over(self, bits: int) -> NDArray[Any]:
        return self.numbers * (1 << (bits - self.bits))
