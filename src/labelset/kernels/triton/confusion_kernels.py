"""Smooth metrics on the GPU: sums of soft decisions, then the gradient that comes back."""

# mypy: ignore-errors
# (Triton's language is Python only to the eye.)

from __future__ import annotations

import triton
import triton.language as tl

from labelset.kernels.triton.tile import checked, place, read_tile

SUMS = 5  # tp, fp, fn, tn, and the weight of a group


@triton.jit(do_not_specialize=["rows", "tiles", "groups", "blocks", "steps"])
def confusion_tiles(
    scores, target, stored, soft, column0, column1, gradient, partial, value, known, total,
    rows, n, tiles, groups, blocks, steps, scale,
    decide: tl.constexpr, slopes: tl.constexpr, ratio: tl.constexpr,
    KIND: tl.constexpr, SOFT: tl.constexpr, EVEN: tl.constexpr, COLUMNS: tl.constexpr,
    STRIDE0: tl.constexpr, STRIDE1: tl.constexpr, AXIS: tl.constexpr, MICRO: tl.constexpr,
    WEIGHT: tl.constexpr, DIVIDE: tl.constexpr, OPPOSITE: tl.constexpr, PHASE: tl.constexpr,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """One of so many blocks of groups: columns (AXIS 0) or rows (AXIS 1), some steps along them.

    PHASE `whole` does all in one program for each block. Where several programs share a group,
    `count` writes their sums, and `apply` goes on once these are added up. The loss is divided by
    what all groups weigh: by one program that has them all (DIVIDE `here`), by a given number
    (`total`), or by others, for whom the number of known groups goes to `known` (`later`).
    """
    block, chunk = tl.program_id(0) % blocks, tl.program_id(0) // blocks
    start = chunk * steps * (HEIGHT if AXIS == 0 else WIDTH)
    end = tl.minimum(
        (chunk + 1) * steps * (HEIGHT if AXIS == 0 else WIDTH), rows if AXIS == 0 else n
    )
    if PHASE != "apply":
        tp, fp, fn, tn, weight = _counted(
            scores, target, stored, soft, column0, column1, rows, n, tiles, block, start, end,
            decide, KIND, SOFT, EVEN, COLUMNS, STRIDE0, STRIDE1, AXIS, MICRO, WEIGHT,
            HEIGHT, WIDTH, UNROLL,
        )  # fmt: skip
    if PHASE == "count":
        chunks = tl.num_programs(0) // blocks
        _keep(partial, 0, tp, block, chunk, chunks, groups, AXIS, MICRO, HEIGHT, WIDTH)
        _keep(partial, 1, fp, block, chunk, chunks, groups, AXIS, MICRO, HEIGHT, WIDTH)
        _keep(partial, 2, fn, block, chunk, chunks, groups, AXIS, MICRO, HEIGHT, WIDTH)
        _keep(partial, 3, tn, block, chunk, chunks, groups, AXIS, MICRO, HEIGHT, WIDTH)
        _keep(partial, 4, weight, block, chunk, chunks, groups, AXIS, MICRO, HEIGHT, WIDTH)
    else:
        if PHASE == "apply":
            tp = _kept(partial, 0, block, groups, AXIS, MICRO, HEIGHT, WIDTH)
            fp = _kept(partial, 1, block, groups, AXIS, MICRO, HEIGHT, WIDTH)
            fn = _kept(partial, 2, block, groups, AXIS, MICRO, HEIGHT, WIDTH)
            tn = _kept(partial, 3, block, groups, AXIS, MICRO, HEIGHT, WIDTH)
            weight = _kept(partial, 4, block, groups, AXIS, MICRO, HEIGHT, WIDTH)
        if WEIGHT == "known":
            weight = tl.where(weight == 0, 0.0, 1.0)
        elif WEIGHT == "one":
            weight = tp * 0.0 + 1.0
        if not MICRO:
            group = _group(block, AXIS, HEIGHT, WIDTH)
            weight = tl.where(group < groups, weight, 0.0)
        if DIVIDE == "here":
            weighs = tl.sum(weight, 0)
            scale = scale / tl.where(weighs > 0, weighs, 1.0)
        elif DIVIDE == "total":
            weighs = tl.load(total).to(tl.float32)
            scale = scale / tl.where(weighs > 0, weighs, 1.0)
        loss, by_tp, by_fp, by_fn, by_tn = ratio(tp, fp, fn, tn)
        if chunk == 0:
            if DIVIDE == "later":
                tl.store(known + block, tl.sum(weight, 0))
            tl.store(value + block, tl.sum(tl.where(weight == 0, 0.0, loss * weight), 0) * scale)
        weight *= scale
        _gradient(
            scores, target, stored, soft, column0, column1, gradient, rows, n, tiles, block,
            start, end, by_tp * weight, by_fp * weight, by_fn * weight, by_tn * weight,
            slopes, KIND, SOFT, EVEN, COLUMNS, STRIDE0, STRIDE1, AXIS, MICRO, OPPOSITE,
            HEIGHT, WIDTH, UNROLL,
        )  # fmt: skip


@triton.jit
def _counted(
    scores, target, stored, soft, column0, column1, rows, n, tiles, block, start, end,
    decide: tl.constexpr, KIND: tl.constexpr, SOFT: tl.constexpr, EVEN: tl.constexpr,
    COLUMNS: tl.constexpr, STRIDE0: tl.constexpr, STRIDE1: tl.constexpr, AXIS: tl.constexpr,
    MICRO: tl.constexpr, WEIGHT: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
    UNROLL: tl.constexpr,
):  # fmt: skip
    """The sums of a block of groups between two ends; with MICRO those of all of them together."""
    tp = tl.zeros([HEIGHT, WIDTH], tl.float32)
    fp, fn, tn, weight = tp, tp, tp, tp
    while start < end:
        for _ in tl.static_range(UNROLL):
            row, column, tile = place(block, start, AXIS, HEIGHT, WIDTH)
            v, on, off, _at, _inside = read_tile(
                scores, target, stored, soft, row, column, tile, rows, n, tiles, KIND, SOFT, EVEN
            )
            checked(on, KIND)
            yes, no = _of(decide, v, column0, column1, column, n, COLUMNS, STRIDE0, STRIDE1)
            tp += yes * on
            fp += yes * off
            fn += no * on
            tn += no * off
            if WEIGHT == "on":
                weight += on
            elif WEIGHT == "known":
                weight += on + off
            start += HEIGHT if AXIS == 0 else WIDTH
    tp, fp, fn, tn = tl.sum(tp, AXIS), tl.sum(fp, AXIS), tl.sum(fn, AXIS), tl.sum(tn, AXIS)
    weight = tl.sum(weight, AXIS)
    if MICRO:
        tp, fp = tl.sum(tp, 0, keep_dims=True), tl.sum(fp, 0, keep_dims=True)
        fn, tn = tl.sum(fn, 0, keep_dims=True), tl.sum(tn, 0, keep_dims=True)
        weight = tl.sum(weight, 0, keep_dims=True)
    return tp, fp, fn, tn, weight


@triton.jit
def _gradient(
    scores, target, stored, soft, column0, column1, gradient, rows, n, tiles, block, start, end,
    by_tp, by_fp, by_fn, by_tn, slopes: tl.constexpr,
    KIND: tl.constexpr, SOFT: tl.constexpr, EVEN: tl.constexpr, COLUMNS: tl.constexpr,
    STRIDE0: tl.constexpr, STRIDE1: tl.constexpr, AXIS: tl.constexpr, MICRO: tl.constexpr,
    OPPOSITE: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """yes' (by_tp on + by_fp off) + no' (by_fn on + by_tn off), no' = -yes' where OPPOSITE."""
    if OPPOSITE:
        by_tp, by_fp = by_tp - by_fn, by_fp - by_tn
    while start < end:
        for _ in tl.static_range(UNROLL):
            row, column, tile = place(block, start, AXIS, HEIGHT, WIDTH)
            v, on, off, at, inside = read_tile(
                scores, target, stored, soft, row, column, tile, rows, n, tiles, KIND, SOFT, EVEN
            )
            yes, no = _of(slopes, v, column0, column1, column, n, COLUMNS, STRIDE0, STRIDE1)
            slope = yes * _blend(by_tp, by_fp, on, off, AXIS, SOFT)
            if not OPPOSITE:
                slope += no * _blend(by_fn, by_tn, on, off, AXIS, SOFT)
            slope = slope.to(gradient.dtype.element_ty)
            if EVEN:
                tl.store(gradient + at, slope)
            else:
                tl.store(gradient + at, slope, mask=inside)
            start += HEIGHT if AXIS == 0 else WIDTH


@triton.jit
def _blend(by_on, by_off, on, off, AXIS: tl.constexpr, SOFT: tl.constexpr):
    by_on, by_off = tl.expand_dims(by_on, AXIS), tl.expand_dims(by_off, AXIS)
    if SOFT:
        return by_on * on + by_off * off
    else:
        return tl.where(on > 0, by_on, by_off)


@triton.jit
def _of(
    formula: tl.constexpr, v, column0, column1, column, n,
    COLUMNS: tl.constexpr, STRIDE0: tl.constexpr, STRIDE1: tl.constexpr,
):  # fmt: skip
    """A formula of the scores and of up to two numbers per label."""
    there = column < n
    if COLUMNS == 0:
        return formula(v)
    elif COLUMNS == 1:
        first = tl.load(column0 + column * STRIDE0, mask=there, other=1.0).to(tl.float32)
        return formula(v, first[None, :])
    else:
        first = tl.load(column0 + column * STRIDE0, mask=there, other=1.0).to(tl.float32)
        second = tl.load(column1 + column * STRIDE1, mask=there, other=1.0).to(tl.float32)
        return formula(v, first[None, :], second[None, :])


@triton.jit
def _group(block, AXIS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    if AXIS == 0:
        return block * WIDTH + tl.arange(0, WIDTH)
    else:
        return block * HEIGHT + tl.arange(0, HEIGHT)


@triton.jit
def _keep(
    partial, k, sums, block, chunk, chunks, groups,
    AXIS: tl.constexpr, MICRO: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Writes one kind of sum: (kinds, parts, groups)."""
    if MICRO:
        at = k * tl.num_programs(0) + tl.program_id(0)
        tl.store(partial + at + tl.arange(0, 1), sums)
    else:
        group = _group(block, AXIS, HEIGHT, WIDTH)
        at = (k * chunks + chunk) * groups + group
        tl.store(partial + at, sums, mask=group < groups)


@triton.jit
def _kept(
    partial, k, block, groups,
    AXIS: tl.constexpr, MICRO: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """One kind of sum, added up over the parts: (kinds, groups)."""
    if MICRO:
        return tl.load(partial + k + tl.arange(0, 1))
    else:
        group = _group(block, AXIS, HEIGHT, WIDTH)
        return tl.load(partial + k * groups + group, mask=group < groups, other=0.0)
