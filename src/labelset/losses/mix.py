"""The positives of one loss with the negatives of another."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor

from labelset.catalog import hyper
from labelset.losses._base import as_loss
from labelset.losses._separable import Separable, link_rises


@dataclass(frozen=True, kw_only=True, eq=False)
class Mix(Separable):
    """Positives scored by one separable loss, negatives by another.

        pos(v) = pos of the one, neg(v) = neg of the other
        link(v) = neg' / (neg' - pos'), where that rises with v

    Use it: to find out which side of a loss helps, or to pair, say, the positives of
    `focal-margin` with the negatives of `asl`.

    Probabilities: the link is derived from the pair. Where it does not rise with the score there
    is none, and `link` says so.

    >>> import torch
    >>> Mix(positives="bce", negatives="spa").link(torch.tensor([0.0]))
    tensor([0.0538])
    """

    positives: Any = hyper(doc="loss, or its name, of the positives", keyword="pos")
    negatives: Any = hyper(doc="loss, or its name, of the negatives", keyword="neg")

    examples = (
        {"pos": "focal-margin", "neg": "asl"},
        {"pos": "bce", "neg": "spa"},
        {"pos": "wan", "neg": "wan"},
        {"pos": "bce", "neg": "hill"},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "positives", as_loss("pos", self.positives, Separable))
        object.__setattr__(self, "negatives", as_loss("neg", self.negatives, Separable))

    @property
    def saturates_positives(self) -> bool:
        return self.positives.saturates_positives  # type: ignore[no-any-return]

    @property
    def saturates_negatives(self) -> bool:
        return self.negatives.saturates_negatives  # type: ignore[no-any-return]

    @property
    def detached(self) -> bool:
        return bool(self.positives.detached or self.negatives.detached)

    def pos(self, v: Tensor) -> Tensor:
        return self.positives.pos(v)  # type: ignore[no-any-return]

    def neg(self, v: Tensor) -> Tensor:
        return self.negatives.neg(v)  # type: ignore[no-any-return]

    def log_neg_slope(self, v: Tensor) -> Tensor:
        return self.negatives.log_neg_slope(v)  # type: ignore[no-any-return]

    def log_pos_slope(self, v: Tensor) -> Tensor:
        return self.positives.log_pos_slope(v)  # type: ignore[no-any-return]

    def unmargined(self) -> Mix:
        return self._with(positives=self.positives.unmargined())  # type: ignore[no-any-return]

    @cached_property
    def _rises(self) -> bool:
        return link_rises(self)

    def link_missing(self) -> str | None:
        if self._rises:
            return None
        return (
            "with this pair a higher score does not always mean a higher probability. Fit a "
            "calibrator (temperature, Platt, isotonic) to held-out scores instead"
        )
