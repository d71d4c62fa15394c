"""What scores mean by the loss that they were trained with: its link, and the recovery map of focal
and asymmetric losses (Cheng and Vasconcelos)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labelset.calibrate._base import ProbMap, log_odds
from labelset.catalog import hyper
from labelset.losses import NoLink


@dataclass(kw_only=True, eq=False)
class Link(ProbMap):
    """What the scores mean by the loss that they were trained with. There is nothing to fit.

        p = link(v) of the loss; sigmoid(v) where no loss is given

    Use it: first, whenever the loss has a link; `fit` then only states how well it holds, against
    the sigmoid. A loss without a link raises `NoLink`.

    >>> Link(loss="spa")([[0.0, 1.0]])
    tensor([[0.0538, 0.5273]], dtype=torch.float64)
    """

    name = "link"

    needs_fit = False

    def __post_init__(self) -> None:
        super().__post_init__()
        reason = None if self.loss is None else self.loss.link_missing()
        if reason is not None:
            raise NoLink(f"{type(self.loss).__name__} has no link: {reason}")

    def log_odds(self, v: Tensor) -> Tensor:
        return v if self.loss is None else log_odds(self.loss, v)

    def before(self, v: Tensor) -> Tensor:
        """The sigmoid: what one would take without knowing the loss."""
        return torch.sigmoid(v)

    def _learn(self, u: Tensor, y: Tensor) -> dict[str, Tensor]:
        return {}

    def _map(self, u: Tensor) -> Tensor:
        return torch.sigmoid(u)


@dataclass(kw_only=True, eq=False)
class Phi(Link):
    """The posterior from scores that were trained with `focal` or `asl`. Nothing to fit.

        phi(z) = h((z - m)+; g-) / (h((z - m)+; g-) + h(1 - z; g+)),  z = sigmoid(v)       (14)
        h(z; g) = (z^g - g z^(g-1) (1 - z) log(1 - z)) / (1 - z)                           (15)
        h(z; g) = z^g / (1 - z) with `detach_weight`

    It is the link of these losses, so that `alpha_pos` and `alpha_neg` are undone as well.

    Where it cannot be inverted: with a margin m > 0 all scores with sigmoid(v) <= m map to 0,
    whatever the posterior was; and no score maps above `recoverable()[1]`, with the defaults of
    `asl` 0.9637. Posteriors outside that open interval are lost in training; a fitted map
    (`platt`, `isotonic`) estimates them from held-out rows.

    >>> low, high = Phi(loss="asl").recoverable()
    >>> low, round(high, 4)
    (0.0, 0.9637)
    >>> Phi(loss="asl")([[-4.0, 0.0, 50.0]])
    tensor([[0.0000, 0.1276, 0.9637]], dtype=torch.float64)
    """

    name = "phi"

    loss: Any = hyper("asl", "`focal` or `asl`, or such a loss with its hyperparameters")

    def __post_init__(self) -> None:
        super().__post_init__()
        from labelset.losses.asl import ASL
        from labelset.losses.focal import Focal

        if not isinstance(self.loss, (ASL, Focal)):
            got = type(self.loss).__name__
            raise ValueError(f"phi recovers from focal and asl, got {got}; other losses: `link`")

    def recoverable(self) -> tuple[float, float]:
        """The open interval of posteriors that phi gives back."""
        margin = getattr(self.loss, "margin", 0.0)
        low = 0.0
        if margin > 0 and self.loss.gamma_neg == 0:  # phi jumps at the margin, from 0 to `low`
            low = self._at(margin * (1 + 1e-12))
        return low, self._at(1.0)

    def _at(self, z: float) -> float:
        """phi(z), at its limit for z = 1."""
        v = math.log(z) - math.log1p(-z) if z < 1 else 1e12
        return float(self(torch.tensor([[v]], dtype=torch.float64)))
