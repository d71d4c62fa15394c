"""Ranks of positives among all labels, in each row or each class, ties included; precision.

Only scores of positives need a rank, and a rank needs counting, not a sort of everything:
each line's few scores of interest are sorted, and every other score is counted between them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelset import csr
from labelset.labels import Labels
from labelset.metrics._base import ratio

try:
    from labelset.metrics import _count
except ImportError:  # no compiler where this was installed: torch does it, some times slower
    _count = None  # type: ignore[assignment, unused-ignore]

LINE = 16  # scores in a cache line
SMALL = 2**18  # scores below which threads cost more than they bring
CELLS = 2**22  # scores that the torch path searches at a time


@dataclass(frozen=True)
class PositiveRanks:
    """One entry for each label that is on, by line and then by rising score."""

    starts: Tensor
    """(lines + 1,): line l has entries starts[l] to starts[l + 1]."""
    line: Tensor
    """The line of each entry: its row, or its class."""
    at_least: Tensor
    """How many known scores of the line are at least its own, itself included."""
    level: Tensor
    """How many of these are equal to its own."""
    on_at_least: Tensor
    """How many labels that are on have at least its score."""
    weight: Tensor | None = None
    """What each entry weighs; then all that counts here is a sum of weights."""

    @property
    def on(self) -> Tensor:
        """(lines,): how many labels are on."""
        return self.starts.diff() if self.weight is None else self.sums(torch.ones_like(self.level))

    @property
    def above(self) -> Tensor:
        """How many known scores are above its own."""
        return self.at_least - self.level

    def sums(self, values: Tensor) -> Tensor:
        """(lines,): the sum over each line of one value per entry."""
        if self.weight is not None:
            values = values * self.weight
        total = torch.zeros(len(self.starts) - 1, dtype=values.dtype, device=values.device)
        return total.index_add_(0, self.line, values)


def positive_ranks(
    v: Tensor, y: Labels, by_class: bool = False, weight: Tensor | None = None
) -> PositiveRanks:
    """Ranks of the labels that are on within their rows, or within their classes.

    There rows may weigh; the ranks within a row do not depend on what it weighs.
    """
    v, y = _without_unknown(v, y)
    if weight is not None and by_class:
        return _weighted_ranks(v.T, y.T.dense(torch.bool), weight.expand(y.n, -1))
    sizes = torch.bincount(y.indices, minlength=y.n) if by_class else y.indptr.diff()
    starts = csr.cumulate(sizes)
    line = torch.repeat_interleave(
        torch.arange(len(sizes), device=v.device), sizes, output_size=len(y.indices)
    )
    if _compiled(v):
        own = _gathered(v, y, starts, by_class)
        return PositiveRanks(starts, line, *_counted(v, own, starts, by_class))
    rows, columns = y.rows(), y.indices.long()
    own, order = v[rows, columns].sort()
    own = own[(columns if by_class else rows)[order].sort(stable=True).indices]
    return PositiveRanks(starts, line, *_searched(v.T if by_class else v, own, line, starts))


def pooled_ranks(v: Tensor, y: Labels, weight: Tensor | None = None) -> PositiveRanks:
    """Ranks of all labels that are on, in one line, among the scores of all rows and classes."""
    v, y = _without_unknown(v, y)
    if weight is not None:
        one_line = v, y.dense(torch.bool), weight[:, None].expand(v.shape)
        return _weighted_ranks(*(t.reshape(1, -1) for t in one_line))
    own = v[y.rows(), y.indices.long()].sort().values
    starts, line = torch.tensor([0, len(own)], device=v.device), torch.zeros_like(y.indices).long()
    compiled, flat = _compiled(v), v.reshape(-1)

    def piece(some: Tensor) -> Fields:
        """The ranks among some of the scores; those among all are the sum."""
        if compiled:
            return _counted(some[None], own.clone(), starts, by_class=False)
        return _searched(some[None], own, line, starts)

    threads = torch.get_num_threads() if compiled and len(flat) >= SMALL else 1
    pieces = torch.split(flat, max(-(-len(flat) // threads), 1) if compiled else CELLS)
    with ThreadPoolExecutor(threads) as pool:
        at_least, level, on_at_least = zip(*pool.map(piece, pieces), strict=True)
    return PositiveRanks(starts, line, sum(at_least), sum(level), on_at_least[0])


def _weighted_ranks(v: Tensor, on: Tensor, weight: Tensor) -> PositiveRanks:
    """Sums of weights in place of counts; of (lines, entries), NaN where unknown."""
    weight = torch.where(v.isnan(), 0.0, weight)
    v, order = v.nan_to_num(-torch.inf, torch.inf, -torch.inf).sort(dim=1)
    on, weight = on.gather(1, order), weight.gather(1, order)
    v = v.contiguous()
    first, end = torch.searchsorted(v, v), torch.searchsorted(v, v, right=True)  # of equal scores

    def from_here_on(each: Tensor) -> Tensor:
        """The sum of an entry and of all after it, and 0 at the end."""
        return torch.nn.functional.pad(each.flip(1).cumsum(1).flip(1), (0, 1))

    every = from_here_on(weight)
    at_least = every.gather(1, first)
    parts = at_least, at_least - every.gather(1, end), from_here_on(weight * on).gather(1, first)
    line = on.nonzero()[:, 0]
    return PositiveRanks(csr.cumulate(on.sum(1)), line, *(t[on] for t in (*parts, weight)))


def _without_unknown(v: Tensor, y: Labels) -> tuple[Tensor, Labels]:
    """Scores that are NaN where the label is unknown, and the labels that are on."""
    if y.values is None:
        return v, y
    rows, columns, free = y.rows(), y.indices.long(), y.values.isnan()
    v = v.clone()
    v[rows[free], columns[free]] = torch.nan  # reaches nothing, so it counts nowhere
    return v, Labels.from_csr(csr.pointers(rows[~free], len(y)), columns[~free], y.n)


def _compiled(v: Tensor) -> bool:
    """Whether these scores can be counted in C."""
    if _count is None:
        from labelset.extensions import warn_slow

        warn_slow()
    return _count is not None and v.device.type == "cpu"


Fields = tuple[Tensor, Tensor, Tensor]


def _gathered(v: Tensor, y: Labels, starts: Tensor, by_class: bool) -> Tensor:
    """The scores of labels that are on, by line."""
    own = torch.empty(len(y.indices), dtype=v.dtype)
    scores: list[Any] = [v.contiguous().numpy(), v.element_size(), len(v), y.n]
    sparse = [y.indptr.numpy(), y.indices.numpy(), by_class]
    _count.gather(*(scores + sparse + [starts.clone().numpy(), own.numpy()]))
    return own


def _counted(v: Tensor, own: Tensor, starts: Tensor, by_class: bool) -> Fields:
    """The last three fields of `PositiveRanks`, counted in C on as many threads as torch has."""
    at_least = torch.zeros(len(own), dtype=torch.int64)
    parts = at_least, torch.zeros_like(at_least), torch.zeros_like(at_least)
    scores: list[Any] = [v.contiguous().numpy(), v.element_size(), *v.shape]
    lines = [by_class, *(t.numpy() for t in (starts, own, *parts))]
    threads, end = torch.get_num_threads(), len(starts) - 1
    if threads == 1 or end == 1 or v.numel() < SMALL:
        _count.rank(*(scores + lines + [0, end]))
        return parts
    cuts = np.linspace(0, end, 4 * threads + 1).astype(int)
    cuts[1:-1] -= cuts[1:-1] % LINE  # no cache line is read twice
    with ThreadPoolExecutor(threads) as pool:
        list(
            pool.map(
                lambda job: _count.rank(*(scores + lines + list(job))), pairwise(cuts.tolist())
            )
        )
    return parts


def _searched(wide: Tensor, own: Tensor, line: Tensor, starts: Tensor) -> Fields:
    """The same by torch, where there is no compiled counter; the lines are rows of `wide`."""
    reached, level = _reached(wide, own, line, starts)
    # scores that reach entry i of a line are those that reach exactly i + 1, i + 2, ... of them
    total = torch.cat([reached.new_zeros(1), reached.cumsum(0)])
    place = torch.arange(len(own), device=own.device) + line
    at_least = total[starts[line + 1] + line + 1] - total[place + 1]
    last = _last_equal(line, own)
    first = torch.searchsorted(last, last)  # where the run of equal scores begins
    return at_least, level[last], starts[line + 1] - first


def _last_equal(line: Tensor, own: Tensor) -> Tensor:
    """For each entry the last one of its line with the same score."""
    index = torch.arange(len(own), device=own.device)
    if not len(own):
        return index
    ends = torch.ones(len(own), dtype=torch.bool, device=own.device)
    ends[:-1] = (line[1:] != line[:-1]) | (own[1:] != own[:-1])
    last = index[ends]
    return last[torch.searchsorted(last, index)]


def _reached(wide: Tensor, own: Tensor, line: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
    """Scores that reach exactly k entries of their line, and those level with an entry."""
    lines = len(starts) - 1
    reached = torch.zeros(len(own) + lines, dtype=torch.int64, device=own.device)
    level = torch.zeros(len(own), dtype=torch.int64, device=own.device)
    step = max(CELLS // max(wide.shape[1], 1), 1)
    for first in range(0, lines, step):
        last = min(first + step, lines)
        low, high = int(starts[first]), int(starts[last])
        at = torch.arange(low, high, device=own.device) - starts[line[low:high]]
        size = starts[first + 1 : last + 1] - starts[first:last]
        table = wide.new_full((last - first, max(int(size.max()), 1)), torch.inf)
        table[line[low:high] - first, at] = own[low:high]
        values = wide[first:last].contiguous()
        found = torch.searchsorted(table, values, right=True).minimum(size[:, None])
        found.masked_fill_(values.isnan(), 0)
        base = starts[first:last] + torch.arange(first, last, device=own.device)
        reached += torch.bincount((found + base[:, None]).flatten(), minlength=len(reached))
        same = (found > 0) & (table.gather(1, (found - 1).clamp(min=0)) == values)
        level += torch.bincount((found - 1 + starts[first:last, None])[same], minlength=len(level))
    return reached, level


def weighted_precision(v: Tensor, on: Tensor, rows: Tensor, weights: Tensor) -> Tensor:
    """(times,) average precision, equal scores together; NaN where no weight is on.

    v and on are the scores of `rows` and whether the class is on there; `weights` is (all rows,
    times) float32, whole numbers whose sums float32 holds exactly.

    >>> v, on = torch.tensor([2.0, 1.0, 1.0]), torch.tensor([True, False, True])
    >>> weighted_precision(v, on, torch.arange(3), torch.tensor([[1.0, 0.0]] * 2 + [[1.0, 2.0]]))
    tensor([0.8333, 1.0000], dtype=torch.float64)
    """
    total, right, _ = _down(v, on, rows, weights, area=False)
    return ratio(total, right)


def weighted_auroc(v: Tensor, on: Tensor, rows: Tensor, weights: Tensor) -> Tensor:
    """(times,) area under the ROC curve, as `weighted_precision`; NaN where all are on, or none.

    >>> v, on = torch.tensor([2.0, 1.0, 1.0]), torch.tensor([True, False, True])
    >>> weighted_auroc(v, on, torch.arange(3), torch.tensor([[1.0, 0.0]] * 2 + [[1.0, 2.0]]))
    tensor([0.7500,    nan], dtype=torch.float64)
    """
    wrong, right, above = _down(v, on, rows, weights, area=True)
    return 1 - ratio(wrong, right * (above - right))


def _down(
    v: Tensor, on: Tensor, rows: Tensor, weights: Tensor, area: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The sum over rows that are on of weight times precision, or for the area the weight of the
    pairs in the wrong order, ties by half; the weight of the rows that are on, and of all."""
    order = v.argsort(descending=True)
    down, hit = v[order], on[order]
    ends = torch.ones_like(hit)
    ends[:-1] = down[1:] != down[:-1]
    way = _down_in_c if _compiled(v) else _down_in_torch
    return way(rows[order], hit, ends, weights, area)


