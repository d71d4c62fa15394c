"""The best threshold of every label by itself, over all its cut points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from labelset.decide._metric import f_beta
from labelset.decide._ranked import Ranked
from labelset.decide._thresholds import Array, above, between

__all__ = ["Cuts"]


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
