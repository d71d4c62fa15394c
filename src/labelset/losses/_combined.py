"""Losses made of others: sums and multiples, and a loss that stands for another."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labelset import check
from labelset.losses._base import Loss, Target, Terms
from labelset.losses._separable import Separable, link_rises

ADVICE = "fit a calibrator (temperature, Platt, isotonic) to held-out scores instead"


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightedLosses(Loss):
    """Weighted losses: what a sum and the link of a sum have in common."""

    parts: tuple[tuple[float, Any], ...]

    def _inner(self) -> list[Any]:
        return [loss for _, loss in self.parts]

    def _map(self, inner: Any = None, tensor: Any = None) -> Any:
        if inner is None:
            return self
        parts = tuple((weight, inner(loss)) for weight, loss in self.parts)
        same = all(new is old for (_, new), (_, old) in zip(parts, self.parts, strict=True))
        return self if same else self._with(parts=parts)


@dataclass(frozen=True, kw_only=True, eq=False)
class Sum(WeightedLosses):
    """factor * loss + factor * loss + ...: what `a + 0.5 * b` makes.

    Its link is that of its parts where they agree (a regulariser takes the link of the loss it
    regularises), and that of the summed `pos` and `neg` where all parts are separable.
    """

    @classmethod
    def of(cls, loss: Loss) -> Sum:
        """A loss as a sum of one part."""
        if isinstance(loss, Sum):
            return loss
        return cls(parts=((1.0, loss),), reduction=loss.reduction)

    def __add__(self, other: Loss) -> Sum:
        if not isinstance(other, Loss):
            return NotImplemented
        if other.reduction != self.reduction:
            raise ValueError(
                f"losses that are added must share their reduction, got {self.reduction!r} "
                f"and {other.reduction!r}"
            )
        return Sum(parts=self.parts + Sum.of(other).parts, reduction=self.reduction)

    def __mul__(self, factor: float) -> Sum:
        factor = check.number("the factor of a loss", factor, low=0.0)
        parts = tuple((factor * weight, loss) for weight, loss in self.parts)
        return Sum(parts=parts, reduction=self.reduction)

    __rmul__ = __mul__

    def __call__(self, logits: Tensor, labels: Any) -> Tensor:
        values = [weight * loss(logits, labels) for weight, loss in self.parts]
        if len({value.shape for value in values}) > 1:
            raise ValueError(
                'reduction="none" adds only losses of one shape, got '
                f"{[tuple(value.shape) for value in values]}"
            )
        return torch.stack(values).sum(0) if len(values) > 1 else values[0]

    def terms(self, logits: Tensor, labels: Target) -> Terms:
        raise TypeError("a sum has no terms of its own; ask its parts")

    def link_missing(self) -> str | None:
        return self._meaning()[1]

    def log_odds(self, v: Tensor) -> Tensor:
        loss, _ = self._meaning()
        assert loss is not None
        return loss.log_odds(v)

    def _meaning(self) -> tuple[Loss | None, str | None]:
        """The loss whose link is the link of the sum, or why there is none."""
        parts = [(weight, loss) for weight, loss in self.parts if weight > 0]
        missing = next((why for _, loss in parts if (why := loss.link_missing())), None)
        if missing or not parts:
            return None, missing or "every part is multiplied by 0"
        meanings = [loss.meaning()._with(reduction="mean") for _, loss in parts]
        if all(other == meanings[0] for other in meanings[1:]):
            return meanings[0], None
        if all(isinstance(loss, Separable) for _, loss in parts):
            blend = SeparableSum(parts=tuple(parts))
            rises = link_rises(blend)
            return (blend, None) if rises else (None, f"it would not rise with the score; {ADVICE}")
        return None, f"its parts mean different probabilities; {ADVICE}"

    @property
    def saturates_positives(self) -> bool:
        return all(loss.saturates_positives for weight, loss in self.parts if weight > 0)

    @property
    def saturates_negatives(self) -> bool:
        return all(loss.saturates_negatives for weight, loss in self.parts if weight > 0)

    @property
    def detached(self) -> bool:
        return any(loss.detached for _, loss in self.parts)


@dataclass(frozen=True, kw_only=True, eq=False)
class SeparableSum(WeightedLosses, Separable):
    """The separable loss that a sum of separable losses is; used for its link."""

    def pos(self, v: Tensor) -> Tensor:
        return torch.stack([w * loss.pos(v) for w, loss in self.parts]).sum(0)

    def neg(self, v: Tensor) -> Tensor:
        return torch.stack([w * loss.neg(v) for w, loss in self.parts]).sum(0)

    def log_neg_slope(self, v: Tensor) -> Tensor:
        logs = [math.log(w) + loss.log_neg_slope(v) for w, loss in self.parts]
        return torch.logsumexp(torch.stack(logs), 0)

    def log_pos_slope(self, v: Tensor) -> Tensor:
        logs = [math.log(w) + loss.log_pos_slope(v) for w, loss in self.parts]
        return torch.logsumexp(torch.stack(logs), 0)


@dataclass(frozen=True, kw_only=True, eq=False)
class DelegatingLoss(Loss):
    """A loss computed in another way than it is written: over ranks, or with weighted rows.

    Subclasses define `__call__`; what the scores mean is what they mean to the loss `of`.
    """

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
    def saturates_positives(self) -> bool:
        return self.of.saturates_positives

    @property
    def saturates_negatives(self) -> bool:
        return self.of.saturates_negatives

    @property
    def detached(self) -> bool:
        return self.of.detached
