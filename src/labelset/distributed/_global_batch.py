"""global_batch: a loss over the rows of all ranks; what each kind of loss sums over ranks for it,
and how its value follows from the sums.

A loss of rows or entries sends its sum and what it is the mean of. A loss of whole columns, or of
rows whose labels are spread, sends sums or log-sum-exps of each, in float64 whatever the logits
are: ranks may have computed them differently, and the messages of a collective call must agree.
Label pairs send the scores of their positives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, distributed

from labelset import check, csr
from labelset.distributed.collectives import (
    ALONE,
    Grid,
    log_total,
    only_once,
    ranks,
    scale_gradient,
    total,
)
from labelset.kernels import choose
from labelset.kernels.axes import LogSums, log_sums, log_sums_gradient
from labelset.kernels.confusion import soft_counts, soft_counts_gradient
from labelset.kernels.pairs import finite
from labelset.labels import Labels
from labelset.losses import (
    AxisLoss,
    ConfusionLoss,
    DelegatingLoss,
    Loss,
    Separable,
    Sum,
    as_loss,
    dense_target,
    kernel_target,
    logsumexp,
    reduce_terms,
    softplus,
)
from labelset.losses.lpr import LPR
from labelset.losses.spa_lpr import SPAPairs

Reduction = Callable[[Tensor, Any, Grid], Tensor]
"""This rank's logits and labels, and the grid of ranks, to a value over all ranks, in float64."""


def reductions_of(loss: Loss, cut_rows: bool = False) -> list[tuple[float, Reduction]]:
    """What is added up, with its factor.

    `cut_rows` says that ranks hold some labels of each row: a loss of rows, which otherwise is
    computed by whatever computes it fastest, is then put together from what ranks know of a row.
    """
    if isinstance(loss, SPAPairs):
        loss = loss._sum
    if isinstance(loss, Sum):
        return [
            (w * f, reduction)
            for w, one in loss.parts
            for f, reduction in reductions_of(one, cut_rows)
        ]
    return [(1.0, reduction_of(loss, cut_rows))]


def reduction_of(loss: Loss, cut_rows: bool) -> Reduction:
    """Of one loss that is no sum."""
    if isinstance(loss, ConfusionLoss) and type(loss).terms is ConfusionLoss.terms:
        whole = loss.average == "samples" and not cut_rows
        return RowSums.of(loss) if whole else ConfusionSums(loss)
    if isinstance(loss, AxisLoss) and type(loss).rows is AxisLoss.rows:
        rows = AxisSums(loss, "sample") if cut_rows else RowSums.of(loss, way="sample")
        if loss.way == "both":
            return BothAxes(rows, loss)
        return rows if loss.way == "sample" else AxisSums(loss, loss.way)
    if isinstance(loss, LPR):
        return PairSums(loss) if cut_rows else RowSums.of(loss)
    if isinstance(loss, Separable):
        return RowSums.of(loss)
    raise TypeError(
        "over ranks the losses of the catalogue are known, their sums and Separable losses, got "
        f"{type(loss).__name__}, of which one cannot know what to add up over ranks; derive it "
        "from labelset.losses.Separable, or gather the logits yourself"
    )


def global_batch(loss: Any, group: Any = None, ddp: bool = False) -> GlobalBatch:
    """The loss over the global batch of all ranks: value and gradient of one process with all rows.

    `loss` is a loss of the catalogue (or its name), a sum of such losses, or a `Separable` one of
    your own. Every rank of `group` (None: all) calls it at the same time with its own rows, any
    number of them and also none, and gets

        value = loss(rows of all ranks),  the same on every rank
        gradient of its logits = d value / d logits, or that times the number of ranks (`ddp`)

    DistributedDataParallel and FSDP divide the sum of the ranks' gradients by the number of
    ranks. With `ddp=True` that division is made good, and the gradients they leave in the
    parameters are those of one process. What travels is sums, counts and log-sum-exps: two
    numbers for a loss of entries or rows, five per label for one of columns; never logits.

    Without a process group, or with one rank, it is the loss itself.

    >>> loss = global_batch("sigmoid-f1")
    >>> loss(torch.tensor([[0.0], [0.0]]), torch.tensor([[1.0], [0.0]]))
    tensor(0.5000)
    """
    loss = as_loss("loss", loss)
    return GlobalBatch(of=loss, group=group, ddp=ddp, reduction=loss.reduction, impl=loss.impl)


