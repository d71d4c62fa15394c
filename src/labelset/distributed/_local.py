"""What the scores of one rank come to in each line: by the C loops of a CPU, or as written."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from labelset import check
from labelset.distributed._ranks import only_once
from labelset.kernels._choice import choose
from labelset.kernels._native_confusion import soft_counts, soft_counts_gradient
from labelset.kernels._native_ways import LogSums, log_sums, log_sums_gradient
from labelset.losses._confusion import ConfusionLoss
from labelset.losses._target import dense_target, kernel_target
from labelset.losses._ways import WayLoss, logsumexp

__all__ = ["counts_of_lines", "log_sums_of_both", "log_sums_of_lines"]


def counts_of_lines(loss: ConfusionLoss, logits: Tensor, labels: Any, by_row: bool) -> Tensor:
    """(6, labels) or (6, rows) float64: tp, fp, fn, tn, how much is on, how many are known."""
    if native(loss, logits):
        y = kernel_target(logits, labels)
        metric = loss._metric(logits.shape[1], logits.device)
        if metric is not None:
            found: Tensor = _Counts.apply(logits, metric, y, by_row)  # type: ignore[no-untyped-call]
            return found
    v, target = dense_target(check.logits(logits), labels)
    on, off = target.on, target.off
    yes, no = loss.decide(v)
    products = yes * on, yes * off, no * on, no * off, on, on + off
    return torch.stack([product.sum(int(by_row)) for product in products]).double()


def log_sums_of_lines(loss: WayLoss, logits: Tensor, labels: Any, way: str) -> Tensor:
    """(5, labels) float64 for the class way, (5, rows) for sample, (5, 1) for joint: `LogSums`."""
    if native(loss, logits) and way != "joint":
        by_row = way == "sample"
        return _by_native(loss, logits, labels, by_row, not by_row)[0 if by_row else 1]
    v, target = dense_target(check.logits(logits), labels)

    def turned(m: Tensor) -> Tensor:
        if way == "joint":
            return m.reshape(1, m.numel())  # a rank without rows or labels has one empty row too
        return m if way == "sample" else m.T

    v, on, off = turned(v), turned(target.on), turned(target.off)
    a, b = loss.exponents
    logs = logsumexp(a * v, on), logsumexp(b * v, off)
    return torch.stack([*logs, (on * v).sum(1), on.sum(1), (on + off).sum(1)]).double()


def log_sums_of_both(loss: WayLoss, logits: Tensor, labels: Any) -> tuple[Tensor, Tensor] | None:
    """(5, rows) and (5, labels), from one reading of the scores; None where there is no such."""
    return _by_native(loss, logits, labels, True, True) if native(loss, logits) else None


def _by_native(
    loss: WayLoss, logits: Tensor, labels: Any, rows: bool, columns: bool
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
