"""Metrics of label sets: F1 under every average, precision, recall, Hamming, subset accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

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
    confusion,
    known_counts,
    mean_of_defined,
    ratio,
)

# Worked by hand below. Of the last class and of the last row nothing is known. By class, (true
# positives, false positives, false negatives) are (1, 1, 0), (0, 1, 0), (1, 0, 1); by row (1, 1, 1)
# and (1, 1, 0).
SAID = ((1, 1, 0, 1), (1, 0, 1, 0), (0, 1, 0, 0))
TRUTH = ((1, 0, 1, torch.nan), (0, 0, 1, torch.nan), (torch.nan,) * 4)
CASE = {"given": SAID, "labels": TRUTH}
QUIET = {"given": ((1, 0),), "labels": ((1, 0),)}  # nothing on or said of the second class


def f_score(counts: Tensor, beta: float, zero_division: float) -> Tensor:
    """(1 + b^2) tp / ((1 + b^2) tp + b^2 fn + fp); `zero_division` where nothing is on or said."""
    tp, fp, fn = counts.double()
    top = (1 + beta**2) * tp
    return ratio(top, top + beta**2 * fn + fp, zero_division)


@dataclass(frozen=True, kw_only=True, eq=False)
class _F(Metric):
    """F-beta of label sets."""

    beta: float = hyper(1.0, "how many times more recall counts than precision")
    zero_division: float = hyper(0.0, "the value where nothing is on and nothing predicted")

    takes = "label sets"
    examples = ({}, {"beta": 2.0}, {"zero_division": 1.0})

    def __post_init__(self) -> None:
        check.number("beta", self.beta, low=0.0, open_low=True)
        check.number("zero_division", self.zero_division, low=0.0, high=1.0)

    def state(self, given: Labels, labels: Labels) -> State:
        known = known_counts(labels, by_class=True)
        return {"counts": confusion(given, labels, by_class=True), "known": known}

    def each(self, state: State) -> Tensor:
        """The F of every class, NaN where nothing is known of it."""
        f = f_score(state["counts"], self.beta, self.zero_division)
        return torch.where(state["known"] > 0, f, torch.nan)


class F1Micro(_F):
    """F1 of all entries together: 2 tp / (2 tp + fp + fn), summed over classes first.

    The sigmoidF1 paper prints this formula under the name macro; the names here are the usual ones.

    >>> F1Micro()([[1, 1, 0]], [[1, 0, 0]]).__round__(4)
    0.6667
    """

    name = "f1-micro"
    worked = (
        {**CASE, "value": 4 / 7},
        {**CASE, "settings": {"beta": 2.0}, "value": 10 / 16},
        {"given": ((0,),), "labels": ((0,),), "settings": {"zero_division": 1.0}, "value": 1.0},
    )

    def result(self, state: State) -> Result:
        if not bool(state["known"].any()):
            raise ValueError("not defined: no label is known")
        total = f_score(state["counts"].sum(1), self.beta, self.zero_division)
        return Result(float(total), self.each(state))


class OF1(F1Micro):
    """Overall F1 of the missing-labels papers: the micro F1."""

    name = "of1"


class F1Macro(_F):
    """The mean over classes of each class's F1; classes of which nothing is known are left out.

    >>> F1Macro()([[1, 1, 0]], [[1, 0, 0]]).__round__(4)
    0.3333
    """

    name = "f1-macro"
    worked = (
        {**CASE, "value": (2 / 3 + 0 + 2 / 3) / 3, "left_out": 1},
        {**CASE, "settings": {"beta": 2.0}, "value": (5 / 6 + 0 + 5 / 9) / 3, "left_out": 1},
        {**QUIET, "value": 1 / 2},
        {**QUIET, "settings": {"zero_division": 1.0}, "value": 1.0},
    )

    def result(self, state: State) -> Result:
        return mean_of_defined(self.each(state), "no label is known")


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
    worked = (
        {**CASE, "value": (1 * 2 / 3 + 0 * 0 + 2 * 2 / 3) / 3, "left_out": 1},
        {**CASE, "settings": {"beta": 2.0}, "value": (5 / 6 + 2 * 5 / 9) / 3, "left_out": 1},
    )

    def result(self, state: State) -> Result:
        tp, _, fn = state["counts"]
        each = self.each(state)
        if bool(each.isnan().all()):
            raise ValueError("not defined: no label is known")
        value = ratio(((tp + fn) * each.nan_to_num(0.0)).sum(), (tp + fn).sum(), self.zero_division)
        return Result(float(value), each, int(each.isnan().sum()))


@dataclass(frozen=True, kw_only=True, eq=False)
class F1Samples(RowMean):
    """The mean over rows of each row's F1; rows of which nothing is known are left out.

    >>> F1Samples()([[1, 1, 0]], [[1, 0, 0]]).__round__(4)
    0.6667
    """

    beta: float = hyper(1.0, "how many times more recall counts than precision")
    zero_division: float = hyper(0.0, "the value of a row with nothing on and nothing predicted")

    name = "f1-samples"
    takes = "label sets"
    why_undefined = "no label is known"
    worked = (
        {**CASE, "value": (1 / 2 + 2 / 3) / 2, "left_out": 1},
        {**CASE, "settings": {"beta": 2.0}, "value": (5 / 10 + 5 / 6) / 2, "left_out": 1},
    )
    examples = ({}, {"beta": 2.0}, {"zero_division": 1.0})

    def __post_init__(self) -> None:
        check.number("beta", self.beta, low=0.0, open_low=True)
        check.number("zero_division", self.zero_division, low=0.0, high=1.0)

    def rows(self, given: Labels, labels: Labels) -> Tensor:
        f = f_score(confusion(given, labels, by_class=False), self.beta, self.zero_division)
        return torch.where(known_counts(labels, by_class=False) > 0, f, torch.nan)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Share(Metric):
    """True positives over what was predicted, or over what is on."""

    average: str = hyper("micro", "`micro`, all entries together, or `macro`, the mean of classes")
    zero_division: float = hyper(0.0, "the value where there is nothing to divide by")

    takes = "label sets"
    examples = ({}, {"average": "macro"})
    other: ClassVar[int]
    """Which row of the counts is added to the true positives: 1 predicted, 2 on."""

    def __post_init__(self) -> None:
        check.one_of("average", self.average, ("micro", "macro"))
        check.number("zero_division", self.zero_division, low=0.0, high=1.0)

    def state(self, given: Labels, labels: Labels) -> State:
        known = known_counts(labels, by_class=True)
        return {"counts": confusion(given, labels, by_class=True), "known": known}

    def result(self, state: State) -> Result:
        counts, known = state["counts"], state["known"] > 0
        if not bool(known.any()):
            raise ValueError("not defined: no label is known")
        share = ratio(counts[0], counts[0] + counts[self.other], self.zero_division)
        each = torch.where(known, share, torch.nan)
        if self.average == "macro":
            return mean_of_defined(each, "no label is known")
        total = counts.sum(1)
        value = ratio(total[0], total[0] + total[self.other], self.zero_division)
        return Result(float(value), each)


class Precision(_Share):
    """How many of the labels predicted are on."""

    name = "precision"
    worked = (
        {"given": ((1, 1), (1, 0)), "labels": ((1, 0), (0, 0)), "value": 1 / 3},
        {**CASE, "settings": {"average": "macro"}, "value": (1 / 2 + 0 + 1) / 3, "left_out": 1},
    )
    other = 1


class Recall(_Share):
    """How many of the labels that are on are predicted."""

    name = "recall"
    worked = (
        {**CASE, "value": 2 / 3},
        {**CASE, "settings": {"average": "macro"}, "value": (1 + 0 + 1 / 2) / 3, "left_out": 1},
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

    def state(self, given: Labels, labels: Labels) -> State:
        wrong = confusion(given, labels, by_class=False)[1:].sum()
        return {"wrong": wrong, "known": known_counts(labels, by_class=False).sum()}

    def result(self, state: State) -> Result:
        if not int(state["known"]):
            raise ValueError("not defined: no label is known")
        return Result(int(state["wrong"]) / int(state["known"]))


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
        right = (confusion(given, labels, by_class=False)[1:].sum(0) == 0).double()
        return torch.where(known_counts(labels, by_class=False) > 0, right, torch.nan)
