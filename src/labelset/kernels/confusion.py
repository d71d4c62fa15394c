"""Smooth metrics by kernels: sums of soft decisions, a ratio, and the gradient back."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from labelset.formulas.formula import Formula, Step
from labelset.formulas.passes import lower
from labelset.formulas.tracer import trace
from labelset.kernels.dispatch import Kernel, Result, label_types
from labelset.kernels.native.calls import NativeCall, address, grid, loops, per_label, sizes
from labelset.kernels.native.program import Program, check_room
from labelset.labels import Labels

Outputs = tuple[Formula, tuple[int, ...]]
COLUMNS = 2  # how many per-label parameters a kernel reads


@dataclass(eq=False)
class SmoothMetric:
    """A smooth metric as formulas, with the per-label parameters that they read."""

    decide: Outputs
    """yes(v), no(v) and their slopes."""
    ratio: Outputs
    """The loss of tp, fp, fn and tn, and its slope by each."""
    opposite: bool
    """Whether the slope of `no` is minus that of `yes`."""
    columns: list[Tensor]
    texts: dict[bool, tuple[str, str, str]] = field(default_factory=dict)

    @property
    def counts_last(self) -> bool:
        """Whether the loss depends on tn, to which nearly every entry adds."""
        formula, outputs = self.ratio
        return formula.known(outputs[4]) != 0

    @cached_property
    def program(self) -> Program:
        return Program(*self.decide)

    @cached_property
    def native_ratio(self) -> Ratio:
        return ratio(*self.ratio)

    def text(self, short: bool) -> tuple[str, str, str]:
        """Triton functions of the decision, its slopes and the ratio; `short`: 16-bit scores."""
        from labelset.kernels.triton.source import source

        if short not in self.texts:
            formula, outputs = self.decide
            inputs = 1 + len(self.columns)
            halves = (lower(formula, half) for half in (outputs[:2], outputs[2:]))
            both = [source(*half, inputs, short) for half in halves]
            self.texts[short] = (both[0], both[1], source(*self.ratio, 4))
        return self.texts[short]


def traced_metric(
    decide: Callable[[Tensor], tuple[Tensor, Tensor]],
    loss: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor],
    width: int,
    device: Any,
) -> SmoothMetric | None:
    """The formulas of a metric; None where they need learnt or too many per-label parameters."""
    f, (yes, no), columns = trace(lambda v: decide(v), 1, width, device)
    if any(t.requires_grad for t in columns) or len(columns) > COLUMNS:
        return None
    v = f.input(0)
    slopes = f.slope(yes, v), f.slope(no, v)
    r, (value,), _ = trace(lambda tp, fp, fn, tn: (loss(tp, fp, fn, tn),), 4)
    ratio = lower(r, (value, *(r.slope(value, r.input(k)) for k in range(4))))
    opposite = f.neg(slopes[0]) == slopes[1]
    metric = SmoothMetric(lower(f, (yes, no, *slopes)), ratio, opposite, columns)
    check_room(metric.program, device)
    return metric


def confusion(
    metric: SmoothMetric,
    impl: str,
    scores: Tensor,
    labels: Tensor | Labels,
    average: str,
    mean: bool,
) -> Kernel:
    """The mean over groups of which something is known, or the sum, for all such matrices."""
    if impl == "native":
        return lambda v, y: _by_native(metric, v, y, average, mean)
    from labelset.kernels.triton.confusion import metric_kernel

    return metric_kernel(metric, scores, label_types(labels), average, mean)


def _by_native(
    metric: SmoothMetric, v: Tensor, labels: Tensor | Labels, average: str, mean: bool
) -> Result:
    near = average in ("macro", "samples") and _are_near(metric.program, v, average == "samples")
    work = _at_once if near else _in_two_passes
    value, gradient, share = work(metric, v, labels, average, mean)
    rest = None if share == 1 else torch.tensor(share, dtype=torch.float32)
    return torch.tensor(value, dtype=torch.float32), gradient, rest


# ---- in C, ratios in double precision: the steps of a formula as they stand ----------------------


SWAPPED = {"lt": "gt", "le": "ge"}


class Ratio(NamedTuple):
    """A program as `evaluate` of confusion.h reads it."""

    steps: npt.NDArray[np.int32]
    """How many steps; which of them are the loss and its slopes by the four sums; the steps, each
    an operation and three arguments."""
    numbers: npt.NDArray[np.float64]
    """The value of each step that is a constant or a power."""

    @property
    def address(self) -> tuple[int, int]:
        return self.steps.ctypes.data, self.numbers.ctypes.data


def ratio(formula: Formula, outputs: Sequence[int]) -> Ratio:
    """The program of a lowered formula of the sums."""
    steps = [x for step in formula.steps for x in _encoded(step)]
    head = len(formula.steps), *outputs
    numbers = [step.value for step in formula.steps]
    return Ratio(np.array([*head, *steps], np.int32), np.array(numbers, np.float64))


def _encoded(step: Step) -> list[int]:
    op, args = step.op, step.args
    if op == "input":
        args = (int(step.value),)
    elif op == "log1p_unit":
        op = "log1p"
    elif op in SWAPPED:
        op, args = SWAPPED[op], args[::-1]
    return [loops.RATIO_STEPS.index(op), *args, *[0] * (3 - len(args))]


NEAR = 2**20  # entries of a part whose slopes are sooner read again than computed again


class SoftCounts(NamedTuple):
    """Sums in float64, one per column or per row."""

    sums: Tensor
    """(4, lines): of yes * on, yes * off, no * on, no * off; 0 for the last if not wanted."""
    on: Tensor
    """(lines,): how much is on."""
    known: Tensor
    """(lines,): how many entries are known."""


def soft_counts(
    program: Program,
    columns: Sequence[Tensor],
    scores: Tensor,
    labels: Tensor | Labels,
    by_row: bool,
    last: bool = True,
) -> SoftCounts:
    """The soft confusion matrix of each row, or of each column, of yes(v) and no(v)."""
    total = torch.from_numpy(_sums(program, columns, NativeCall(scores, labels), by_row, last))
    return SoftCounts(total[:4], total[4], scores.shape[int(by_row)] - total[5])


def _sums(
    program: Program, columns: Sequence[Tensor], call: NativeCall, by_row: bool, last: bool
) -> npt.NDArray[np.float64]:
    """(6, lines): of yes * on, yes * off, no * on, no * off, on, unknown."""
    others = per_label(columns, program.columns)
    rows, n = call.v.shape
    tall, wide = grid(rows, n, by_row, not by_row)
    bands = -(-rows // tall)
    sums = np.zeros((1, 6, rows) if by_row else (bands, 6, n))
    what = address(program.values), sizes(others), by_row, tall, wide, last, sums.ctypes.data
    call.run(loops.decisions, bands * -(-n // wide), (program, others, sums), *what)
    total: npt.NDArray[np.float64] = sums[0] if len(sums) == 1 else sums.sum(0)
    total[3] *= last
    return total


def soft_counts_gradient(
    program: Program,
    columns: Sequence[Tensor],
    scores: Tensor,
    labels: Tensor | Labels,
    by_row: bool,
    factors: Tensor,
) -> Tensor:
    """sum of factors * sums, by the scores; factors are (4, lines), or (4, 1) for all lines."""
    call, others = NativeCall(scores, labels), per_label(columns, program.columns)
    rows, n = call.v.shape
    by = factors.detach().numpy()
    if program.opposite:
        by = np.concatenate([by[:2] - by[2:], np.zeros_like(by[2:])])
    each = np.empty((4, rows if by_row else n), np.float32)
    each[:] = by
    gradient = torch.empty_like(call.v)
    codes = address(program.slopes), program.opposite, sizes(others)
    out = by_row, each.ctypes.data, gradient.data_ptr()
    alive, units = (program, others, each, gradient), -(-call.v.numel() // loops.UNIT)
    call.run(loops.returns, units, alive, *codes, *out)
    return gradient


def _are_near(program: Program, scores: Tensor, by_row: bool) -> bool:
    """Whether parts are of whole lines, and their slopes can wait in the gradient for the sums."""
    rows, n = scores.shape
    tall, wide = grid(rows, n, by_row, not by_row)
    whole = (by_row or tall >= rows) and min(tall, rows) * wide <= NEAR
    return whole and program.opposite and scores.dtype == torch.float32


def _at_once(
    metric: SmoothMetric, scores: Tensor, labels: Tensor | Labels, average: str, mean: bool
) -> tuple[float, Tensor, float]:
    """The loss, its gradient, and what this is still to be multiplied by.

    The mean is over all lines, until it is known of how many of them anything is known.
    """
    program, ratio, by_row = metric.program, metric.native_ratio, average == "samples"
    call, others = NativeCall(scores, labels), per_label(metric.columns, program.columns)
    rows, n = call.v.shape
    lines, entries = (rows, n) if by_row else (n, rows)
    tall, wide = grid(rows, n, by_row, not by_row)
    parts = -(-rows // tall) * -(-n // wide)
    totals, gradient = np.zeros((parts, 2)), torch.empty_like(call.v)
    what = address(program.values_and_slope), sizes(others), by_row, tall, wide
    how = *ratio.address, False, 1 / lines if mean else 1.0, entries
    out = metric.counts_last, totals.ctypes.data, how, gradient.data_ptr()
    call.run(loops.ratios, parts, (program, others, ratio, totals, gradient), *what, *out)
    value, known = map(math.fsum, totals.T.tolist())
    share = lines / known if mean and known else 1.0
    return value * share, gradient, share


def _in_two_passes(
    metric: SmoothMetric, scores: Tensor, labels: Tensor | Labels, average: str, mean: bool
) -> tuple[float, Tensor, float]:
    """The same where slopes cannot wait for the sums."""
    by_row, by_on, total = average in ("samples", "micro"), average == "weighted", np.zeros(2)
    given, ratio = (metric.program, metric.columns), metric.native_ratio
    sums = _sums(*given, NativeCall(scores, labels), by_row, metric.counts_last)
    entries = scores.shape[int(by_row)]
    if average == "micro":
        sums, entries = sums.sum(1, keepdims=True), scores.numel()
    weight = float((sums[4] if by_on else sums[5] < entries).sum())
    how = *ratio.address, by_on, 1 / weight if mean and weight else 1.0, entries
    loops.weigh(how, sums.shape[1], sums.ctypes.data, total.ctypes.data)
    slopes = torch.from_numpy(sums[:4])
    gradient = soft_counts_gradient(*given, scores, labels, by_row, slopes)
    return float(total[0]), gradient, 1.0
