"""Label pairs on the device: each positive against every negative, in registers."""

# mypy: ignore-errors
# (Triton's language is Python only to the eye.)

from __future__ import annotations

import triton
import triton.language as tl

from labelset.kernels.pairs import FAR, HUGE
from labelset.kernels.triton import device_math as math


@triton.jit
def list_positives(target, listed, counts, known, n, BLOCK: tl.constexpr):
    """The labels of one row that are on, in order; how many they are; how many are known."""
    row = tl.program_id(0).to(tl.int64)
    positives, knowns, start = 0, 0, 0
    while start < n:
        column = start + tl.arange(0, BLOCK)
        inside = column < n
        y = tl.load(target + row * n + column, mask=inside, other=0)
        on = y > 0
        place = positives + tl.cumsum(on.to(tl.int32), 0) - 1
        tl.store(listed + row * n + place, column, mask=on)
        positives += tl.sum(on.to(tl.int32), 0)
        knowns += tl.sum((inside & (y == y)).to(tl.int32), 0)
        start += BLOCK
    tl.store(counts + row, positives)
    tl.store(known + row, knowns)


@triton.jit
def _off(odds, target, at, inside, SOFT: tl.constexpr):
    """Log-odds of a block of labels, infinitely low where they are not off; on, off."""
    u = tl.load(odds + at, mask=inside, other=0.0)
    y = tl.load(target + at, mask=inside, other=1)
    if SOFT:
        y = y.to(tl.float32)
        on = tl.where(y == y, y, 0.0)
        off = tl.where(y == y, 1.0 - y, 0.0)
    else:
        on = (y != 0).to(tl.float32)
        off = (y == 0).to(tl.float32)
    return tl.where(off > 0, u, float("-inf")), on, off


@triton.jit
def _on(listed, odds, target, base, first, count, SOFT: tl.constexpr, GROUP: tl.constexpr):
    """A group of labels that are on: which, log-odds (infinite past the last), how much."""
    place = first + tl.arange(0, GROUP)
    there = place < count
    label = tl.load(listed + base + place, mask=there, other=0)
    u = tl.load(odds + base + label, mask=there, other=float("inf"))
    share = tl.full([GROUP], 1.0, tl.float32)
    if SOFT:
        share = tl.load(target + base + label, mask=there, other=0).to(tl.float32)
    return label, there, u, share


