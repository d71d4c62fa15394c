"""The logits of a block of labels: in new memory, or in the same for every block."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import linear

from labelset.linear._product import multiply_

__all__ = ["Logits", "OneBuffer"]


class Logits:
    """New ones for each block."""

    def of(self, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        """x @ w.T + b"""
        return linear(x, w, b)


class OneBuffer(Logits):
    """In one buffer, where slopes are written over them and used before the next block comes."""

    def __init__(self, x: Tensor, width: int) -> None:
        self.buffer = x.new_empty(len(x) * _even(width))

    def of(self, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        rows = self.buffer[: len(x) * _even(len(w))].view(len(x), -1)
        return multiply_(x, w.T, rows[:, : len(w)], b)


def _even(width: int) -> int:
    """At least that width, and such that every row begins at an address that is read fast."""
    return -(-width // 64) * 64
