"""Products of 16-bit matrices on the device, and a step of gradient descent made in one."""

# mypy: ignore-errors
# (Triton's language is Python only to the eye.)

from __future__ import annotations

import triton
import triton.language as tl


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
def product_tiles(
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
def part_of_sum(
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


@triton.jit
def _rounded(new, noise):
    """Rounded to 16 bits, up as often as the part that is cut off is large.

    That is what adding 16 random bits below the last kept one, and cutting them off, does; a NaN
    whose bits are all on would become 0, and is left alone.
    """
    bits = (new.to(tl.int32, bitcast=True) + noise) & -65536
    return tl.where(new == new, bits.to(tl.float32, bitcast=True), new)


@triton.jit
def sgd(weight, gradient, rate, shrink, seed, first, size, BLOCK: tl.constexpr):
    """weight = shrink weight - rate gradient, rounded at random."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    w = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    g = tl.load(gradient + at, mask=inside, other=0.0).to(tl.float32)
    noise = (tl.randint(seed, first + at) & 0xFFFF).to(tl.int32)
    new = _rounded(w * shrink - rate * g, noise)
    tl.store(weight + at, new.to(weight.dtype.element_ty), mask=inside)


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
def sgd_of_product(
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
