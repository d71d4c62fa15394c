"""Softmax cross-entropy with normalised multi-label targets."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labelset.losses._axes import AxisLoss


@dataclass(frozen=True, kw_only=True, eq=False)
class Softmax(AxisLoss):
    """Cross-entropy between the softmax of a row and its labels shared out evenly.

        row = log sum_c exp(x_c) - sum_c y_c x_c / sum_c y_c                             (18)
        link: none

    Sums run over known entries. Rows (columns) without a positive are left out of the mean.

    Use it: when each row has about one label, or as the baseline of `two-way`.

    Probabilities: none per label: softmax shares out one unit among the labels, and its optimum
    gives each of k labels 1/k. Calibrate held-out scores.

    >>> Softmax()(torch.tensor([[2.0, 0.0]]), torch.tensor([[1.0, 0.0]]))
    tensor(0.1269)
    """

    examples = ({}, {"way": "class"}, {"way": "both"})

    reads_mean = True

    @property
    def exponents(self) -> tuple[float, float]:
        return 1.0, 1.0

    def value(self, positive: Tensor, negative: Tensor, mean: Tensor) -> Tensor:
        return torch.logaddexp(positive, negative) - mean
