"""A tile of scores and labels inside a kernel, whatever the labels are kept as; and a tensor times
a number that lies on the GPU, without a pass over it where that number is 1."""

# mypy: ignore-errors
# (Triton's language is Python only to the eye.)

from __future__ import annotations

import triton
import triton.language as tl

OUTSIDE = tl.constexpr("labelset: labels must lie in [0, 1] (NaN: unknown)")


@triton.jit
def place(block, start, AXIS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    """Rows, columns and number within its rows of the tile of a block that begins at `start`."""
    if AXIS == 0:
        row, column = start + tl.arange(0, HEIGHT), block * WIDTH + tl.arange(0, WIDTH)
        return row, column, block
    else:
        row, column = block * HEIGHT + tl.arange(0, HEIGHT), start + tl.arange(0, WIDTH)
        return row, column, start // WIDTH


@triton.jit
def read_tile(
    scores, target, stored, soft, row, column, tile, rows, n, tiles,
    KIND: tl.constexpr, SOFT: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """Scores, how much each label is on, how much off, and where: (rows, columns) of a tile.

    `row` and `column` are those of the tile, the `tile`-th of the `tiles` of a row. An entry that
    is unknown, or beyond the matrix, has score 0 and is neither on nor off; one that is not in
    [0, 1] is NaN, and so will the loss be. With EVEN no tile reaches beyond the matrix.
    """
    at = row.to(tl.int64)[:, None] * n + column[None, :]
    inside = ((row < rows)[:, None] & (column < n)[None, :]) | EVEN
    if EVEN:
        v = tl.load(scores + at).to(tl.float32)
    else:
        v = tl.load(scores + at, mask=inside, other=0.0).to(tl.float32)
    if KIND == "stored":
        y = stored_tile(target, stored, soft, row, column, tile, rows, tiles, SOFT)
    elif EVEN:
        y = tl.load(target + at)
    else:
        y = tl.load(target + at, mask=inside, other=0)
    if SOFT:
        y = y.to(tl.float32)
        known = (y == y) & inside
        v = tl.where(known, v, 0.0)
        on = tl.where(known, tl.where((y < 0) | (y > 1), float("nan"), y), 0.0)
        off = tl.where(known, 1.0 - on, 0.0)
    else:
        on = tl.where(y != 0, 1.0, 0.0)
        if KIND == "hard":
            on = tl.where((y == 0) | (y == 1), on, float("nan"))
        off = 1.0 - on
        if not EVEN:
            off = tl.where(inside, off, 0.0)
    return v, on, off, at, inside


@triton.jit
def checked(on, KIND: tl.constexpr):
    """Complains of labels that `read_tile` could not read; nothing waits for it."""
    if KIND == "soft" or KIND == "hard":
        tl.device_assert(on == on, OUTSIDE)


@triton.jit
def stored_tile(starts, stored, soft, row, column, tile, rows, tiles, SOFT: tl.constexpr):
    """The sparse labels of a tile: there are few, each is compared with the columns of its row."""
    first = starts + row.to(tl.int64) * tiles + tile
    there = (row < rows) & (row * 0 + tile < tiles)  # blocks both: some interpreters insist
    k = tl.load(first, mask=there, other=0)
    end = tl.load(first + 1, mask=there, other=0)
    most = tl.max(end - k, 0)
    y = tl.zeros([row.shape[0], column.shape[0]], tl.float32)
    step = most * 0
    while step < most:  # (not a range: Triton's interpreter cannot count to a loaded number)
        here = k < end
        label = tl.load(stored + k, mask=here, other=-1)
        same = label[:, None] == column[None, :]
        if SOFT:
            y = tl.where(same, tl.load(soft + k, mask=here, other=0.0)[:, None], y)
        else:
            y = tl.where(same, 1.0, y)
        k += 1
        step += 1
    return y


@triton.jit
def stored_block(k, end, stored, soft, column, SOFT: tl.constexpr, BLOCK: tl.constexpr):
    """The labels of one block: entries k to end are stored; each is compared with its columns."""
    y = tl.zeros([BLOCK], tl.float32 if SOFT else tl.int32)
    while k < end:  # (not a range: Triton's interpreter cannot count to a loaded number)
        here = column == tl.load(stored + k)
        y = tl.where(here, tl.load(soft + k) if SOFT else 1, y)
        k += 1
    return y


@triton.jit
def search_blocks(
    pointers, stored, starts, rows, tiles, steps, BLOCK: tl.constexpr, LANES: tl.constexpr
):
    """Where the sparse labels of each block begin, by bisection among those of its row."""
    block = tl.program_id(0).to(tl.int64) * LANES + tl.arange(0, LANES)
    inside = block <= rows * tiles
    row = tl.minimum(block // tiles, rows)
    last = row == rows
    first = (block % tiles) * BLOCK
    low = tl.load(pointers + row, mask=inside, other=0)
    high = tl.load(pointers + row + 1, mask=inside & ~last, other=0)
    high = tl.where(last, low, high)
    step = 0
    while step < steps:
        middle = (low + high) // 2
        open_ = low < high
        label = tl.load(stored + middle, mask=inside & open_, other=0)
        right = open_ & (label < first)
        low = tl.where(right, middle + 1, low)
        high = tl.where(open_ & ~right, middle, high)
        step += 1
    tl.store(starts + block, low.to(starts.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["size"])
def scale(values, factor, other, size, SECOND: tl.constexpr, BLOCK: tl.constexpr):
    """values *= factor * other, or values *= factor."""
    times = tl.load(factor).to(tl.float32)
    if SECOND:
        times *= tl.load(other).to(tl.float32)
    if times != 1.0:
        start = tl.program_id(0).to(tl.int64) * BLOCK
        while start < size:
            at = start + tl.arange(0, BLOCK)
            inside = at < size
            value = tl.load(values + at, mask=inside).to(tl.float32)
            tl.store(values + at, (value * times).to(values.dtype.element_ty), mask=inside)
            start += tl.num_programs(0).to(tl.int64) * BLOCK
