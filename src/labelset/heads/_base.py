"""Head: the last layer, in two steps, so that what it can say can be proven."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from torch import Tensor, nn

__all__ = ["Head"]


class Head(nn.Module):
    """logits = W x + b with x = project(features)."""

    name: str
    settings: dict[str, Any]
    """What `build` needs to make such a head again, its numbers aside."""

    @abstractmethod
    def project(self, features: Tensor) -> Tensor:
        """x: what the matrix is applied to."""

    @abstractmethod
    def matrix(self) -> tuple[Tensor, Tensor | None]:
        """(W, b), exactly as the logits use them; b is None where there is no bias."""

    @abstractmethod
    def logits(self, x: Tensor) -> Tensor:
        """W x + b from projected features, by the quickest way."""

    def forward(self, features: Tensor) -> Tensor:
        """Logits of (..., features)."""
        return self.logits(self.project(features))
