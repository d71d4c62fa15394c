"""Curves for each label: isotonic regression, and histogram binning (Zadrozny and Elkan).

Of isotonic regression all adjacent violators of all labels are pooled in each round.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from labelset import check
from labelset.calibrate._base import PER, STRENGTH, ProbMap, answers, fitting_width
from labelset.catalog import hyper
from labelset.learned import LearnedSpec

Array = np.ndarray[Any, Any]


class Curves(NamedTuple):
    """Knots of rising piecewise linear curves; those of label j are start[j] to start[j + 1]."""

    start: Array
    x: Array
    p: Array


def isotonic_curves(u: Array, y: Array) -> Curves:
    """The rising curves of least squared error through (labels, rows) points; NaN y are left out.

    Equal scores are pooled first. A curve is constant over each block of pooled scores and linear
    between blocks.

    >>> isotonic_curves(np.array([[1.0, 2.0, 3.0, 4.0]]), np.array([[0.0, 1.0, 0.5, 1.0]]))
    Curves(start=array([0, 4]), x=array([1., 2., 3., 4.]), p=array([0.  , 0.75, 0.75, 1.  ]))
    """
    label, x, target = _sorted(u, y)
    first = np.flatnonzero(np.r_[True, (label[1:] != label[:-1]) | (x[1:] != x[:-1])][: len(x)])
    weight = np.diff(np.r_[first, len(x)]).astype(float)
    total = np.add.reduceat(target, first) if len(x) else target
    where = _pool(label[first], total, weight)
    last = np.r_[where[1:], len(first)] - 1
    p = np.add.reduceat(total, where) / np.add.reduceat(weight, where) if len(x) else total
    low, high = x[first[where]], x[first[last]]
    keep = np.stack([np.ones_like(where, bool), low < high], 1).ravel()
    ends = np.repeat(label[first[where]], 2)[keep]
    start = np.searchsorted(ends, np.arange(len(u) + 1))
    return Curves(start, np.stack([low, high], 1).ravel()[keep], np.repeat(p, 2)[keep])


def _sorted(u: Array, y: Array) -> tuple[Array, Array, Array]:
    """Label, score and target of the known entries, by label and then by score."""
    known = ~np.isnan(y)
    scores = np.where(known, u, np.inf)
    order = np.argsort(scores, axis=1)
    seen = np.arange(u.shape[1]) < known.sum(1)[:, None]
    label = np.broadcast_to(np.arange(len(u))[:, None], u.shape)[seen]
    return label, np.take_along_axis(scores, order, 1)[seen], np.take_along_axis(y, order, 1)[seen]


def _pool(label: Array, total: Array, weight: Array) -> Array:
    """Where each block of the solution begins.

    Two neighbours of which the left mean is not below the right one share a block of the solution,
    so that all such runs can be merged in one round. When rounds merge little, a stack finishes.
    """
    begin = np.arange(len(label))
    while True:
        mean = total / weight
        new = np.r_[True, (label[1:] != label[:-1]) | (mean[1:] > mean[:-1])][: len(mean)]
        if new.all():
            return begin
        if new.mean() > 0.98:
            return begin[_stack(label, total, weight)]
        at = np.flatnonzero(new)
        begin, label = begin[at], label[at]
        total, weight = np.add.reduceat(total, at), np.add.reduceat(weight, at)


def _stack(label: Array, total: Array, weight: Array) -> list[int]:
    """The same, one block after the other."""
    begin: list[int] = []
    labels: list[int] = []
    totals: list[float] = []
    weights: list[float] = []
    blocks = zip(label.tolist(), total.tolist(), weight.tolist(), strict=True)
    for i, (j, t, w) in enumerate(blocks):
        at = i
        while labels and labels[-1] == j and totals[-1] * w >= t * weights[-1]:
            at, t, w = begin.pop(), t + totals.pop(), w + weights.pop()
            labels.pop()
        begin.append(at)
        labels.append(j)
        totals.append(t)
        weights.append(w)
    return begin


T = TypeVar("T")


@dataclass(kw_only=True, eq=False)
class _Blended(ProbMap):
    """p = share * p_label + (1 - share) * p_pool.

    per="label": share is 1, but 0 for a label that was only ever seen on, only off, or not at all
    per="pool": share is 0
    per="shrunk": share = m / (m + strength), m being how often the label's rarer answer was seen
    """

    per: str = hyper("shrunk", PER)
    strength: float = hyper(30.0, STRENGTH)

    def __post_init__(self) -> None:
        super().__post_init__()
        check.one_of("per", self.per, ("label", "pool", "shrunk"))
        check.number("strength", self.strength, low=0.0, open_low=True)

    @property
    def scales(self) -> bool:
        """A curve can take any shape."""
        return True

    @property
    def shifts(self) -> bool:
        """A curve can take any shape."""
        return True

    def parts(self) -> dict[str, LearnedSpec]:
        """The curve of the pool, and with `per` other than "pool" those of the labels."""
        pool = _named("pool", self._curve_parts("1"))
        if self.per == "pool":
            return pool
        each = _named("label", self._curve_parts("labels"))
        return pool | each | {"share": LearnedSpec("labels", low=0.0, high=1.0)}

    @abstractmethod
    def _curve_parts(self, curves: str) -> dict[str, LearnedSpec]:
        """What `_curves` returns, "1" or "labels" of them."""

    @abstractmethod
    def _curves(self, u: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Curves of (labels, rows) log-odds and labels; unknown labels are NaN."""

    @abstractmethod
    def _read(self, curves: dict[str, Tensor], u: Tensor) -> Tensor:
        """Probabilities of (labels, rows) log-odds by such curves."""

    def _learn(self, u: Tensor, y: Tensor) -> dict[str, Tensor]:
        known = ~y.isnan()
        pool = _named("pool", self._curves(u[known][None], y[known][None]))
        if self.per == "pool":
            return pool
        m = answers(y).amin(0)
        share = (m > 0).to(u) if self.per == "label" else m / (m + self.strength)
        curves = self._curves(u.T.contiguous(), y.T.contiguous())
        return pool | _named("label", curves) | {"share": share}

    def _map(self, u: Tensor) -> Tensor:
        pool = self._read(self._part("pool"), u.reshape(1, -1)).reshape(u.shape)
        if self.per == "pool":
            return pool
        share = fitting_width(self.found("share"), u).to(u.device)
        return torch.lerp(pool, self._read(self._part("label"), u.T.contiguous()).T, share)

    def _part(self, whose: str) -> dict[str, Tensor]:
        self.found(f"{whose}_p")
        start = f"{whose}_"
        return {k.removeprefix(start): t for k, t in self.learnt.items() if k.startswith(start)}


