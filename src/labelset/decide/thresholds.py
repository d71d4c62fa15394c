"""Thresholds: given by hand; one for all labels; one per label, tuned on its own or together, and
drawn towards the global one; the mean of those of rows (Decubber et al.; sigmoidF1, section 7)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from labelset import check
from labelset.catalog import hyper
from labelset.decide._base import NEUTRAL, NEVER, Array, Thresholds, above, between
from labelset.decide._search import Cuts, Ranked, TunedThresholds, f_beta, pooled_threshold
from labelset.learned import LearnedSpec


@dataclass(kw_only=True, eq=False)
class Fixed(Thresholds):
    """A label is on where p >= threshold.

    >>> Fixed(threshold=[0.5, 0.2])([[0.5, 0.1], [0.4, 0.3]]).dense()
    tensor([[1., 0.],
            [0., 1.]])
    """

    name = "fixed"
    needs_fit = False

    threshold: float | Sequence[float] = hyper(0.5, "one number, or one per label")

    def __post_init__(self) -> None:
        super().__post_init__()
        given = check.per_label("threshold", self.threshold)
        each = given.tolist() if isinstance(given, Tensor) else given
        for t in each if isinstance(each, list) else [each]:
            check.number("threshold", t, low=0.0, high=NEVER)  # what other rules learn is welcome
        self.threshold = each

    @property
    def thresholds(self) -> Tensor:
        """As given."""
        return torch.tensor(self.threshold, dtype=torch.float64)

    @property
    def width(self) -> int | None:
        """As many labels as there are thresholds."""
        return len(self.threshold) if isinstance(self.threshold, list) else None


@dataclass(kw_only=True, eq=False)
class Global(TunedThresholds):
    """The one threshold that makes the metric largest, exactly, over all cut points.

    All known probabilities are sorted once, and the metric is followed as the threshold falls:
    O(M log M) for M of them. The threshold lies midway between two neighbouring probabilities (0
    and 1 count as such); of equally good ones the highest is taken. Without any positive, or
    anything known, it is 0.5.

    >>> r = Global().fit([[0.9, 0.4], [0.6, 0.1]], [[1, 1], [0, 0]])
    >>> r.thresholds.item(), round(r.objective([[0.9, 0.4], [0.6, 0.1]], [[1, 1], [0, 0]]), 4)
    (0.25, 0.8)
    """

    name = "global"
    learns = ("thresholds",)

    metric: str = hyper(
        "f1-micro", "f1-micro, f1-macro, f1-weighted, f1-samples or hamming (entries right)"
    )

    @property
    def optimal(self) -> bool:
        """Always."""
        return True

    def learn(
        self, p: Tensor, on: Tensor, known: Tensor, weight: Tensor | None = None
    ) -> dict[str, Tensor]:
        """`thresholds`: one number."""
        best = NEUTRAL
        if p.numel():
            by_row = self.metric == "f1-samples"
            rank = Ranked.within_rows if by_row else Ranked.within_labels
            best = pooled_threshold(rank(p, on, known, weight), self.metric, self.beta)
        return {"thresholds": torch.tensor(best, dtype=torch.float64)}

    def of_weighted_rows(self, p: Tensor, on: Tensor, known: Tensor) -> Callable[[Array], float]:
        """With one sort for all rounds where the metric takes all entries as one."""
        if self.metric not in ("f1-micro", "hamming"):

            def anew(weight: Array) -> float:
                rows = torch.from_numpy(np.flatnonzero(weight))
                some = (p[rows], on[rows], known[rows], torch.from_numpy(weight)[rows].double())
                return float(self.learn(*some)["thresholds"])

            return anew
        entries = np.flatnonzero(known.numpy())
        entries = entries[np.argsort(-p.numpy().ravel()[entries], kind="stable")]
        falling, hit = p.numpy().ravel()[entries], on.numpy().ravel()[entries]
        row = entries // max(p.shape[1], 1)
        ends = np.flatnonzero(np.append(falling[:-1] != falling[1:], True)[: len(falling)])

        def chosen(weight: Array) -> float:
            each = weight[row]
            tp, predicted = (each * hit).cumsum(), each.cumsum()
            if not len(ends) or (self.metric != "hamming" and not tp[-1]):
                return NEUTRAL
            there = ends[np.diff(predicted[ends], prepend=0) > 0]
            tp, predicted, cut = tp[there], predicted[there], falling[there]
            if self.metric == "hamming":
                values = 2 * tp - predicted
            else:
                values = f_beta(tp, predicted, tp[-1], self.beta)
            best = int(values.argmax())
            if values[best] <= 0:
                return float(above(cut[0]))
            return float(between(cut[best + 1] if best + 1 < len(cut) else np.zeros(()), cut[best]))

        return chosen


@dataclass(kw_only=True, eq=False)
class PerClass(TunedThresholds):
    """The thresholds, one per label, that make the metric largest, exactly, over all cut points.

        t_j = (m_j own_j + shrink t) / (m_j + shrink)

    own_j is the label's best cut, m_j its positives, t the global threshold for the same metric.
    For "f1-macro" and "f1-weighted" every label has its own best F1, for "hamming" its best share
    of right entries; for "f1-micro" the thresholds are optimal together. Of equally good cuts the
    highest is taken. A label that the data say nothing about takes t: one without positives for
    F1 averaged over labels, one with nothing known for all metrics.

    >>> r = PerClass().fit([[0.9, 0.3], [0.6, 0.2], [0.4, 0.1]], [[1, 1], [0, 1], [0, 0]])
    >>> [round(t, 3) for t in r.thresholds.tolist()]
    [0.75, 0.15]
    """

    name = "per-class"
    learns = ("thresholds", "pooled")
    metrics = ("f1-micro", "f1-macro", "f1-weighted", "hamming")

    metric: str = hyper("f1-macro", "f1-macro, f1-micro, f1-weighted or hamming (entries right)")
    shrink: float = hyper(0.0, "how many positives the global threshold counts for")

    def __post_init__(self) -> None:
        super().__post_init__()
        check.number("shrink", self.shrink, low=0.0, high=1e9)

    @property
    def optimal(self) -> bool:
        """Unless drawn towards the global one."""
        return self.shrink == 0

    def parts(self) -> dict[str, LearnedSpec]:
        """A threshold per label, and the global one."""
        return super().parts() | {"thresholds": LearnedSpec("labels", low=0.0, high=NEVER)}

    def learn(
        self, p: Tensor, on: Tensor, known: Tensor, weight: Tensor | None = None
    ) -> dict[str, Tensor]:
        """`thresholds` (labels,), and `pooled`, the global one."""
        ranked = Ranked.within_labels(p, on, known, weight)
        pooled = pooled_threshold(ranked, self.metric, self.beta)
        own = None if weight is None else weight.numpy()
        each = self._thresholds(Cuts.of(ranked), known.any(0).numpy(), pooled, own)
        pool = torch.tensor(pooled, dtype=torch.float64)
        return {"thresholds": torch.from_numpy(each), "pooled": pool}

    def _thresholds(
        self, cuts: Cuts, known: Array, pooled: float, weight: Array | None = None
    ) -> Array:
        best, positives = cuts.best(self.metric, self.beta, weight)
        own = cuts.threshold[best]
        if self.shrink:
            own = (positives * own + self.shrink * pooled) / (positives + self.shrink)
        if self.metric == "hamming":
            tells = known
        elif self.metric == "f1-micro":
            tells = known & positives.any()
        else:
            tells = positives > 0
        return np.where(tells, own, pooled)

    def of_weighted_rows(self, p: Tensor, on: Tensor, known: Tensor) -> Callable[[Array], Array]:
        """Among the same cut points; the global threshold stays as learnt. A wide interval says
        that the label has too few positives for a threshold of its own: raise `shrink`."""
        pooled, cuts = float(self.found("pooled")), Cuts.of(Ranked.within_labels(p, on, known))
        seen = known.any(0).numpy()
        return lambda weight: self._thresholds(cuts, seen, pooled, weight)


@dataclass(kw_only=True, eq=False)
class Averaging(Thresholds):
    """One threshold: the mean over rows of the threshold that is best for the row.

    Each of a row's own probabilities is a candidate; the one with the best F1 of the row is taken,
    of equally good ones the largest. Rows without positives, for which every candidate gives 0,
    are left out; without any other the threshold is 0.5.

    Each row's threshold is the best for that row, yet their mean is best for nothing: `global`
    with metric="f1-samples" is. This is the published method, for comparison.

    >>> Averaging().fit([[0.9, 0.6, 0.2], [0.8, 0.3, 0.1]], [[1, 1, 0], [1, 0, 0]]).thresholds
    tensor(0.7000, dtype=torch.float64)
    """

    name = "averaging"
    learns = ("thresholds",)

    @property
    def thresholds(self) -> Tensor:
        """What was learnt: one number."""
        return self.found("thresholds")

    def learn(self, p: Tensor, on: Tensor, known: Tensor) -> dict[str, Tensor]:
        """`thresholds`: one number."""
        ranked = Ranked.within_rows(p, on, known)
        rows = np.flatnonzero(ranked.positives)
        best = [NEUTRAL]
        if len(rows):
            q, y = ranked.p[rows], ranked.on[rows]
            size = np.arange(1, q.shape[1] + 1)
            f1 = f_beta(y.cumsum(1), size, y.sum(1, keepdims=True), 1.0)
            last = np.pad(q[:, :-1] != q[:, 1:], ((0, 0), (0, 1)), constant_values=True)
            f1[~last | (q < 0)] = -1.0  # equal probabilities are turned on together
            best = q[np.arange(len(q)), f1.argmax(1)].tolist()
        mean = math.fsum(best) / len(best)  # rounded once, whatever the order of the rows
        return {"thresholds": torch.tensor(mean, dtype=torch.float64)}
