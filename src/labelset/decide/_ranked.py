"""Entries ranked by falling probability within groups: one group per label, or per row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from torch import Tensor

from labelset.decide._thresholds import Array

__all__ = ["Ranked"]


@dataclass(frozen=True)
class Ranked:
    """Every group sorted once; all cut points are read off from this."""

    p: Array
    """(groups, entries) float64, falling; unknown entries last, as -1."""
    on: Array
    """(groups, entries) bool, in the same order."""
    order: Array
    """(groups, entries): where each entry stood in its group."""

    @classmethod
    def within_rows(cls, p: Tensor, on: Tensor, known: Tensor) -> Self:
        """The rows of the matrices are the groups."""
        key = np.where(known.numpy(), -p.numpy(), 1.0)  # unknown ones sort to the end
        order = np.argsort(key, axis=1)
        return cls(
            -np.take_along_axis(key, order, 1), np.take_along_axis(on.numpy(), order, 1), order
        )

    @classmethod
    def within_labels(cls, p: Tensor, on: Tensor, known: Tensor) -> Self:
        """The labels are the groups."""
        return cls.within_rows(*(t.T.contiguous() for t in (p, on, known)))

    @property
    def positives(self) -> Array:
        """(groups,) how many are on."""
        total: Array = self.on.sum(1)
        return total
