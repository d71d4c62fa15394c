"""Squared error of the probability (Brier score)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from labelset.losses._separable import Separable


@dataclass(frozen=True, kw_only=True, eq=False)
class MSE(Separable):
    """The squared distance between sigmoid(v) and the label.

        pos(v) = (1 - p)^2,  p = sigmoid(v)
        neg(v) = p^2
        link(v) = p

    Use it: when some labels are wrong. No entry can cost more than 1, and a score far on the
    wrong side has no gradient; for the same reason it learns slowly from a bad start.

    Probabilities: true ones at the optimum, read with `sigmoid`.

    >>> MSE()(torch.tensor([[0.0]]), torch.tensor([[1.0]]))
    tensor(0.2500)
    """

    proper = True

    @property
    def saturates_positives(self) -> bool:
        return True

    @property
    def saturates_negatives(self) -> bool:
        return True

    def pos(self, v: Tensor) -> Tensor:
        return torch.sigmoid(-v).square()

    def neg(self, v: Tensor) -> Tensor:
        return torch.sigmoid(v).square()

    def log_neg_slope(self, v: Tensor) -> Tensor:
        return math.log(2) + logsigmoid(v)

    def log_pos_slope(self, v: Tensor) -> Tensor:
        return self.log_neg_slope(-v)