@triton.jit(do_not_specialize=["tiles"])
def gradient_of_negatives(
    odds, slopes, target, listed, counts, scales, gradient, partial, n, tiles,
    SOFT: tl.constexpr, BLOCK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """One block of labels against those on in its row: value, and gradient by the labels off."""
    program = tl.program_id(0)
    row, tile = program // tiles, program % tiles
    column = tile * BLOCK + tl.arange(0, BLOCK)
    inside = column < n
    base = row.to(tl.int64) * n
    own, on, off = _off(odds, target, base + column, inside, SOFT)
    value = tl.zeros([BLOCK], tl.float32)
    rate = tl.zeros([BLOCK], tl.float32)
    count = tl.load(counts + row)
    first = 0
    while first < count:
        _, _, rival, share = _on(listed, odds, target, base, first, count, SOFT, GROUP)
        x = own[None, :] - rival[:, None]
        e = math.decay(x)
        near = math.unit(e)
        cost = tl.maximum(x, 0.0, tl.PropagateNan.ALL) + math.log1p_unit(e)
        slope = tl.where(x >= 0, near, e * near)
        if SOFT:
            cost *= share[:, None]
            slope *= share[:, None]
        value += tl.sum(cost, 0)
        rate += tl.sum(slope, 0)
        first += GROUP
    scale = tl.load(scales + row)
    if SOFT:  # a soft label is no pair with itself
        value = value * off - math.LN_2 * on * off
        rate *= off
    counted = tl.where(scale > 0, off, 0.0) > 0
    rate *= tl.load(slopes + base + column, mask=inside, other=0.0) * scale
    rate = tl.where(counted, rate, 0.0).to(gradient.dtype.element_ty)
    tl.store(gradient + base + column, rate, mask=inside)
    tl.store(partial + program, tl.sum(tl.where(counted, value * scale, 0.0), 0))


@triton.jit(do_not_specialize=["lanes"])
def gradient_of_positives(
    odds, slopes, target, listed, counts, scales, gradient, n, lanes,
    SOFT: tl.constexpr, BLOCK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Groups of labels on against all those off in their row: gradient by the labels on."""
    row, lane = tl.program_id(0) // lanes, tl.program_id(0) % lanes
    base = row.to(tl.int64) * n
    scale = tl.load(scales + row)
    count = tl.where(scale > 0, tl.load(counts + row), 0)
    first = lane * GROUP
    while first < count:
        label, there, rival, share = _on(listed, odds, target, base, first, count, SOFT, GROUP)
        rate = tl.zeros([GROUP, BLOCK], tl.float32)
        start = 0
        while start < n:
            column = start + tl.arange(0, BLOCK)
            own, _, off = _off(odds, target, base + column, column < n, SOFT)
            x = own[None, :] - rival[:, None]
            e = math.decay(x)
            near = math.unit(e)
            slope = tl.where(x >= 0, near, e * near)
            rate += slope * off[None, :] if SOFT else slope
            start += BLOCK
        at = base + label
        chain = tl.load(slopes + at, mask=there, other=0.0) * scale
        before = tl.load(gradient + at, mask=there, other=0.0).to(tl.float32)
        after = before - tl.sum(rate, 1) * share * chain
        tl.store(gradient + at, after.to(gradient.dtype.element_ty), mask=there)
        first += lanes * GROUP


@triton.jit(do_not_specialize=["rows"])
def scale_rows(known, scales, rows, MEAN: tl.constexpr, BLOCK: tl.constexpr):
    """2 / (T (T - 1)), over the number of rows where T > 1 in a mean; 0 elsewhere."""
    count, start = tl.zeros([BLOCK], tl.int32), 0
    while start < rows:
        row = start + tl.arange(0, BLOCK)
        count += (tl.load(known + row, mask=row < rows, other=0) > 1).to(tl.int32)
        start += BLOCK
    share = 2.0
    if MEAN:
        share = 2.0 / tl.maximum(tl.sum(count, 0), 1).to(tl.float32)
    start = 0
    while start < rows:
        row = start + tl.arange(0, BLOCK)
        t = tl.load(known + row, mask=row < rows, other=0).to(tl.float32)
        scale = tl.where(t > 1.5, share / tl.maximum(t * (t - 1.0), 1.0), 0.0)
        tl.store(scales + row, scale, mask=row < rows)
        start += BLOCK


CERTAIN, BOUND = tl.constexpr(FAR), tl.constexpr(HUGE / 3)


@triton.jit(do_not_specialize=["tiles"])
def log_odds(
    scores, column0, column1, odds, slopes, n, tiles, formula: tl.constexpr,
    COLUMNS: tl.constexpr, STRIDE0: tl.constexpr, STRIDE1: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """u and du/dv of one block of a row; certainty is far, and flat."""
    row, tile = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    column = tile * BLOCK + tl.arange(0, BLOCK)
    inside = column < n
    at = row.to(tl.int64) * n + column
    v = tl.load(scores + at, mask=inside, other=0.0).to(tl.float32)
    if COLUMNS == 0:
        u, slope = formula(v)
    else:
        first = tl.load(column0 + column * STRIDE0, mask=inside, other=1.0).to(tl.float32)
        if COLUMNS == 1:
            u, slope = formula(v, first)
        else:
            second = tl.load(column1 + column * STRIDE1, mask=inside, other=1.0).to(tl.float32)
            u, slope = formula(v, first, second)
    certain = tl.abs(u) > BOUND
    u = tl.where(certain, tl.where(u > 0, CERTAIN, -CERTAIN), u)
    tl.store(odds + at, u, mask=inside)
    tl.store(slopes + at, tl.where(certain, 0.0, slope), mask=inside)
