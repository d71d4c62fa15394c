"""The metrics that thresholds are tuned for."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelset import check
from labelset.decide._thresholds import Array

__all__ = ["METRICS", "check_beta", "f_beta", "metric_value"]

METRICS = ("f1-micro", "f1-macro", "f1-weighted", "f1-samples", "hamming")


def check_beta(beta: Any) -> float:
    """A sensible weight of recall against precision."""
    return check.number("beta", beta, low=1e-6, high=1e6)


def f_beta(tp: Array, predicted: Array, positives: Array, beta: float) -> Array:
    """(1 + b^2) tp / (b^2 positives + predicted), 0 where there is nothing to find or predicted.

    Equal fractions of whole numbers give equal floats for beta = 1: division rounds correctly.
    """
    below = beta**2 * positives + predicted
    return (1 + beta**2) * tp / np.where(below > 0, below, 1.0)


def metric_value(metric: str, beta: float, chosen: Array, on: Array, known: Array) -> float:
    """The metric of (rows, labels) decisions over known entries; nothing known gives 0.

    As scikit-learn's `fbeta_score` with zero_division=0: every class (or row) counts in the mean,
    those without positives as 0. "hamming" is the share of entries that are right.
    """
    if metric == "hamming":
        return float((chosen == on)[known].mean()) if known.any() else 0.0
    chosen = chosen & known
    axis = {"f1-micro": None, "f1-samples": 1}.get(metric, 0)
    hits, picked, positives = (x.sum(axis) for x in (chosen & on, chosen, on))
    scores = f_beta(hits, picked, positives, beta)
    if metric == "f1-weighted":
        return float((scores * positives).sum() / max(positives.sum(), 1))
    return float(scores.mean()) if scores.size else 0.0
