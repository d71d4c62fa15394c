"""Exactly k labels per row: the most probable, or those best for a metric averaged over labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from labelset import check
from labelset.catalog import hyper
from labelset.decide._base import Array, Rule, check_room, largest


@dataclass(kw_only=True, eq=False)
class TopK(Rule):
    """The k largest probabilities of each row; of equal ones the lowest label number.

    >>> TopK(k=2)([[0.1, 0.7, 0.1, 0.1]]).dense()
    tensor([[1., 1., 0., 0.]])
    """

    name = "top-k"
    needs_fit = False

    k: int = hyper(doc="how many labels are on in each row")

    def __post_init__(self) -> None:
        super().__post_init__()
        check.whole("k", self.k, low=1)

    def decide(self, p: Tensor) -> Tensor:
        """Exactly k in each row."""
        return largest(p, self.k)


Gain = Callable[[Array, Array, Array], tuple[Array, Array]]
"""(hits, picked, positives) per label -> (a, b): one more row of probability p gains a p + b."""


def f1_gain(hits: Array, picked: Array, positives: Array) -> tuple[Array, Array]:
    """F1 = 2 hits / (picked + positives)."""
    below = picked + positives
    after = below + 1
    return 2 / after, 2 * hits / after - 2 * hits / np.where(below > 0, below, 1.0)


def recall_gain(hits: Array, picked: Array, positives: Array) -> tuple[Array, Array]:
    """Recall = hits / positives; a label that never occurs gains nothing."""
    some = positives > 0
    return np.where(some, 1 / np.where(some, positives, 1.0), 0.0), np.zeros_like(positives)


def precision_gain(hits: Array, picked: Array, positives: Array) -> tuple[Array, Array]:
    """Precision = hits / picked, 0 where never picked."""
    after = picked + 1
    return 1 / after, hits / after - hits / np.where(picked > 0, picked, 1.0)


GAINS: dict[str, Gain] = {
    "f1-macro": f1_gain,
    "recall-macro": recall_gain,
    "precision-macro": precision_gain,
}


def ascend(p: Array, start: Array, known: Array, gain: Gain, sweeps: int) -> Array:
    """(rows, labels) bool with as many known labels per row as `start`; the metric never falls.

    Given the other rows, the best labels of a row are those of the largest gain, because the
    metric is a sum over labels: one row at a time is chosen anew, until a sweep over all rows
    changes nothing. A row changes only for a gain above 1e-12.
    """
    on, k = start.copy(), int(start.sum(1).max(initial=0))
    hits, picked, positives = (p * on).sum(0), on.sum(0).astype(float), p.sum(0)
    for _ in range(sweeps):
        changed = False
        for row, chosen, may in zip(p, on, known, strict=True):
            hits[chosen] -= row[chosen]
            picked[chosen] -= 1
            slope, offset = gain(hits, picked, positives)
            each = np.where(may, slope * row + offset, -np.inf)
            better = _first_largest(each, k)
            if each[better].sum() > each[chosen].sum() + 1e-12:
                chosen[:] = False
                chosen[better] = changed = True
            hits[chosen] += row[chosen]
            picked[chosen] += 1
        if not changed:
            break
    return on


def _first_largest(score: Array, k: int) -> Array:
    """The places of the k largest, of equal ones the first."""
    least = np.partition(score, -k)[-k]
    over = np.flatnonzero(score > least)
    return np.append(over, np.flatnonzero(score == least)[: k - len(over)])


@dataclass(kw_only=True, eq=False)
class Budget(Rule):
    """k labels in every row that make a macro metric large, rare labels counting as much.

        F1_j = 2 hits_j / (picked_j + positives_j),  hits_j = sum_i p_ij h_ij,
        recall_j = hits_j / positives_j, precision_j = hits_j / picked_j, positives_j = sum_i p_ij

    Counts are expected ones, from the probabilities: calibrate them first. After Schultheis et
    al. (2023), starting from the k most probable labels one row after the other is chosen anew
    while that helps, so the metric is never below that of `top-k`; for recall, which is linear, it
    is the exact maximum, for the others a local one. Precision is best served by picking a label
    once, in its surest row: a choice that depends on the batch and carries over to no other.

    Before `fit` the rows given together are decided together. `fit` does this once on held-out
    rows and keeps for each label what one more row would gain, a_j p + b_j; from then on each
    row takes the k labels of the largest gain, whatever rows come with it. Of the labels given
    to `fit` only matters which are known; rows with fewer than k known are left out, and without
    any other the k most probable labels are taken.

    >>> Budget(k=1, metric="recall-macro")([[0.9, 0.3], [0.8, 0.1]]).dense()
    tensor([[0., 1.],
            [1., 0.]])
    """

    name = "budget"
    learns = ("slope", "offset")
    needs_fit = False

    k: int = hyper(doc="how many labels are on in each row")
    metric: str = hyper("f1-macro", "f1-macro, recall-macro or precision-macro")
    sweeps: int = hyper(10, "passes over all rows at most")

    def __post_init__(self) -> None:
        super().__post_init__()
        check.whole("k", self.k, low=1)
        check.one_of("metric", self.metric, tuple(GAINS))
        check.whole("sweeps", self.sweeps)

    @property
    def row_by_row(self) -> bool:
        """Once fitted."""
        return "slope" in self.learnt

    @property
    def monotone(self) -> bool:
        """Once fitted: every slope is at least 0."""
        return self.row_by_row

    @property
    def width(self) -> int | None:
        """The labels that it was fitted on."""
        return len(self.learnt["slope"]) if self.learnt else None

    def decide(self, p: Tensor) -> Tensor:
        """Exactly k in each row."""
        if self.learnt:
            slope, offset = (self.learnt[part].to(p.device) for part in ("slope", "offset"))
            return largest(slope * p + offset, self.k)
        q = p.cpu()
        return self._together(q, torch.ones_like(q, dtype=torch.bool)).to(p.device)

    def learn(self, p: Tensor, on: Tensor, known: Tensor) -> dict[str, Tensor]:
        """`slope` and `offset` (labels,): what one more row gains."""
        check_room(self.k, p.shape[1])
        enough = known.sum(1) >= self.k
        p, known = p[enough], known[enough]
        chosen = self._together(p, known).double()
        counts = (p * chosen).sum(0), chosen.sum(0), p.sum(0)
        slope, offset = map(torch.from_numpy, GAINS[self.metric](*(t.numpy() for t in counts)))
        if not enough.any():
            slope, offset = torch.ones_like(slope), torch.zeros_like(offset)
        return {"slope": slope, "offset": offset}

    def _together(self, p: Tensor, known: Tensor) -> Tensor:
        start = largest(p.masked_fill(~known, -1.0), self.k)
        gain = GAINS[self.metric]
        on = ascend(p.numpy(), start.numpy(), known.numpy(), gain, self.sweeps)
        return torch.from_numpy(on)
