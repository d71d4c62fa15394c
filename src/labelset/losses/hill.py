"""Hill loss (Zhang et al.)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from labelset import check
from labelset.catalog import hyper
from labelset.losses._separable import Separable, log_chain, safe_log
from labelset.losses.focal import focal, log_focal_slope


@dataclass(frozen=True, kw_only=True, eq=False)
class Hill(Separable):
    """For missing labels: negatives weigh most in the middle and least where they look positive.

        pos(v) = (1 - q)^g softplus(-(v - m)),  q = sigmoid(v - m)                       (11)
        neg(v) = (lam - p) p^2,                 p = sigmoid(v)                            (5)
        link: none

    Use it: when many entries recorded as negative are in truth positive, and nobody knows which.
    It needs no schedule; `splc` is the alternative that corrects them as it goes.

    Probabilities: none, and not strictly proper in p. The scores are shaped to survive missing
    labels: at best they tell how often a label was recorded, not how often it applies. Calibrate
    them on rows whose labels are complete.

    >>> Hill()(torch.tensor([[0.0]]), torch.tensor([[0.0]]))
    tensor(0.2500)
    """

    lam: float = hyper(1.5, "height of the hill: 1.5 puts its steepest point at p = 1/2")
    margin: float = hyper(1.0, "margin of the positives")
    gamma: float = hyper(2.0, "focus of the positives")

    proper = False
    written_in_sigmoid = True
    examples = ({}, {"lam": 2.0, "margin": 0.0, "gamma": 1.0})

    def __post_init__(self) -> None:
        super().__post_init__()
        check.number("lam", self.lam, low=1.0)
        check.number("margin", self.margin, low=0.0)
        check.number("gamma", self.gamma, low=0.0)

    @property
    def saturates_negatives(self) -> bool:
        return True

    def pos(self, v: Tensor) -> Tensor:
        return focal(self.margin - v, self.gamma)

    def neg(self, v: Tensor) -> Tensor:
        p = torch.sigmoid(v)
        return (self.lam - p) * p.square()

    def log_neg_slope(self, v: Tensor) -> Tensor:
        weight = 2 * self.lam - 3 + 3 * torch.sigmoid(-v)  # 2 lam - 3 p
        return logsigmoid(v) + safe_log(weight)

    def log_pos_slope(self, v: Tensor) -> Tensor:
        shifted = v - self.margin
        return log_focal_slope(-shifted, self.gamma) + log_chain(shifted) - log_chain(v)

    def unmargined(self) -> Hill:
        return self._with(margin=0.0)  # type: ignore[no-any-return]

    def link_missing(self) -> str:
        return (
            "it is made for missing labels, and its optimum does not say how often a label "
            "applies. Fit a calibrator (temperature, Platt, isotonic) to held-out scores of rows "
            "whose labels are complete"
        )
