"""The gradient of a loss of log-sum-exps: from each row and each column to their entries."""

# mypy: ignore-errors
# (Triton's language is Python only to the eye.)

from __future__ import annotations

import triton
import triton.language as tl

from labelset.kernels import _device_math as math
from labelset.kernels._tile import place, read_tile
from labelset.kernels._ways_sums import SAFE, exponential, weighted

__all__ = ["back"]

LANES = tl.constexpr(1024)


@triton.jit(do_not_specialize=["rows", "tiles", "blocks", "steps", "row_programs", "programs"])
def back(
    scores, target, stored, soft, row_kept, column_kept, values, state, gradient, result,
    rows, n, tiles, blocks, steps, row_programs, programs, a, b,
    KIND: tl.constexpr, SOFT: tl.constexpr, EVEN: tl.constexpr,
    BY_ROW: tl.constexpr, BY_COLUMN: tl.constexpr, MEAN: tl.constexpr, SHORT: tl.constexpr,
    REDUCE: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """A block of columns, gone down; its first program adds up the value as well."""
    block, chunk = tl.program_id(0) % blocks, tl.program_id(0) // blocks
    per_row, per_column = 1.0, 1.0
    if REDUCE:
        per_row = 1.0 / tl.maximum(tl.load(state + 1), 1.0)
        per_column = 1.0 / tl.maximum(tl.load(state + 2), 1.0)
    if block + chunk == 0:
        value = tl.sum(tl.zeros([LANES], tl.float32), 0)
        if BY_ROW:
            value += _total(values, row_programs) * per_row
        if BY_COLUMN:
            value += _total(values + row_programs, programs - row_programs) * per_column
        tl.store(result, value)
    start = chunk * steps * HEIGHT
    end = tl.minimum((chunk + 1) * steps * HEIGHT, rows)
    column = block * WIDTH + tl.arange(0, WIDTH)
    if tl.load(state) > SAFE:
        while start < end:
            row, column, tile = place(block, start, 0, HEIGHT, WIDTH)
            v, on, off, at, inside = read_tile(
                scores, target, stored, soft, row, column, tile, rows, n, tiles, KIND, SOFT, EVEN
            )
            slope = v * 0.0
            if BY_ROW:
                slope += _careful(v, on, off, row_kept, row, rows, per_row, a, b, 1, MEAN, SOFT)
            if BY_COLUMN:
                slope += _careful(
                    v, on, off, column_kept, column, n, per_column, a, b, 0, MEAN, SOFT
                )
            tl.store(gradient + at, slope.to(gradient.dtype.element_ty), mask=inside)
            start += HEIGHT
    else:
        if BY_COLUMN:
            column_on, column_off, column_mean = _weights(
                column_kept, column, n, per_column, 0, MEAN, EVEN
            )
        while start < end:
            for _ in tl.static_range(UNROLL):
                row, column, tile = place(block, start, 0, HEIGHT, WIDTH)
                v, on, off, at, inside = read_tile(
                    scores, target, stored, soft, row, column, tile, rows, n, tiles,
                    KIND, SOFT, EVEN,
                )  # fmt: skip
                if BY_ROW:
                    by_on, by_off, mean = _weights(row_kept, row, rows, per_row, 1, MEAN, EVEN)
                    if BY_COLUMN:
                        by_on, by_off, mean = (
                            by_on + column_on,
                            by_off + column_off,
                            mean + column_mean,
                        )
                else:
                    by_on, by_off, mean = column_on, column_off, column_mean
                slope = _slope(v, on, off, by_on, by_off, mean, a, b, SOFT, MEAN, SHORT)
                slope = slope.to(gradient.dtype.element_ty)
                if EVEN:
                    tl.store(gradient + at, slope)
                else:
                    tl.store(gradient + at, slope, mask=inside)
                start += HEIGHT


@triton.jit
def _slope(
    v, on, off, by_on, by_off, mean, a, b,
    SOFT: tl.constexpr, MEAN: tl.constexpr, SHORT: tl.constexpr,
):  # fmt: skip
    """by_on exp(a v) where a label is on, by_off exp(b v) where it is off."""
    if SOFT:
        slope = on * by_on * exponential(a * v, SHORT) + off * by_off * exponential(b * v, SHORT)
    else:
        x = v * tl.where(on > 0, a, b)
        slope = exponential(x, SHORT) * tl.where(on > 0, by_on, by_off)
    if MEAN:
        slope += on * mean
    return slope


@triton.jit
def _weights(
    kept, group, groups, share, AXIS: tl.constexpr, MEAN: tl.constexpr, EVEN: tl.constexpr
):
    """What `finish` kept for all scores that are safe, times one over the number of groups."""
    there = (group < groups) | EVEN
    by_on = tl.load(kept + group, mask=there, other=0.0) * share
    by_off = tl.load(kept + groups + group, mask=there, other=0.0) * share
    mean = by_on
    if MEAN:
        mean = tl.load(kept + 6 * groups + group, mask=there, other=0.0) * share
    return tl.expand_dims(by_on, AXIS), tl.expand_dims(by_off, AXIS), tl.expand_dims(mean, AXIS)


@triton.jit
def _careful(
    v, on, off, kept, group, groups, share, a, b,
    AXIS: tl.constexpr, MEAN: tl.constexpr, SOFT: tl.constexpr,
):  # fmt: skip
    """slope exp(a v - level) where a label is on, and the same where it is off."""
    there = group < groups
    slope = _careful_side(a * v, on, kept, group, groups, there, 0, AXIS, SOFT)
    slope += _careful_side(b * v, off, kept, group, groups, there, 1, AXIS, SOFT)
    if MEAN:
        mean = tl.load(kept + 6 * groups + group, mask=there, other=0.0)
        slope += on * tl.expand_dims(mean, AXIS)
    return slope * share


@triton.jit
def _careful_side(
    x, weight, kept, group, groups, there,
    side: tl.constexpr, AXIS: tl.constexpr, SOFT: tl.constexpr,
):  # fmt: skip
    level = tl.load(kept + (2 + side) * groups + group, mask=there, other=0.0)
    slope = tl.load(kept + (4 + side) * groups + group, mask=there, other=0.0)
    # rounded as the level was, so that an entry that alone makes it up comes out as 1
    e = math.exp(weighted(x, weight, SOFT) - tl.expand_dims(level, AXIS))
    return tl.where(weight > 0, e * tl.expand_dims(slope, AXIS), 0.0)


@triton.jit
def _total(values, count):
    """The sum of so many numbers."""
    sums = tl.zeros([LANES], tl.float32)
    start = count * 0
    while start < count:
        at = start + tl.arange(0, LANES)
        sums += tl.load(values + at, mask=at < count, other=0.0)
        start += LANES
    return tl.sum(sums, 0)
