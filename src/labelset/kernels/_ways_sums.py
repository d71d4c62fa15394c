"""Sums of exponentials along rows and columns, where labels are on and where they are off."""

# mypy: ignore-errors
# (Triton's language is Python only to the eye.)

from __future__ import annotations

import triton
import triton.language as tl

from labelset.kernels import _device_math as math
from labelset.kernels._tile import checked, place, read_tile

__all__ = ["SAFE", "exponential", "joined", "log_sums", "logarithm", "weighted"]

# Up to here exponentials are summed as they are: neither they nor one over their sum overflow.
SAFE = tl.constexpr(40.0)
LEAST_WEIGHT = tl.constexpr(1e-8)  # a softer label takes the careful way too
NOTHING = tl.constexpr(float("-inf"))


@triton.jit(do_not_specialize=["rows", "tiles", "parts", "blocks", "steps"])
def log_sums(
    scores, target, stored, soft, row_parts, column_parts, state,
    rows, n, tiles, parts, blocks, steps, a, b,
    KIND: tl.constexpr, SOFT: tl.constexpr, EVEN: tl.constexpr, AXIS: tl.constexpr,
    BY_ROW: tl.constexpr, BY_COLUMN: tl.constexpr, MEAN: tl.constexpr, SHORT: tl.constexpr,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """log sum_on exp(a v) and log sum_off exp(b v) of the part of rows and columns in a block.

    A block of columns is gone down (AXIS 0) with a sum for each column, and one for each row and
    tile; a block of rows is gone along (AXIS 1). Row parts are (kinds, rows, parts), column parts
    (kinds, parts, columns), the kinds on, off and, with MEAN, the sum of v and the number on.
    """
    block, chunk = tl.program_id(0) % blocks, tl.program_id(0) // blocks
    begin = chunk * steps * (HEIGHT if AXIS == 0 else WIDTH)
    end = tl.minimum(
        (chunk + 1) * steps * (HEIGHT if AXIS == 0 else WIDTH), rows if AXIS == 0 else n
    )
    on_sum = tl.zeros([HEIGHT, WIDTH], tl.float32)
    off_sum, v_sum, count, most = on_sum, on_sum, on_sum, on_sum
    start = begin
    while start < end:
        for _ in tl.static_range(UNROLL):
            row, column, tile = place(block, start, AXIS, HEIGHT, WIDTH)
            v, on, off, _at, _inside = read_tile(
                scores, target, stored, soft, row, column, tile, rows, n, tiles, KIND, SOFT, EVEN
            )
            checked(on, KIND)
            e_on, e_off, size = _exponentials(v, on, off, a, b, SOFT, SHORT)
            most = tl.maximum(most, size)
            if BY_COLUMN or AXIS == 1:
                on_sum += e_on
                off_sum += e_off
            if MEAN and (BY_COLUMN or AXIS == 1):
                v_sum += v * on
                count += on
            if BY_ROW and AXIS == 0:
                at = row.to(tl.int64) * parts + block
                there = row < rows
                size = rows.to(tl.int64) * parts
                tl.store(row_parts + at, _short_log(tl.sum(e_on, 1)), mask=there)
                tl.store(row_parts + size + at, _short_log(tl.sum(e_off, 1)), mask=there)
                if MEAN:
                    tl.store(row_parts + 2 * size + at, tl.sum(v * on, 1), mask=there)
                    tl.store(row_parts + 3 * size + at, tl.sum(on, 1), mask=there)
            start += HEIGHT if AXIS == 0 else WIDTH
    widest = tl.max(tl.max(most, 1), 0)
    log_on, log_off = logarithm(tl.sum(on_sum, AXIS)), logarithm(tl.sum(off_sum, AXIS))
    if widest > SAFE:
        tl.atomic_max(state, widest)
        log_on, log_off = _careful(
            scores, target, stored, soft, row_parts, rows, n, tiles, parts, block, begin, end,
            a, b, KIND, SOFT, EVEN, AXIS, BY_ROW, HEIGHT, WIDTH,
        )  # fmt: skip
    if BY_COLUMN or AXIS == 1:
        if AXIS == 0:
            group = block * WIDTH + tl.arange(0, WIDTH)
            size = (tl.num_programs(0) // blocks).to(tl.int64) * n
            at, there = column_parts + chunk.to(tl.int64) * n + group, group < n
        else:
            group, size = block * HEIGHT + tl.arange(0, HEIGHT), rows.to(tl.int64) * parts
            at, there = row_parts + group.to(tl.int64) * parts + chunk, group < rows
        tl.store(at, log_on, mask=there)
        tl.store(at + size, log_off, mask=there)
        if MEAN:
            tl.store(at + 2 * size, tl.sum(v_sum, AXIS), mask=there)
            tl.store(at + 3 * size, tl.sum(count, AXIS), mask=there)


@triton.jit
def _exponentials(v, on, off, a, b, SOFT: tl.constexpr, SHORT: tl.constexpr):
    """on exp(a v), off exp(b v), and how far they are from the range in which that is safe."""
    if SOFT:
        size = tl.maximum(tl.abs(a * v), tl.abs(b * v))
        faint = (on > 0) & (on < LEAST_WEIGHT)
        size = tl.where(faint, float("inf"), size)
        return on * exponential(a * v, SHORT), off * exponential(b * v, SHORT), size
    else:
        x = v * tl.where(on > 0, a, b)
        e = exponential(x, SHORT)
        return e * on, e * off, tl.abs(x)


@triton.jit
def exponential(x, SHORT: tl.constexpr):
    """exp(x) for |x| up to a few hundred; to 16 bits where SHORT."""
    if SHORT:
        return math.exp2(x * math.LOG2_E)
    else:
        return math.bounded_exp(x)


@triton.jit
def _short_log(x):
    """log(x), -inf for 0, by the hardware alone: off by 2e-7 at most, as the sum itself may be."""
    return tl.where(x == 0, NOTHING, math.log2(tl.where(x == 0, 1.0, x)) * math.LN_2)


@triton.jit
def logarithm(x):
    """log(x), -inf for 0"""
    return tl.where(x > 0, math.log(tl.where(x > 0, x, 1.0)), tl.where(x == 0, NOTHING, x))


@triton.jit
def _careful(
    scores, target, stored, soft, row_parts, rows, n, tiles, parts, block, start, end, a, b,
    KIND: tl.constexpr, SOFT: tl.constexpr, EVEN: tl.constexpr, AXIS: tl.constexpr,
    BY_ROW: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """The same sums for scores of any size: exponentials are taken relative to the largest."""
    SIZE: tl.constexpr = WIDTH if AXIS == 0 else HEIGHT
    top_on = tl.full([SIZE], NOTHING, tl.float32)
    top_off, sum_on, sum_off = top_on, tl.zeros([SIZE], tl.float32), tl.zeros([SIZE], tl.float32)
    while start < end:
        row, column, tile = place(block, start, AXIS, HEIGHT, WIDTH)
        v, on, off, _at, _inside = read_tile(
            scores, target, stored, soft, row, column, tile, rows, n, tiles, KIND, SOFT, EVEN
        )
        x_on, x_off = weighted(a * v, on, SOFT), weighted(b * v, off, SOFT)
        top_on, sum_on = joined(top_on, sum_on, x_on, AXIS)
        top_off, sum_off = joined(top_off, sum_off, x_off, AXIS)
        if BY_ROW and AXIS == 0:
            at = row.to(tl.int64) * parts + block
            none, zero = tl.full([HEIGHT], NOTHING, tl.float32), tl.zeros([HEIGHT], tl.float32)
            top, sums = joined(none, zero, x_on, 1)
            tl.store(row_parts + at, top + logarithm(sums), mask=row < rows)
            top, sums = joined(none, zero, x_off, 1)
            size = rows.to(tl.int64) * parts
            tl.store(row_parts + size + at, top + logarithm(sums), mask=row < rows)
        start += HEIGHT if AXIS == 0 else WIDTH
    return top_on + logarithm(sum_on), top_off + logarithm(sum_off)


@triton.jit
def weighted(x, weight, SOFT: tl.constexpr):
    """x + log(weight): weight exp(x) as a power of e; nothing where the weight is 0."""
    if SOFT:
        x += math.log(tl.where(weight > 0, weight, 1.0))
    return tl.where(weight > 0, x, tl.where(weight == 0, NOTHING, weight))


@triton.jit
def joined(top, sums, x, AXIS: tl.constexpr):
    """Sums of exponentials relative to their largest, with those of x along an axis added."""
    new = tl.maximum(top, tl.max(x, AXIS))
    level = tl.where(new > NOTHING, new, 0.0)
    more = tl.sum(math.exp(x - tl.expand_dims(level, AXIS)), AXIS)
    return new, sums * math.exp(top - level) + more
