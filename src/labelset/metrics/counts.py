"""Metrics of label sets: F1 under every average, precision, recall, Hamming, subset accuracy."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

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
    confusion_counts,
    known_counts,
    mean_of_rows,
    ratio,
    row_sums,
)

# Worked by hand below. Of the last class and of the last row nothing is known. By class, (true
# positives, false positives, false negatives) are (1, 1, 0), (0, 1, 0), (1, 0, 1); by row (1, 1, 1)
# and (1, 1, 0).
SAID = ((1, 1, 0, 1), (1, 0, 1, 0), (0, 1, 0, 0))
TRUTH = ((1, 0, 1, torch.nan), (0, 0, 1, torch.nan), (torch.nan,) * 4)
CASE = {"given": SAID, "labels": TRUTH}
AVERAGES = ("micro", "macro", "weighted", "samples")
QUIET = {"given": ((1, 0),), "labels": ((1, 0),)}  # nothing on or said of the second class


def f_score(counts: Tensor, beta: float, zero_division: float) -> Tensor:
    """(1 + b^2) tp / ((1 + b^2) tp + b^2 fn + fp); `zero_division` where nothing is on or said."""
    tp, fp, fn = counts.double()
    top = (1 + beta**2) * tp
    return ratio(top, top + beta**2 * fn + fp, zero_division)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Averaged(Metric):
    """A score of true positives, false positives and false negatives, under one of four averages.

    `samples` is the mean over rows; the others need the counts of every class.
    """

    takes = "label sets"
    zero_division: float = hyper(0.0, "the value where there is nothing to divide by")

    def __post_init__(self) -> None:
        check.number("zero_division", self.zero_division, low=0.0, high=1.0)

    @property
    @abstractmethod
    def _average(self) -> str:
        """One of `AVERAGES`."""

    @abstractmethod
    def score(self, counts: Tensor) -> Tensor:
        """(lines,) from (3, lines) true positives, false positives, false negatives."""

    def rows(self, given: Labels, labels: Labels) -> Tensor:
        score = self.score(confusion_counts(given, labels, by_class=False))
        return torch.where(known_counts(labels, by_class=False) > 0, score, torch.nan)

    def report(self, given: Any, labels: Any, sample_weight: Any = None) -> Result:
        whole = super().report(given, labels, sample_weight)
        if self._average != "samples":
            return whole
        given, y, *_ = self.weighted(given, labels, sample_weight)
        return replace(whole, each=self.rows(given, y))

    def state(self, given: Labels, labels: Labels, weight: Tensor | None = None) -> State:
        if self._average == "samples":
            return row_sums(self.rows(given, labels), weight)
        known = known_counts(labels, by_class=True)
        return {
            "counts": confusion_counts(given, labels, by_class=True, weight=weight),
            "known": known,
        }

    def result(self, state: State) -> Result:
        if self._average == "samples":
            return mean_of_rows(state, "no label is known")
        counts, known = state["counts"], state["known"] > 0
        if not bool(known.any()):
            raise ValueError("not defined: no label is known")
        each = torch.where(known, self.score(counts), torch.nan)
        if self._average == "micro":
            return Result(float(self.score(counts.sum(1))), each)
        on = counts[0] + counts[2]
        weight = on if self._average == "weighted" else known
        value = ratio((weight * each.nan_to_num(0.0)).sum(), weight.sum(), self.zero_division)
        return Result(float(value), each, int((~known).sum()))


@dataclass(frozen=True, kw_only=True, eq=False)
class _F(_Averaged):
    """F-beta of label sets."""

    beta: float = hyper(1.0, "how many times more recall counts than precision")
    zero_division: float = hyper(0.0, "the value where nothing is on and nothing predicted")

    examples = ({}, {"beta": 2.0}, {"zero_division": 1.0})

    def __post_init__(self) -> None:
        super().__post_init__()
        check.number("beta", self.beta, low=0.0, open_low=True)

    def score(self, counts: Tensor) -> Tensor:
        return f_score(counts, self.beta, self.zero_division)


class F1Micro(_F):
    """F1 of all entries together: 2 tp / (2 tp + fp + fn), summed over classes first.

    The sigmoidF1 paper prints this formula under the name macro; the names here are the usual ones.

    >>> F1Micro()([[1, 1, 0]], [[1, 0, 0]]).__round__(4)
    0.6667
    """

    name = "f1-micro"
    _average = "micro"
    worked = (
        {**CASE, "value": 4 / 7},
        {**CASE, "settings": {"beta": 2.0}, "value": 10 / 16},
        {"given": ((0,),), "labels": ((0,),), "settings": {"zero_division": 1.0}, "value": 1.0},
    )


class OF1(F1Micro):
    """Overall F1 of the missing-labels papers: the micro F1."""

    name = "of1"


class F1Macro(_F):
    """The mean over classes of each class's F1; classes of which nothing is known are left out.

    >>> F1Macro()([[1, 1, 0]], [[1, 0, 0]]).__round__(4)
    0.3333
    """

    name = "f1-macro"
    _average = "macro"
    worked = (
        {**CASE, "value": (2 / 3 + 0 + 2 / 3) / 3, "left_out": 1},
        {**CASE, "settings": {"beta": 2.0}, "value": (5 / 6 + 0 + 5 / 9) / 3, "left_out": 1},
        {**QUIET, "value": 1 / 2},
        {**QUIET, "settings": {"zero_division": 1.0}, "value": 1.0},
    )


class CF1(F1Macro):
    """Per-class F1 of the missing-labels papers: the mean of the classes' F1, the macro F1.

    Not the harmonic mean of mean precision and mean recall, which some programs report.
    """

    name = "cf1"


class F1Weighted(_F):
    """The mean over classes of each class's F1, weighted by how often the class is on.

    >>> F1Weighted()([[1, 1, 0]], [[1, 0, 0]])
    1.0
    """

    name = "f1-weighted"
    _average = "weighted"
    worked = (
        {**CASE, "value": (1 * 2 / 3 + 0 * 0 + 2 * 2 / 3) / 3, "left_out": 1},
        {**CASE, "settings": {"beta": 2.0}, "value": (5 / 6 + 2 * 5 / 9) / 3, "left_out": 1},
    )


class F1Samples(_F, RowMean):
    """The mean over rows of each row's F1; rows of which nothing is known are left out.

    >>> F1Samples()([[1, 1, 0]], [[1, 0, 0]]).__round__(4)
    0.6667
    """

    name = "f1-samples"
    _average = "samples"
    worked = (
        {**CASE, "value": (1 / 2 + 2 / 3) / 2, "left_out": 1},
        {**CASE, "settings": {"beta": 2.0}, "value": (5 / 10 + 5 / 6) / 2, "left_out": 1},
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Share(_Averaged):
    """True positives over what was predicted, or over what is on."""

    average: str = hyper(
        "micro", "`micro`: all entries together; else the mean: `macro`, `weighted` or `samples`"
    )

    examples = tuple({"average": average} for average in AVERAGES)
    other: ClassVar[int]
    """Which row of the counts is added to the true positives: 1 predicted, 2 on."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check.one_of("average", self.average, AVERAGES)

    @property
    def _average(self) -> str:
        return self.average

    def score(self, counts: Tensor) -> Tensor:
        return ratio(counts[0], counts[0] + counts[self.other], self.zero_division)