def _down_in_c(
    order: Tensor, hit: Tensor, ends: Tensor, weights: Tensor, area: bool
) -> tuple[Tensor, Tensor, Tensor]:
    times = weights.shape[1]
    sums, total = torch.zeros(4, times), torch.zeros(times, dtype=torch.float64)
    marks = hit.byte() + 2 * ends.byte()
    given = (order.contiguous().numpy(), marks.numpy(), weights.numpy())
    (_count.area if area else _count.precision)(*given, times, sums.numpy(), total.numpy())
    return total, sums[0].double(), sums[2].double()


def _down_in_torch(
    order: Tensor, hit: Tensor, ends: Tensor, weights: Tensor, area: bool
) -> tuple[Tensor, Tensor, Tensor]:
    drawn, own = weights[order].double(), weights[order[hit]].double()
    every = torch.cat([drawn.new_zeros(1, drawn.shape[1]), drawn.cumsum(0)])
    right = torch.cat([own.new_zeros(1, own.shape[1]), own.cumsum(0)])
    last = ends.nonzero()[:, 0] + 1
    after = torch.searchsorted(last, hit.nonzero()[:, 0], right=True)  # the end of each one's ties
    hits = torch.cat([hit.new_zeros(1).long(), hit.cumsum(0)])
    above, reached = every[last[after]], right[hits[last[after]]]
    if not area:
        each = ratio(reached, above, 0.0)
    else:
        first = torch.where(after > 0, last[after - 1], 0)
        each = (above - reached + every[first] - right[hits[first]]) / 2
    return (own * each).sum(0), right[-1], every[-1]
