"""Squared hinge loss."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labelset import check
from labelset.catalog import hyper
from labelset.losses._separable import Separable, log_chain, safe_log


@dataclass(frozen=True, kw_only=True, eq=False)
class SquaredHinge(Separable):
    """The squared distance of a score from the right side of its margin.

        pos(v) = max(0, m - v)^2
        neg(v) = max(0, m + v)^2
        link(v) = (m + v) / (2 m), kept within [0, 1]

    Use it: for linear heads on many sparse features, as the support vector machines of extreme
    classification do. It ignores every entry beyond its margin.

    Probabilities: true ones at the optimum, read with the link, which is linear between the
    margins and rests at 0 and 1 beyond them.

    >>> SquaredHinge().link(torch.tensor([-2.0, 0.0, 0.5]))
    tensor([0.0000, 0.5000, 0.7500])
    """

    margin: float = hyper(1.0, "score beyond which an entry costs nothing, above 0")

    proper = True
    examples = ({}, {"margin": 3.0})

    def __post_init__(self) -> None:
        super().__post_init__()
        check.number("margin", self.margin, low=0.0, open_low=True)

    def pos(self, v: Tensor) -> Tensor:
        return torch.relu(self.margin - v).square()

    def neg(self, v: Tensor) -> Tensor:
        return torch.relu(self.margin + v).square()

    def log_neg_slope(self, v: Tensor) -> Tensor:
        return safe_log(2 * (self.margin + v)) - log_chain(v)

    def log_pos_slope(self, v: Tensor) -> Tensor:
        return safe_log(2 * (self.margin - v)) - log_chain(v)
