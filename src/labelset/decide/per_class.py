"""One threshold per label, tuned on its own or together, and drawn towards the global one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelset import check
from labelset.catalog import hyper
from labelset.decide._base import NEVER, Array, aligned
from labelset.decide._search import Cuts, Ranked, TunedThresholds, pooled_threshold
from labelset.learned import LearnedSpec


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

    def learn(self, p: Tensor, on: Tensor, known: Tensor) -> dict[str, Tensor]:
        """`thresholds` (labels,), and `pooled`, the global one."""
        ranked = Ranked.within_labels(p, on, known)
        pooled = pooled_threshold(ranked, self.metric, self.beta)
        each = self._thresholds(Cuts.of(ranked), known.any(0).numpy(), pooled)
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

    def intervals(
        self, probs: Any, labels: Any, rounds: int = 200, level: float = 0.95, seed: int = 0
    ) -> Tensor:
        """(labels, 2): between which bounds each threshold falls in `level` of bootstrap rounds.

        Every round draws as many rows with replacement and chooses anew among the same cut points;
        the global threshold stays as learnt. Give the data that the rule was fitted to. A wide
        interval says that the label has too few positives for a threshold of its own: raise
        `shrink`.
        """
        check.whole("rounds", rounds, low=1)
        check.number("level", level, low=0.0, high=1.0, open_low=True, open_high=True)
        pooled = float(self.found("pooled"))
        p, on, known = aligned(probs, labels)
        self.refuse_width(p)
        cuts = Cuts.of(Ranked.within_labels(p, on, known))
        draw = np.random.default_rng(check.whole("seed", seed))
        rows, drawn = len(p), np.empty((rounds, p.shape[1]))
        for i in range(rounds):
            weight = np.bincount(draw.integers(max(rows, 1), size=rows), minlength=rows)
            drawn[i] = self._thresholds(cuts, known.any(0).numpy(), pooled, weight)
        ends = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return torch.from_numpy(np.ascontiguousarray(ends.T))
