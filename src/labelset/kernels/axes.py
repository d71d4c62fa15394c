"""Way losses by kernels: all log-sum-exps in one reading, the gradient in another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from labelset.formulas.formula import Formula, evaluate
from labelset.formulas.passes import lower
from labelset.formulas.tracer import trace
from labelset.kernels.dispatch import Kernel, Result, label_types
from labelset.kernels.native.calls import NativeCall, grid, loops
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


# ---- log-sum-exps in C, along rows and columns in one pass, and their gradient -------------------


class LogSums(NamedTuple):
    """What a loss of one row (or column) of scores is made of, in float64, one per line."""

    on: Tensor
    """log sum y exp(a v), y how much a label is on; -inf where none is."""
    off: Tensor
    """log sum (1 - y) exp(b v); -inf where none is off."""
    sum: Tensor
    """sum y v"""
    weight: Tensor
    """sum y"""
    known: Tensor
    """How many entries are known."""


Floats = npt.NDArray[np.float64]
Both = tuple[LogSums | None, LogSums | None]
"""Of the rows and of the columns; None for those not asked for."""


def log_sums(
    scores: Tensor, labels: Tensor | Labels, a: float, b: float, rows: bool, columns: bool
) -> Both:
    """The log-sum-exps of a v over what is on and of b v over what is off."""
    call = NativeCall(scores, labels)
    height, n = call.v.shape
    tall, wide = grid(height, n, rows, columns)
    bands, strips = -(-height // tall), -(-n // wide)
    of_rows = np.zeros((strips, height, 7))
    of_columns = np.zeros((bands, 7, n) if columns else (0, 7, 0), np.float32)
    places = of_rows.ctypes.data, of_columns.ctypes.data
    alive = of_rows, of_columns
    call.run(loops.ways, bands * strips, alive, a, b, rows, columns, tall, wide, *places)
    return (
        _joined(of_rows.transpose(0, 2, 1), n) if rows else None,
        _joined(of_columns, height) if columns else None,
    )


def _joined(parts: npt.NDArray[np.floating], entries: int) -> LogSums:
    """From (parts, 7, lines): level and sum of on, of off, sum of y v, of y, of unknown."""
    each = parts.transpose(1, 0, 2).astype(np.float64)
    on, off = _total(each[0], each[1]), _total(each[2], each[3])
    total, weight, unknown = each[4:].sum(1)
    return LogSums(*map(torch.from_numpy, (on, off, total, weight, entries - unknown)))


def _total(level: Floats, part: Floats) -> Floats:
    """log sum part exp(level) over (parts, lines)."""
    with np.errstate(all="ignore"):  # the logarithm of nothing is -inf
        top: Floats = level[0] if len(level) == 1 else np.where(part > 0, level, -np.inf).max(0)
        top = np.where(top == -np.inf, 0.0, top)
        below = np.minimum(level - top, 0.0)  # more only where a part is nothing
        total: Floats = top + np.log((part * np.exp(below)).sum(0))
    return total


def log_sums_gradient(
    scores: Tensor, labels: Tensor | Labels, a: float, b: float, sums: Both, slopes: Both
) -> Tensor:
    """The gradient by the scores of whatever has these slopes by the `on`, `off` and `sum` of
    rows and columns (the rest of `slopes` is not read)."""
    call = NativeCall(scores, labels)
    lines = [_rounded(s, d, a, b) for s, d in zip(sums, slopes, strict=True)]
    gradient = torch.empty_like(call.v)
    places = [0 if t is None else t.ctypes.data for t in lines]
    call.run(loops.back, len(call.v), (lines, gradient), a, b, *places, gradient.data_ptr())
    return gradient


def _rounded(
    sums: LogSums | None, slopes: LogSums | None, a: float, b: float
) -> npt.NDArray[np.float32] | None:
    """(5, lines) float32: factor and level of on, of off, and the slope of the sum.

    slope k exp(k v - log-sum-exp) = factor exp(k v - level): the level is rounded to float32, and
    the factor takes what that lost.
    """
    if sums is None or slopes is None:
        return None
    parts: list[npt.NDArray[np.floating]] = []
    with np.errstate(all="ignore"):  # infinities go through
        for level, slope, k in ((sums.on, slopes.on, a), (sums.off, slopes.off, b)):
            full = level.numpy()
            short = np.where(full == -np.inf, np.inf, full).astype(np.float32)  # exp(-inf) = 0
            lost = np.where(np.isinf(short), 0.0, short - full)
            parts += [slope.detach().double().numpy() * k * np.exp(lost), short]
        return np.stack([*parts, slopes.sum.detach().numpy()]).astype(np.float32)
