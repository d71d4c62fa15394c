"""Label pairs on the CPU: value and gradient in one pass, a bounded number of pairs at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from labelset import check
from labelset.labels import Labels

PIECE = 2**18  # scores whose log-odds are worked out at a time
PAIRS = 2**17  # pairs alive at once: they stay in the cache of a core
Odds = Callable[[Tensor], tuple[Tensor, Tensor]]


def blocks(
    odds: Odds, scores: Tensor, labels: Tensor | Labels, mean: bool
) -> tuple[Tensor, Tensor]:
    """Mean over the rows that have two known labels, or sum, and its gradient by the scores."""
    if isinstance(labels, Tensor):
        check.unit_interval(labels)
    known = _known(labels)
    scale = _scales(known, mean)
    gradient, value = torch.empty_like(scores), torch.zeros((), dtype=torch.float64)
    step = max(1, PIECE // scores.shape[1])
    for start in range(0, len(scores), step):
        part = slice(start, start + step)
        y = labels[part]
        dense = y.dense() if isinstance(y, Labels) else y.float()
        sums, slopes = _rows(odds, scores[part].float(), dense, known[part] > 1)
        value += (sums * scale[part]).sum()
        gradient[part] = slopes.mul_(scale[part, None])
    return value.float(), gradient


def _known(labels: Tensor | Labels) -> Tensor:
    """How many labels of each row are known."""
    rows, n = labels.shape
    if isinstance(labels, Labels) and labels.values is not None:
        return n - (labels.indptr.diff() - labels.counts())
    if isinstance(labels, Tensor) and labels.is_floating_point():
        return n - labels.isnan().sum(1)
    return torch.full((rows,), n)


def _scales(known: Tensor, mean: bool) -> Tensor:
    """2 / (T (T - 1)), over the number of rows where T > 1 in a mean; 0 elsewhere."""
    defined = known > 1
    rows = max(1, int(defined.sum())) if mean else 1
    return torch.where(defined, 2.0 / (known * (known - 1)).clamp(min=1).float() / rows, 0.0)


def _rows(odds: Odds, v: Tensor, y: Tensor, defined: Tensor) -> tuple[Tensor, Tensor]:
    """Each row's sum over its pairs, (rows,), and the gradient of that by v, (rows, n)."""
    unknown = y.isnan()
    on, off = y.masked_fill(unknown, 0.0), (1.0 - y).masked_fill_(unknown, 0.0)
    u, chain = odds(v.masked_fill(unknown, 0.0))
    itself = on * off  # a soft label is no pair with itself
    listed = _listed(on, defined)
    own, rival = u.masked_fill(off == 0, -torch.inf), listed.table(u, torch.inf)
    share = listed.table(on, 0.0) if bool(itself.any()) else None
    sums, falls, rises = -math.log(2) * itself.sum(1), torch.zeros_like(u), rival.clone()
    for rows, width in listed.batches(u.shape[1]):
        weights = None if share is None else (share[rows, :width], off[rows])
        cost, falls[rows], rises[rows, :width] = _pairs(own[rows], rival[rows, :width], weights)
        sums[rows] += cost
    falls[listed.row, listed.label] -= rises[listed.row, listed.place]
    return sums, falls.mul_(chain)


class _Listed(NamedTuple):
    """The labels that may be on: their row, which they are, and their place among those of it."""

    row: Tensor
    label: Tensor
    place: Tensor
    counts: Tensor

    def table(self, values: Tensor, empty: float) -> Tensor:
        """(rows, most on): one value for each."""
        out = values.new_full((len(values), int(self.counts.max())), empty)
        out[self.row, self.place] = values[self.row, self.label]
        return out

    def batches(self, n: int) -> Iterator[tuple[Tensor, int]]:
        """Rows with about equally many on, so that few pairs are computed in vain; how many."""
        sizes, order = self.counts.sort(descending=True)
        start, end = 0, int((sizes > 0).sum())
        while start < end:
            width = int(sizes[start])
            rows = max(1, PAIRS // (n * width))
            yield order[start : min(start + rows, end)], width
            start += rows


def _listed(on: Tensor, defined: Tensor) -> _Listed:
    chosen = (on > 0) & defined[:, None]
    row, label = chosen.nonzero(as_tuple=True)
    counts = chosen.sum(1)
    place = torch.arange(len(row)) - (counts.cumsum(0) - counts)[row]
    return _Listed(row, label, place, counts)


def _pairs(
    own: Tensor, rival: Tensor, weights: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Sums of softplus(own - rival): all of a row; its slope by each own, and by each rival.

    What is no pair is infinitely far on the side where value and slope are 0.
    """
    value, by_own, by_rival = (
        own.new_zeros(len(own)),
        torch.zeros_like(own),
        torch.empty_like(rival),
    )
    step = max(1, PAIRS // own.numel())
    for start in range(0, rival.shape[1], step):
        part = slice(start, start + step)
        x = own[:, None, :] - rival[:, part, None]
        cost, rate = softplus(x), x.sigmoid_()  # (beyond 20 both are linear in float32)
        if weights is not None:
            share, off = weights
            weight = share[:, part, None] * off[:, None, :]
            cost, rate = cost.mul_(weight), rate.mul_(weight)
        value += cost.sum((1, 2))
        by_own += rate.sum(1)
        by_rival[:, part] = rate.sum(2)
    return value, by_own, by_rival
