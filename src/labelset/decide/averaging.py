"""Threshold averaging (Decubber et al.; sigmoidF1, section 7)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from labelset.decide._base import NEUTRAL, Thresholds
from labelset.decide._search import Ranked, f_beta


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
