"""Exactly k labels per row for the best macro metric over a batch, by ascent over its rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from labelset.decide._thresholds import Array

__all__ = ["GAINS", "Gain", "ascend"]

Gain = Callable[[Array, Array, Array], tuple[Array, Array]]
"""(hits, picked, positives) per label -> (a, b): one more row of probability p gains a p + b."""


def f1_gain(hits: Array, picked: Array, positives: Array) -> tuple[Array, Array]:
    """F1 = 2 hits / (picked + positives)."""
    below = picked + positives
    after = below + 1
    return 2 / after, 2 * hits / after - 2 * hits / np.where(below > 0, below, 1.0)


def recall_gain(hits: Array, picked: Array, positives: Array) -> tuple[Array, Array]:
    """Recall = hits / positives; a label that never occurs gains nothing."""
    some = positives > 0
    return np.where(some, 1 / np.where(some, positives, 1.0), 0.0), np.zeros_like(positives)


def precision_gain(hits: Array, picked: Array, positives: Array) -> tuple[Array, Array]:
    """Precision = hits / picked, 0 where never picked."""
    after = picked + 1
    return 1 / after, hits / after - hits / np.where(picked > 0, picked, 1.0)


GAINS: dict[str, Gain] = {
    "f1-macro": f1_gain,
    "recall-macro": recall_gain,
    "precision-macro": precision_gain,
}


def ascend(p: Array, start: Array, known: Array, gain: Gain, sweeps: int) -> Array:
    """(rows, labels) bool with as many known labels per row as `start`; the metric never falls.

    Given the other rows, the best labels of a row are those of the largest gain, because the
    metric is a sum over labels: one row at a time is chosen anew, until a sweep over all rows
    changes nothing. A row changes only for a gain above 1e-12.
    """
    on, k = start.copy(), int(start.sum(1).max(initial=0))
    hits, picked, positives = (p * on).sum(0), on.sum(0).astype(float), p.sum(0)
    for _ in range(sweeps):
        changed = False
        for row, chosen, may in zip(p, on, known, strict=True):
            hits[chosen] -= row[chosen]
            picked[chosen] -= 1
            slope, offset = gain(hits, picked, positives)
            each = np.where(may, slope * row + offset, -np.inf)
            better = _first_largest(each, k)
            if each[better].sum() > each[chosen].sum() + 1e-12:
                chosen[:] = False
                chosen[better] = changed = True
            hits[chosen] += row[chosen]
            picked[chosen] += 1
        if not changed:
            break
    return on


def _first_largest(score: Array, k: int) -> Array:
    """The places of the k largest, of equal ones the first."""
    least = np.partition(score, -k)[-k]
    over = np.flatnonzero(score > least)
    return np.append(over, np.flatnonzero(score == least)[: k - len(over)])
