"""Are the probabilities true? Calibration errors over bins, and the two proper scores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from labelset import check
from labelset.catalog import hyper
from labelset.labels import Labels
from labelset.metrics._base import Metric, Result
from labelset.metrics._reliability import CELLS, Reliability, bin_sums, mass_bin_sums
from labelset.metrics._stream import Kept, State

__all__ = ["ACE", "ECE", "MCE", "NLL", "Brier"]

# Worked by hand below, two bins each: gaps |1/3 - 1/6| of three entries and 1 - 0.9 of one; gaps
# 0.5 - 0.15 and 0.5 - 0.35; gaps 0.5 - 0.3 in the first class, 1 - 0.7 in the second, none in the
# third.
WIDTH = {
    "given": ((0.1, 0.1, 0.3, 0.9, 0.9),),
    "labels": ((0, 0, 1, 1, torch.nan),),
    "settings": {"bins": 2},
}
MASS = {
    "given": ((0.1, 0.2, 0.3, 0.4),),
    "labels": ((0, 1, 0, 1),),
    "settings": {"bins": 2, "binning": "mass"},
}
BY_CLASS = {
    "given": ((0.2, 0.6, 0.5), (0.4, 0.8, 0.5)),
    "labels": ((0, 1, torch.nan), (1, 1, torch.nan)),
    "settings": {"bins": 2, "average": "class"},
    "value": (0.2 + 0.3) / 2,
    "left_out": 1,
}


@dataclass(frozen=True, kw_only=True, eq=False)
class _Binned(Metric):
    """The gaps between mean probability and observed frequency in bins of probability."""

    bins: int = hyper(15, "how many bins")
    binning: str = hyper("width", "`width`: equal steps of probability; `mass`: equal numbers")
    average: str = hyper("pooled", "`pooled` over all entries, or the mean over each `class`")

    takes = "probabilities"
    higher_is_better = False
    best = torch.nan
    examples = ({}, {"average": "class"}, {"binning": "mass", "bins": 4})
    gap: ClassVar[str]
    """The method of `Reliability` that makes one number of the bins."""

    def __post_init__(self) -> None:
        check.whole("bins", self.bins, low=1)
        check.one_of("binning", self.binning, ("width", "mass"))
        check.one_of("average", self.average, ("pooled", "class"))

    def state(self, given: Tensor, labels: Labels) -> State:
        if self.binning == "mass":
            return {"kept": Kept(given, labels)}
        return {"sums": bin_sums(given, labels, self.bins, self.average == "class")}

    def result(self, state: State) -> Result:
        per_label = self.average == "class"
        if "kept" in state:
            given, labels = state["kept"].together()
            sums = mass_bin_sums(given, labels, self.bins, per_label)
        else:
            sums = state["sums"]
        if not bool(sums[0].any()):
            raise ValueError("not defined: no label is known")
        left_out = int((sums[0].sum(-1) == 0).sum()) if per_label else 0
        return Result(float(getattr(Reliability.of_sums(sums), self.gap)()), left_out=left_out)


class ACE(_Binned):
    """Average calibration error: the mean gap over the bins that are not empty.

    15 bins of equal width, pooled over all entries, unless told otherwise (the SPA paper does not
    say; this is the usual choice). Classes of which nothing is known are left out.

    >>> ACE()([[0.25, 0.75]], [[0, 1]])
    0.25
    """

    name = "ace"
    worked = (
        {**WIDTH, "value": (1 / 6 + 0.1) / 2},
        {**MASS, "value": (0.35 + 0.15) / 2},
        BY_CLASS,
    )
    gap = "ace"


class MCE(_Binned):
    """Maximum calibration error: the largest gap of a bin that is not empty."""

    name = "mce"
    worked = ({**WIDTH, "value": 1 / 6}, {**MASS, "value": 0.35}, BY_CLASS)
    gap = "mce"


class ECE(_Binned):
    """Expected calibration error: the mean gap, bins weighted by how many entries they hold."""

    name = "ece"
    worked = (
        {**WIDTH, "value": (3 * 1 / 6 + 1 * 0.1) / 4},
        {**MASS, "value": (0.35 + 0.15) / 2},
        BY_CLASS,
    )
    gap = "ece"


@dataclass(frozen=True, kw_only=True, eq=False)
class _EntryMean(Metric):
    """The mean over known entries of a value of each."""

    takes = "probabilities"
    higher_is_better = False
    best = 0.0

    def entries(self, p: Tensor, y: Tensor) -> Tensor:
        raise NotImplementedError

    def state(self, given: Tensor, labels: Labels) -> State:
        total = torch.zeros((), dtype=torch.float64, device=given.device)
        entries = torch.zeros((), dtype=torch.int64, device=given.device)
        step = max(CELLS // max(labels.n, 1), 1)
        for first in range(0, len(given), step):
            y = labels[first : first + step].dense(torch.float64)
            known = ~y.isnan()
            p = given[first : first + step].double()
            total += self.entries(p[known], y[known]).sum()
            entries += known.sum()
        return {"sum": total, "entries": entries}

    def result(self, state: State) -> Result:
        if not int(state["entries"]):
            raise ValueError("not defined: no label is known")
        return Result(float(state["sum"] / state["entries"]))


class Brier(_EntryMean):
    """Brier score: the mean of (p - y)^2 over known entries.

    >>> Brier()([[0.5, 1.0]], [[1, 1]])
    0.125
    """

    name = "brier"
    worked = (
        {
            "given": ((0.5, 0.2, 0.9),),
            "labels": ((1, 0, torch.nan),),
            "value": (0.25 + 0.04) / 2,
        },
    )

    def entries(self, p: Tensor, y: Tensor) -> Tensor:
        return (p - y).square()


class NLL(_EntryMean):
    """Log loss: the mean of -y log p - (1 - y) log(1 - p) over known entries.

    A label that is on where the probability is 0 makes it infinite, and that is what it says.

    >>> round(NLL()([[0.5, 1.0]], [[1, 1]]), 4)
    0.3466
    """

    name = "nll"
    worked = (
        {
            "given": ((0.5, 0.25, 0.9),),
            "labels": ((1, 0, torch.nan),),
            "value": -(math.log(0.5) + math.log(0.75)) / 2,
        },
    )

    def entries(self, p: Tensor, y: Tensor) -> Tensor:
        on, off = torch.special.xlogy(y, p), torch.special.xlog1py(1 - y, -p)
        return torch.neg(on + off)
