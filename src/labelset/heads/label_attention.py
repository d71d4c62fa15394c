"""Label attention (Mullenbach et al., 2018): each label looks at tokens or patches of its own."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from labelset import check
from labelset.heads._base import Head, NoMatrix


class LabelAttention(Head):
    """Each label weighs the tokens or patches h_t of a row for itself.

        a_jt = softmax over t of (q_j h_t / sqrt(e)),  logit_j = w_j sum_t a_jt h_t + b_j

    It takes (rows, places, features). A place whose numbers are all 0 is none: rows of different
    length are filled up with zeros. The q_j start at 0, so that training begins at a linear head on
    the mean of all places.

    What a label gets is a mean of its own, not one x that all labels share: there is no matrix to
    verify.

    >>> head = LabelAttention(features=8, labels=5)
    >>> head(torch.zeros(3, 20, 8)).shape
    torch.Size([3, 5])
    """

    name = "label-attention"
    places: ClassVar[bool] = True

    def __init__(self, *, features: int, labels: int, bias: bool = True) -> None:
        super().__init__()
        self.settings = {"features": features, "labels": labels, "bias": bias}
        check.whole("features", features, low=1)
        check.whole("labels", labels, low=1)
        self.classifier = nn.Linear(features, labels, bias=bias)
        place = self.classifier.weight
        self.queries = nn.Parameter(torch.zeros_like(place))

    def project(self, features: Any) -> Any:
        """The tokens or patches, as they are."""
        return features

    def matrix(self) -> tuple[Tensor, Tensor | None]:
        """Always `NoMatrix`."""
        raise NoMatrix(
            "a label-attention head has no matrix to verify: each label has a mean of the tokens "
            "or patches of its own, and proofs are about numbers that all labels share. Heads that "
            "can be verified: linear, dft"
        )

    def weights(self, labels: Tensor) -> Tensor:
        """Always `NoMatrix`: what a number adds depends on the tokens or patches around it."""
        return self.matrix()[0]

    def logits(self, x: Tensor) -> Tensor:
        """(..., labels) of (..., places, features)."""
        values = linear(x, self.classifier.weight)
        fits = linear(x, self.queries) / math.sqrt(x.shape[-1])
        there = (x != 0).any(-1, keepdim=True)
        fits = fits.masked_fill(~there, torch.finfo(fits.dtype).min)
        logits: Tensor = (fits.softmax(-2) * values).sum(-2)
        return logits if self.classifier.bias is None else logits + self.classifier.bias
