"""Average precision of a class in many weightings of its rows at once."""

from __future__ import annotations

import torch
from torch import Tensor

from labelset.metrics._base import ratio

try:
    from labelset.metrics import _count
except ImportError:  # no compiler where this was installed: torch does it, many times slower
    _count = None  # type: ignore[assignment, unused-ignore]

__all__ = ["weighted_precision"]


def weighted_precision(v: Tensor, on: Tensor, rows: Tensor, weights: Tensor) -> Tensor:
    """(times,) average precision, equal scores together; NaN where no weight is on.

    v and on are the scores of `rows` and whether the class is on there; `weights` is (all rows,
    times) float32, whole numbers whose sums float32 holds exactly.

    >>> v, on = torch.tensor([2.0, 1.0, 1.0]), torch.tensor([True, False, True])
    >>> weighted_precision(v, on, torch.arange(3), torch.tensor([[1.0, 0.0]] * 2 + [[1.0, 2.0]]))
    tensor([0.8333, 1.0000], dtype=torch.float64)
    """
    order = v.argsort(descending=True)
    down, hit = v[order], on[order]
    ends = torch.ones_like(hit)
    ends[:-1] = down[1:] != down[:-1]
    way = _counted if _count is not None and v.device.type == "cpu" else _summed
    return ratio(*way(rows[order], hit, ends, weights))


def _counted(order: Tensor, hit: Tensor, ends: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """The sum of weight times precision over rows that are on, and that of their weights."""
    times = weights.shape[1]
    sums, total = torch.zeros(3, times), torch.zeros(times, dtype=torch.float64)
    marks = hit.byte() + 2 * ends.byte()
    given = (order.contiguous().numpy(), marks.numpy(), weights.numpy())
    _count.precision(*given, times, sums.numpy(), total.numpy())
    return total, sums[0].double()


def _summed(order: Tensor, hit: Tensor, ends: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """The same by torch."""
    drawn, own = weights[order], weights[order[hit]]
    last = ends.nonzero()[:, 0]
    last = last[torch.searchsorted(last, hit.nonzero()[:, 0])]  # the end of each one's ties
    above = drawn.cumsum(0)[last].double()
    right = own.cumsum(0)[hit.cumsum(0)[last] - 1].double()
    return (own * ratio(right, above, 0.0)).sum(0), own.sum(0).double()
