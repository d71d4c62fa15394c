"""Multi-similarity loss (Wang et al.), as the two-way paper applies it to labels."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from labelset import check
from labelset.catalog import hyper
from labelset.losses._axes import AxisLoss
from labelset.losses._separable import softplus


@dataclass(frozen=True, kw_only=True, eq=False)
class MultiSimilarity(AxisLoss):
    """The hardest positive and the hardest negative, each against zero.

        row = softplus(T log sum_P exp(-x / T)) + softplus(log sum_N exp(x))         (20, 21)
        P, N: the positives and the negatives of the row
        link: none

    Use it: as the baseline of `two-way` that keeps zero as the border of positives and negatives,
    so that v > 0 is a sensible decision.

    Probabilities: none. Scores are judged row by row, not entry by entry. Calibrate held-out
    scores.

    >>> import torch
    >>> MultiSimilarity()(torch.tensor([[2.0, 0.0]]), torch.tensor([[1.0, 0.0]]))
    tensor(0.8201)
    """

    temperature: float = hyper(1.0, "T, of the positives: larger widens the margin")

    examples = ({}, {"temperature": 4.0}, {"way": "class"}, {"way": "both"})
    needs_positive = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check.number("temperature", self.temperature, low=0.0, open_low=True)

    @property
    def exponents(self) -> tuple[float, float]:
        return -1.0 / self.temperature, 1.0

    def value(self, positive: Tensor, negative: Tensor, mean: Tensor) -> Tensor:
        return softplus(self.temperature * positive) + softplus(negative)
