"""Rows by how wrong they are, and labels that are likely to be missing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from labelset.report._packed import numbers

__all__ = ["likely_missing", "worst_rows"]

MOST = 60  # rows, and entries, of each kind
LISTED = 30  # labels of one row
TINY = 1e-12  # a probability of 0 would make every other row look right


def worst_rows(p: Tensor, decided: Tensor, truth: Tensor, most: int = MOST) -> list[dict[str, Any]]:
    """The rows with the largest log loss, summed over known labels.

    p, decided, truth: (rows, labels) probabilities, decisions, and 0 off, 1 on, 2 unknown. Each row
    has `on`, its labels with their probabilities, and `extra`, those predicted though off.
    """
    loss = _log_loss(p, truth)
    order = loss.argsort(descending=True, stable=True)[:most].tolist()
    return [
        {
            "row": row,
            "loss": numbers([float(loss[row])])[0],
            "on": _listed(truth[row] == 1, p[row], decided[row]),
            "extra": _listed((truth[row] == 0) & decided[row], p[row], decided[row]),
        }
        for row in order
    ]


def likely_missing(p: Tensor, truth: Tensor, most: int = MOST) -> list[list[Any]]:
    """[row, label, probability] of the most confident labels that are off, best first."""
    off = p.masked_fill(truth != 0, -1.0)
    best = off.flatten().topk(min(most, off.numel()))
    n = p.shape[1]
    return [
        [int(at) // n, int(at) % n, numbers([value])[0]]
        for value, at in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        if value >= 0.5
    ]


def _log_loss(p: Tensor, truth: Tensor) -> Tensor:
    """(rows,) float64: -log p where on, -log(1 - p) where off, added up."""
    total = torch.zeros(len(p), dtype=torch.float64)
    for first in range(0, len(p), 1024):
        block, y = p[first : first + 1024].double(), truth[first : first + 1024]
        right = torch.where(y == 1, block, 1 - block).clamp(TINY, 1.0)
        total[first : first + 1024] = -right.log().masked_fill(y == 2, 0.0).sum(1)
    return total


def _listed(which: Tensor, p: Tensor, decided: Tensor) -> list[list[Any]]:
    """[label, probability, whether predicted], the most probable first."""
    labels = which.nonzero().flatten()
    best = labels[p[labels].argsort(descending=True)][:LISTED]
    return [[j, numbers([float(p[j])], 3)[0], int(decided[j])] for j in best.tolist()]
