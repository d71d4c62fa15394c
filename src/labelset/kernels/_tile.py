"""A tile of scores and labels inside a kernel, whatever the labels are kept as."""

# mypy: ignore-errors
# (Triton's language is Python only to the eye.)

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from labelset import check
from labelset.kernels._stored import block_starts
from labelset.labels import Labels

__all__ = ["ASSERTING", "OUTSIDE", "checked", "label_arrays", "place", "read_tile"]

OUTSIDE = tl.constexpr("labelset: labels must lie in [0, 1] (NaN: unknown)")
ASSERTING = {"debug": True, "sanitize_overflow": False}
"""With what Triton compiles a kernel that asserts something, as torch's own kernels do."""


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
        told = (y == y) & inside
        v = tl.where(told, v, 0.0)
        on = tl.where(told, tl.where((y < 0) | (y > 1), float("nan"), y), 0.0)
        off = tl.where(told, 1.0 - on, 0.0)
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
    """The stored labels of a tile: few are there, each is compared with the columns of its row."""
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


def label_arrays(labels: Tensor | Labels, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """What `read_tile` reads as target, stored and soft, for tiles of that many columns."""
    if isinstance(labels, Labels):
        values = labels.indices if labels.values is None else labels.values
        return block_starts(labels, width), labels.indices, values
    if not labels.is_cuda:  # there it is the kernel that looks
        check.unit_interval(labels)
    labels = labels.contiguous()
    return labels, labels, labels
