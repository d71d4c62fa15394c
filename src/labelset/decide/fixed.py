"""Thresholds given by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from labelset import check
from labelset.catalog import hyper
from labelset.decide._base import NEVER, Thresholds


@dataclass(kw_only=True, eq=False)
class Fixed(Thresholds):
    """A label is on where p >= threshold.

    >>> Fixed(threshold=[0.5, 0.2])([[0.5, 0.1], [0.4, 0.3]]).dense()
    tensor([[1., 0.],
            [0., 1.]])
    """

    name = "fixed"
    needs_fit = False

    threshold: float | Sequence[float] = hyper(0.5, "one number, or one per label")

    def __post_init__(self) -> None:
        super().__post_init__()
        given = check.per_label("threshold", self.threshold)
        each = given.tolist() if isinstance(given, Tensor) else given
        for t in each if isinstance(each, list) else [each]:
            check.number("threshold", t, low=0.0, high=NEVER)  # what other rules learn is welcome
        self.threshold = each

    @property
    def thresholds(self) -> Tensor:
        """As given."""
        return torch.tensor(self.threshold, dtype=torch.float64)

    @property
    def width(self) -> int | None:
        """As many labels as there are thresholds."""
        return len(self.threshold) if isinstance(self.threshold, list) else None
