"""A linear head, full or through a bottleneck."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from labelset import check
from labelset.heads._base import Head, affine


class Linear(Head):
    """One matrix from features to labels, or two with `rank` numbers in between.

        full:        logits = W e + b
        bottleneck:  logits = W x + b,  x = P e + c,  x of length rank

    With fewer numbers in x than labels most label sets cannot be produced; `labelset.verify` tells
    which.

    >>> import torch
    >>> Linear(features=8, labels=5, rank=2)(torch.zeros(3, 8)).shape
    torch.Size([3, 5])
    """

    name = "linear"

    def __init__(
        self, *, features: int, labels: int, rank: int | None = None, bias: bool = True
    ) -> None:
        super().__init__()
        self.settings = {"features": features, "labels": labels, "rank": rank, "bias": bias}
        check.whole("features", features, low=1)
        check.whole("labels", labels, low=1)
        width = features if rank is None else check.whole("rank", rank, low=1)
        self.projection = nn.Identity() if rank is None else nn.Linear(features, width)
        self.classifier = nn.Linear(width, labels, bias=bias)

    def project(self, features: Any) -> Any:
        """The features themselves, or P e + c."""
        if isinstance(self.projection, nn.Linear):
            return affine(self.projection, features)
        return features

    def matrix(self) -> tuple[Tensor, Tensor | None]:
        """(W, b)."""
        return self.classifier.weight, self.classifier.bias

    def logits(self, x: Any) -> Tensor:
        """W x + b."""
        return affine(self.classifier, x)