@dataclass(frozen=True, kw_only=True, eq=False)
class OverRanks(DelegatingLoss):
    """A loss that is computed by several ranks."""

    group: Any = None
    ddp: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class GlobalBatch(OverRanks):
    """What `global_batch` makes; its link, parameters and epochs are those of the loss `of`."""

    reductions = ("mean", "sum")

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._parts  # what cannot be summed over ranks is refused here, not in training

    def __call__(self, logits: Tensor, labels: Any) -> Tensor:
        world = ranks(self.group)
        if world == 1:
            return self.of(logits, labels)
        grid = Grid(rows=self.group)
        values = [factor * reduction(logits, labels, grid) for factor, reduction in self._parts]
        value = torch.stack(values).sum(0).to(check.logits(logits[:0]).dtype)
        return scale_gradient(value, world) if self.ddp else value

    @cached_property
    def _parts(self) -> list[tuple[float, Reduction]]:
        return reductions_of(self.of)


# ---- what travels --------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowSums:
    """sum_r (sum of the rows of rank r) / sum_r (entries, or rows, of rank r that count).

    Of a loss of entries ranks may also hold some labels of all rows. The local sum is computed by
    whatever computes the loss fastest. Both numbers travel in float64, in which counts are exact
    however many entries there are.
    """

    summed: Loss
    """The loss with `reduction="sum"`, or with "none"."""
    mean: bool

    @classmethod
    def of(cls, loss: Loss, **changes: Any) -> RowSums:
        """From a loss in any reduction."""
        if loss.reduction != "none":
            changes["reduction"] = "sum"
        return cls(loss._with(**changes), loss.reduction == "mean")

    def __call__(self, logits: Tensor, labels: Any, grid: Grid) -> Tensor:
        value = self.summed(logits, labels)
        if self.summed.reduction == "none":
            return value
        count = counted(self.summed, value.dtype, labels) if self.mean else None
        return averaged(value, count, grid.labels, grid.rows)


def averaged(value: Tensor, count: Tensor | None, *groups: Any) -> Tensor:
    """The sum over ranks of `value`, divided by that of `count` where there is one."""
    value = value.double()
    if count is None:
        return total(value, *groups)
    value, count = total(torch.stack([value, torch.as_tensor(count).to(value)]), *groups)
    count = count.detach()
    return value / torch.where(count > 0, count, 1.0)


def reduce_lines(values: Tensor, weights: Tensor, reduction: str, group: Any) -> Tensor:
    """What `reduce` makes of rows (or columns) that are spread over the ranks of the group."""
    if group is ALONE or reduction == "none":
        return reduce_terms(values, weights, reduction)
    value = reduce_terms(values, weights, "sum")
    return averaged(value, weights.sum() if reduction == "mean" else None, group)


def counted(loss: Loss, dtype: torch.dtype, labels: Any) -> Tensor:
    """What the mean of this loss is over: known entries, or rows that count."""
    if isinstance(loss, AxisLoss) and loss.needs_positive:
        return (positives_per_row(labels, dtype) > 0).sum()
    known = known_per_row(labels)
    if isinstance(loss, Separable):
        return known.sum()
    return (known > (1 if isinstance(loss, LPR) else 0)).sum()


def positives_per_row(labels: Any, dtype: torch.dtype) -> Tensor:
    """(rows,): how many labels are on; of soft ones, those above 0 in the dtype of the scores."""
    if isinstance(labels, Labels):
        return labels.counts()
    y = csr.as_tensor(labels)
    return (y.to(dtype) > 0).sum(1) if y.is_floating_point() else y.count_nonzero(1)


def known_per_row(labels: Any) -> Tensor:
    """(rows,): how many labels are known."""
    if isinstance(labels, Labels):
        return labels.n - (labels.indptr.diff() - labels.counts())
    y = csr.as_tensor(labels)
    rows, n = y.shape
    if not y.is_floating_point():
        return torch.full((rows,), n, device=y.device)
    return n - y.isnan().count_nonzero(1)


def soft_counts_of(loss: ConfusionLoss, logits: Tensor, labels: Any, by_row: bool) -> Tensor:
    """(6, labels) or (6, rows) float64: tp, fp, fn, tn, how much is on, how many are known."""
    if native(loss, logits):
        y = kernel_target(logits, labels)
        metric = loss._metric(logits.shape[1], logits.device)
        if metric is not None:
            found: Tensor = _Counts.apply(logits, metric, y, by_row)  # type: ignore[no-untyped-call]
            return found
    v, target = dense_target(check.logits(logits), labels)
    on, off = target.positive, target.negative
    yes, no = loss.decide(v)
    products = yes * on, yes * off, no * on, no * off, on, on + off
    return torch.stack([product.sum(int(by_row)) for product in products]).double()


