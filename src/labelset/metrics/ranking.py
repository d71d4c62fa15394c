"""How well the labels that are on are ranked above those that are off."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

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
    WithUndefined,
    check_undefined,
    known_counts,
    mean_of_defined,
    ratio,
    with_undefined,
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

    `known` labels of the line are on or off (of weighted ranks: what these weigh). NaN where there
    is no such pair.
    """
    # known scores above each positive, ties by half, less the positives among them: of p that are
    # on, each pair counts once and each of them its own tie, p^2 / 2 in all
    twice_wrong = found.sums(2 * found.at_least - found.level) - found.on**2
    pairs = found.on * (known - found.on)
    return ratio(2 * pairs - twice_wrong, 2 * pairs)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Ranking(Metric):
    """A ranking of the rows by each class, or of all entries; rows are kept whole."""

    undefined: float | None = hyper(
        None, "the value where it is not defined, though something is known; None leaves it out"
    )

    takes = "scores"
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"undefined": 0.0})
    why_undefined: ClassVar[str]

    def __post_init__(self) -> None:
        check_undefined(self.undefined)

    @abstractmethod
    def each(self, given: Tensor, labels: Labels, weight: Tensor | None) -> Tensor:
        """(lines,) values, NaN where they are not defined."""

    @abstractmethod
    def known(self, labels: Labels) -> Tensor:
        """(lines,): of how many entries something is known."""

    def state(self, given: Tensor, labels: Labels, weight: Tensor | None = None) -> State:
        return {"kept": Kept(given, labels, weight)}

    def result(self, state: State) -> Result:
        given, labels, weight = state["kept"].together()
        each = self.each(given, labels, weight)
        each = with_undefined(each, self.known(labels), self.undefined)
        return mean_of_defined(each, self.why_undefined)


class _ByClass(_Ranking):
    def known(self, labels: Labels) -> Tensor:
        return known_counts(labels, by_class=True)


class _Pooled(_Ranking):
    """One value, of all entries in one ranking; there are none of classes to report."""

    def known(self, labels: Labels) -> Tensor:
        return known_counts(labels, by_class=True).sum(0, keepdim=True)

    def result(self, state: State) -> Result:
        return Result(super().result(state).value)


@dataclass(frozen=True, kw_only=True, eq=False)
class MAPClass(_ByClass):
    """Mean over classes of the average precision of each class's ranking of the rows.

    Plain average precision with ties grouped as scikit-learn does. Classes without a positive are
    left out and counted, or count `undefined` (0 in scikit-learn). `interpolated` is the VOC
    devkit's variant, sigmoidF1's (13).

    >>> MAPClass()([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9]], [[1, 0], [0, 1], [1, 1]]).__round__(4)
    0.9167
    """

    interpolated: bool = hyper(False, "at each recall the best precision at no lower recall")

    name = "map@class"
    why_undefined = "no class has a positive row"
    examples = ({}, {"interpolated": True}, {"undefined": 0.0})
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
        {  # of the last two classes the first is known, and on nowhere
            "given": ((0.9, 0.1, 0.5), (0.8, 0.2, 0.4)),
            "labels": ((1, 0, torch.nan), (0, 0, torch.nan)),
            "settings": {"undefined": 0.0},
            "value": (1 + 0) / 2,
            "left_out": 1,
        },
    )

    def each(self, given: Tensor, labels: Labels, weight: Tensor | None) -> Tensor:
        found = positive_ranks(given, labels, by_class=True, weight=weight)
        return average_precision(found, self.interpolated)


class MAPMicro(_Pooled):
    """Average precision of one ranking of all entries, whatever their row and class.

    Scores of different rows and classes are compared, so that they must be on one scale.

    >>> MAPMicro()([[0.9, 0.1], [0.8, 0.2]], [[1, 0], [0, 1]]).__round__(4)
    0.8333
    """

    name = "map-micro"
    why_undefined = "no entry is positive"
    worked = (
        {
            "given": ((0.9, 0.1, 0.3), (0.5, 0.5, 0.7)),
            "labels": ((1, 0, 0), (1, 0, torch.nan)),
            "value": (1 + 2 / 3) / 2,
        },
    )

    def each(self, given: Tensor, labels: Labels, weight: Tensor | None) -> Tensor:
        return average_precision(pooled_ranks(given, labels, weight))


class AUROCClass(_ByClass):
    """Mean over classes of the area under each class's ROC curve, the macro average.

    The share of pairs of rows, one in which the class is on and one in which it is off, that are in
    the right order, ties by half. Classes that are on nowhere or off nowhere are left out, and
    counted, or count `undefined`.

    >>> AUROCClass()([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9]], [[1, 0], [0, 1], [1, 1]])
    0.75
    """

    name = "auroc@class"
    why_undefined = "no class is positive in one row and negative in another"
    worked = (
        {  # the last two classes are on nowhere, and off nowhere
            "given": ((0.9, 0.1, 0.5, 0.1), (0.8, 0.1, 0.4, 0.2), (0.1, 0.9, 0.3, 0.3)),
            "labels": ((1, 0, 0, 1), (0, 1, 0, 1), (1, 1, 0, torch.nan)),
            "value": (1 / 2 + 3 / 4) / 2,
            "left_out": 2,
        },
    )

    def each(self, given: Tensor, labels: Labels, weight: Tensor | None) -> Tensor:
        found = positive_ranks(given, labels, by_class=True, weight=weight)
        return auroc(found, known_counts(labels, by_class=True, weight=weight))


class AUROCMicro(_Pooled):
    """Area under the ROC curve of one ranking of all entries, whatever their row and class.

    Scores of different rows and classes are compared, so that they must be on one scale.

    >>> AUROCMicro()([[0.9, 0.1], [0.8, 0.2]], [[1, 0], [0, 1]])
    0.75
    """

    name = "auroc-micro"
    why_undefined = "no entry is positive and another negative"
    worked = (
        {
            "given": ((0.9, 0.1, 0.3), (0.5, 0.5, 0.7)),
            "labels": ((1, 0, 0), (1, 0, torch.nan)),
            "value": 5.5 / 6,
        },
    )

    def each(self, given: Tensor, labels: Labels, weight: Tensor | None) -> Tensor:
        known = known_counts(labels, by_class=False, weight=weight).sum()
        return auroc(pooled_ranks(given, labels, weight), known)


@dataclass(frozen=True, kw_only=True, eq=False)
class MAPSample(WithUndefined):
    """Mean over rows of the average precision of each row's ranking of the labels.

    Rows without a label that is on are left out and counted, or count `undefined` (1 in
    scikit-learn's label ranking average precision, which this then is).

    >>> MAPSample()([[0.9, 0.1, 0.5]], [[1, 1, 0]]).__round__(4)
    0.8333
    """

    interpolated: bool = hyper(False, "at each recall the best precision at no lower recall")

    name = "map@sample"
    takes = "scores"
    examples = ({}, {"interpolated": True}, {"undefined": 1.0})
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
        {
            "given": ((0.9, 0.1, 0.5), (0.3, 0.2, 0.1), (0.3, 0.2, 0.1)),
            "labels": ((1, 0, 0), (0, 0, 0), UNKNOWN),
            "settings": {"undefined": 0.0},
            "value": (1 + 0) / 2,
            "left_out": 1,
        },
    )

    def defined(self, given: Tensor, labels: Labels) -> Tensor:
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
