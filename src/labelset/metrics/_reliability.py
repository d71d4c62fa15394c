"""Reliability curves: what was predicted against what was seen, bin by bin."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor

from labelset import _given, check
from labelset.labels import Labels

__all__ = ["CELLS", "Reliability", "bin_sums", "mass_bin_sums", "reliability"]

CELLS = 2**22  # entries turned to float64 at a time


@dataclass(frozen=True)
class Reliability:
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
    p, y = _given.paired_probabilities(probs, labels)
    sums = (bin_sums if binning == "width" else mass_bin_sums)(p, y, bins, per_label)
    if not bool(sums[0].any()):
        raise ValueError("not defined: no label is known")
    return Reliability.of_sums(sums)


def bin_sums(p: Tensor, y: Labels, bins: int, per_label: bool) -> Tensor:
    """(3, bins) or (3, n, bins): entries, sum of probabilities, sum of labels, equal widths."""
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
        where, prob, target = (t[known].flatten() for t in (where, prob, target))
        for into, values in zip(sums, (torch.ones_like(prob), prob, target), strict=True):
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
