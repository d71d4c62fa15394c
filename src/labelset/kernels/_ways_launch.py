"""How the kernels of the way losses are laid out over a matrix, and launched."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from labelset.kernels._launch import Launch
from labelset.kernels._tile import label_arrays, label_kind
from labelset.kernels._ways_back import back
from labelset.kernels._ways_finish import KEPT, finish
from labelset.kernels._ways_sums import log_sums
from labelset.labels import Labels

__all__ = ["value_and_gradient"]

THREADS, ENTRIES = 128, 16  # of each program; entries of each thread at a time
STORED_ENTRIES = 8  # the same where stored labels are sought, which is done once for all of these
NARROWEST, BLOCKS = 16, 512  # columns of a block; blocks for which it is made narrower
PROGRAMS = 8192  # so many that the last ones to finish do not count
LEAST = 256  # rows or columns that are worth a program of their own
FINISHED = 1024  # numbers that one program of `finish` reads at a time

# the constants of the three kernels, in their order
SIDES, TILE = ("BY_ROW", "BY_COLUMN", "MEAN", "SHORT"), ("HEIGHT", "WIDTH", "UNROLL")
SUMS = ("KIND", "SOFT", "EVEN", "AXIS", *SIDES, *TILE)
BACK = ("KIND", "SOFT", "EVEN", *SIDES, "REDUCE", *TILE)
SIZES = ("ROWS", "ROW_PARTS", "COLUMNS", "COLUMN_PARTS")
FINISH = ("value", "NEEDS_ON", "MEAN", "BY_ROW", "BY_COLUMN", *SIZES)


@dataclass(frozen=True)
class Layout:
    """Tiles of (height, width), `unroll` at a time, in blocks gone along in chunks of `steps`."""

    height: int
    width: int
    unroll: int
    blocks: int
    chunks: int
    steps: int


def layout(rows: int, n: int, axis: int, item: int, stored: bool) -> Layout:
    """Blocks of columns gone down (axis 0), or of rows gone along (axis 1), in the same tiles."""
    each = 16 // item  # what a thread reads in one go: a warp has a row of the tile to itself
    width = 32 * each
    while width > NARROWEST and -(-n // width) < BLOCKS:
        width //= 2
    unroll = 1 if stored else ENTRIES // each
    height = THREADS * (STORED_ENTRIES if stored else each) // width
    across, along, step = (n, rows, height) if axis == 0 else (rows, n, width)
    blocks = -(-across // (width if axis == 0 else height))
    chunks = max(1, min(-(-PROGRAMS // blocks), along // LEAST))
    steps = -(-along // (chunks * unroll * step)) * unroll
    return Layout(height, width, unroll, blocks, -(-along // (steps * step)), steps)


def value_and_gradient(
    value: Any,
    exponents: tuple[float, float],
    scores: Tensor,
    labels: Tensor | Labels,
    way: str,
    needs_on: bool,
    reads_mean: bool,
    mean: bool,
) -> tuple[Tensor, Tensor]:
    """The loss along rows, columns or both, and its gradient.

    `value` gives the loss of a row and its slopes by log sum_on exp(a v), log sum_off exp(b v)
    and the mean v of labels on.
    """
    job = _Job(exponents, scores.contiguous(), labels, way, reads_mean)
    job.log_sums()
    values, row_programs = job.finish(value, needs_on)
    return job.back(values, row_programs, mean)


class _Job:
    """One loss over one matrix: what its three kernels share."""

    def __init__(
        self,
        exponents: tuple[float, float],
        scores: Tensor,
        labels: Tensor | Labels,
        way: str,
        reads_mean: bool,
    ) -> None:
        self.scores, (self.rows, self.n), self.ab = scores, scores.shape, exponents
        by_row, by_column, self.axis = way != "class", way != "sample", int(way == "sample")
        (kind, soft), item = label_kind(labels), scores.element_size()
        shape = self.rows, self.n
        self.at = at = layout(*shape, self.axis, item, kind == "stored")
        self.down = layout(*shape, 0, item, kind == "stored")
        self.read = (scores, *label_arrays(labels, at.width))
        self.tiles = -(-self.n // at.width)
        self.parts, self.chunks = (at.chunks, 1) if self.axis else (at.blocks, at.chunks)
        self.types = tuple(t.dtype for t in self.read)
        self.labels, self.tile = (kind, soft), (at.height, at.width, at.unroll)
        self.sides = by_row, by_column, reads_mean, item == 2
        kinds = 4 if reads_mean else 2
        self.state = scores.new_zeros(3, dtype=torch.float32)
        self.row_parts = self.new(kinds, self.rows, self.parts, used=by_row)
        self.column_parts = self.new(kinds, self.chunks, self.n, used=by_column)
        self.row_kept = self.new(int(KEPT), self.rows, used=by_row)
        self.column_kept = self.new(int(KEPT), self.n, used=by_column)

    def new(self, *shape: int, used: bool = True) -> Tensor:
        return self.scores.new_empty(shape, dtype=torch.float32) if used else self.state

    def log_sums(self) -> None:
        even = _even(self.rows, self.n, self.at, self.axis)
        constants = *self.labels, even, self.axis, *self.sides, *self.tile
        launch = _launch(log_sums, SUMS, constants, self.n, self.types)
        launch(
            self.at.blocks * self.at.chunks,
            (*self.read, self.row_parts, self.column_parts, self.state),
            (self.rows, self.n, self.tiles, self.parts, self.at.blocks, self.at.steps, *self.ab),
        )

    def finish(self, value: Any, needs_on: bool) -> tuple[Tensor, int]:
        """The sums of the losses of blocks of rows and of columns, and how many are of rows."""
        (by_row, by_column, mean), row_parts = self.sides[:3], _finished(self.parts)
        column_parts = _finished(self.chunks)
        rows, columns = FINISHED // row_parts, FINISHED // column_parts
        row_programs = -(-self.rows // rows) if by_row else 0
        programs = row_programs + (-(-self.n // columns) if by_column else 0)
        values = self.new(programs)
        sizes = rows, row_parts, columns, column_parts
        constants = value, needs_on, mean, by_row, by_column, *sizes
        launch = _launch(finish, FINISH, constants)
        kept = self.row_parts, self.column_parts, self.row_kept, self.column_kept
        numbers = self.rows, self.n, self.parts, self.chunks, row_programs, *self.ab
        launch(programs, (*kept, values, self.state), numbers)
        return values, row_programs

    def back(self, values: Tensor, row_programs: int, mean: bool) -> tuple[Tensor, Tensor]:
        gradient, result, down = torch.empty_like(self.scores), self.new(), self.down
        even = _even(self.rows, self.n, down, 0)
        constants = *self.labels, even, *self.sides, mean, *self.tile
        launch = _launch(back, BACK, constants, self.n, self.types)
        kept = self.row_kept, self.column_kept, values, self.state, gradient, result
        numbers = self.rows, self.n, self.tiles, down.blocks, down.steps, row_programs, len(values)
        launch(down.blocks * down.chunks, (*self.read, *kept), (*numbers, *self.ab))
        return result, gradient


@lru_cache(maxsize=1024)
def _launch(
    kernel: Any,
    names: tuple[str, ...],
    constants: tuple[Any, ...],
    n: int = 0,
    types: tuple[torch.dtype, ...] = (),
) -> Launch:
    """A kernel with its constants, for rows of n labels and tensors of these types."""
    return Launch(kernel, dict(zip(names, constants, strict=True)), num_warps=4)


def _even(rows: int, n: int, at: Layout, axis: int) -> bool:
    """Whether no tile reaches beyond the matrix."""
    down, along = (at.unroll, 1) if axis == 0 else (1, at.unroll)
    return rows % (at.height * down) == 0 and n % (at.width * along) == 0


def _finished(parts: int) -> int:
    """How many parts of a row or column a program of `finish` reads at a time: a power of two."""
    return min(128, 1 << (parts - 1).bit_length())
