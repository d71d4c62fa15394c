"""True positives, false positives and false negatives of label sets, without dense matrices."""

from __future__ import annotations

import torch
from torch import Tensor

from labelset.labels import Labels

__all__ = ["confusion", "known_counts"]


def confusion(predicted: Labels, labels: Labels, by_class: bool) -> Tensor:
    """(3, classes or rows): true positives, false positives, false negatives; unknown left out."""
    ours, theirs = _keys(predicted), _keys(labels)
    free = None if labels.values is None else labels.values.isnan()
    on = theirs if free is None else theirs[~free]
    counted = ours if free is None else ours[~_among(ours, theirs[free])]
    hit = _among(counted, on)
    return torch.stack(
        [
            _count(counted[hit], labels, by_class),
            _count(counted[~hit], labels, by_class),
            _count(on[~_among(on, counted)], labels, by_class),
        ]
    )


def known_counts(labels: Labels, by_class: bool) -> Tensor:
    """(classes or rows,): how many entries are known."""
    lines, width = labels.shape[::-1] if by_class else labels.shape
    full = torch.full((lines,), width, device=labels.device)
    if labels.values is None:
        return full
    return full - _count(_keys(labels)[labels.values.isnan()], labels, by_class)


def _keys(labels: Labels) -> Tensor:
    """Each stored entry as one rising number."""
    return labels.rows() * labels.n + labels.indices


def _among(keys: Tensor, others: Tensor) -> Tensor:
    """Which of some rising numbers are among others, rising too."""
    if not len(others):
        return torch.zeros(len(keys), dtype=torch.bool, device=keys.device)
    at = torch.searchsorted(others, keys).clamp(max=len(others) - 1)
    return others[at] == keys


def _count(keys: Tensor, labels: Labels, by_class: bool) -> Tensor:
    if not labels.n:
        return torch.zeros(0 if by_class else len(labels), dtype=torch.int64, device=keys.device)
    if by_class:
        return torch.bincount(keys % labels.n, minlength=labels.n)
    return torch.bincount(keys // labels.n, minlength=len(labels))
