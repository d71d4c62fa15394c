"""Rules that compare with thresholds, and where a threshold lies between two probabilities."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from labelset._fitted import Part
from labelset.decide._base import Rule

__all__ = ["NEUTRAL", "NEVER", "Array", "Thresholds", "above", "between"]

Array = np.ndarray[Any, Any]

NEVER = math.nextafter(1.0, 2.0)
"""A threshold that no probability reaches."""

NEUTRAL = 0.5
"""The threshold where the data say nothing: no positives, or nothing known."""


@dataclass(kw_only=True, eq=False)
class Thresholds(Rule):
    """A label is on where p >= its threshold."""

    @property
    @abstractmethod
    def thresholds(self) -> Tensor:
        """float64: one number, or one per label."""

    def parts(self) -> dict[str, Part]:
        """One number for all labels, unless a subclass learns another."""
        return {name: Part(low=0.0, high=NEVER) for name in self.learns}

    @property
    def width(self) -> int | None:
        """One threshold serves any number of labels."""
        each = self.learnt.get("thresholds")
        return None if each is None or each.ndim == 0 else len(each)

    def decide(self, p: Tensor) -> Tensor:
        """p >= threshold, compared in float64, so that the dtype of p changes nothing."""
        return p >= self.thresholds.to(p.device)


def between(lower: Array, upper: Array) -> Array:
    """Midway, so that lower < threshold <= upper even where the two are neighbouring floats.

    >>> float(between(np.array(0.25), np.array(0.75)))
    0.5
    """
    middle = (lower + upper) / 2
    return np.where(middle > lower, middle, upper)


def above(highest: Array) -> Array:
    """A threshold that turns everything up to `highest` off: midway to 1, or beyond 1.

    >>> float(above(np.array(0.5))), float(above(np.array(1.0))) > 1
    (0.75, True)
    """
    return between(highest, np.where(highest < 1, 1.0, NEVER))
