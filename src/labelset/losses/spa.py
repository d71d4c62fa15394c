"""Strictly proper asymmetric loss (Cheng and Vasconcelos)."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from torch import Tensor
from torch.nn.functional import logsigmoid

from labelset import check
from labelset.catalog import hyper
from labelset.losses._separable import Separable, log_chain, softplus


@dataclass(frozen=True, kw_only=True, eq=False)
class SPA(Separable):
    """Asymmetric yet strictly proper: negatives are shifted, sharpened and down-weighted.

        pos(v) = softplus(-k+ (v - b+)) / zeta+                                         (16)
        neg(v) = softplus( k- (v - b-)) / zeta-
        link(v) = A / (A + B)                                                (17, corrected)
        A = k- / zeta- sigmoid(k- (v - b-)),  B = k+ / zeta+ sigmoid(-k+ (v - b+))

    Use it: for many rare labels when probabilities must be true as well, for instance to answer
    queries such as "fork and apple but no knife".

    Probabilities: true ones at the optimum, through the link only. With the defaults a score of 0
    means 0.054, and 1/2 is reached at 0.952: neither sigmoid(v) nor v > 0 may be used.

    >>> import torch
    >>> SPA().link(torch.tensor([0.0]))
    tensor([0.0538])
    """

    zeta_pos: float = hyper(1.0, "divides the loss of positives")
    k_pos: float = hyper(1.0, "sharpness of the positives")
    b_pos: float = hyper(0.0, "score around which positives are judged")
    zeta_neg: float = hyper(5.0, "divides the loss of negatives")
    k_neg: float = hyper(3.0, "sharpness of the negatives")
    b_neg: float = hyper(1.0, "score around which negatives are judged")

    proper = True
    limits = {"bce": {"zeta_neg": 1.0, "k_neg": 1.0, "b_neg": 0.0}}
    examples = ({}, {"zeta_pos": 2.0, "k_pos": 0.5, "b_pos": -1.0, "zeta_neg": 1.5, "k_neg": 2.0})

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in fields(SPA):
            if field.name.startswith(("zeta", "k_")):
                check.number(field.name, getattr(self, field.name), low=0.0, open_low=True)
            elif field.name.startswith("b_"):
                check.number(field.name, getattr(self, field.name))

    def pos(self, v: Tensor) -> Tensor:
        return softplus(-self.k_pos * (v - self.b_pos)) / self.zeta_pos

    def neg(self, v: Tensor) -> Tensor:
        return softplus(self.k_neg * (v - self.b_neg)) / self.zeta_neg

    def log_neg_slope(self, v: Tensor) -> Tensor:
        log_a = math.log(self.k_neg / self.zeta_neg) + logsigmoid(self.k_neg * (v - self.b_neg))
        return log_a - log_chain(v)

    def log_pos_slope(self, v: Tensor) -> Tensor:
        log_b = math.log(self.k_pos / self.zeta_pos) + logsigmoid(-self.k_pos * (v - self.b_pos))
        return log_b - log_chain(v)
