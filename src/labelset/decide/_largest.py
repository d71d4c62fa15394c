"""The k largest entries of each row."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["check_room", "largest"]


def check_room(k: int, labels: int) -> None:
    """k labels can only be on where there are as many."""
    if k > labels:
        raise ValueError(f"k must be at most the number of labels, {labels}, got {k}; lower k")


def largest(score: Tensor, k: int) -> Tensor:
    """(rows, labels) bool, k on in each row; of equal scores the lowest label number.

    >>> largest(torch.tensor([[0.3, 0.5, 0.3, 0.1]]), 2)
    tensor([[ True,  True, False, False]])
    """
    check_room(k, score.shape[1])
    least = torch.topk(score, k, dim=1).values[:, -1:]
    on, level = score > least, score == least
    return on | (level & (level.cumsum(1) <= k - on.sum(1, keepdim=True)))
