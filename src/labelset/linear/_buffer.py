"""Memory for the logits or slopes of a block of labels, the same for every block."""

from __future__ import annotations

from torch import Tensor

__all__ = ["Buffer"]


class Buffer:
    """Room for so many labels of every row, used before the next block comes."""

    def __init__(self, x: Tensor, width: int) -> None:
        self.rows, self.memory = len(x), x.new_empty(len(x) * _even(width))

    def block(self, width: int) -> Tensor:
        """That many labels of every row."""
        return self.memory[: self.rows * _even(width)].view(self.rows, -1)[:, :width]


def _even(width: int) -> int:
    """At least that width, and such that every row begins at an address that is read fast."""
    return -(-width // 64) * 64
