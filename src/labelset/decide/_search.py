"""Thresholds that are best for a metric, found over all cuts of the sorted probabilities."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from labelset import check, inputs
from labelset.catalog import hyper
from labelset.decide._base import NEUTRAL, Array, Thresholds, above, aligned, between, counted

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


@dataclass(frozen=True)
class Ranked:
    """Every group sorted once; all cut points are read off from this."""

    p: Array
    """(groups, entries) float64, falling; unknown entries last, as -1."""
    on: Array
    """(groups, entries) bool, in the same order."""
    order: Array
    """(groups, entries): where each entry stood in its group."""
    weight: Array | None = None
    """(groups, entries): what each counts, in the same order."""
    share: Array | float = 1.0
    """(groups, 1): what each group counts in a mean over groups, at most 1."""

    @classmethod
    def within_rows(
        cls, p: Tensor, on: Tensor, known: Tensor, weight: Tensor | None = None
    ) -> Self:
        """The rows of the matrices are the groups; a row's weight says what its group counts."""
        key = np.where(known.numpy(), -p.numpy(), 1.0)  # unknown ones sort to the end
        order = np.argsort(key, axis=1)
        made = cls(
            -np.take_along_axis(key, order, 1), np.take_along_axis(on.numpy(), order, 1), order
        )
        if weight is None:
            return made
        return replace(made, share=(weight / weight.max())[:, None].numpy())

    @classmethod
    def within_labels(
        cls, p: Tensor, on: Tensor, known: Tensor, weight: Tensor | None = None
    ) -> Self:
        """The labels are the groups, in which every entry counts what its row does."""
        made = cls.within_rows(*(t.T.contiguous() for t in (p, on, known)))
        return made if weight is None else replace(made, weight=weight.numpy()[made.order])

    @property
    def positives(self) -> Array:
        """(groups,) how many are on."""
        total: Array = self.on.sum(1)
        return total

    @property
    def counts(self) -> tuple[Array, Array]:
        """(groups, entries): what each counts as a hit, and as a prediction."""
        if self.weight is None:
            return self.on, np.ones(self.on.shape, dtype=np.int64)
        return self.weight * self.on, self.weight


@dataclass(frozen=True)
class Cuts:
    """The cut points that can be best: "nothing on", then after every tie that holds a positive.

    A cut after a tie without positives is never better than the one before it, in any of the
    metrics. One flat list, label by label, from the fewest entries on to the most.
    """

    label: Array
    """The label of each cut."""
    start: Array
    """(labels,) the first cut of each label."""
    threshold: Array
    """Where each cut lies."""
    on: Array
    """Entries that the cut turns on, as a position among all ranked entries."""
    hits: Array
    """The same among ranked entries that are positive."""
    order: Array
    """(labels x rows) the row of each ranked entry."""
    positive: Array
    """The row of each positive entry, ranked."""

    @classmethod
    def of(cls, ranked: Ranked) -> Self:
        # 2 stands above every probability: the cut before the first entry turns nothing on
        padded = np.pad(ranked.p, ((0, 0), (1, 1)), constant_values=((0, 0), (2, -1)))
        seen = np.pad(ranked.on.cumsum(1), ((0, 0), (1, 0)))
        ends = (padded[:, :-1] != padded[:, 1:]) & (padded[:, :-1] >= 0)
        label, cut = np.nonzero(ends)
        found = seen[label, cut]
        keep = (cut == 0) | (np.diff(found, prepend=0) > 0)
        label, cut, found = label[keep], cut[keep], found[keep]
        lower, upper = np.maximum(padded[label, cut + 1], 0.0), padded[label, cut]
        threshold = np.where(cut == 0, above(lower), between(lower, np.minimum(upper, 1.0)))
        before = np.append(0, ranked.positives.cumsum())[label]
        return cls(
            label=label,
            start=np.flatnonzero(cut == 0),
            threshold=threshold,
            on=label * ranked.p.shape[1] + cut,
            hits=before + found,
            order=ranked.order.ravel(),
            positive=ranked.order[ranked.on],
        )

    def counts(self, weight: Array | None = None) -> tuple[Array, Array]:
        """(true positives, predicted) of every cut; `weight`: how often each row counts."""
        if weight is None:
            on, hits = self.on, self.hits
        else:
            on = np.append(0, weight[self.order].cumsum())[self.on]
            hits = np.append(0, weight[self.positive].cumsum())[self.hits]
        return hits - hits[self.start][self.label], on - on[self.start][self.label]

    def best(self, metric: str, beta: float, weight: Array | None = None) -> tuple[Array, Array]:
        """(cut, positives) of every label; of equally good cuts the highest threshold."""
        tp, predicted = self.counts(weight)
        last = np.append(self.start[1:], len(tp)) - 1
        positives = tp[last] if len(tp) else tp
        if metric == "f1-micro":
            return self._ratio(tp, predicted, int(positives.sum()), beta), positives
        if metric == "hamming":
            return self._first_best(2 * tp - predicted), positives
        return self._first_best(f_beta(tp, predicted, positives[self.label], beta)), positives

    def _first_best(self, value: Array) -> Array:
        if not len(value):
            return self.start
        best = np.flatnonzero(value == np.maximum.reduceat(value, self.start)[self.label])
        return best[np.searchsorted(self.label[best], np.arange(len(self.start)))]

    def _ratio(self, tp: Array, predicted: Array, positives: int, beta: float) -> Array:
        """Micro F with a cut per label, by Dinkelbach's method.

        F = sum (1 + b^2) tp_j / (b^2 positives + sum predicted_j) is at its maximum f when no cuts
        make sum (1 + b^2) tp_j - f predicted_j larger; for given f every label chooses alone. f
        rises with every round, to the exact maximum after a few.
        """
        above, below = (1 + beta**2) * tp, beta**2 * positives
        best, f = self._first_best(tp), -1.0
        while positives:
            over, under = above[best].sum(), below + predicted[best].sum()
            if over / under <= f:
                break
            f, best = over / under, self._first_best(under * above - over * predicted)
        return best


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
        hits, each = (held.ravel()[merged] for held in ranked.counts)
        tp, predicted = hits.cumsum(), each.cumsum()
        if metric == "hamming":
            right: Array = 2 * tp - predicted
            return right
        return f_beta(tp, predicted, tp[-1], beta)
    return _steps(ranked, metric, beta).ravel()[merged].cumsum()


