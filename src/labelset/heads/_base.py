"""Head: the last layer, in two steps, so that what it can say can be proven."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from torch import Tensor, nn

from labelset.data import SparseRows

__all__ = ["Head", "affine"]


class Head(nn.Module):
    """logits = W x + b with x = project(features)."""

    name: str
    settings: dict[str, Any]
    """What `build` needs to make such a head again, its numbers aside."""

    @abstractmethod
    def project(self, features: Any) -> Any:
        """x: what the matrix is applied to, from (..., features) or from `SparseRows`."""

    @abstractmethod
    def matrix(self) -> tuple[Tensor, Tensor | None]:
        """(W, b), exactly as the logits use them; b is None where there is no bias."""

    @abstractmethod
    def logits(self, x: Any) -> Tensor:
        """W x + b from projected features, by the quickest way."""

    def forward(self, features: Tensor | SparseRows) -> Tensor:
        """Logits of (..., features), or of sparse rows, which stay sparse."""
        return self.logits(self.project(features))


def affine(layer: nn.Linear, features: Tensor | SparseRows) -> Tensor:
    """The layer's output; the matrix of sparse features is never made dense.

    Quick where the weight is stored by feature, so that its transpose is contiguous.
    """
    if isinstance(features, SparseRows):
        product = features @ layer.weight.T
        return product if layer.bias is None else product + layer.bias
    dense: Tensor = layer(features)
    return dense
