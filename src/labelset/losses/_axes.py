"""A loss of one row of scores, applied to the rows, to the columns, to both, or to all at once."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from labelset import check
from labelset.catalog import hyper
from labelset.formulas import NotTraceable
from labelset.kernels import Kernel
from labelset.kernels.axes import Way, traced_way, ways
from labelset.labels import Labels
from labelset.losses._base import Loss, Target, Terms, dense_target


@dataclass(frozen=True, kw_only=True, eq=False)
class AxisLoss(Loss):
    """A function of what the scores of a row come to at its positives, and at its negatives.

    Subclasses give `exponents` and `value`; `way` says which rows are meant: those of the matrix
    or of its transpose.
    """

    way: str = hyper("sample", "`sample`: along each row; `class`: along each column; `both`")

    ways: ClassVar[tuple[str, ...]] = ("sample", "class", "both")
    of_sums: ClassVar[bool] = True
    needs_positive: ClassVar[bool] = True
    """Whether only rows with a positive count; otherwise those of which anything is known."""
    reads_mean: ClassVar[bool] = False
    """Whether `value` reads the mean score of the positives."""
    kernel_replaces = ("terms", "groups", "rows")

    def __post_init__(self) -> None:
        super().__post_init__()
        check.one_of("way", self.way, self.ways)
        if self.way == "both" and self.reduction == "none":
            raise ValueError(
                'reduction="none" has no meaning for way="both", which adds row and column '
                'losses; use way="sample" or way="class"'
            )

    @property
    @abstractmethod
    def exponents(self) -> tuple[float, float]:
        """What the score of a positive, and of a negative, is multiplied by inside exp."""

    @abstractmethod
    def value(self, positive: Tensor, negative: Tensor, mean: Tensor) -> Tensor:
        """The loss of a row from the log-sum-exps of its positives, log sum exp(a x), and of its
        negatives, log sum exp(b x), and the mean x of its positives.

        A log-sum-exp over nothing is -inf.
        """

    def rows(self, v: Tensor, positive: Tensor, negative: Tensor) -> Terms:
        """One value per row, and its weight; an unknown entry is 0 in both labels."""
        a, b = self.exponents
        some = ((positive if self.needs_positive else positive + negative) > 0).any(1)
        sums = torch.where(some, logsumexp(a * v, positive), 0.0), logsumexp(b * v, negative)
        mean = sums[0]
        if self.reads_mean:
            count = positive.sum(1)
            mean = (positive / torch.where(count > 0, count, 1.0)[:, None] * v).sum(1)
        return self.value(*sums, mean), some

    def groups(self, v: Tensor, labels: Any) -> list[Terms]:
        v, target = dense_target(v, labels)
        axes = ("sample", "class") if self.way == "both" else (self.way,)
        return [self._along(axis, v, target) for axis in axes]

    def terms(self, logits: Tensor, labels: Target) -> Terms:
        return self._along(self.way, logits, labels)

    def kernel(self, impl: str, scores: Tensor, labels: Tensor | Labels) -> Kernel | None:
        if not self.has_kernel or self._traced is None or self.way == "joint":
            return None
        return ways(self._traced, impl, scores, labels, self.way, self.reduction == "mean")

    @cached_property
    def _traced(self) -> Way | None:
        """The loss of a row as a formula; None where it has none."""
        try:
            return traced_way(self.value, self.exponents, self.needs_positive, self.reads_mean)
        except NotTraceable:
            return None

    def _along(self, axis: str, v: Tensor, target: Target) -> Terms:
        def turn(m: Tensor) -> Tensor:
            if axis == "class":
                return m.T
            return m.reshape(1, -1) if axis == "joint" else m

        return self.rows(turn(v), turn(target.positive), turn(target.negative))


def logsumexp(x: Tensor, weight: Tensor) -> Tensor:
    """log of sum weight exp(x) along each row; -inf, with zero gradient, where no weight is > 0."""
    counted = weight > 0
    some = counted.any(1)
    masked = torch.where(counted, x + torch.where(counted, weight, 1.0).log(), -torch.inf)
    total = torch.logsumexp(torch.where(some[:, None], masked, torch.zeros_like(x)), 1)
    return torch.where(some, total, -torch.inf)