class Precision(_Share):
    """How many of the labels predicted are on.

    As the mean over classes (`macro`; `weighted` by how often they are on) or rows (`samples`).
    """

    name = "precision"
    worked = (
        {"given": ((1, 1), (1, 0)), "labels": ((1, 0), (0, 0)), "value": 1 / 3},
        {**CASE, "settings": {"average": "macro"}, "value": (1 / 2 + 0 + 1) / 3, "left_out": 1},
        {**CASE, "settings": {"average": "weighted"}, "value": (1 / 2 + 2) / 3, "left_out": 1},
        {**CASE, "settings": {"average": "samples"}, "value": (1 / 2 + 1 / 2) / 2, "left_out": 1},
    )
    other = 1


class Recall(_Share):
    """How many of the labels that are on are predicted.

    As the mean over classes (`macro`; `weighted` by how often they are on) or rows (`samples`).
    """

    name = "recall"
    worked = (
        {**CASE, "value": 2 / 3},
        {**CASE, "settings": {"average": "macro"}, "value": (1 + 0 + 1 / 2) / 3, "left_out": 1},
        {**CASE, "settings": {"average": "weighted"}, "value": (1 + 2 / 2) / 3, "left_out": 1},
        {**CASE, "settings": {"average": "samples"}, "value": (1 / 2 + 1) / 2, "left_out": 1},
    )
    other = 2


class Hamming(Metric):
    """Hamming loss: the share of known entries that are wrong.

    >>> Hamming()([[1, 1, 0, 0]], [[1, 0, 0, 0]])
    0.25
    """

    name = "hamming"
    worked = ({"given": ((1, 0), (1, 1)), "labels": ((1, 0), (torch.nan, 0)), "value": 1 / 3},)
    takes = "label sets"
    higher_is_better = False
    best = 0.0

    def state(self, given: Labels, labels: Labels, weight: Tensor | None = None) -> State:
        wrong = confusion_counts(given, labels, by_class=True, weight=weight)[1:].sum()
        return {"wrong": wrong, "known": known_counts(labels, True, weight).sum()}

    def result(self, state: State) -> Result:
        if not float(state["known"]):
            raise ValueError("not defined: no label is known")
        return Result(float(state["wrong"]) / float(state["known"]))


class SubsetAccuracy(RowMean):
    """The share of rows whose known labels are all right; rows without any are left out.

    >>> SubsetAccuracy()([[1, 1], [0, 1]], [[1, 0], [0, 1]])
    0.5
    """

    name = "subset-accuracy"
    takes = "label sets"
    why_undefined = "no label is known"
    worked = (
        {**CASE, "value": 0.0, "left_out": 1},
        {"given": ((1, 0), (1, 1)), "labels": ((1, 0), (0, torch.nan)), "value": 1 / 2},
    )

    def rows(self, given: Labels, labels: Labels) -> Tensor:
        right = (confusion_counts(given, labels, by_class=False)[1:].sum(0) == 0).double()
        return torch.where(known_counts(labels, by_class=False) > 0, right, torch.nan)
