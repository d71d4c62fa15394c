"""Way losses by kernels: all log-sum-exps in one reading, the gradient in another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from labelset.formulas.formula import Formula, evaluate
from labelset.formulas.passes import lower
from labelset.formulas.tracer import trace
from labelset.kernels.dispatch import Kernel, Result, label_types
from labelset.kernels.native.axes import LogSums, log_sums, log_sums_gradient
from labelset.labels import Labels


@dataclass(eq=False)
class Way:
    """The loss of a row as a formula of log sum_on exp(a v), log sum_off exp(b v), mean v of on."""

    exponents: tuple[float, float]
    value: tuple[Formula, tuple[int, ...]]
    """The loss and its three slopes."""
    needs_on: bool
    reads_mean: bool

    @cached_property
    def text(self) -> str:
        from labelset.kernels.triton.source import source

        return source(*self.value, 3)


def traced_way(
    value: Callable[[Tensor, Tensor, Tensor], Tensor],
    exponents: tuple[float, float],
    needs_on: bool,
    reads_mean: bool,
) -> Way:
    """A way loss as formulas."""
    f, (y,), _ = trace(lambda on, off, mean: (value(on, off, mean),), 3)
    found = lower(f, (y, *(f.slope(y, f.input(k)) for k in range(3))))
    return Way(exponents, found, needs_on, reads_mean)


def ways(
    loss: Way, impl: str, scores: Tensor, labels: Tensor | Labels, way: str, mean: bool
) -> Kernel:
    """The loss along rows (`sample`), columns (`class`) or `both` of all such matrices."""
    if impl == "native":
        return lambda v, y: _by_native(loss, v, y, way, mean)
    from labelset.kernels.triton.axes import way_kernel

    return way_kernel(loss, scores, label_types(labels), way, mean)


def _by_native(loss: Way, v: Tensor, labels: Tensor | Labels, way: str, mean: bool) -> Result:
    """Log-sum-exps and gradient in C, and between them the loss of each line in float64."""
    along = way in ("sample", "both"), way in ("class", "both")
    sums = log_sums(v, labels, *loss.exponents, *along)
    parts = [(0.0, None) if lines is None else _lines(loss, lines, mean) for lines in sums]
    (of_rows, by_row), (of_columns, by_column) = parts
    gradient = log_sums_gradient(v, labels, *loss.exponents, sums, (by_row, by_column))
    return torch.tensor(of_rows + of_columns, dtype=torch.float32), gradient, None


def _lines(loss: Way, lines: LogSums, mean: bool) -> tuple[float, LogSums]:
    """The loss of the rows, or of the columns, and its slopes by what it is made of."""
    on, off, total, weight, known = (t.numpy() for t in lines)
    counted = (weight if loss.needs_on else known) > 0
    share = 1 / max(int(counted.sum()), 1) if mean else 1.0
    heavy = np.where(weight > 0, weight, 1.0)
    given = [np.where(counted, on, 0.0), off, total / heavy]
    each, *slopes = (share * np.where(counted, part, 0.0) for part in evaluate(*loss.value, given))
    by_on, by_off, by_mean = (np.where(np.isnan(d), 0.0, d) for d in slopes)
    by = [torch.from_numpy(d) for d in (by_on, by_off, by_mean / heavy)]
    return float(each.sum()), LogSums(by[0], by[1], by[2], lines.weight, lines.known)