def _named(whose: str, parts: dict[str, T]) -> dict[str, T]:
    return {f"{whose}_{name}": part for name, part in parts.items()}


@dataclass(kw_only=True, eq=False)
class Isotonic(_Blended):
    """The rising curve of least squared error, linear between its steps, flat beyond its ends.

        p = argmin over rising f of sum (y - f(u))^2, by pooling adjacent violators, exactly

    Use it: with hundreds of positives per label, when the shape of the miscalibration is unknown.
    Scores far out get probabilities of exactly 0 or 1, which the log loss punishes without bound.

    >>> m = Isotonic(per="label").fit([[0.0], [1.0], [2.0], [3.0]], [[0], [1], [0], [1]])
    >>> m([[-9.0], [1.0], [2.5], [9.0]])
    tensor([[0.0000],
            [0.5000],
            [0.7500],
            [1.0000]], dtype=torch.float64)
    """

    name = "isotonic"

    def _curve_parts(self, curves: str) -> dict[str, LearnedSpec]:
        return {
            "start": LearnedSpec(f"{curves}+1", low=0.0, whole=True, rising=True),
            "x": LearnedSpec(f"knots-of-{curves}"),
            "p": LearnedSpec(f"knots-of-{curves}", low=0.0, high=1.0),
        }

    def refuse_learnt(self, who: str) -> None:
        """Besides: knots rise within a curve, and every knot belongs to one."""
        super().refuse_learnt(who)
        for whose in ("pool",) if self.per == "pool" else ("pool", "label"):
            start, x, p = (self.learnt[f"{whose}_{name}"] for name in Curves._fields)
            if int(start[0]) != 0 or int(start[-1]) != len(x):
                raise ValueError(f"{who} {whose}_start must go from 0 to {len(x)}")
            within = torch.ones(max(len(x) - 1, 0), dtype=torch.bool)
            within[start[(start > 0) & (start < len(x))] - 1] = False
            if bool((within & ((x.diff() <= 0) | (p.diff() < -1e-9))).any()):
                raise ValueError(f"{who} {whose}_x and {whose}_p must rise within each curve")

    def _curves(self, u: Tensor, y: Tensor) -> dict[str, Tensor]:
        curves = isotonic_curves(u.cpu().numpy(), y.cpu().numpy())
        return {name: torch.from_numpy(part) for name, part in curves._asdict().items()}

    def _read(self, curves: dict[str, Tensor], u: Tensor) -> Tensor:
        start, x, p = Curves(**{name: t.numpy() for name, t in curves.items()})
        scores = u.cpu().numpy()
        out = np.zeros_like(scores)  # also where a label was never seen, and has no share
        for j in range(len(scores)):
            own = slice(start[j], start[j + 1])
            if start[j] < start[j + 1]:
                out[j] = np.interp(scores[j], x[own], p[own])
        return torch.from_numpy(out).to(u.device)


