"""Products of 16-bit matrices on a GPU, where a library leaves a third of its speed unused.

A head of millions of labels makes products of two kinds: sums over a few hundred features or rows,
and results of hundreds of thousands of rows or columns. Each program here stays on its processor,
and begins to read the next tile of the result while it writes the last one.
"""

# mypy: ignore-errors
# (Triton's language is Python only to the eye.)

from __future__ import annotations

from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from labelset.kernels._choice import interpreting
from labelset.kernels._launch import ALIGNED, Launch

__all__ = [
    "add_parts_",
    "corner",
    "fits",
    "fits_parts",
    "halves",
    "has_tiles",
    "in_one_piece",
    "parts",
    "processors",
    "product_",
    "readable",
    "sums",
]

HEIGHT, WIDTH, DEPTH = 128, 256, 64  # of a tile of the result, and of what is summed at a time
LEAST = 2**22  # entries of a result that are worth a launch of ours
LONG = 2**14  # products in a sum that is worth being split
HOPPER = (9, 0)  # GPUs whose processors read and write whole tiles, and have room for four


@triton.jit
def corner(
    tile, DOWN: tl.constexpr, ACROSS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr
):
    """Where a tile of the result begins; the shorter way through it comes first."""
    if DOWN < ACROSS:
        return (tile % DOWN) * HEIGHT, (tile // DOWN) * WIDTH
    else:
        return (tile // ACROSS) * HEIGHT, (tile % ACROSS) * WIDTH


@triton.jit
def sums(
    a, b, row, column, A_TURNED: tl.constexpr, B_TURNED: tl.constexpr,
    STEPS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """A tile of a b in float32.

    `a` is stored as (rows, depth), or turned as (depth, rows); `b` as (depth, columns), or turned.
    What lies beyond a matrix is read as 0.
    """
    total = tl.zeros([HEIGHT, WIDTH], tl.float32)
    for step in range(STEPS):
        at = step * DEPTH
        left = a.load([at, row]).T if A_TURNED else a.load([row, at])
        right = b.load([column, at]).T if B_TURNED else b.load([at, column])
        total = tl.dot(left, right, total)
    return total


@triton.jit
def halves(tile, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    """The left and the right half, each of which stays in the registers where it is."""
    return tl.split(tl.permute(tl.reshape(tile, (HEIGHT, 2, WIDTH // 2)), (0, 2, 1)))


@triton.jit
def _tiles(
    a, b, out, bias, scale,
    BIAS: tl.constexpr, A_TURNED: tl.constexpr, B_TURNED: tl.constexpr,
    DOWN: tl.constexpr, ACROSS: tl.constexpr, COLUMNS: tl.constexpr,
    TURNS: tl.constexpr, STEPS: tl.constexpr,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Every so many-th tile of out = scale a b + bias; nothing is written beyond it.

    A tile is written in two halves, for which the memory of the processor suffices.
    """
    for turn in tl.range(0, TURNS, flatten=True):
        tile = turn * tl.num_programs(0) + tl.program_id(0)
        row, column = corner(tile, DOWN, ACROSS, HEIGHT, WIDTH)
        total = sums(a, b, row, column, A_TURNED, B_TURNED, STEPS, HEIGHT, WIDTH, DEPTH)
        total *= scale
        if BIAS:
            label = column + tl.arange(0, WIDTH)
            total += tl.load(bias + label, mask=label < COLUMNS, other=0.0).to(tl.float32)[None, :]
        first, second = halves(total, HEIGHT, WIDTH)
        out.store([row, column], first.to(out.dtype))
        out.store([row, column + WIDTH // 2], second.to(out.dtype))


@triton.jit
def _part_of_sum(
    a, b, parts,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DOWN: tl.constexpr, ACROSS: tl.constexpr,
    STEPS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Adds one of several parts of the sums in a tile of a b to that part of the result."""
    tile, part = tl.program_id(0) % (DOWN * ACROSS), tl.program_id(0) // (DOWN * ACROSS)
    row, column = (tile % DOWN) * HEIGHT, (tile // DOWN) * WIDTH
    total = tl.zeros([HEIGHT, WIDTH], tl.float32)
    for step in range(STEPS):
        at = (part * STEPS + step) * DEPTH
        total = tl.dot(a.load([row, at]), b.load([at, column]), total)
    down, along = row + tl.arange(0, HEIGHT), column + tl.arange(0, WIDTH)
    inside = (down < ROWS)[:, None] & (along < COLUMNS)[None, :]
    place = parts + part * (ROWS * COLUMNS) + down[:, None] * COLUMNS + along[None, :]
    tl.store(place, tl.load(place, mask=inside, other=0.0) + total, mask=inside)


def fits(a: Tensor, b: Tensor, out: Tensor) -> bool:
    """Whether `product_` takes these, and is worth it."""
    return (
        out.numel() >= LEAST
        and a.dtype == b.dtype == out.dtype
        and out.element_size() == 2
        and has_tiles(out.device)
        and out.stride(1) == 1
        and all(map(readable, (a, b, out)))
    )


def product_(
    a: Tensor, b: Tensor, out: Tensor, bias: Tensor | None = None, scale: float = 1.0
) -> Tensor:
    """out = scale a @ b + bias for 16-bit matrices, summed in float32."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    a_turned, b_turned = a.stride(1) != 1, b.stride(0) == 1
    tile = (DEPTH, HEIGHT) if a_turned else (HEIGHT, DEPTH)
    left = TensorDescriptor.from_tensor(a.T if a_turned else a, list(tile))
    tile = (WIDTH, DEPTH) if b_turned else (DEPTH, WIDTH)
    right = TensorDescriptor.from_tensor(b.T if b_turned else b, list(tile))
    result = TensorDescriptor.from_tensor(out, [HEIGHT, WIDTH // 2])
    down, across = -(-out.shape[0] // HEIGHT), -(-out.shape[1] // WIDTH)
    programs, steps = min(processors(out.device), down * across), -(-a.shape[1] // DEPTH)
    turns = -(-down * across // programs)
    columns = 0 if bias is None else out.shape[1]
    sizes = down, across, columns, turns, steps
    launch = _launch(bias is not None, a_turned, b_turned, *sizes, out.dtype)
    held = out if bias is None else in_one_piece(bias)
    launch.described(programs, (left, right, result), (held, scale))
    return out


def in_one_piece(bias: Tensor) -> Tensor:
    """The same numbers one after the other, from an aligned address on."""
    if bias.stride(0) == 1 and bias.data_ptr() % ALIGNED == 0:
        return bias
    return bias.clone(memory_format=torch.contiguous_format)


def fits_parts(a: Tensor, b: Tensor) -> bool:
    """Whether `add_parts_` takes these, and is worth it: long sums, and a small result."""
    return (
        a.shape[1] >= LONG
        and a.dtype == b.dtype
        and a.element_size() == 2
        and has_tiles(a.device)
        and a.stride(1) == b.stride(1) == 1
        and all(map(readable, (a, b)))
        and 0 < 2 * _tiles_of(len(a), b.shape[1]) <= processors(a.device)
    )


def parts(a: Tensor, b: Tensor) -> Tensor:
    """Nothing yet: zeros (parts, rows, columns), as many as there are processors for."""
    rows, columns = len(a), b.shape[1]
    count = processors(a.device) // _tiles_of(rows, columns)
    return torch.zeros(count, rows, columns, dtype=torch.float32, device=a.device)


def add_parts_(total: Tensor, a: Tensor, b: Tensor) -> None:
    """Adds a @ b, in float32, to these parts: the sum over them is the result."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    count, rows, columns = total.shape
    left = TensorDescriptor.from_tensor(a, [HEIGHT, DEPTH])
    right = TensorDescriptor.from_tensor(b, [DEPTH, WIDTH])
    programs, steps = count * _tiles_of(rows, columns), -(-a.shape[1] // (count * DEPTH))
    _launch_parts(rows, columns, steps, a.dtype).described(programs, (left, right), (total,))


@lru_cache(maxsize=256)
def _launch_parts(rows: int, columns: int, steps: int, dtype: torch.dtype) -> Launch:
    constants = {
        "ROWS": rows, "COLUMNS": columns, "DOWN": -(-rows // HEIGHT),
        "ACROSS": -(-columns // WIDTH), "STEPS": steps,
        "HEIGHT": HEIGHT, "WIDTH": WIDTH, "DEPTH": DEPTH,
    }  # fmt: skip
    return Launch(_part_of_sum, constants, num_warps=8, num_stages=4)


def _tiles_of(rows: int, columns: int) -> int:
    return -(-rows // HEIGHT) * -(-columns // WIDTH)


@lru_cache(maxsize=256)
def _launch(
    bias: bool, a_turned: bool, b_turned: bool, down: int, across: int, columns: int, turns: int,
    steps: int, dtype: torch.dtype,
) -> Launch:  # fmt: skip
    constants = {
        "BIAS": bias, "A_TURNED": a_turned, "B_TURNED": b_turned, "DOWN": down, "ACROSS": across,
        "COLUMNS": columns, "TURNS": turns, "STEPS": steps,
        "HEIGHT": HEIGHT, "WIDTH": WIDTH, "DEPTH": DEPTH,
    }  # fmt: skip
    return Launch(_tiles, constants, num_warps=8, num_stages=4)


def readable(t: Tensor) -> bool:
    """Whether rows, or columns, lie one after the other, each beginning at an aligned address."""
    step = max(t.stride())
    return (
        t.numel() > 0
        and min(t.stride()) == 1
        and step * 2 % ALIGNED == 0
        and t.data_ptr() % ALIGNED == 0
    )


@lru_cache(maxsize=16)
def has_tiles(device: torch.device) -> bool:
    if device.type != "cuda":
        return interpreting()
    return not torch.version.hip and torch.cuda.get_device_capability(device) == HOPPER


@lru_cache(maxsize=16)
def processors(device: torch.device) -> int:
    if device.type != "cuda":
        return 3
    return torch.cuda.get_device_properties(device).multi_processor_count
