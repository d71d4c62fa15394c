"""Binary cross-entropy, weighted and smoothed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labelset import check
from labelset.catalog import hyper
from labelset.losses._separable import Separable, log_chain, safe_log, softplus


@dataclass(frozen=True, kw_only=True, eq=False)
class BCE(Separable):
    """The log loss of each label by itself, optionally weighted per label and smoothed.

        pos(v) = (1 - s/2) w+ softplus(-v) + s/2 w- softplus(v)
        neg(v) = (1 - s/2) w- softplus(v)  + s/2 w+ softplus(-v)
        link(v) = (sigmoid(v + log(w- / w+)) - s/2) / (1 - s), kept within [0, 1]

    s is `smoothing`: the target y becomes (1 - s) y + s/2.

    Use it: first, and as the baseline of every comparison. Weights help when positives are rare
    and a fixed threshold must be kept.

    Probabilities: true ones at the optimum. A weight shifts the score, and smoothing shrinks it;
    the link undoes both, `sigmoid` does not.

    >>> BCE(pos_weight=3.0).link(torch.tensor([0.0]))
    tensor([0.2500])
    """

    pos_weight: Any = hyper(1.0, "weight of the positives: a number, or one per label")
    neg_weight: Any = hyper(1.0, "weight of the negatives: a number, or one per label")
    smoothing: float = hyper(0.0, "how far targets move towards 1/2, in [0, 1)")

    proper = True
    examples = ({}, {"pos_weight": 3.0, "neg_weight": 0.5}, {"smoothing": 0.1})

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("pos_weight", "neg_weight"):
            weight = check.per_label(name, getattr(self, name), positive=True)
            object.__setattr__(self, name, weight)
        check.fraction("smoothing", self.smoothing)

    def pos(self, v: Tensor) -> Tensor:
        return self._mixed(v, 1 - self.smoothing / 2)

    def neg(self, v: Tensor) -> Tensor:
        return self._mixed(v, self.smoothing / 2)

    def _mixed(self, v: Tensor, y: float) -> Tensor:
        """The loss of the (smoothed) target y; a part of weight 0 is not computed."""
        pos = y * fit(self.pos_weight, v) * softplus(-v) if y > 0 else 0.0
        neg = (1 - y) * fit(self.neg_weight, v) * softplus(v) if y < 1 else 0.0
        return pos + neg  # type: ignore[return-value]

    def log_neg_slope(self, v: Tensor) -> Tensor:
        return self._log_slope(v, self.neg_weight, self.pos_weight)

    def log_pos_slope(self, v: Tensor) -> Tensor:
        return self._log_slope(-v, self.pos_weight, self.neg_weight)

    def _log_slope(self, v: Tensor, own: Any, other: Any) -> Tensor:
        """log((1 - s/2) own sigmoid(v) - s/2 other sigmoid(-v)), against p"""
        own, other, s = fit(own, v), fit(other, v), self.smoothing / 2
        if s == 0:
            log_own: Tensor | float = own.log() if isinstance(own, Tensor) else math.log(own)
            return softplus(v) + log_own
        slope: Tensor = (1 - s) * own * torch.sigmoid(v) - s * other * torch.sigmoid(-v)
        return safe_log(slope) - log_chain(v)


def fit(weight: Any, v: Tensor) -> Any:
    """A per-label weight in the dtype of the scores, checked against their number."""
    if not isinstance(weight, Tensor):
        return weight
    if weight.ndim and weight.shape[-1] not in (1, v.shape[-1]):
        raise ValueError(
            f"one weight per label was given for {weight.shape[-1]} labels, "
            f"the logits have {v.shape[-1]}"
        )
    return weight.to(v.dtype)
