"""One threshold for all labels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labelset.catalog import hyper
from labelset.decide._base import NEUTRAL
from labelset.decide._search import Ranked, TunedThresholds, pooled_threshold


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
