"""The loss of each row and column from its log-sum-exps, and what its gradient needs of it."""

# mypy: ignore-errors
# (Triton's language is Python only to the eye.)

from __future__ import annotations

import triton
import triton.language as tl

from labelset.kernels import _device_math as math
from labelset.kernels._ways_sums import NOTHING, joined, logarithm

__all__ = ["KEPT", "finish", "finish_part"]

# Of each row and column: the weights of exp(a v) and exp(b v) in the gradient; both log-sum-exps
# and both slopes, from which these come; and what is added to the gradient of a label on.
KEPT = tl.constexpr(7)


@triton.jit(do_not_specialize=["rows", "n", "parts", "chunks", "row_programs"])
def finish(
    state, row_parts, column_parts, row_kept, column_kept, values,
    rows, n, parts, chunks, row_programs, a, b,
    value: tl.constexpr, NEEDS_ON: tl.constexpr, MEAN: tl.constexpr,
    BY_ROW: tl.constexpr, BY_COLUMN: tl.constexpr,
    ROWS: tl.constexpr, ROW_PARTS: tl.constexpr, COLUMNS: tl.constexpr, COLUMN_PARTS: tl.constexpr,
):  # fmt: skip
    """A block of rows, or of columns. `state` is the largest exponent, rows and columns counted."""
    finish_part(
        tl.program_id(0), state, row_parts, column_parts, row_kept, column_kept, values,
        rows, n, parts, chunks, row_programs, a, b, value, NEEDS_ON, MEAN, BY_ROW, BY_COLUMN,
        ROWS, ROW_PARTS, COLUMNS, COLUMN_PARTS,
    )  # fmt: skip


@triton.jit
def finish_part(
    program, state, row_parts, column_parts, row_kept, column_kept, values,
    rows, n, parts, chunks, row_programs, a, b,
    value: tl.constexpr, NEEDS_ON: tl.constexpr, MEAN: tl.constexpr,
    BY_ROW: tl.constexpr, BY_COLUMN: tl.constexpr,
    ROWS: tl.constexpr, ROW_PARTS: tl.constexpr, COLUMNS: tl.constexpr, COLUMN_PARTS: tl.constexpr,
):  # fmt: skip
    """What the program of that number does."""
    if program < row_programs:
        if BY_ROW:
            _finish(
                row_parts, row_kept, values + program, state + 1, program * ROWS, rows, parts,
                parts, 1, a, b, value, NEEDS_ON, MEAN, ROWS, ROW_PARTS,
            )  # fmt: skip
    else:
        if BY_COLUMN:
            _finish(
                column_parts, column_kept, values + program, state + 2,
                (program - row_programs) * COLUMNS, n, chunks,
                1, n, a, b, value, NEEDS_ON, MEAN, COLUMNS, COLUMN_PARTS,
            )  # fmt: skip


@triton.jit
def _finish(
    given, kept, values, counted, first, groups, parts, group_step, part_step, a, b,
    value: tl.constexpr, NEEDS_ON: tl.constexpr, MEAN: tl.constexpr,
    GROUPS: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    group = first + tl.arange(0, GROUPS)
    there = group < groups
    at = given + group.to(tl.int64) * group_step
    size = groups.to(tl.int64) * parts
    on = _log_sum(at, there, parts, part_step, GROUPS, PARTS)
    off = _log_sum(at + size, there, parts, part_step, GROUPS, PARTS)
    count = tl.full([GROUPS], 1.0, tl.float32)
    mean = on * 0.0
    if MEAN:
        count = _sum(at + 3 * size, there, parts, part_step, GROUPS, PARTS)
        count = tl.where(count > 0, count, 1.0)
        mean = _sum(at + 2 * size, there, parts, part_step, GROUPS, PARTS) / count
    counts = on != NOTHING  # (and not >: what is not a number counts)
    if not NEEDS_ON:
        counts = counts | (off != NOTHING)
    counts = counts & there
    loss, by_on, by_off, by_mean = value(tl.where(counts, on, 0.0), off, mean)
    tl.store(values, tl.sum(tl.where(counts, loss, 0.0), 0))
    tl.atomic_add(counted, tl.sum(tl.where(counts, 1.0, 0.0), 0))
    size = groups.to(tl.int64)
    _keep(kept + group, size, 0, on, by_on * a, counts, there)
    _keep(kept + group, size, 1, off, by_off * b, counts, there)
    if MEAN:
        tl.store(kept + group + 6 * size, tl.where(counts, by_mean / count, 0.0), mask=there)


@triton.jit
def _keep(kept, size, side: tl.constexpr, level, slope, counts, there):
    """A log-sum-exp and a slope, and exp(-level) slope, which is safe where all scores are."""
    some = (level != NOTHING) & counts
    slope = tl.where(some, slope, 0.0)
    tl.store(kept + side * size, tl.where(some, slope * math.exp(-level), 0.0), mask=there)
    tl.store(kept + (2 + side) * size, tl.where(some, level, float("inf")), mask=there)
    tl.store(kept + (4 + side) * size, slope, mask=there)


@triton.jit
def _log_sum(at, there, parts, part_step, GROUPS: tl.constexpr, PARTS: tl.constexpr):
    top = tl.full([GROUPS], NOTHING, tl.float32)
    sums = tl.zeros([GROUPS], tl.float32)
    start = parts * 0
    while start < parts:
        x = _part(at, there, start, parts, part_step, NOTHING, PARTS)
        top, sums = joined(top, sums, x, 1)
        start += PARTS
    return top + logarithm(sums)


@triton.jit
def _sum(at, there, parts, part_step, GROUPS: tl.constexpr, PARTS: tl.constexpr):
    sums = tl.zeros([GROUPS], tl.float32)
    start = parts * 0
    while start < parts:
        sums += tl.sum(_part(at, there, start, parts, part_step, 0.0, PARTS), 1)
        start += PARTS
    return sums


@triton.jit
def _part(at, there, start, parts, part_step, none: tl.constexpr, PARTS: tl.constexpr):
    part = start + tl.arange(0, PARTS)
    inside = there[:, None] & (part < parts)[None, :]
    return tl.load(at[:, None] + (part * part_step).to(tl.int64)[None, :], mask=inside, other=none)