def log_sums_of(loss: AxisLoss, logits: Tensor, labels: Any, way: str) -> Tensor:
    """(5, labels) float64 for the class way, (5, rows) for sample, (5, 1) for joint: `LogSums`."""
    if native(loss, logits) and way != "joint":
        by_row = way == "sample"
        return _by_native(loss, logits, labels, by_row, not by_row)[0 if by_row else 1]
    v, target = dense_target(check.logits(logits), labels)

    def turned(m: Tensor) -> Tensor:
        if way == "joint":
            return m.reshape(1, m.numel())  # a rank without rows or labels has one empty row too
        return m if way == "sample" else m.T

    v, on, off = turned(v), turned(target.positive), turned(target.negative)
    a, b = loss.exponents
    logs = logsumexp(a * v, on), logsumexp(b * v, off)
    return torch.stack([*logs, (on * v).sum(1), on.sum(1), (on + off).sum(1)]).double()


def log_sums_of_both(loss: AxisLoss, logits: Tensor, labels: Any) -> tuple[Tensor, Tensor] | None:
    """(5, rows) and (5, labels), from one reading of the scores; None where there is no such."""
    return _by_native(loss, logits, labels, True, True) if native(loss, logits) else None


def _by_native(
    loss: AxisLoss, logits: Tensor, labels: Any, rows: bool, columns: bool
) -> tuple[Tensor, Tensor]:
    y, along = kernel_target(logits, labels), (rows, columns)
    found: tuple[Tensor, Tensor]
    found = _LogSums.apply(logits, *loss.exponents, y, along)  # type: ignore[no-untyped-call]
    return found


def native(loss: Any, logits: Tensor) -> bool:
    """Whether the C loops are asked for, or the fastest there is."""
    return choose(loss.impl, check.scores(logits)) == "native" and logits.numel() > 0


class _Counts(torch.autograd.Function):
    """The gradient is worked out from the scores again: nothing of their size is kept."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, metric: Any, labels: Any, by_row: bool) -> Tensor:
        ctx.metric, ctx.labels, ctx.by_row = metric, labels, by_row
        ctx.save_for_backward(scores)
        found = soft_counts(metric.program, metric.columns, scores.detach(), labels, by_row)
        return torch.stack([*found.sums, found.on, found.known])

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        only_once()
        (scores,), metric = ctx.saved_tensors, ctx.metric
        given = metric.program, metric.columns, scores.detach(), ctx.labels, ctx.by_row
        return soft_counts_gradient(*given, upstream[:4]), None, None, None


class _LogSums(torch.autograd.Function):
    """The same for log-sum-exps, of which a rank's own are the levels of its gradient."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, a: float, b: float, labels: Any, along: Any) -> Any:
        ctx.found = log_sums(scores.detach(), labels, a, b, *along)
        ctx.exponents, ctx.labels = (a, b), labels
        ctx.save_for_backward(scores)
        none = scores.new_zeros(5, 0, dtype=torch.float64)
        return tuple(none if lines is None else torch.stack([*lines]) for lines in ctx.found)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Any:
        only_once()
        (scores,), (a, b) = ctx.saved_tensors, ctx.exponents
        rows, columns = ctx.found
        by_row = None if rows is None else LogSums(*upstream[0])
        by_column = None if columns is None else LogSums(*upstream[1])
        given = scores.detach(), ctx.labels, a, b, ctx.found
        gradient = log_sums_gradient(*given, (by_row, by_column))
        return gradient, None, None, None, None


@dataclass(frozen=True)
class ConfusionSums:
    """A ratio of four sums: of each column (macro, weighted) or row (samples), or of all (micro).

    Five numbers per line travel: tp, fp, fn, tn, and the weight of the line.
    """

    loss: ConfusionLoss

    def __call__(self, logits: Tensor, labels: Any, grid: Grid) -> Tensor:
        average = self.loss.average
        way = {"samples": "sample", "micro": "joint"}.get(average, "class")
        *counts, on, known = soft_counts_of(self.loss, logits, labels, by_row=way == "sample")
        sums = torch.stack([*counts, on if average == "weighted" else known])
        if way == "joint":
            sums = sums.sum(1, keepdim=True)
        joined, spread = parted(grid, way)
        *counts, weights = total(sums, *joined)
        weights = weights if average == "weighted" else weights > 0
        return reduce_lines(self.loss.loss(*counts), weights, self.loss.reduction, spread)


