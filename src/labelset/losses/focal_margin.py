"""Focal margin loss (Zhang et al.)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from labelset import check
from labelset.catalog import hyper
from labelset.losses._separable import Separable, link_rises, log_chain
from labelset.losses.focal import focal, log_focal_slope


@dataclass(frozen=True, kw_only=True, eq=False)
class FocalMargin(Separable):
    """Focal loss whose positives must clear a margin: semi-hard positives count most.

        pos(v) = (1 - q)^g softplus(-(v - m)),  q = sigmoid(v - m)                       (11)
        neg(v) = p^g softplus(v),               p = sigmoid(v)
        link(v) = neg' / (neg' - pos')

    Use it: as the base of `splc`, or by itself when labels are missing and positives scarce.

    Probabilities: not strictly proper in p. Positives push scores up by about the margin; the
    link takes that back and undoes the focal pull towards 1/2.

    >>> import torch
    >>> FocalMargin().link(torch.tensor([0.0]))
    tensor([0.2797])
    """

    gamma: float = hyper(2.0, "focus, of positives and negatives alike")
    margin: float = hyper(1.0, "what a positive's score must be above to count as well classified")

    proper = False
    written_in_sigmoid = True
    limits = {"focal": {"margin": 0.0}}
    examples = ({}, {"gamma": 1.0, "margin": 0.5})

    def __post_init__(self) -> None:
        super().__post_init__()
        check.number("gamma", self.gamma, low=0.0)
        check.number("margin", self.margin, low=0.0)

    def pos(self, v: Tensor) -> Tensor:
        return focal(self.margin - v, self.gamma)

    def neg(self, v: Tensor) -> Tensor:
        return focal(v, self.gamma)

    def log_neg_slope(self, v: Tensor) -> Tensor:
        return log_focal_slope(v, self.gamma)

    def log_pos_slope(self, v: Tensor) -> Tensor:
        shifted = v - self.margin
        return log_focal_slope(-shifted, self.gamma) + log_chain(shifted) - log_chain(v)

    @cached_property
    def _rises(self) -> bool:
        # up to 4 it rises for every gamma; beyond, both sides can be past their steepest point
        return self.margin <= 4 or link_rises(self)

    def link_missing(self) -> str | None:
        if self._rises:
            return None
        return (
            f"with a margin of {self.margin:g} a higher score does not always mean a higher "
            "probability. Take a smaller margin, or fit a calibrator (temperature, Platt, "
            "isotonic) to held-out scores"
        )

    def unmargined(self) -> FocalMargin:
        return self._with(margin=0.0)  # type: ignore[no-any-return]
