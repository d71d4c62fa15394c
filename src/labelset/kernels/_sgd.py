"""A step of gradient descent in reduced precision, rounded at random so that none is lost."""

# mypy: ignore-errors
# (Triton's language is Python only to the eye.)

from __future__ import annotations

from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from labelset.kernels._launch import Launch, current
from labelset.kernels._product import corner, fits, halves, processors, sums

__all__ = ["sgd_", "sgd_of_product_", "takes"]

BLOCK = 1024
# of a tile of weights, and of what is summed at a time: two programs share a processor, so that
# one multiplies while the other moves its weights
HEIGHT, WIDTH, DEPTH, SHARING = 128, 128, 64, 2
WARPS, STAGES = 4, 3


@triton.jit
def _rounded(new, noise):
    """Rounded to 16 bits, up as often as the part that is cut off is large.

    That is what adding 16 random bits below the last kept one, and cutting them off, does; a NaN
    whose bits are all on would become 0, and is left alone.
    """
    bits = (new.to(tl.int32, bitcast=True) + noise) & -65536
    return tl.where(new == new, bits.to(tl.float32, bitcast=True), new)


@triton.jit
def _sgd(weight, gradient, rate, shrink, seed, first, size, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    w = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    g = tl.load(gradient + at, mask=inside, other=0.0).to(tl.float32)
    noise = (tl.randint(seed, first + at) & 0xFFFF).to(tl.int32)
    new = _rounded(w * shrink - rate * g, noise)
    tl.store(weight + at, new.to(weight.dtype.element_ty), mask=inside)


def sgd_(
    weight: Tensor, gradient: Tensor, rate: float, shrink: float, seed: int, first: int
) -> None:
    """weight = shrink weight - rate gradient, in place, for weights in bfloat16.

    Both are contiguous.
    `first` is the place of the weight's first number among all of them, on which what is drawn
    for it depends.
    """
    size = weight.numel()
    with current(weight.device):
        _sgd[(triton.cdiv(size, BLOCK),)](
            weight, gradient, rate, shrink, seed, first, size, BLOCK=BLOCK
        )


@triton.jit
def _mixed(x):
    """32 bits, each of which depends on all bits of x.

    Shifts and factors are those that Wellons found to have the least bias ("Prospecting for hash
    functions", 2018).
    """
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def _noise(seed, row, column):
    """32 random bits for each row and column, the same ones for the same seed."""
    own = _mixed(row.to(tl.uint32) + _mixed(seed.to(tl.uint32)))
    return _mixed(own[:, None] + column.to(tl.uint32)[None, :] * 0x9E3779B1)


@triton.jit(do_not_specialize=["seed", "first"])
def _sgd_of_product(
    a, b, weight, rate, shrink, seed, first,
    DOWN: tl.constexpr, ACROSS: tl.constexpr, TURNS: tl.constexpr, STEPS: tl.constexpr,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Every so many-th tile of weight = shrink weight - rate a b.

    A tile is moved in quarters, for which the memory of the processor suffices.
    """
    HALF: tl.constexpr = WIDTH // 2
    for turn in tl.range(0, TURNS, flatten=True):
        tile = turn * tl.num_programs(0) + tl.program_id(0)
        row, column = corner(tile, DOWN, ACROSS, HEIGHT, WIDTH)
        total = sums(a, b, row, column, True, False, STEPS, HEIGHT, WIDTH, DEPTH)
        left, right = halves(total, HEIGHT, WIDTH)
        place = first + row
        _move(weight, left, rate, shrink, seed, place, row, column, HEIGHT, HALF)
        column += HALF
        _move(weight, right, rate, shrink, seed, place, row, column, HEIGHT, HALF)


@triton.jit
def _move(
    weight, slope, rate, shrink, seed, place, row, column,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Half a tile, of which `place` is the first row among all; a random number serves two."""
    HALF: tl.constexpr = WIDTH // 2
    left, right = halves(slope, HEIGHT, WIDTH)
    noise = _noise(seed, place + tl.arange(0, HEIGHT), column + tl.arange(0, HALF))
    one = weight.load([row, column]).to(tl.float32) * shrink - rate * left
    two = weight.load([row, column + HALF]).to(tl.float32) * shrink - rate * right
    one = _rounded(one, (noise & 0xFFFF).to(tl.int32))
    two = _rounded(two, (noise >> 16).to(tl.int32))
    weight.store([row, column], one.to(weight.dtype))
    weight.store([row, column + HALF], two.to(weight.dtype))


def takes(weight: Tensor, a: Tensor, b: Tensor) -> bool:
    """Whether `sgd_of_product_` takes these, and is worth it."""
    rows = a.stride(1) == b.stride(1) == 1
    return weight.dtype == torch.bfloat16 and rows and fits(a.T, b, weight)


def sgd_of_product_(
    weight: Tensor, a: Tensor, b: Tensor, rate: float, shrink: float, seed: int, first: int
) -> None:
    """weight = shrink weight - rate a.T @ b, which is never written, for weights in bfloat16.

    `first` is the place of the weight's first row among all of them, on which what is drawn for
    it depends.
    """
    from triton.tools.tensor_descriptor import TensorDescriptor

    down, across = -(-weight.shape[0] // HEIGHT), -(-weight.shape[1] // WIDTH)
    programs = min(SHARING * processors(weight.device), down * across)
    sizes = down, across, -(-down * across // programs), -(-len(a) // DEPTH)
    left = TensorDescriptor.from_tensor(a, [DEPTH, HEIGHT])
    right = TensorDescriptor.from_tensor(b, [DEPTH, WIDTH])
    moved = TensorDescriptor.from_tensor(weight, [HEIGHT, WIDTH // 4])
    short = (seed + 1) * 0x9E3779B97F4A7C15 % 2**64 >> 33  # 31 bits: always a small number
    _launch(*sizes, a.dtype).described(programs, (left, right, moved), (rate, shrink, short, first))


@lru_cache(maxsize=256)
def _launch(down: int, across: int, turns: int, steps: int, dtype: torch.dtype) -> Launch:
    constants = {
        "DOWN": down, "ACROSS": across, "TURNS": turns, "STEPS": steps,
        "HEIGHT": HEIGHT, "WIDTH": WIDTH, "DEPTH": DEPTH,
    }  # fmt: skip
    return Launch(_sgd_of_product, constants, num_warps=WARPS, num_stages=STAGES)