@dataclass(frozen=True)
class AxisSums:
    """A function of the log-sum-exps of each column (class) or row (sample), or of all (joint).

    Per line two log-sum-exps travel, and three sums: of the scores that are on, of the labels
    that are on, and of those that are known.
    """

    loss: AxisLoss
    way: str

    def __call__(self, logits: Tensor, labels: Any, grid: Grid) -> Tensor:
        return self.of(log_sums_of(self.loss, logits, labels, self.way), grid)

    def of(self, local: Tensor, grid: Grid) -> Tensor:
        """The loss of the lines from what they come to on each rank."""
        joined, spread = parted(grid, self.way)
        sums = torch.cat([log_total(local[:2], *joined), total(local[2:], *joined)])
        return reduce_lines(*lines(self.loss, sums), self.loss.reduction, spread)


@dataclass(frozen=True)
class BothAxes:
    """Rows and columns, from one reading of the scores where there is one.

    What is sent, and in which order, is the same without it: ranks need not agree on it.
    """

    rows: RowSums | AxisSums
    loss: AxisLoss

    def __call__(self, logits: Tensor, labels: Any, grid: Grid) -> Tensor:
        rows, columns = AxisSums(self.loss, "sample"), AxisSums(self.loss, "class")
        both = log_sums_of_both(self.loss, logits, labels)
        if both is not None:
            return rows.of(both[0], grid) + columns.of(both[1], grid)
        by_row = self.rows(logits, labels, grid)
        return by_row + columns(logits, labels, grid)


def parted(grid: Grid, way: str) -> tuple[tuple[Any, ...], Any]:
    """Which ranks hold parts of one line, and which hold the other lines."""
    if way == "joint":
        return (grid.rows, grid.labels), ALONE
    if way == "sample":
        return (grid.labels,), grid.rows
    return (grid.rows,), grid.labels


def lines(loss: AxisLoss, sums: Tensor) -> tuple[Tensor, Tensor]:
    """The loss of each row or column from the fields of `LogSums`, and whether it counts."""
    on, off, score, weight, known = sums
    some = (weight if loss.needs_positive else known) > 0
    mean = score / torch.where(weight > 0, weight, 1.0)
    return loss.value(torch.where(some, on, 0.0), off, mean), some


BLOCK = 2**22  # pairs that are in memory at once


@dataclass(frozen=True)
class PairSums:
    """Every label that is on, on whatever rank, against every label that is off on this one.

    For each label that is on three numbers travel (its row, its odds and how much it is on), and
    one comes back: the slope of its odds. Pairs stay on the rank of the label that is off.
    """

    loss: LPR

    def __call__(self, logits: Tensor, labels: Any, grid: Grid) -> Tensor:
        v, target = dense_target(check.logits(logits), labels)
        u, on, off = finite(self.loss.of.log_odds(v)), target.positive, target.negative
        sums = _Pairs.apply(u, on, off, grid.labels)  # type: ignore[no-untyped-call]
        count = total((on + off).sum(1).double(), grid.labels)
        some = count > 1.5
        values = 2 * sums / torch.where(some, count * (count - 1), 1.0)
        return reduce_lines(values, some, self.loss.reduction, grid.rows)


class _Pairs(torch.autograd.Function):
    """(rows,): sum over t on, t' off of softplus(u_t' - u_t), and its slope by this rank's u.

    The slope is worked out with the value, while the others are listening: backward is local.
    """

    @staticmethod
    def forward(ctx: Any, u: Tensor, on: Tensor, off: Tensor, group: Any) -> Tensor:
        rows, columns = on.nonzero(as_tuple=True)
        own = torch.stack([rows.double(), u[rows, columns].double(), on[rows, columns].double()])
        every, mine = gather_columns(own, group)
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


def gather_columns(own: Tensor, group: Any) -> tuple[Tensor, slice]:
    """(3, all): the columns of all ranks side by side, and which of them are this one's."""
    counts = torch.zeros(ranks(group), dtype=torch.int64, device=own.device)
    index = distributed.get_rank(group)
    counts[index] = own.shape[1]
    ends = [0, *total(counts, group).cumsum(0).tolist()]
    mine = slice(ends[index], ends[index + 1])
    every = own.new_zeros(3, ends[-1])
    every[:, mine] = own
    return (total(every, group) if ends[-1] else every), mine
