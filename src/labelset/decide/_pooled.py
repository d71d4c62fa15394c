"""The best single threshold for everything, over all cut points."""

from __future__ import annotations

import math

import numpy as np

from labelset.decide._metric import f_beta
from labelset.decide._ranked import Ranked
from labelset.decide._thresholds import NEUTRAL, Array, above, between

__all__ = ["pooled_threshold"]


def pooled_threshold(ranked: Ranked, metric: str, beta: float) -> float:
    """The threshold with the largest metric; of equal ones the highest.

    Entries of equal probability are turned on together. "f1-macro" and "f1-weighted" average over
    the groups (labels), "f1-samples" too (rows); "f1-micro" and "hamming" take all as one. 0.5
    where the metric is the same for all thresholds: no positives, or nothing known.
    """
    merged = np.argsort(-ranked.p.ravel(), kind="stable")  # a merge of sorted runs
    p = ranked.p.ravel()[merged]
    p = p[: np.count_nonzero(p >= 0)]
    if not p.size or (metric != "hamming" and not ranked.on.any()):
        return NEUTRAL
    ends = np.append(np.flatnonzero(p[:-1] != p[1:]), p.size - 1)
    values = _values(ranked, merged[: p.size], metric, beta)[ends]
    best = int(values.argmax())
    if values[best] <= 0:  # not better than nothing at all
        return float(above(p[0]))
    lower = p[ends[best] + 1] if best + 1 < len(ends) else np.zeros(())
    return float(between(lower, p[ends[best]]))


def _values(ranked: Ranked, merged: Array, metric: str, beta: float) -> Array:
    """The metric with the first 1, 2, ... entries on, up to a constant; nothing on is 0."""
    if metric in ("f1-micro", "hamming"):
        on = ranked.on.ravel()[merged]
        tp, predicted = on.cumsum(), np.arange(1, len(on) + 1)
        if metric == "hamming":
            return 2 * tp - predicted
        return f_beta(tp, predicted, on.sum(), beta)
    return _steps(ranked, metric, beta).ravel()[merged].cumsum()


def _steps(ranked: Ranked, metric: str, beta: float) -> Array:
    """By how much each entry, turned on, changes the sum of its group's F, in whole units.

    Whole numbers, so that the running sum over all groups is free of rounding, whatever the order:
    only each group's own F is rounded, to 2^-52 (less for more than a thousand groups).
    """
    tp, positives = ranked.on.cumsum(1), ranked.positives[:, None]
    each = f_beta(tp, np.arange(1, tp.shape[1] + 1), positives, beta)
    if metric == "f1-weighted":
        each *= positives / positives.sum()
    bits = min(52, 62 - math.ceil(math.log2(len(each))))
    units = np.rint(each * 2.0**bits).astype(np.int64)
    return np.diff(units, axis=1, prepend=0)
