"""The loss's own link, as a map."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labelset.calibrate._base import ProbMap, log_odds
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
