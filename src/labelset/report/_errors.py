"""Rows by how wrong they are, and labels that are likely to be missing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from labelset.report._packed import numbers

__all__ = ["likely_missing", "worst_rows"]

MOST = 60  # rows, and entries, of each kind
LISTED = 12  # labels of one row, of each kind
TINY = 1e-12  # a probability of 0 would make every other row look right


def worst_rows(p: Tensor, decided: Tensor, truth: Tensor, most: int = MOST) -> list[dict[str, Any]]:
    """The rows with the largest log loss, summed over known labels.

    p, decided, truth: (rows, labels) probabilities, decisions, and 0 off, 1 on, 2 unknown. Each row
    has `on`, its labels with their probabilities, and `extra`, those predicted though off, the most
    surprising first; `more` says how many of both are not listed.
    """
    loss = _log_loss(p, truth)
    order = loss.argsort(descending=True, stable=True)[:most].tolist()
    return [_row(row, float(loss[row]), p[row], decided[row], truth[row]) for row in order]


def _row(row: int, loss: float, p: Tensor, decided: Tensor, truth: Tensor) -> dict[str, Any]:
    on, extra = truth == 1, (truth == 0) & decided
    listed = {"on": _listed(on, 1 - p, p, decided), "extra": _listed(extra, p, p, decided)}
    more = int(on.sum() + extra.sum()) - sum(map(len, listed.values()))
    return {"row": row, "loss": numbers([loss])[0], "more": more, **listed}


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


def _listed(which: Tensor, surprise: Tensor, p: Tensor, decided: Tensor) -> list[list[Any]]:
    """[label, probability, whether predicted], the most surprising first."""
    labels = which.nonzero().flatten()
    best = labels[surprise[labels].argsort(descending=True, stable=True)][:LISTED]
    return [[j, numbers([float(p[j])], 3)[0], int(decided[j])] for j in best.tolist()]
