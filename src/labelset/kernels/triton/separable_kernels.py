"""Separable losses inside a kernel: value and gradient of a block of entries."""

# mypy: ignore-errors
# (Triton's language is Python only to the eye.)

from __future__ import annotations

import triton
import triton.language as tl

from labelset.kernels.triton.tile import OUTSIDE, stored_block


@triton.jit(do_not_specialize=["tiles", "skipped", "all_tiles", "scale"])
def block_of_entries(
    scores, target, stored, soft, column0, column1, gradient, partial, known,
    n, stride, tiles, skipped, all_tiles, scale,
    formula: tl.constexpr, KIND: tl.constexpr, COLUMNS: tl.constexpr,
    STRIDE0: tl.constexpr, STRIDE1: tl.constexpr, SOFT: tl.constexpr, EVEN: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """One block of one row: its gradient, the sum of its values, how many of them are known."""
    program = tl.program_id(0)
    row, tile = program // tiles, program % tiles
    place = row * all_tiles + skipped + tile
    value, counted = _block(
        scores, target, stored, soft, column0, column1, gradient,
        n, stride, row, tile, place, skipped, scale,
        formula, KIND, COLUMNS, STRIDE0, STRIDE1, SOFT, EVEN, BLOCK,
    )  # fmt: skip
    tl.store(partial + place, value)
    if SOFT or KIND == "hard":
        tl.store(known + place, counted)


@triton.jit(do_not_specialize=["blocks", "scale", "entries"])
def few_entries(
    scores, target, gradient, out, n, blocks, scale, entries,
    formula: tl.constexpr, KIND: tl.constexpr, SOFT: tl.constexpr, EVEN: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """All blocks of one long row by one program, with their mean: one launch for both.

    Where some entries are unknown the gradient is multiplied once more, by their share.
    """
    total = tl.sum(tl.zeros([BLOCK], tl.float32), 0)
    known = total
    place = blocks * 0
    while place < blocks:
        value, counted = _block(
            scores, target, target, target, scores, scores, gradient,
            n, n, place * 0, place, place, 0, scale,
            formula, KIND, 0, 0, 0, SOFT, EVEN, BLOCK,
        )  # fmt: skip
        total += value
        known += counted
        place += 1
    if SOFT or KIND == "hard":
        more = _share(known, entries)
        total *= more
        if more != 1.0:
            tl.debug_barrier()
            _multiply(gradient, n, blocks, more, BLOCK)
    tl.store(out, total)


@triton.jit
def _multiply(gradient, n, blocks, more, BLOCK: tl.constexpr):
    block = blocks * 0
    while block < blocks:
        at = block * BLOCK + tl.arange(0, BLOCK)
        slope = tl.load(gradient + at, mask=at < n, other=0.0).to(tl.float32)
        tl.store(gradient + at, (slope * more).to(gradient.dtype.element_ty), mask=at < n)
        block += 1


@triton.jit
def _block(
    scores, target, stored, soft, column0, column1, gradient,
    n, stride, row, tile, place, skipped, scale,
    formula: tl.constexpr, KIND: tl.constexpr, COLUMNS: tl.constexpr,
    STRIDE0: tl.constexpr, STRIDE1: tl.constexpr, SOFT: tl.constexpr, EVEN: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Writes the gradient of a block; the sum of its values, and how many of them are known.

    That number is NaN where a label lies outside [0, 1], which is for `_share` to complain about.
    The scores may be those of a part of the labels, after `skipped` blocks, and their rows, like
    those of the gradient, `stride` entries apart.
    """
    column = tile * BLOCK + tl.arange(0, BLOCK)
    inside = (column < n) | EVEN  # where blocks fill the rows exactly, no entry lies outside
    at = row.to(tl.int64) * stride + column
    v = tl.load(scores + at, mask=inside, other=0.0).to(tl.float32)
    told = inside
    counted = 0.0
    if SOFT:
        if KIND == "stored":
            first, last = tl.load(target + place), tl.load(target + place + 1)
            y = stored_block(first, last, stored, soft, column + skipped * BLOCK, SOFT, BLOCK)
        else:
            y = _dense(target, row, n, column, inside).to(tl.float32)
        told = (y == y) & inside
        v = tl.where(told, v, 0.0)
        y = tl.where(told, y, 0.0)
        counted = tl.sum(tl.where((y < 0) | (y > 1), float("nan"), told.to(tl.float32)), 0)
        value, slope = _blend(
            formula, v, y, column0, column1, column, inside, COLUMNS, STRIDE0, STRIDE1
        )
    elif KIND == "stored":
        first, last = tl.load(target + place), tl.load(target + place + 1)
        if first == last:  # most blocks have no label on, and only the other side is computed
            on = tl.zeros([BLOCK], tl.int1)
            value, slope = _hard(
                formula, v, on, column0, column1, column, inside, COLUMNS, STRIDE0, STRIDE1
            )
        else:
            y = stored_block(first, last, stored, soft, column + skipped * BLOCK, SOFT, BLOCK)
            value, slope = _hard(
                formula, v, y != 0, column0, column1, column, inside, COLUMNS, STRIDE0, STRIDE1
            )
    else:
        y = _dense(target, row, n, column, inside)
        if KIND == "hard":
            outside = (y < 0) | (y > 1)
            counted = tl.sum(tl.where(outside, float("nan"), inside.to(tl.float32)), 0)
        value, slope = _hard(
            formula, v, y != 0, column0, column1, column, inside, COLUMNS, STRIDE0, STRIDE1
        )
    if SOFT or not EVEN:
        value = tl.where(told, value, 0.0)
        slope = tl.where(told, slope, 0.0)
    tl.store(gradient + at, (slope * scale).to(gradient.dtype.element_ty), mask=inside)
    return tl.sum(value, 0) * scale, counted


@triton.jit
def _dense(target, row, n, column, inside):
    return tl.load(target + row.to(tl.int64) * n + column, mask=inside, other=0)


@triton.jit
def _hard(
    formula: tl.constexpr, v, on, column0, column1, column, inside,
    COLUMNS: tl.constexpr, STRIDE0: tl.constexpr, STRIDE1: tl.constexpr,
):  # fmt: skip
    """Labels that are on or off: value and slope of the one side or the other."""
    if COLUMNS == 0:
        value, slope = formula(v, on)
    elif COLUMNS == 1:
        value, slope = formula(v, on, _per_label(column0, column, inside, STRIDE0))
    else:
        first = _per_label(column0, column, inside, STRIDE0)
        value, slope = formula(v, on, first, _per_label(column1, column, inside, STRIDE1))
    return value, slope


@triton.jit
def _blend(
    formula: tl.constexpr, v, y, column0, column1, column, inside,
    COLUMNS: tl.constexpr, STRIDE0: tl.constexpr, STRIDE1: tl.constexpr,
):  # fmt: skip
    """Soft labels: both sides, in the proportion y to 1 - y."""
    if COLUMNS == 0:
        pos, neg, pos_slope, neg_slope = formula(v)
    elif COLUMNS == 1:
        pos, neg, pos_slope, neg_slope = formula(v, _per_label(column0, column, inside, STRIDE0))
    else:
        first = _per_label(column0, column, inside, STRIDE0)
        second = _per_label(column1, column, inside, STRIDE1)
        pos, neg, pos_slope, neg_slope = formula(v, first, second)
    return y * pos + (1.0 - y) * neg, y * pos_slope + (1.0 - y) * neg_slope


@triton.jit
def _per_label(values, column, inside, STRIDE: tl.constexpr):
    return tl.load(values + column * STRIDE, mask=inside, other=1.0).to(tl.float32)


@triton.jit(do_not_specialize=["size", "entries"])
def mean_of_blocks(partial, counts, out, share, size, entries, BLOCK: tl.constexpr):
    """The sum of the sums of blocks over the share of entries that are known, and its inverse."""
    total = tl.zeros([BLOCK], tl.float32)
    known = tl.zeros([BLOCK], tl.float32)
    start = 0
    while start < size:
        at = start + tl.arange(0, BLOCK)
        total += tl.load(partial + at, mask=at < size, other=0.0)
        known += tl.load(counts + at, mask=at < size, other=0.0)
        start += BLOCK
    more = _share(tl.sum(known, 0), entries)
    tl.store(share, more)
    tl.store(out, tl.sum(total, 0) * more)


@triton.jit
def _share(known, entries):
    """The inverse of the share of entries that are known; 1 where a sum, no mean, is wanted."""
    tl.device_assert(known == known, OUTSIDE)
    return tl.where(entries > 0, entries / tl.maximum(known, 1.0), 1.0)
