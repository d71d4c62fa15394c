"""Asymmetric loss (Ridnik et al.)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labelset import check
from labelset.catalog import hyper
from labelset.losses._separable import Separable
from labelset.losses.focal import focal, log_focal_slope


@dataclass(frozen=True, kw_only=True, eq=False)
class ASL(Separable):
    """Focal loss with its own focus for each side, and easy negatives dropped altogether.

        pos(v) = (1 - p)^g+ softplus(-v),  p = sigmoid(v)
        neg(v) = -z^g- log(1 - z),  z = max(p - m, 0)                                    (8)
        link(v) = h(z; g-) / (h(z; g-) + h(1 - p; g+))                                  (14)
        h(z; g) = (z^g - g z^(g-1) (1 - z) log(1 - z)) / (1 - z)                        (15)

    With `detach_weight` no gradient flows through the powers, and h(z; g) = z^g / (1 - z).

    Use it: for many rare labels, when ranking is what counts and probabilities are not.

    Probabilities: not strictly proper in p. The link recovers the posterior above the margin;
    below it (p <= m) it is 0 for every score, so nothing can be recovered there, and with the
    defaults no score means more than 0.9637.

    >>> ASL().link(torch.tensor([-4.0, 0.0, 50.0]))
    tensor([0.0000, 0.1276, 0.9637])
    """

    gamma_pos: float = hyper(0.0, "focus on the positives")
    gamma_neg: float = hyper(4.0, "focus on the negatives")
    margin: float = hyper(0.05, "probability below which a negative costs nothing, in [0, 1)")
    detach_weight: bool = hyper(False, "let no gradient flow through the focus weights")

    proper = False
    written_in_sigmoid = True
    limits = {
        "focal": {"gamma_pos": 2.0, "gamma_neg": 2.0, "margin": 0.0},
        "bce": {"gamma_pos": 0.0, "gamma_neg": 0.0, "margin": 0.0},
    }
    examples = (
        {},
        {"gamma_pos": 1.0, "gamma_neg": 0.5, "margin": 0.2},
        {"gamma_pos": 0.5, "gamma_neg": 3.0, "margin": 0.0},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check.number("gamma_pos", self.gamma_pos, low=0.0)
        check.number("gamma_neg", self.gamma_neg, low=0.0)
        check.fraction("margin", self.margin)
        if not isinstance(self.detach_weight, bool):
            raise TypeError(f"detach_weight must be True or False, got {self.detach_weight!r}")

    def pos(self, v: Tensor) -> Tensor:
        return focal(-v, self.gamma_pos, self.detach_weight)

    def neg(self, v: Tensor) -> Tensor:
        if self.margin == 0:
            return focal(v, self.gamma_neg, self.detach_weight)
        inside, z, log_rest = self._shifted(v)
        weight = z**self.gamma_neg
        value = -(weight.detach() if self.detach_weight else weight) * log_rest
        return torch.where(inside, value, torch.zeros_like(value))

    def log_pos_slope(self, v: Tensor) -> Tensor:
        return log_focal_slope(-v, self.gamma_pos, self.detach_weight)

    def log_neg_slope(self, v: Tensor) -> Tensor:
        if self.margin == 0:
            return log_focal_slope(v, self.gamma_neg, self.detach_weight)
        g, (inside, z, log_rest) = self.gamma_neg, self._shifted(v)
        rises = g * z.log() - log_rest
        if g > 0 and not self.detach_weight:
            rises = rises + torch.log1p(-g * log_rest.exp() * log_rest / z)
        return torch.where(inside, rises, -torch.inf)

    def _shifted(self, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Where p > m, and there z = p - m and log(1 - z); elsewhere stand-ins without harm.

        1 - z is (1 - p) + m, exact where z is large; where z is small it is rounded, and the
        logarithm is given back what rounding took. A tiny margin must not vanish.
        """
        p, m = torch.sigmoid(v), self.margin
        inside = p > m
        z = torch.where(inside, p - m, 0.5)
        rest = torch.sigmoid(-v) + max(m, torch.finfo(v.dtype).tiny)
        rounded = torch.where(z < 0.5, ((1 - rest) - z) / rest, torch.zeros_like(rest))
        return inside, z, rest.log() + rounded.detach()

    @property
    def saturates_negatives(self) -> bool:
        return self.margin > 0

    @property
    def detached(self) -> bool:
        return self.detach_weight
