"""How well the labels that are on are ranked above those that are off."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labelset.catalog import hyper
from labelset.labels import Labels
from labelset.metrics._base import (
    Kept,
    Metric,
    Result,
    RowMean,
    State,
    known_counts,
    mean_of_defined,
    ratio,
)
from labelset.metrics._order import PositiveRanks, pooled_ranks, positive_ranks

UNKNOWN = (torch.nan,) * 3


def average_precision(found: PositiveRanks, interpolated: bool = False) -> Tensor:
    """(lines,): the mean over labels that are on of the precision at their scores.

    Equal scores count together, as in scikit-learn. Interpolated: at each recall the best
    precision at that recall or a higher one (the VOC devkit's area). NaN where no label is on.
    """
    precision = ratio(found.on_at_least, found.at_least)
    if interpolated:
        precision = _best_so_far(precision, found)
    return ratio(found.sums(precision), found.on)


def _best_so_far(precision: Tensor, found: PositiveRanks) -> Tensor:
    """For each entry the largest precision of an entry of its line with no higher score."""
    # entries rise in score within a line; adding 2 per line makes one running maximum serve all
    shifted = precision + 2.0 * found.line
    return shifted.cummax(0).values - 2.0 * found.line if len(precision) else precision


def auroc(found: PositiveRanks, known: Tensor) -> Tensor:
    """(lines,): the share of pairs (a label on, a label off) in the right order, ties by half.

    `known` labels of the line are on or off. NaN where there is no such pair.
    """
    # known scores above each positive, ties by half, less the positives among them: of p that are
    # on, each pair counts once and each of them its own tie, p^2 / 2 in all
    twice_wrong = found.sums(2 * found.at_least - found.level) - found.on**2
    pairs = found.on * (known - found.on)
    return ratio(2 * pairs - twice_wrong, 2 * pairs)


@dataclass(frozen=True, kw_only=True, eq=False)
class MAPClass(Metric):
    """Mean over classes of the average precision of each class's ranking of the rows.

    Plain average precision with ties grouped as scikit-learn does; classes without a positive are
    left out and counted. `interpolated` is the VOC devkit's variant, sigmoidF1's (13).

    >>> MAPClass()([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9]], [[1, 0], [0, 1], [1, 1]]).__round__(4)
    0.9167
    """

    interpolated: bool = hyper(False, "at each recall the best precision at no lower recall")

    name = "map@class"
    takes = "scores"
    examples = ({}, {"interpolated": True})
    worked = (
        {  # no row has the last class
            "given": ((0.9, 0.1, 0.5), (0.8, 0.2, 0.4), (0.1, 0.9, 0.3)),
            "labels": ((1, 0, 0), (0, 1, 0), (1, 1, 0)),
            "value": ((1 + 2 / 3) / 2 + 1) / 2,
            "left_out": 1,
        },
        {  # the first two are tied
            "given": ((0.5,), (0.5,), (0.1,)),
            "labels": ((1,), (0,), (1,)),
            "value": (1 / 2 + 2 / 3) / 2,
        },
        {
            "given": ((0.7,), (0.8,), (0.9,)),
            "labels": ((1,), (1,), (0,)),
            "settings": {"interpolated": True},
            "value": 2 / 3,
        },
    )

    def state(self, given: Tensor, labels: Labels) -> State:
        return {"kept": Kept(given, labels)}

    def result(self, state: State) -> Result:
        given, labels = state["kept"].together()
        found = positive_ranks(given, labels, by_class=True)
        each = average_precision(found, self.interpolated)
        return mean_of_defined(each, "no class has a row in which it is on")


class MAPMicro(Metric):
    """Average precision of one ranking of all entries, whatever their row and class.

    Scores of different rows and classes are compared, so that they must be on one scale.

    >>> MAPMicro()([[0.9, 0.1], [0.8, 0.2]], [[1, 0], [0, 1]]).__round__(4)
    0.8333
    """

    name = "map-micro"
    takes = "scores"
    worked = (
        {
            "given": ((0.9, 0.1, 0.3), (0.5, 0.5, 0.7)),
            "labels": ((1, 0, 0), (1, 0, torch.nan)),
            "value": (1 + 2 / 3) / 2,
        },
    )

    def state(self, given: Tensor, labels: Labels) -> State:
        return {"kept": Kept(given, labels)}

    def result(self, state: State) -> Result:
        value = average_precision(pooled_ranks(*state["kept"].together()))
        return Result(mean_of_defined(value, "no entry is on").value)


class AUROCClass(Metric):
    """Mean over classes of the area under each class's ROC curve, the macro average.

    The share of pairs of rows, one in which the class is on and one in which it is off, that are in
    the right order, ties by half. Classes that are on nowhere or off nowhere are left out, and
    counted.

    >>> AUROCClass()([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9]], [[1, 0], [0, 1], [1, 1]])
    0.75
    """

    name = "auroc@class"
    takes = "scores"
    worked = (
        {  # the last two classes are on nowhere, and off nowhere
            "given": ((0.9, 0.1, 0.5, 0.1), (0.8, 0.1, 0.4, 0.2), (0.1, 0.9, 0.3, 0.3)),
            "labels": ((1, 0, 0, 1), (0, 1, 0, 1), (1, 1, 0, torch.nan)),
            "value": (1 / 2 + 3 / 4) / 2,
            "left_out": 2,
        },
    )

    def state(self, given: Tensor, labels: Labels) -> State:
        return {"kept": Kept(given, labels)}

    def result(self, state: State) -> Result:
        given, labels = state["kept"].together()
        found = positive_ranks(given, labels, by_class=True)
        each = auroc(found, known_counts(labels, by_class=True))
        return mean_of_defined(each, "no class is on in one row and off in another")


class AUROCMicro(Metric):
    """Area under the ROC curve of one ranking of all entries, whatever their row and class.

    Scores of different rows and classes are compared, so that they must be on one scale.

    >>> AUROCMicro()([[0.9, 0.1], [0.8, 0.2]], [[1, 0], [0, 1]])
    0.75
    """

    name = "auroc-micro"
    takes = "scores"
    worked = (
        {
            "given": ((0.9, 0.1, 0.3), (0.5, 0.5, 0.7)),
            "labels": ((1, 0, 0), (1, 0, torch.nan)),
            "value": 5.5 / 6,
        },
    )

    def state(self, given: Tensor, labels: Labels) -> State:
        return {"kept": Kept(given, labels)}

    def result(self, state: State) -> Result:
        given, labels = state["kept"].together()
        value = auroc(pooled_ranks(given, labels), known_counts(labels, by_class=False).sum())
        return Result(mean_of_defined(value, "no entry is on and another off").value)


@dataclass(frozen=True, kw_only=True, eq=False)
class MAPSample(RowMean):
    """Mean over rows of the average precision of each row's ranking of the labels.

    Rows without a label that is on are left out and counted. The same as label ranking average
    precision where every row has one.

    >>> MAPSample()([[0.9, 0.1, 0.5]], [[1, 1, 0]]).__round__(4)
    0.8333
    """

    interpolated: bool = hyper(False, "at each recall the best precision at no lower recall")

    name = "map@sample"
    takes = "scores"
    examples = ({}, {"interpolated": True})
    worked = (
        {
            "given": ((0.9, 0.1, 0.5), (0.5, 0.5, 0.1), (0.3, 0.2, 0.1)),
            "labels": ((1, 1, 0), (1, 0, 0), (0, 0, 0)),
            "value": ((1 + 2 / 3) / 2 + 1 / 2) / 2,
            "left_out": 1,
        },
        {
            "given": ((0.7, 0.8, 0.9),),
            "labels": ((1, 1, 0),),
            "settings": {"interpolated": True},
            "value": 2 / 3,
        },
    )

    def rows(self, given: Tensor, labels: Labels) -> Tensor:
        return average_precision(positive_ranks(given, labels), self.interpolated)


class Coverage(RowMean):
    """How far down a row's ranking one must go to meet every label that is on, on average.

    Equal scores count as met together, the whole group; rows with nothing on count 0, as in
    scikit-learn's coverage_error. Rows of which nothing is known are left out.

    >>> Coverage()([[0.9, 0.1, 0.5]], [[1, 0, 1]])
    2.0
    """

    name = "coverage"
    takes = "scores"
    higher_is_better = False
    best = torch.nan
    why_undefined = "no label is known"
    worked = (
        {
            "given": ((0.9, 0.1, 0.5), (0.5, 0.5, 0.1), (0.3, 0.2, 0.1), (0.3, 0.2, 0.1)),
            "labels": ((1, 1, 0), (1, 0, 0), (0, 0, 0), UNKNOWN),
            "value": (3 + 2 + 0) / 3,
            "left_out": 1,
        },
    )

    def rows(self, given: Tensor, labels: Labels) -> Tensor:
        found = positive_ranks(given, labels)
        deepest = torch.zeros(len(labels), dtype=torch.int64, device=given.device)
        depth = deepest.scatter_reduce(0, found.line, found.at_least, "amax").double()
        return torch.where(known_counts(labels, by_class=False) > 0, depth, torch.nan)


class RankingLoss(RowMean):
    """The share of pairs (a label on, a label off) in the wrong order, per row, on average.

    A tie is in the wrong order; rows that have no such pair count 0, as in scikit-learn's
    label_ranking_loss. Rows of which nothing is known are left out.

    >>> RankingLoss()([[0.9, 0.1, 0.5]], [[1, 1, 0]])
    0.5
    """

    name = "ranking-loss"
    takes = "scores"
    higher_is_better = False
    best = 0.0
    why_undefined = "no label is known"
    worked = (
        {
            "given": ((0.9, 0.1, 0.5), (0.5, 0.5, 0.1), (0.3, 0.2, 0.1), (0.3, 0.2, 0.1)),
            "labels": ((1, 1, 0), (0, 1, 1), (0, 0, 0), UNKNOWN),
            "value": (1 / 2 + 1 + 0) / 3,
            "left_out": 1,
        },
    )

    def rows(self, given: Tensor, labels: Labels) -> Tensor:
        found = positive_ranks(given, labels)
        wrong = found.sums((found.at_least - found.on_at_least).double())
        known = known_counts(labels, by_class=False)
        share = ratio(wrong, found.on * (known - found.on), 0.0)
        return torch.where(known > 0, share, torch.nan)
