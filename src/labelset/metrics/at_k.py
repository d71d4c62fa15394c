"""The top of each row's ranking: precision, recall, F1, nDCG, and propensity-scored precision.

Equal scores at the edge of the top k are shared out: each metric is its mean over all ways of
breaking the ties, so that no order of the labels is favoured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labelset import check
from labelset.catalog import hyper
from labelset.labels import Labels
from labelset.metrics._base import (
    Metric,
    Result,
    RowMean,
    State,
    WithUndefined,
    known_counts,
    ratio,
)
from labelset.metrics._order import PositiveRanks, positive_ranks

# Worked by hand below, k = 2: one hit of one, one of two, nothing on, nothing known.
CASE = {
    "given": ((0.9, 0.5, 0.1), (0.1, 0.5, 0.9), (0.9, 0.5, 0.1), (0.9, 0.5, 0.1)),
    "labels": ((1, 0, 0), (1, 1, 0), (0, 0, 0), (torch.nan,) * 3),
    "settings": {"k": 2},
}
FILLED = {"settings": {"k": 2, "undefined": 1.0}}
TIED = {"given": ((0.5, 0.5),), "labels": ((1, 0),), "settings": {"k": 1}}
SECOND = 1 / math.log2(3)  # what the second place is worth


def in_top(found: PositiveRanks, k: int) -> Tensor:
    """For each label that is on, the chance that it is among the first k of its row."""
    return ((k - found.above).double() / found.level).clamp(0, 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class _AtK(WithUndefined):
    k: int = hyper(5, "how many labels of each row are looked at")

    takes = "scores"
    examples = ({"k": 1}, {"k": 3}, {"k": 2, "undefined": 0.0})

    def __post_init__(self) -> None:
        super().__post_init__()
        check.whole("k", self.k, low=1)


@dataclass(frozen=True, kw_only=True, eq=False)
class PrecisionAtK(RowMean):
    """The share of the k best labels of a row that are on; rows with nothing on count 0.

    Always out of k, also where a row has fewer than k labels.

    >>> PrecisionAtK(k=2)([[0.9, 0.5, 0.1]], [[1, 0, 1]])
    0.5
    """

    k: int = hyper(5, "how many labels of each row are looked at")

    name = "precision@k"
    takes = "scores"
    examples = ({"k": 1}, {"k": 3})
    worked = (
        {**CASE, "value": (1 / 2 + 1 / 2 + 0) / 3, "left_out": 1},
        {**TIED, "value": 1 / 2},
    )
    best = torch.nan
    why_undefined = "no label is known"

    def __post_init__(self) -> None:
        check.whole("k", self.k, low=1)

    def rows(self, given: Tensor, labels: Labels) -> Tensor:
        found = positive_ranks(given, labels)
        share = found.sums(in_top(found, self.k)) / self.k
        return torch.where(known_counts(labels, by_class=False) > 0, share, torch.nan)


class RecallAtK(_AtK):
    """The share of a row's labels that are among its k best; rows with nothing on are left out.

    >>> RecallAtK(k=2)([[0.9, 0.5, 0.1]], [[1, 0, 1]])
    0.5
    """

    name = "recall@k"
    worked = (
        {**CASE, "value": (1 + 1 / 2) / 2, "left_out": 2},
        {**CASE, **FILLED, "value": (1 + 1 / 2 + 1) / 3, "left_out": 1},
        {**TIED, "value": 1 / 2},
    )
    best = torch.nan

    def defined(self, given: Tensor, labels: Labels) -> Tensor:
        found = positive_ranks(given, labels)
        return ratio(found.sums(in_top(found, self.k)), found.on)


class F1AtK(_AtK):
    """A row's F1 when its k best labels are predicted; rows with nothing on are left out.

    2 hits / (k + labels on): the harmonic mean of precision@k and recall@k of the row.

    >>> F1AtK(k=2)([[0.9, 0.5, 0.1]], [[1, 0, 0]]).__round__(4)
    0.6667
    """

    name = "f1@k"
    worked = ({**CASE, "value": (2 / 3 + 1 / 2) / 2, "left_out": 2}, {**TIED, "value": 1 / 2})
    best = torch.nan

    def defined(self, given: Tensor, labels: Labels) -> Tensor:
        found = positive_ranks(given, labels)
        f = 2 * found.sums(in_top(found, self.k)) / (self.k + found.on)
        return torch.where(found.on > 0, f, torch.nan)


class NDCGAtK(_AtK):
    """Hits among the k best, each worth 1 / log2(1 + rank), over the most that could be had.

    Rows with nothing on are left out.

    >>> NDCGAtK(k=2)([[0.9, 0.5, 0.1]], [[0, 1, 0]]).__round__(4)
    0.6309
    """

    name = "ndcg@k"
    worked = (
        {**CASE, "value": (1 + SECOND / (1 + SECOND)) / 2, "left_out": 2},
        {**TIED, "value": 1 / 2},
    )

    def defined(self, given: Tensor, labels: Labels) -> Tensor:
        found = positive_ranks(given, labels)
        place = torch.arange(2, self.k + 2, dtype=torch.float64, device=given.device)
        worth = torch.cat([place.new_zeros(1), (1 / place.log2()).cumsum(0)])
        low, high = found.above.clamp(max=self.k), found.at_least.clamp(max=self.k)
        gain = (worth[high] - worth[low]) / found.level
        return ratio(found.sums(gain), worth[found.on.clamp(max=self.k)])


def propensities(train: Any, a: float = 0.55, b: float = 1.5) -> Tensor:
    """How likely a label that is on is seen to be on: Jain, Prabhu and Varma's model (2016).

    p_j = 1 / (1 + C (N_j + b)^-a) with C = (log N - 1) (b + 1)^a, N_j of N training rows having
    label j.

    >>> propensities(Labels.from_lists([[0]] * 9 + [[1]], n=2))
    tensor([0.6283, 0.4343], dtype=torch.float64)
    """
    labels = Labels.from_dense(train)
    if not len(labels):
        raise ValueError("propensities need training labels, got no rows")
    on = labels.indices if labels.values is None else labels.indices[labels.values == 1]
    seen = torch.bincount(on, minlength=labels.n).double()
    c = max(torch.tensor(float(len(labels))).log().item() - 1, 0.0) * (b + 1) ** a
    return torch.reciprocal(1 + c * (seen + b) ** -a)


@dataclass(frozen=True, kw_only=True, eq=False)
class PSPAtK(Metric):
    """Propensity-scored precision@k, as the extreme-classification repository counts it.

    The sum over rows of 1 / propensity of the hits among the k best, over the largest sum that
    any ranking could have had. Give the training labels, or the propensities themselves.
    """

    k: int = hyper(5, "how many labels of each row are looked at")
    train: Any = hyper(None, "training labels, from which `propensities` are worked out")
    propensity: Any = hyper(None, "one per label, instead of `train`")

    name = "psp@k"
    takes = "scores"
    examples = ({"k": 2, "propensity": (0.25,) * 6},)
    worked = (
        {  # the first row's label is found, worth 2; the second's, worth 4, is not
            "given": ((0.9, 0.1), (0.9, 0.1)),
            "labels": ((1, 0), (0, 1)),
            "settings": {"k": 1, "propensity": (0.5, 0.25)},
            "value": 2 / (2 + 4),
        },
    )

    def __post_init__(self) -> None:
        check.whole("k", self.k, low=1)
        if (self.train is None) == (self.propensity is None):
            raise ValueError("psp@k needs either `train`, the training labels, or `propensity`")
        given = propensities(self.train) if self.propensity is None else self.propensity
        each = torch.as_tensor(given, dtype=torch.float64)
        if each.ndim != 1 or not bool(((each > 0) & (each <= 1)).all()):
            raise ValueError("propensity must be one number in (0, 1] per label")
        object.__setattr__(self, "propensity", each)
        object.__setattr__(self, "train", None)

    def state(self, given: Tensor, labels: Labels, weight: Tensor | None = None) -> State:
        if labels.n != len(self.propensity):
            raise ValueError(f"propensity is for {len(self.propensity)} labels, not {labels.n}")
        worth = (1 / self.propensity).to(given.device).expand(labels.shape)
        if weight is not None:
            worth = worth * weight[:, None]
        found = positive_ranks(given, labels)
        on = labels.dense(torch.float64) == 1
        ideal = torch.where(on, worth, 0.0).topk(min(self.k, labels.n), dim=1).values.sum()
        return {"had": _hits(found, given, on, worth, self.k), "best": ideal}

    def result(self, state: State) -> Result:
        if not float(state["best"]) > 0:
            raise ValueError("not defined: no row has a positive label")
        return Result(float(state["had"] / state["best"]))


def _hits(found: PositiveRanks, v: Tensor, on: Tensor, worth: Tensor, k: int) -> Tensor:
    """The sum of what labels are worth that are on, times the chance that they are in the top k."""
    # entries of a row rise in score: the label of each is found by sorting likewise
    rows, columns = on.nonzero(as_tuple=True)
    order = v[rows, columns].sort(stable=True).indices
    order = order[rows[order].sort(stable=True).indices]
    return (worth[on][order] * in_top(found, k)).sum()
