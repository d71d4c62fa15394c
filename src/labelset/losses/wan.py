"""Weak assumed negatives: cross-entropy whose negatives together weigh about one positive."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from labelset.losses._separable import Separable
from labelset.losses.bce import BCE

PLAIN = BCE()


@dataclass(frozen=True, kw_only=True, eq=False)
class WAN(Separable):
    """Binary cross-entropy with negatives weighted by 1 / (n - 1), n being the number of labels.

        pos(v) = softplus(-v)
        neg(v) = softplus(v) / (n - 1)
        link(v) = sigmoid(v - log(n - 1))

    With one or two labels it is plain binary cross-entropy.

    Use it: when many entries recorded as negative were simply never looked at, as a simple baseline
    for `hill` and `splc`.

    Probabilities: scores are pushed up by log(n - 1), and the link takes that back. They are
    probabilities of the labels as recorded: what is missing in the data stays missing.

    >>> import torch
    >>> WAN().link(torch.zeros(1, 5))
    tensor([[0.2000, 0.2000, 0.2000, 0.2000, 0.2000]])
    """

    proper = True

    def bind(self, n: int) -> BCE:
        return PLAIN._with(neg_weight=1.0 / max(n - 1, 1))  # type: ignore[no-any-return]

    def pos(self, v: Tensor) -> Tensor:
        return self.bind(v.shape[-1]).pos(v)

    def neg(self, v: Tensor) -> Tensor:
        return self.bind(v.shape[-1]).neg(v)

    def log_neg_slope(self, v: Tensor) -> Tensor:
        return self.bind(v.shape[-1]).log_neg_slope(v)

    def log_pos_slope(self, v: Tensor) -> Tensor:
        return self.bind(v.shape[-1]).log_pos_slope(v)
