"""Reliability curves, bin by bin, their diagram, and the metrics that are made of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, ClassVar

import torch
from torch import Tensor

from labelset import charts, check, inputs
from labelset.catalog import hyper
from labelset.display import Shown
from labelset.labels import Labels
from labelset.metrics._base import Kept, Metric, Result, State

PROBABILITY = "predicted probability"
CELLS = 2**22  # entries turned to float64 at a time


@dataclass(frozen=True)
class Reliability(Shown):
    """Bins of probabilities, of shape (bins,), or (n, bins) for each label."""

    count: Tensor
    """Known entries in each bin."""
    confidence: Tensor
    """Their mean probability, NaN in an empty bin."""
    frequency: Tensor
    """How often their label was on, NaN in an empty bin."""

    @classmethod
    def of_sums(cls, sums: Tensor) -> Reliability:
        """From (3, ..., bins): entries, and the sums of probabilities and of labels."""
        count, p, y = sums
        some = torch.where(count > 0, count, torch.nan)
        return cls(count, p / some, y / some)

    def headline(self) -> str:
        return f"ACE {self.ace():.4f}, ECE {self.ece():.4f}, {int(self.count.sum()):,} entries"

    def records(self) -> list[dict[str, Any]]:
        """Bins with entries: how many, their mean probability, the frequency of positives."""
        low, high = self.interval()
        columns = [self.count, self.confidence, self.frequency, low, high]
        names = ("entries", "probability", "frequency", "low", "high")
        lines = []
        for label in range(len(self.count)) if self.count.ndim == 2 else (None,):
            own = columns if label is None else [column[label] for column in columns]
            for values in zip(*(column.tolist() for column in own), strict=True):
                if values[0] > 0:
                    which = {} if label is None else {"label": label}
                    lines.append(which | dict(zip(names, values, strict=True)))
        return lines

    def panels(self) -> list[charts.Panel]:
        """Frequency of positives by probability, if it is one pooled curve."""
        if self.count.ndim != 1:
            return []
        upper, _ = _panels({"": self}, "Reliability", 0.95)
        return [replace(upper, x_label=PROBABILITY, x_ticks=charts.unit_ticks())]

    def gaps(self) -> Tensor:
        """|frequency - confidence| of each bin, NaN where it is empty."""
        return (self.frequency - self.confidence).abs()

    def ace(self) -> float:
        """Mean gap over the bins that are not empty (for each label: then over labels)."""
        return _over_labels(self.gaps().nanmean(-1))

    def mce(self) -> float:
        """Largest gap (for each label: then the mean over labels)."""
        gaps = self.gaps()
        largest = gaps.nan_to_num(-1.0).amax(-1)
        return _over_labels(torch.where(largest >= 0, largest, torch.nan))

    def ece(self) -> float:
        """Mean gap weighted by the entries in the bins."""
        shares = self.count / self.count.sum(-1, keepdim=True)
        return _over_labels((shares * self.gaps().nan_to_num(0.0)).sum(-1))

    def interval(self, level: float = 0.95) -> tuple[Tensor, Tensor]:
        """Wilson's interval for the frequency of each bin."""
        check.number("level", level, low=0.0, high=1.0, open_low=True, open_high=True)
        z = NormalDist().inv_cdf((1 + level) / 2)
        n, f = self.count, self.frequency
        centre = (f + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * (f * (1 - f) / n + z * z / (4 * n * n)).sqrt()
        return (centre - half).clamp(0, 1), (centre + half).clamp(0, 1)


def reliability(
    probs: Any, labels: Any, bins: int = 15, binning: str = "width", per_label: bool = False
) -> Reliability:
    """The reliability curve: all known entries pooled, or one curve for each label.

    binning: `width` for equal steps of probability, closed on the right; `mass` for equal numbers
    of entries, equal probabilities staying together.

    >>> curve = reliability([[0.1, 0.9], [0.1, 0.9]], [[0, 1], [1, 1]], bins=2)
    >>> curve.frequency
    tensor([0.5000, 1.0000], dtype=torch.float64)
    """
    check.whole("bins", bins, low=1)
    check.one_of("binning", binning, ("width", "mass"))
    p, y = inputs.paired_probabilities(probs, labels)
    if binning == "width":
        sums = bin_sums(p, y, bins, per_label, y.row_weights)
    else:
        sums = mass_bin_sums(p, y, bins, per_label)
    if not bool(sums[0].any()):
        raise ValueError("not defined: no label is known")
    return Reliability.of_sums(sums)


def bin_sums(
    p: Tensor, y: Labels, bins: int, per_label: bool, weight: Tensor | None = None
) -> Tensor:
    """(3, bins) or (3, n, bins): entries, sum of probabilities, sum of labels, equal widths.

    Each row counts once, or as much as it weighs.
    """
    edges = torch.linspace(0, 1, bins + 1, dtype=torch.float64, device=p.device)[1:-1]
    groups = y.n if per_label else 1
    sums = torch.zeros(3, groups * bins, dtype=torch.float64, device=p.device)
    step = max(CELLS // max(y.n, 1), 1)
    for first in range(0, len(p), step):
        part = y[first : first + step]
        target, prob = part.dense(torch.float64), p[first : first + step].double()
        where = torch.bucketize(prob, edges)
        if per_label:
            where += bins * torch.arange(y.n, device=p.device)
        known = ... if y.values is None else ~target.isnan()
        each = torch.ones_like(prob)
        if weight is not None:
            each *= weight[first : first + step, None]
        where, each, prob, target = (t[known].flatten() for t in (where, each, prob, target))
        for into, values in zip(sums, (each, each * prob, each * target), strict=True):
            into.index_add_(0, where, values)
    return sums.reshape(3, y.n, bins) if per_label else sums


def mass_bin_sums(p: Tensor, y: Labels, bins: int, per_label: bool) -> Tensor:
    """The same with equal numbers of entries in the bins of the pool, or of each label."""
    target, prob = y.dense(torch.float64), p.double()
    if not per_label:
        return _mass(prob.flatten(), target.flatten(), bins)
    each = [_mass(prob[:, j], target[:, j], bins) for j in range(y.n)]
    return torch.stack(each, dim=1) if each else torch.zeros(3, 0, bins, dtype=torch.float64)


def _mass(prob: Tensor, target: Tensor, bins: int) -> Tensor:
    known = ~target.isnan()
    prob, order = prob[known].sort()
    target = target[known][order]
    ranks = torch.linspace(0, max(len(prob) - 1, 0), bins + 1, dtype=torch.float64)[1:-1]
    inner = ranks.to(prob.device)
    if not len(prob):
        return torch.zeros(3, bins, dtype=torch.float64, device=prob.device)
    low, high = prob[inner.floor().long()], prob[inner.ceil().long()]
    edges = low + (inner - inner.floor()) * (high - low)
    where = torch.bucketize(prob, edges)
    sums = torch.zeros(3, bins, dtype=torch.float64, device=prob.device)
    for into, values in zip(sums, (torch.ones_like(prob), prob, target), strict=True):
        into.index_add_(0, where, values)
    return sums


def _over_labels(each: Tensor) -> float:
    return float(each.nanmean())


@dataclass(frozen=True, kw_only=True, eq=False)
class Binned(Metric):
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

    @property
    def weighs(self) -> bool:
        """Bins of equal numbers of entries know no weights."""
        return self.binning == "width"

    def state(self, given: Tensor, labels: Labels, weight: Tensor | None = None) -> State:
        if self.binning == "mass":
            return {"kept": Kept(given, labels)}
        return {"sums": bin_sums(given, labels, self.bins, self.average == "class", weight)}

    def result(self, state: State) -> Result:
        per_label = self.average == "class"
        if "kept" in state:
            given, labels, _ = state["kept"].together()
            sums = mass_bin_sums(given, labels, self.bins, per_label)
        else:
            sums = state["sums"]
        if not bool(sums[0].any()):
            raise ValueError("not defined: no label is known")
        left_out = int((sums[0].sum(-1) == 0).sum()) if per_label else 0
        return Result(float(getattr(Reliability.of_sums(sums), self.gap)()), left_out=left_out)


@dataclass(frozen=True, kw_only=True, eq=False)
class EntryMean(Metric):
    """The mean over known entries of a value of each."""

    takes = "probabilities"
    higher_is_better = False
    best = 0.0

    def entries(self, p: Tensor, y: Tensor) -> Tensor:
        raise NotImplementedError

    def state(self, given: Tensor, labels: Labels, weight: Tensor | None = None) -> State:
        total = torch.zeros((), dtype=torch.float64, device=given.device)
        entries = torch.zeros((), dtype=torch.float64, device=given.device)
        step = max(CELLS // max(labels.n, 1), 1)
        for first in range(0, len(given), step):
            y = labels[first : first + step].dense(torch.float64)
            known = ~y.isnan()
            p = given[first : first + step].double()
            each = known.double() if weight is None else known * weight[first : first + step, None]
            total += (self.entries(p[known], y[known]) * each[known]).sum()
            entries += each.sum()
        return {"sum": total, "entries": entries}

    def result(self, state: State) -> Result:
        if not float(state["entries"]):
            raise ValueError("not defined: no label is known")
        return Result(float(state["sum"] / state["entries"]))


def diagram(curves: Mapping[str, Reliability], title: str, level: float = 0.95) -> str:
    """A self-contained SVG of one or more reliability curves, by name.

    A point is a bin: the mean probability that was predicted, and the frequency of positives. On
    the dashed diagonal the two agree. The band is Wilson's interval at `level`, which takes entries
    for independent; larger points hold more entries. Below: the entries of each bin, on a
    logarithmic scale.

    >>> diagram({"link": reliability([[0.2, 0.7]], [[0, 1]])}, "Two labels")[:4]
    '<svg'
    """
    if not curves:
        raise ValueError("a reliability diagram needs at least one curve, got none")
    return charts.svg(_panels(curves, title, level), title, across=1)


def _panels(curves: Mapping[str, Reliability], title: str, level: float) -> list[charts.Panel]:
    """The curves, and below them the entries of their bins."""
    lines: list[charts.Mark] = [charts.Line([(0.0, 0.0), (1.0, 1.0)], None)]
    tallies = list[charts.Bars]()
    for i, (name, curve) in enumerate(curves.items()):
        if curve.count.ndim != 1:
            raise ValueError(
                f"{name} must be one pooled curve, got shape {tuple(curve.count.shape)}; call "
                "reliability(..., per_label=False)"
            )
        some, bins = curve.count > 0, len(curve.count)
        columns = (curve.count, curve.confidence, curve.frequency, *curve.interval(level))
        count, p, f, low, high = (column[some].tolist() for column in columns)
        key = f"{name}: ACE {curve.ace():.4f}, {int(curve.count.sum()):,} entries" if name else ""
        sizes = [1.5 + 0.4 * math.log1p(n) for n in count]
        lines.append(charts.Band(list(zip(p, low, high, strict=True)), i))
        lines.append(charts.Line(list(zip(p, f, strict=True)), i, key, dots=sizes))
        tallies.append(charts.Bars(_tally(count, p, bins, i / len(curves), 1 / len(curves)), i))
    most = max(height for bars in tallies for *_, height in bars.bars)
    powers = {10**k: math.log1p(10**k) for k in (0, math.floor(math.log10(math.expm1(most))))}
    ticks = [(height, f"{n:,}") for n, height in powers.items()]
    unmarked = [(tick, "") for tick, _ in charts.unit_ticks()]
    upper = charts.Panel(title, "", "frequency of positives", lines, x_ticks=unmarked)
    lower = charts.Panel("", PROBABILITY, "entries", tallies, y=(0.0, most), y_ticks=ticks)
    panels = [replace(upper, height=360), replace(lower, height=80)]
    return [replace(panel, width=360, grid="xy") for panel in panels]


def _tally(
    count: list[float], p: list[float], bins: int, at: float, share: float
) -> list[tuple[float, float, float]]:
    """Bars for the entries by equal steps of probability, whatever the bins were: one of several
    curves begins `at` its share of each step. Heights are logarithms."""
    steps = dict[int, float]()
    for n, mean in zip(count, p, strict=True):
        step = max(math.ceil(mean * bins) - 1, 0)
        steps[step] = steps.get(step, 0.0) + n
    starts = {step: (step + 0.1 + 0.8 * at) / bins for step in steps}
    return [(x, x + 0.8 * share / bins, math.log1p(steps[step])) for step, x in starts.items()]
