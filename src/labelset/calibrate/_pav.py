"""Isotonic regression of many labels at once: pool all adjacent violators in each round."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = ["Curves", "isotonic_curves"]

Array = np.ndarray[Any, Any]


class Curves(NamedTuple):
    """Knots of rising piecewise linear curves; those of label j are start[j] to start[j + 1]."""

    start: Array
    x: Array
    p: Array


def isotonic_curves(u: Array, y: Array) -> Curves:
    """The rising curves of least squared error through (labels, rows) points; NaN y are left out.

    Equal scores are pooled first. A curve is constant over each block of pooled scores and linear
    between blocks.

    >>> isotonic_curves(np.array([[1.0, 2.0, 3.0, 4.0]]), np.array([[0.0, 1.0, 0.5, 1.0]]))
    Curves(start=array([0, 4]), x=array([1., 2., 3., 4.]), p=array([0.  , 0.75, 0.75, 1.  ]))
    """
    label, x, target = _sorted(u, y)
    first = np.flatnonzero(np.r_[True, (label[1:] != label[:-1]) | (x[1:] != x[:-1])][: len(x)])
    weight = np.diff(np.r_[first, len(x)]).astype(float)
    total = np.add.reduceat(target, first) if len(x) else target
    where = _pool(label[first], total, weight)
    last = np.r_[where[1:], len(first)] - 1
    p = np.add.reduceat(total, where) / np.add.reduceat(weight, where) if len(x) else total
    low, high = x[first[where]], x[first[last]]
    keep = np.stack([np.ones_like(where, bool), low < high], 1).ravel()
    ends = np.repeat(label[first[where]], 2)[keep]
    start = np.searchsorted(ends, np.arange(len(u) + 1))
    return Curves(start, np.stack([low, high], 1).ravel()[keep], np.repeat(p, 2)[keep])


def _sorted(u: Array, y: Array) -> tuple[Array, Array, Array]:
    """Label, score and target of the known entries, by label and then by score."""
    known = ~np.isnan(y)
    scores = np.where(known, u, np.inf)
    order = np.argsort(scores, axis=1)
    seen = np.arange(u.shape[1]) < known.sum(1)[:, None]
    label = np.broadcast_to(np.arange(len(u))[:, None], u.shape)[seen]
    return label, np.take_along_axis(scores, order, 1)[seen], np.take_along_axis(y, order, 1)[seen]


def _pool(label: Array, total: Array, weight: Array) -> Array:
    """Where each block of the solution begins.

    Two neighbours of which the left mean is not below the right one share a block of the solution,
    so that all such runs can be merged in one round. When rounds merge little, a stack finishes.
    """
    begin = np.arange(len(label))
    while True:
        mean = total / weight
        new = np.r_[True, (label[1:] != label[:-1]) | (mean[1:] > mean[:-1])][: len(mean)]
        if new.all():
            return begin
        if new.mean() > 0.98:
            return begin[_stack(label, total, weight)]
        at = np.flatnonzero(new)
        begin, label = begin[at], label[at]
        total, weight = np.add.reduceat(total, at), np.add.reduceat(weight, at)


def _stack(label: Array, total: Array, weight: Array) -> list[int]:
    """The same, one block after the other."""
    begin: list[int] = []
    labels: list[int] = []
    totals: list[float] = []
    weights: list[float] = []
    blocks = zip(label.tolist(), total.tolist(), weight.tolist(), strict=True)
    for i, (j, t, w) in enumerate(blocks):
        at = i
        while labels and labels[-1] == j and totals[-1] * w >= t * weights[-1]:
            at, t, w = begin.pop(), t + totals.pop(), w + weights.pop()
            labels.pop()
        begin.append(at)
        labels.append(j)
        totals.append(t)
        weights.append(w)
    return begin
