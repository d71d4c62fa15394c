"""The values of a metric over many resamples of the rows at once.

A resample is a row of weights: how often each row was drawn. Most metrics are functions of sums
over rows, so all resamples are one matrix product; average precision per class is a running sum.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from labelset.labels import Labels
from labelset.metrics import (
    Binned,
    EntryMean,
    Metric,
    RowMean,
    ratio,
    weighted_auroc,
    weighted_precision,
)
from labelset.metrics.counts import F1Macro, F1Micro, F1Weighted, Hamming, f_score
from labelset.metrics.ranking import AUROCClass, AUROCMicro, MAPClass, MAPMicro

POOLED = 1 << 22
"""Entries of one ranking, whose weights float32 adds up exactly."""


def draws(rows: int, times: int, seed: int) -> Tensor:
    """(times, rows) float64: how often each row is drawn in each resample."""
    g = torch.Generator().manual_seed(seed)
    chosen = torch.randint(rows, (times, rows), generator=g)
    weights = torch.zeros(times, rows, dtype=torch.float64)
    return weights.scatter_add_(1, chosen, torch.ones_like(chosen, dtype=torch.float64))


def resampled(metric: Metric, given: Any, labels: Labels, weights: Tensor) -> Tensor:
    """(times,): the metric of each resample, NaN where it is not defined there."""
    given, y = metric.checked(given, labels)
    if isinstance(metric, RowMean):
        return _row_means(metric.rows(given, y), weights)
    if isinstance(metric, (MAPClass, AUROCClass)):
        return _by_class(metric, given, y, weights)
    if isinstance(metric, (MAPMicro, AUROCMicro)):
        return _pooled(metric, given, y, weights)
    if isinstance(metric, (F1Micro, F1Macro, F1Weighted)):
        return _f1(metric, given, y, weights)
    if isinstance(metric, Binned):
        return _binned(metric, given, y, weights)
    if isinstance(metric, (EntryMean, Hamming)):
        return _entry_means(metric, given, y, weights)
    raise TypeError(f"{type(metric).__name__} cannot be resampled")


def _row_means(each: Tensor, weights: Tensor) -> Tensor:
    defined = (~each.isnan()).double()
    return ratio(weights @ each.double().nan_to_num(0.0), weights @ defined)


def _by_class(metric: MAPClass | AUROCClass, v: Tensor, y: Labels, weights: Tensor) -> Tensor:
    one = weighted_precision if isinstance(metric, MAPClass) else weighted_auroc
    target = y.dense(torch.float64)
    total = torch.zeros(len(weights), dtype=torch.float64)
    classes = torch.zeros_like(total)
    drawn = weights.T.contiguous().float()  # a row's weights side by side
    for j in range(y.n):
        known = (~target[:, j].isnan()).nonzero()[:, 0]
        value = one(v[known, j], target[known, j] == 1, known, drawn)
        total += value.nan_to_num(0.0)
        classes += (~value.isnan()).double()
    return ratio(total, classes)


def _pooled(metric: MAPMicro | AUROCMicro, v: Tensor, y: Labels, weights: Tensor) -> Tensor:
    """One ranking of all entries: too many for sums in float32 have no resamples."""
    target = y.dense().flatten()
    known = (~target.isnan()).nonzero()[:, 0]
    if len(known) > POOLED:
        return torch.full((len(weights),), torch.nan, dtype=torch.float64)
    one = weighted_precision if isinstance(metric, MAPMicro) else weighted_auroc
    given = v.flatten()[known], target[known] == 1, known // y.n
    return one(*given, weights.T.contiguous().float())


def _f1(
    metric: F1Micro | F1Macro | F1Weighted, given: Labels, y: Labels, weights: Tensor
) -> Tensor:
    target, said = y.dense(torch.float64), given.dense(torch.float64)
    known = (~target.isnan()).double()
    on = target.nan_to_num(0.0)
    tp = weights @ (on * said)
    fp, fn = weights @ (known * said) - tp, weights @ on - tp
    counts = torch.stack([tp, fp, fn])
    if isinstance(metric, F1Micro):
        return f_score(counts.sum(-1), metric.beta, metric.zero_division)
    each = f_score(counts, metric.beta, metric.zero_division)
    if isinstance(metric, F1Weighted):
        support = tp + fn
        return ratio((support * each).sum(-1), support.sum(-1), metric.zero_division)
    return torch.where(weights @ known > 0, each, torch.nan).nanmean(-1)


def _binned(metric: Binned, p: Tensor, y: Labels, weights: Tensor) -> Tensor:
    """Pooled bins of equal width."""
    if metric.binning != "width" or metric.average != "pooled":
        raise TypeError("only pooled bins of equal width can be resampled")
    target, prob = y.dense(torch.float64), p.double()
    edges = torch.linspace(0, 1, metric.bins + 1, dtype=torch.float64)[1:-1]
    known = (~target.isnan()).double()
    where = torch.bucketize(prob.nan_to_num(0.0), edges)
    sums = torch.zeros(3, len(p), metric.bins, dtype=torch.float64)
    for into, values in zip(sums, (known, prob * known, target.nan_to_num(0.0)), strict=True):
        into.scatter_add_(1, where, values.nan_to_num(0.0))
    count, said, seen = weights @ sums
    gaps = ratio((said - seen).abs(), count)
    if metric.gap == "mce":
        return gaps.nan_to_num(-1.0).amax(-1)
    if metric.gap == "ace":
        return gaps.nanmean(-1)
    return ratio((said - seen).abs().sum(-1), count.sum(-1))


def _entry_means(metric: Metric, given: Any, y: Labels, weights: Tensor) -> Tensor:
    target = y.dense(torch.float64)
    known = ~target.isnan()
    if isinstance(metric, EntryMean):
        values = torch.zeros_like(target)
        values[known] = metric.entries(given.double()[known], target[known])
    else:
        values = ((given.dense(torch.float64) != target) & known).double()
    return ratio(weights @ values.sum(1), weights @ known.double().sum(1))