@dataclass(kw_only=True, eq=False)
class Histogram(_Blended):
    """The frequency of labels that are on, in bins of scores.

        p = mean of y over the entries whose u is in the same bin

    `binning="mass"`: edges at the quantiles of u, so that bins hold equally many entries.
    `binning="width"`: edges at equal steps of sigmoid(u). Bins are closed on the right; the outer
    ones are open-ended. An empty bin takes the value of the nearest bin below that is not, or of
    the nearest above where there is none below.

    Use it: to see what a score was worth in the data. Probabilities come in steps and need not
    rise with the score; `isotonic` and `platt` do.

    >>> m = Histogram(bins=2, per="label").fit([[0.0], [1.0], [2.0], [3.0]], [[0], [0], [0], [1]])
    >>> m([[0.2], [2.9]])
    tensor([[0.0000],
            [0.5000]], dtype=torch.float64)
    """

    name = "histogram"

    bins: int = hyper(15, "how many bins")
    binning: str = hyper("mass", "`mass`: equally many entries in each; `width`: equal steps of p")

    rises = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check.whole("bins", self.bins, low=1)
        check.one_of("binning", self.binning, ("mass", "width"))

    @property
    def scales(self) -> bool:
        """Bins of equal width may be too coarse where the scores are."""
        return self.binning == "mass"

    @property
    def shifts(self) -> bool:
        """Bins of equal width may be too coarse where the scores are."""
        return self.binning == "mass"

    def _curve_parts(self, curves: str) -> dict[str, LearnedSpec]:
        return {
            "edges": LearnedSpec(f"{curves} {self.bins - 1}", rising=True),
            "p": LearnedSpec(f"{curves} {self.bins}", low=0.0, high=1.0),
        }

    def _curves(self, u: Tensor, y: Tensor) -> dict[str, Tensor]:
        if self.binning == "mass":
            edges = quantiles(u, ~y.isnan(), self.bins)
        else:
            inner = torch.arange(1, self.bins).to(u) / self.bins
            edges = torch.logit(inner).expand(len(u), -1).contiguous()
        where = torch.searchsorted(edges, u)
        known = ~y.isnan()
        empty = u.new_zeros(len(u), self.bins)
        count = empty.scatter_add(1, where, known.to(u))
        on = empty.scatter_add(1, where, y.nan_to_num(0.0))
        filled = nearest_seen(count > 0)
        return {"edges": edges, "p": (on / count.clamp(min=1.0)).gather(1, filled)}

    def _read(self, curves: dict[str, Tensor], u: Tensor) -> Tensor:
        edges, p = curves["edges"].to(u.device), curves["p"].to(u.device)
        return p.gather(1, torch.searchsorted(edges, u))


def quantiles(u: Tensor, known: Tensor, bins: int) -> Tensor:
    """(labels, bins - 1): where the known u of each label fall into equal parts, 0 for none.

    >>> u = torch.tensor([[3.0, 1.0, 2.0, 9.0]])
    >>> quantiles(u, torch.tensor([[True, True, True, False]]), 2)
    tensor([[2.]])
    """
    ordered = torch.where(known, u, torch.inf).sort(dim=1).values
    last = (known.sum(1, keepdim=True) - 1).clamp(min=0)
    rank = torch.arange(1, bins, device=u.device) / bins * last.to(u)
    low, high = (ordered.gather(1, r.long()) for r in (rank.floor(), rank.ceil()))
    edges = low + (rank - rank.floor()) * (high - low)
    return torch.where(known.any(1, keepdim=True), edges, 0.0)


def nearest_seen(seen: Tensor) -> Tensor:
    """For each bin itself if seen, else the nearest below that is, else the first that is.

    >>> nearest_seen(torch.tensor([[False, True, False, True]]))
    tensor([[1, 1, 1, 3]])
    """
    number = torch.arange(seen.shape[1], device=seen.device).expand(seen.shape)
    below = torch.where(seen, number, -1).cummax(1).values
    first = seen.to(torch.int64).argmax(1, keepdim=True)
    return torch.where(below >= 0, below, first)
