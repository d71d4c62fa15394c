"""One threshold for all labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelset import check
from labelset.catalog import hyper
from labelset.decide._base import NEUTRAL, Array, above, aligned, between
from labelset.decide._search import Ranked, TunedThresholds, f_beta, pooled_threshold


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

    def learn(self, p: Tensor, on: Tensor, known: Tensor) -> dict[str, Tensor]:
        """`thresholds`: one number."""
        best = NEUTRAL
        if p.numel():
            by_row = self.metric == "f1-samples"
            rank = Ranked.within_rows if by_row else Ranked.within_labels
            best = pooled_threshold(rank(p, on, known), self.metric, self.beta)
        return {"thresholds": torch.tensor(best, dtype=torch.float64)}

    def intervals(
        self, probs: Any, labels: Any, rounds: int = 200, level: float = 0.95, seed: int = 0
    ) -> Tensor:
        """(labels, 2), the same for each: between which bounds the threshold falls in `level` of
        bootstrap rounds. Every round draws as many rows with replacement and chooses anew. Give the
        data that the rule was fitted to.
        """
        check.whole("rounds", rounds, low=1)
        check.number("level", level, low=0.0, high=1.0, open_low=True, open_high=True)
        p, on, known = aligned(probs, labels)
        self.refuse_width(p)
        draw, rows = np.random.default_rng(check.whole("seed", seed)), len(p)
        chosen = self._of_weighted_rows(p, on, known)
        drawn = [
            chosen(np.bincount(draw.integers(rows, size=rows), minlength=rows))
            for _ in range(rounds if rows else 0)
        ]
        ends = np.quantile(drawn or [NEUTRAL], [(1 - level) / 2, (1 + level) / 2])
        return torch.from_numpy(ends).expand(p.shape[1], 2)

    def _of_weighted_rows(self, p: Tensor, on: Tensor, known: Tensor) -> Callable[[Array], float]:
        """From how often each row counts to the threshold: with one sort for all rounds where the
        metric takes all entries as one."""
        if self.metric not in ("f1-micro", "hamming"):

            def anew(weight: Array) -> float:
                rows = torch.from_numpy(np.repeat(np.arange(len(p)), weight))
                return float(self.learn(p[rows], on[rows], known[rows])["thresholds"])

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
