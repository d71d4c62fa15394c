"""Label pairs of rows that are cut by ranks: the scores of the labels that are on travel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed

from labelset import check
from labelset.distributed._ranks import Grid, only_once, ranks, total
from labelset.distributed._rows import over_lines
from labelset.kernels.pairs import finite
from labelset.losses._separable import softplus
from labelset.losses._target import dense_target
from labelset.losses.lpr import LPR

__all__ = ["PairRows"]

BLOCK = 2**22  # pairs that are in memory at once


@dataclass(frozen=True)
class PairRows:
    """Every label that is on, on whatever rank, against every label that is off on this one.

    For each label that is on three numbers travel (its row, its odds and how much it is on), and
    one comes back: the slope of its odds. Pairs stay on the rank of the label that is off.
    """

    loss: LPR

    def __call__(self, logits: Tensor, labels: Any, grid: Grid) -> Tensor:
        v, target = dense_target(check.logits(logits), labels)
        u, on, off = finite(self.loss.of.log_odds(v)), target.on, target.off
        sums = _Pairs.apply(u, on, off, grid.labels)  # type: ignore[no-untyped-call]
        count = total((on + off).sum(1).double(), grid.labels)
        some = count > 1.5
        values = 2 * sums / torch.where(some, count * (count - 1), 1.0)
        return over_lines(values, some, self.loss.reduction, grid.rows)


class _Pairs(torch.autograd.Function):
    """(rows,): sum over t on, t' off of softplus(u_t' - u_t), and its slope by this rank's u.

    The slope is worked out with the value, while the others are listening: backward is local.
    """

    @staticmethod
    def forward(ctx: Any, u: Tensor, on: Tensor, off: Tensor, group: Any) -> Tensor:
        rows, columns = on.nonzero(as_tuple=True)
        own = torch.stack([rows.double(), u[rows, columns].double(), on[rows, columns].double()])
        every, mine = gathered(own, group)
        sums = torch.zeros(len(u), dtype=torch.float64, device=u.device)
        slope, back = torch.zeros_like(u), torch.zeros_like(every[0])
        block = max(BLOCK // max(u.shape[1], 1), 1)
        for start in range(0, every.shape[1], block):
            some = slice(start, start + block)
            row = every[0, some].long()
            odds, weight = (each[some, None].to(u.dtype) for each in every[1:])
            apart, weight = u[row] - odds, weight * off[row]
            steep = torch.sigmoid(apart) * weight
            sums.index_add_(0, row, (softplus(apart) * weight).sum(1).double())
            slope.index_add_(0, row, steep)
            back[some] = -steep.sum(1).double()
        itself = math.log(2) * own[2] * off[rows, columns]  # a soft label is no pair with itself
        sums.index_add_(0, rows, -itself)
        sums, back = total(sums, group), total(back, group) if len(back) else back
        slope[rows, columns] += back[mine].to(u.dtype)
        ctx.save_for_backward(slope)
        return sums

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        only_once()
        (slope,) = ctx.saved_tensors
        return upstream[:, None].to(slope.dtype) * slope, None, None, None


def gathered(own: Tensor, group: Any) -> tuple[Tensor, slice]:
    """(3, all): the columns of all ranks side by side, and which of them are this one's."""
    counts = torch.zeros(ranks(group), dtype=torch.int64, device=own.device)
    index = distributed.get_rank(group)
    counts[index] = own.shape[1]
    ends = [0, *total(counts, group).cumsum(0).tolist()]
    mine = slice(ends[index], ends[index + 1])
    every = own.new_zeros(3, ends[-1])
    every[:, mine] = own
    return (total(every, group) if ends[-1] else every), mine
