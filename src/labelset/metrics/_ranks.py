"""Where the labels that are on stand among all, in each row or each class, ties included.

Only scores of labels that are on need a rank, and a rank needs counting, not a sort of everything:
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

from labelset import _csr
from labelset.labels import Labels

try:
    from labelset.metrics import _count
except ImportError:  # no compiler where this was installed: torch does it, some times slower
    _count = None  # type: ignore[assignment, unused-ignore]

__all__ = ["Ranks", "ranks"]

LINE = 16  # scores in a cache line
SMALL = 2**18  # scores below which threads cost more than they bring
CELLS = 2**22  # scores that the torch path searches at a time


@dataclass(frozen=True)
class Ranks:
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

    @property
    def on(self) -> Tensor:
        """(lines,): how many labels are on."""
        return self.starts.diff()

    @property
    def above(self) -> Tensor:
        """How many known scores are above its own."""
        return self.at_least - self.level

    def sums(self, values: Tensor) -> Tensor:
        """(lines,): the sum over each line of one value per entry."""
        total = torch.zeros(len(self.starts) - 1, dtype=values.dtype, device=values.device)
        return total.index_add_(0, self.line, values)


def ranks(v: Tensor, y: Labels, by_class: bool = False) -> Ranks:
    """Ranks of the labels that are on within their rows, or within their classes."""
    if y.values is not None:
        rows, columns, free = y.rows(), y.indices.long(), y.values.isnan()
        v = v.clone()
        v[rows[free], columns[free]] = torch.nan  # reaches nothing, so it counts nowhere
        y = Labels.from_csr(_csr.pointers(rows[~free], len(y)), columns[~free], y.n)
    sizes = torch.bincount(y.indices, minlength=y.n) if by_class else y.indptr.diff()
    line = torch.repeat_interleave(
        torch.arange(len(sizes), device=v.device), sizes, output_size=len(y.indices)
    )
    way = _counted if _count is not None and v.device.type == "cpu" else _searched
    return Ranks(_csr.cumulate(sizes), line, *way(v, y, _csr.cumulate(sizes), line, by_class))


Parts = tuple[Tensor, Tensor, Tensor]


def _counted(v: Tensor, y: Labels, starts: Tensor, line: Tensor, by_class: bool) -> Parts:
    """The last three fields of `Ranks`, by the compiled counter on as many threads as torch has."""
    v, own = v.contiguous(), torch.empty(len(line), dtype=v.dtype)
    scores: list[Any] = [v.numpy(), v.element_size(), len(v), y.n]
    sparse = [y.indptr.numpy(), y.indices.numpy(), by_class]
    _count.gather(*(scores + sparse + [starts.clone().numpy(), own.numpy()]))
    parts = (torch.empty_like(line), torch.zeros_like(line), torch.empty_like(line))
    lines = [by_class, *(t.numpy() for t in (starts, own, *parts))]
    threads = torch.get_num_threads()
    if threads == 1 or v.numel() < SMALL:
        _count.rank(*(scores + lines + [0, len(starts) - 1]))
        return parts
    cuts = np.linspace(0, len(starts) - 1, 4 * threads + 1).astype(int)
    cuts[1:-1] -= cuts[1:-1] % LINE  # no cache line is read twice
    with ThreadPoolExecutor(threads) as pool:
        list(
            pool.map(
                lambda job: _count.rank(*(scores + lines + list(job))), pairwise(cuts.tolist())
            )
        )
    return parts


def _searched(v: Tensor, y: Labels, starts: Tensor, line: Tensor, by_class: bool) -> Parts:
    """The same by torch, where there is no compiled counter."""
    rows, columns = y.rows(), y.indices.long()
    own, order = v[rows, columns].sort()
    own = own[(columns if by_class else rows)[order].sort(stable=True).indices]
    reached, level = _reached(v.T if by_class else v, own, line, starts)
    # scores that reach entry i of a line are those that reach exactly i + 1, i + 2, ... of them
    total = torch.cat([reached.new_zeros(1), reached.cumsum(0)])
    place = torch.arange(len(own), device=v.device) + line
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
