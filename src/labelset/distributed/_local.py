"""What the rows of one rank come to in each column: by the C loops of a CPU, or as written."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from labelset import check
from labelset.kernels._choice import choose
from labelset.kernels._native_confusion import soft_counts, soft_counts_gradient
from labelset.kernels._native_ways import LogSums, log_sums, log_sums_gradient
from labelset.losses._confusion import ConfusionLoss
from labelset.losses._target import dense_target, kernel_target
from labelset.losses._ways import WayLoss, logsumexp

__all__ = ["counts_of_columns", "log_sums_of_both", "log_sums_of_columns"]


def counts_of_columns(loss: ConfusionLoss, logits: Tensor, labels: Any) -> Tensor:
    """(6, labels) float64: tp, fp, fn, tn, how much is on, how many are known."""
    if native(loss, logits):
        y = kernel_target(logits, labels)
        metric = loss._metric(logits.shape[1], logits.device)
        if metric is not None:
            found: Tensor = _Counts.apply(logits, metric, y)  # type: ignore[no-untyped-call]
            return found
    v, target = dense_target(check.logits(logits), labels)
    on, off = target.on, target.off
    yes, no = loss.decide(v)
    products = yes * on, yes * off, no * on, no * off, on, on + off
    return torch.stack([product.sum(0) for product in products]).double()


def log_sums_of_columns(loss: WayLoss, logits: Tensor, labels: Any, joint: bool) -> Tensor:
    """(5, labels) float64, or (5, 1) if `joint`: the fields of `LogSums`."""
    if native(loss, logits) and not joint:
        return _by_native(loss, logits, labels, rows=False)[1]
    v, target = dense_target(check.logits(logits), labels)
    # a rank without rows has one empty row too
    turned = (m.reshape(1, m.numel()) if joint else m.T for m in (v, target.on, target.off))
    v, on, off = turned
    a, b = loss.exponents
    logs = logsumexp(a * v, on), logsumexp(b * v, off)
    return torch.stack([*logs, (on * v).sum(1), on.sum(1), (on + off).sum(1)]).double()


def log_sums_of_both(loss: WayLoss, logits: Tensor, labels: Any) -> tuple[Tensor, Tensor] | None:
    """(5, rows) and (5, labels), from one reading of the scores; None where there is no such."""
    return _by_native(loss, logits, labels, rows=True) if native(loss, logits) else None


def _by_native(loss: WayLoss, logits: Tensor, labels: Any, rows: bool) -> tuple[Tensor, Tensor]:
    y = kernel_target(logits, labels)
    found: tuple[Tensor, Tensor]
    found = _LogSums.apply(logits, *loss.exponents, y, rows)  # type: ignore[no-untyped-call]
    return found


def native(loss: Any, logits: Tensor) -> bool:
    """Whether the C loops are asked for, or the fastest there is."""
    return choose(loss.impl, check.scores(logits)) == "native" and logits.numel() > 0


def only_once() -> None:
    """A gradient by loops in C has no graph of its own."""
    if torch.is_grad_enabled():
        raise RuntimeError(
            "a loss of the columns of the global batch can be differentiated once; for second "
            "derivatives use one process, or a loss of rows or entries"
        )


class _Counts(torch.autograd.Function):
    """The gradient is worked out from the scores again: nothing of their size is kept."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, metric: Any, labels: Any) -> Tensor:
        ctx.metric, ctx.labels = metric, labels
        ctx.save_for_backward(scores)
        found = soft_counts(metric.program, metric.columns, scores.detach(), labels, False)
        return torch.stack([*found.sums, found.on, found.known])

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        only_once()
        (scores,), metric = ctx.saved_tensors, ctx.metric
        given = metric.program, metric.columns, scores.detach(), ctx.labels, False
        return soft_counts_gradient(*given, upstream[:4]), None, None


class _LogSums(torch.autograd.Function):
    """The same for log-sum-exps, of which a rank's own are the levels of its gradient."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, a: float, b: float, labels: Any, rows: bool) -> Any:
        ctx.found = log_sums(scores.detach(), labels, a, b, rows, True)
        ctx.exponents, ctx.labels = (a, b), labels
        ctx.save_for_backward(scores)
        none = scores.new_zeros(5, 0, dtype=torch.float64)
        return tuple(none if lines is None else torch.stack([*lines]) for lines in ctx.found)

    @staticmethod
    def backward(ctx: Any, by_row: Tensor, by_column: Tensor) -> Any:
        only_once()
        (scores,), (a, b) = ctx.saved_tensors, ctx.exponents
        slopes = (None if ctx.found[0] is None else LogSums(*by_row)), LogSums(*by_column)
        gradient = log_sums_gradient(scores.detach(), ctx.labels, a, b, ctx.found, slopes)
        return gradient, None, None, None, None