def _steps(ranked: Ranked, metric: str, beta: float) -> Array:
    """By how much each entry, turned on, changes the sum of its group's F, in whole units.

    Whole numbers, so that the running sum over all groups is free of rounding, whatever the order:
    only each group's own F is rounded, to 2^-52 (less for more than a thousand groups).
    """
    hits, counted = ranked.counts
    tp, positives = hits.cumsum(1), hits.sum(1, keepdims=True)
    each = f_beta(tp, counted.cumsum(1), positives, beta) * ranked.share
    if metric == "f1-weighted":
        each *= positives / positives.sum()
    bits = min(52, 62 - math.ceil(math.log2(len(each))))
    units = np.rint(each * 2.0**bits).astype(np.int64)
    return np.diff(units, axis=1, prepend=0)


@dataclass(kw_only=True, eq=False)
class TunedThresholds(Thresholds):
    """Thresholds with the best value of `metric` on the data given to `fit`."""

    metrics: ClassVar[tuple[str, ...]] = METRICS
    """Those it can be tuned for."""

    metric: str
    beta: float = hyper(1.0, "F-beta for F1: how much more recall matters than precision")

    def __post_init__(self) -> None:
        super().__post_init__()
        check.one_of("metric", self.metric, self.metrics)
        check_beta(self.beta)

    @property
    @abstractmethod
    def optimal(self) -> bool:
        """Whether what it learns is the exact optimum over all cut points."""

    @property
    def thresholds(self) -> Tensor:
        """What was learnt."""
        return self.found("thresholds")

    def objective(self, probs: Any, labels: Any) -> float:
        """The metric of this rule's decisions, over known labels; larger is better."""
        p, on, known = aligned(probs, labels)
        picked = self(p).dense().numpy() == 1
        return metric_value(self.metric, self.beta, picked, on.numpy(), known.numpy())

    @abstractmethod
    def of_weighted_rows(
        self, p: Tensor, on: Tensor, known: Tensor
    ) -> Callable[[Array], Array | float]:
        """From how often each row counts to the thresholds."""

    def intervals(
        self, probs: Any, labels: Any, rounds: int = 200, level: float = 0.95, seed: int = 0
    ) -> Tensor:
        """(labels, 2): between which bounds each threshold falls in `level` of bootstrap rounds.

        Every round draws as many rows with replacement and chooses again. Give the data that the
        rule was fitted to.
        """
        check.whole("rounds", rounds, low=1)
        check.number("level", level, low=0.0, high=1.0, open_low=True, open_high=True)
        p, on, known = aligned(probs, labels)
        self.refuse_width(p)
        draw, rows = np.random.default_rng(check.whole("seed", seed)), len(p)
        chosen, own = self.of_weighted_rows(p, on, known), counted(labels)
        drawn: Any = [
            chosen(own * np.bincount(draw.integers(max(rows, 1), size=rows), minlength=rows))
            for _ in range(rounds)
        ]
        ends = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return torch.from_numpy(np.ascontiguousarray(ends.T)).expand(p.shape[1], 2)

    def score(self, decided: Any, labels: Any) -> float:
        """The metric of any label sets, over known labels."""
        chosen, y = inputs.label_sets(decided, labels)
        truth = y.dense().cpu().numpy()
        picked = chosen.dense().cpu().numpy() == 1
        return metric_value(self.metric, self.beta, picked, truth == 1, ~np.isnan(truth))
