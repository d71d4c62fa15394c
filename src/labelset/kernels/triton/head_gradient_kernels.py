"""The gradient of a separable loss by logits that are never written, on the device."""

# mypy: ignore-errors
# (Triton's language is Python only to the eye.)

from __future__ import annotations

import triton
import triton.language as tl

from labelset.kernels.triton.device_math import log1p_short
from labelset.kernels.triton.product_kernels import (
    corner,
    halves,
    sums,
)


@triton.jit(do_not_specialize=["place"])
def gradient_of_negatives(
    a, b, out, bias, partial, place,
    formula: tl.constexpr, SHARE: tl.constexpr, BIAS: tl.constexpr, EVEN: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DOWN: tl.constexpr, ACROSS: tl.constexpr,
    TURNS: tl.constexpr, STEPS: tl.constexpr,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Slopes of a b + bias as if every label were off, and the sum of the values in each tile.

    A tile goes through the loss in quarters, for which registers suffice, and is written in halves.
    """
    HALF: tl.constexpr = WIDTH // 2
    for turn in tl.range(0, TURNS, flatten=True):
        tile = turn * tl.num_programs(0) + tl.program_id(0)
        row, column = corner(tile, DOWN, ACROSS, HEIGHT, WIDTH)
        total = sums(a, b, row, column, False, True, STEPS, HEIGHT, WIDTH, DEPTH)
        left, right = halves(total, HEIGHT, WIDTH)
        slope, value, e = _half_off(
            left, bias, row, column, formula, SHARE, BIAS, EVEN, ROWS, COLUMNS, HEIGHT, HALF
        )
        out.store([row, column], slope.to(out.dtype))
        column += HALF
        slope, more, f = _half_off(
            right, bias, row, column, formula, SHARE, BIAS, EVEN, ROWS, COLUMNS, HEIGHT, HALF
        )
        out.store([row, column], slope.to(out.dtype))
        value += more
        if SHARE is not None:
            value += SHARE * tl.sum(log1p_short(_product(e, f)), 1)
        tl.store(partial + place + tile, tl.sum(value, 0), mask=tile < DOWN * ACROSS)


@triton.jit
def _half_off(
    v, bias, row, column,
    formula: tl.constexpr, SHARE: tl.constexpr, BIAS: tl.constexpr, EVEN: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """The same as `_off`, quarter by quarter; each e stands for eight."""
    left, right = halves(v, HEIGHT, WIDTH)
    one, value, e = _off(
        left, bias, row, column, formula, SHARE, BIAS, EVEN, ROWS, COLUMNS, HEIGHT, WIDTH // 2
    )
    column += WIDTH // 2
    two, more, f = _off(
        right, bias, row, column, formula, SHARE, BIAS, EVEN, ROWS, COLUMNS, HEIGHT, WIDTH // 2
    )
    slopes = tl.reshape(tl.permute(tl.join(one, two), (0, 2, 1)), (HEIGHT, WIDTH))
    return slopes, value + more, _product(e, f)


@triton.jit
def _off(
    v, bias, row, column,
    formula: tl.constexpr, SHARE: tl.constexpr, BIAS: tl.constexpr, EVEN: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Slopes of some logits, and the sum of the values in each of their rows.

    Where there is a share, that sum is without share log(1 + e), with e as the third result: a
    quarter as many, each of which stands for four.
    """
    label = column + tl.arange(0, WIDTH)
    inside = (row + tl.arange(0, HEIGHT) < ROWS)[:, None] & (label < COLUMNS)[None, :]
    if BIAS:
        v += tl.load(bias + label, mask=label < COLUMNS, other=0.0).to(tl.float32)[None, :]
    if SHARE is None:
        value, slope = formula(v)
        e = 0.0
    else:
        value, e, slope = formula(v)
        e = e if EVEN else tl.where(inside, e, 0.0)
        left, right = halves(e, HEIGHT, WIDTH)
        left, right = halves(_product(left, right), HEIGHT, WIDTH // 2)
        e = _product(left, right)
    return slope, tl.sum(value if EVEN else tl.where(inside, value, 0.0), 1), e


@triton.jit
def _product(e, f):
    """(1 + e) (1 + f) - 1: small numbers stay exact."""
    return e + f + e * f


@triton.jit(do_not_specialize=["first", "blocks", "block", "place"])
def gradient_of_positives(
    x, w, slopes, bias, partial, starts, stored,
    first, blocks, block, place, x_stride, w_stride, stride,
    formula: tl.constexpr, BIAS: tl.constexpr, FEATURES: tl.constexpr,
    LANES: tl.constexpr, TOGETHER: tl.constexpr, PIECE: tl.constexpr,
):  # fmt: skip
    """Slopes of some of the labels of a row that are on, and how much more their values are.

    Labels are those of one of several blocks, of which `first` is the first.
    """
    row, lane = (tl.program_id(0) // LANES).to(tl.int64), tl.program_id(0) % LANES
    k, end = tl.load(starts + row * blocks + block), tl.load(starts + row * blocks + block + 1)
    k += lane * TOGETHER
    total = tl.zeros([TOGETHER], tl.float32)
    while k < end:  # (not a range: Triton's interpreter cannot count to a loaded number)
        here = k + tl.arange(0, TOGETHER) < end
        label = tl.load(stored + k + tl.arange(0, TOGETHER), mask=here, other=0)
        column = label.to(tl.int64) - first
        v = tl.zeros([TOGETHER], tl.float32)
        for start in range(0, FEATURES, PIECE):
            feature = start + tl.arange(0, PIECE)
            there = feature < FEATURES
            left = tl.load(x + row * x_stride + feature, mask=there, other=0.0).to(tl.float32)
            at = column[:, None] * w_stride + feature[None, :]
            right = tl.load(w + at, mask=here[:, None] & there[None, :], other=0.0).to(tl.float32)
            v += tl.sum(left[None, :] * right, 1)
        if BIAS:
            v += tl.load(bias + column, mask=here, other=0.0).to(tl.float32)
        on, off, slope, _ = formula(v)
        total += tl.where(here, on - off, 0.0)
        tl.store(slopes + row * stride + column, slope.to(slopes.dtype.element_ty), mask=here)
        k += LANES * TOGETHER
    tl.store(partial + place + tl.program_id(0), tl.sum(total, 0))
