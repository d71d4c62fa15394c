"""Way losses by kernels: all log-sum-exps in one reading, the gradient in another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from labelset.kernels._formula import Formula
from labelset.kernels._gradient import Result, differentiable
from labelset.kernels._lower import lowered
from labelset.kernels._native_ways import LogSums, log_sums, log_sums_gradient
from labelset.kernels._source import compiled, source
from labelset.kernels._trace import trace
from labelset.labels import Labels

__all__ = ["Way", "traced_way", "ways"]


@dataclass
class Way:
    """The loss of a row as a formula of log sum_on exp(a v), log sum_off exp(b v), mean v of on."""

    exponents: tuple[float, float]
    value: tuple[Formula, tuple[int, ...]]
    """The loss and its three slopes."""
    needs_on: bool
    reads_mean: bool
    function: Callable[[Tensor, Tensor, Tensor], Tensor]
    """That loss as it is written."""

    @cached_property
    def text(self) -> str:
        return source(*self.value, 3)


def traced_way(
    value: Callable[[Tensor, Tensor, Tensor], Tensor],
    exponents: tuple[float, float],
    needs_on: bool,
    reads_mean: bool,
) -> Way:
    """A way loss as formulas."""
    f, (y,), _ = trace(lambda on, off, mean: (value(on, off, mean),), 3)
    found = lowered(f, (y, *(f.slope(y, f.input(k)) for k in range(3))))
    return Way(exponents, found, needs_on, reads_mean, value)


def ways(
    loss: Way,
    impl: str,
    scores: Tensor,
    labels: Tensor | Labels,
    way: str,
    mean: bool,
    eager: Callable[[Tensor], Tensor],
) -> Tensor | None:
    """The loss along rows (`sample`), columns (`class`) or `both`; None without a kernel."""
    if way == "joint":
        return None
    kernel = _by_triton if impl == "triton" else _by_native
    return differentiable(scores, lambda v: kernel(loss, v, labels, way, mean), eager)


def _by_native(loss: Way, v: Tensor, labels: Tensor | Labels, way: str, mean: bool) -> Result:
    """Log-sum-exps and gradient in C, and between them the loss of each line by torch."""
    along = way in ("sample", "both"), way in ("class", "both")
    sums = log_sums(v, labels, *loss.exponents, *along)
    parts = [None if lines is None else _lines(loss, lines, mean) for lines in sums]
    values, slopes = zip(*(part or (None, None) for part in parts), strict=True)
    total = torch.stack([value for value in values if value is not None]).sum()
    gradient = log_sums_gradient(v, labels, *loss.exponents, sums, slopes)
    return total.float(), gradient, None


def _lines(loss: Way, lines: LogSums, mean: bool) -> tuple[Tensor, LogSums]:
    """The loss of the rows, or of the columns, and its slopes by what it is made of."""
    counted = (lines.weight if loss.needs_on else lines.known) > 0
    with torch.enable_grad():
        given = [t.detach().requires_grad_() for t in lines[:3]]
        on, off, total = given
        average = total / torch.where(lines.weight > 0, lines.weight, 1.0)
        each = loss.function(torch.where(counted, on, 0.0), off, average)
        value = torch.where(counted, each, 0.0).sum()
        if mean:
            value = value / counted.sum().clamp(min=1)
        slopes = torch.autograd.grad(value, given, allow_unused=True)
    by_on, by_off, by_sum = (
        torch.zeros_like(on) if d is None else d.nan_to_num(0.0) for d in slopes
    )
    return value.detach(), LogSums(by_on, by_off, by_sum, lines.weight, lines.known)


def _by_triton(loss: Way, v: Tensor, labels: Tensor | Labels, way: str, mean: bool) -> Result:
    from labelset.kernels._ways_launch import value_and_gradient

    value, gradient = value_and_gradient(
        compiled(loss.text), loss.exponents, v, labels, way, loss.needs_on, loss.reads_mean, mean
    )
    return value, gradient, None
