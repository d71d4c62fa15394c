"""A loss that is computed in another way than it is written: over ranks, or with weighted rows."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from labelset.losses._base import Loss, Terms
from labelset.losses._target import Target

__all__ = ["Elsewhere"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Elsewhere(Loss):
    """Subclasses are called; what the scores mean is what they mean to the loss `of`."""

    of: Loss

    def terms(self, logits: Tensor, labels: Target) -> Terms:
        raise TypeError(f"{type(self).__name__} has no terms of its own; ask its `of`")

    def link_missing(self) -> str | None:
        return self.of.link_missing()

    def log_odds(self, v: Tensor) -> Tensor:
        return self.of.log_odds(v)

    def meaning(self) -> Loss:
        return self.of.meaning()

    @property
    def saturates(self) -> bool:
        return self.of.saturates

    @property
    def forgives(self) -> bool:
        return self.of.forgives

    @property
    def detached(self) -> bool:
        return self.of.detached
