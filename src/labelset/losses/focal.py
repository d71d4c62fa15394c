"""Focal loss (Lin et al.)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from labelset import check
from labelset.catalog import hyper
from labelset.losses._separable import Separable, softplus


@dataclass(frozen=True, kw_only=True, eq=False)
class Focal(Separable):
    """Cross-entropy that down-weights easy examples.

        pos(v) = a+ (1 - p)^g softplus(-v),  p = sigmoid(v)
        neg(v) = a- p^g softplus(v)
        link(v) = a- h(p) / (a- h(p) + a+ h(1 - p))
        h(z) = (z^g - g z^(g-1) (1 - z) log(1 - z)) / (1 - z)

    Use it: when easy examples swamp the loss. For rare labels `asl` treats the two sides apart.

    Probabilities: not strictly proper in p: sigmoid(v) is drawn towards 1/2. The link, a rising
    map of p, recovers the posterior.

    >>> Focal().link(torch.tensor([1.0])), torch.sigmoid(torch.tensor([1.0]))
    (tensor([0.9359]), tensor([0.7311]))
    """

    gamma: float = hyper(2.0, "focus: 0 is cross-entropy, larger concentrates on harder entries")
    alpha_pos: float = hyper(1.0, "weight of the positives")
    alpha_neg: float = hyper(1.0, "weight of the negatives")

    proper = False
    written_in_sigmoid = True
    limits = {"bce": {"gamma": 0.0}}
    examples = ({}, {"gamma": 0.5, "alpha_pos": 2.0}, {"gamma": 4.0})

    def __post_init__(self) -> None:
        super().__post_init__()
        check.number("gamma", self.gamma, low=0.0)
        check.number("alpha_pos", self.alpha_pos, low=0.0, open_low=True)
        check.number("alpha_neg", self.alpha_neg, low=0.0, open_low=True)

    def pos(self, v: Tensor) -> Tensor:
        return self.alpha_pos * focal(-v, self.gamma)

    def neg(self, v: Tensor) -> Tensor:
        return self.alpha_neg * focal(v, self.gamma)

    def log_neg_slope(self, v: Tensor) -> Tensor:
        return math.log(self.alpha_neg) + log_focal_slope(v, self.gamma)

    def log_pos_slope(self, v: Tensor) -> Tensor:
        return math.log(self.alpha_pos) + log_focal_slope(-v, self.gamma)


def focal(v: Tensor, gamma: float, detach_weight: bool = False) -> Tensor:
    """sigmoid(v)^gamma softplus(v): the focal loss of a negative, of a positive at -v.

    The power is taken in the log domain: its gradient stays finite where sigmoid(v) is 0.
    """
    if gamma == 0:
        return softplus(v)
    weight = torch.exp(gamma * logsigmoid(v))
    return (weight.detach() if detach_weight else weight) * softplus(v)


def log_focal_slope(v: Tensor, gamma: float, detach_weight: bool = False) -> Tensor:
    """log h(p) of (15): p^g / (1 - p) (1 + g (1 - p) / p softplus(v)), p = sigmoid(v)."""
    slope = gamma * logsigmoid(v) + softplus(v)
    if gamma == 0 or detach_weight:
        return slope
    u = torch.exp(v.clamp(-40.0, 0.0))
    # softplus(v) exp(-v), which tends to 1 on the left and underflows harmlessly on the right
    ratio = torch.where(v > 0, softplus(v) * torch.exp(-v.clamp(min=0.0)), torch.log1p(u) / u)
    return slope + torch.log1p(gamma * ratio)
