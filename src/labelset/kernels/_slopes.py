"""Slopes of the loss of a linear head with stored labels: no logits are written anywhere.

The product of features and weights goes through the side of labels that are off before it leaves
the processor; the few entries of labels that are on are worked out by themselves.
"""

# mypy: ignore-errors
# (Triton's language is Python only to the eye.)

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from labelset.kernels._device_math import log1p_short
from labelset.kernels._launch import Launch, numbers
from labelset.kernels._product import (
    LEAST,
    corner,
    halves,
    has_tiles,
    in_one_piece,
    processors,
    readable,
    sums,
)
from labelset.kernels._stored import block_starts
from labelset.kernels.separable import Pair
from labelset.labels import Labels

__all__ = ["Slopes", "takes"]

# of a tile of slopes, and of what is summed at a time: two programs share a processor, so that one
# multiplies while the other goes through the loss
HEIGHT, WIDTH, DEPTH, SHARING = 128, 128, 64, 2
TOGETHER, PIECE = 4, 1024  # labels that are on, and features, that a program takes at a time
LANES = 4  # programs that share the labels of a row
SPARSE = 256  # entries for one label that is on: with more of them, these would take the most time


@triton.jit(do_not_specialize=["place"])
def _slopes_off(
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
def _slopes_on(
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


def takes(pair: Pair, labels: Labels, x: Tensor, weight: Tensor) -> bool:
    """Whether these have such slopes: few hard labels, and hyperparameters that are numbers.

    The values of labels that are on are taken for off and put right later, so that those must not
    be so large that nothing else would be left.
    """
    entries = len(x) * len(weight)
    return (
        labels.values is None
        and not pair.columns
        and pair.mild
        and entries >= max(LEAST, SPARSE * labels.indices.numel())
        and x.dtype == weight.dtype
        and x.element_size() == 2
        and has_tiles(x.device)
        and x.stride(1) == weight.stride(1) == 1
        and readable(x)
        and readable(weight)
    )


class Slopes:
    """Slopes of block after block of labels, and the sum of all values."""

    def __init__(self, pair: Pair, labels: Labels, rows: int, width: int) -> None:
        self.off, self.share = pair.off_function, pair.off.share
        self.both = pair.function(soft=True, short=True)
        self.width, self.blocks = width, -(-labels.n // width)
        self.starts, self.stored = block_starts(labels, width), labels.indices
        tiles = -(-rows // HEIGHT) * -(-width // WIDTH)
        self.partial = numbers(labels.device, self.blocks * (tiles + rows * LANES))
        self.used = 0  # of these

    def write(self, x: Tensor, w: Tensor, bias: Tensor | None, first: int, out: Tensor) -> None:
        """Writes those of the labels from `first` on, which have the weights w."""
        from triton.tools.tensor_descriptor import TensorDescriptor

        rows, columns = out.shape
        tiles = -(-rows // HEIGHT) * -(-columns // WIDTH)
        programs = min(SHARING * processors(out.device), tiles)
        turns, steps = -(-tiles // programs), -(-x.shape[1] // DEPTH)
        has_bias, held = bias is not None, out if bias is None else in_one_piece(bias)
        off = _launch_off(self.off, self.share, has_bias, rows, columns, turns, steps, out.dtype)
        left = TensorDescriptor.from_tensor(x, [HEIGHT, DEPTH])
        right = TensorDescriptor.from_tensor(w, [WIDTH, DEPTH])
        result = TensorDescriptor.from_tensor(out, [HEIGHT, WIDTH // 2])
        off.described(programs, (left, right, result), (held, self.partial, self.used))
        self.used += tiles
        strides = x.stride(0), w.stride(0), out.stride(0)
        types = out.dtype, self.starts.dtype, self.stored.dtype
        on = _launch_on(self.both, has_bias, x.shape[1], strides, types)
        read = x, w, out, held, self.partial, self.starts, self.stored
        place = first, self.blocks, first // self.width, self.used
        on(rows * LANES, read, (*place, *strides))
        self.used += rows * LANES

    def total(self) -> Tensor:
        """The sum of the values of all blocks so far."""
        return self.partial[: self.used].sum(dtype=torch.float64).float()


@lru_cache(maxsize=256)
def _launch_off(
    formula: Any, share: float | None, bias: bool, rows: int, columns: int, turns: int, steps: int,
    dtype: torch.dtype,
) -> Launch:  # fmt: skip
    constants = {
        "formula": formula, "SHARE": share, "BIAS": bias,
        "EVEN": rows % HEIGHT == 0 and columns % WIDTH == 0, "ROWS": rows, "COLUMNS": columns,
        "DOWN": -(-rows // HEIGHT), "ACROSS": -(-columns // WIDTH),
        "TURNS": turns, "STEPS": steps,
        "HEIGHT": HEIGHT, "WIDTH": WIDTH, "DEPTH": DEPTH,
    }  # fmt: skip
    return Launch(_slopes_off, constants, num_warps=4, num_stages=3)


@lru_cache(maxsize=256)
def _launch_on(
    formula: Any, bias: bool, features: int, strides: tuple[int, ...],
    types: tuple[torch.dtype, ...],
) -> Launch:  # fmt: skip
    constants = {
        "formula": formula, "BIAS": bias, "FEATURES": features,
        "LANES": LANES, "TOGETHER": TOGETHER, "PIECE": PIECE,
    }  # fmt: skip
    return Launch(_slopes_on, constants, num_warps=4)
