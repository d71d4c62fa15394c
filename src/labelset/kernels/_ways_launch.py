"""How the kernels of the way losses are laid out over a matrix, and launched."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from labelset.kernels._gradient import Kernel, Result
from labelset.kernels._kinds import LabelTypes, label_kind
from labelset.kernels._launch import Launch, Ready, numbers, parts
from labelset.kernels._source import compiled
from labelset.kernels._tile import ASSERTING, label_arrays
from labelset.kernels._ways_back import back
from labelset.kernels._ways_few import few_ways, handed_numbers
from labelset.kernels._ways_finish import KEPT, finish
from labelset.kernels._ways_sums import log_sums
from labelset.labels import Labels

__all__ = ["way_kernel"]


class Plan(NamedTuple):
    """How a large matrix is gone through."""

    threads: int
    entries: int
    """Of each thread at a time."""
    programs: int
    """So many that the last ones to finish do not count."""
    least: int
    """Rows or columns that are worth a program of their own."""


DENSE = Plan(threads=128, entries=16, programs=8192, least=256)
# Stored labels are sought tile by tile: a warp alone waits for no other to know that none is there.
STORED = Plan(threads=32, entries=8, programs=16384, least=128)
NARROWEST, BLOCKS = 16, 512  # columns of a block; blocks for which it is made narrower
FINISHED = 1024  # numbers that one program of `finish` reads at a time
FEW, WIDEST = 2**16, 1024  # entries, of so many columns at most, that one program goes through
FEW_THREADS, FEW_ENTRIES, FEW_UNROLL = 512, 8, 2  # its threads; how it goes through them

# the constants of the kernels, in their order
SIDES, TILE = ("BY_ROW", "BY_COLUMN", "MEAN", "SHORT"), ("HEIGHT", "WIDTH", "UNROLL")
SUMS = ("KIND", "SOFT", "EVEN", "AXIS", *SIDES, *TILE)
BACK = ("KIND", "SOFT", "EVEN", *SIDES, "REDUCE", *TILE)
SIZES = ("ROWS", "ROW_PARTS", "COLUMNS", "COLUMN_PARTS")
FINISH = ("value", "NEEDS_ON", "MEAN", "BY_ROW", "BY_COLUMN", *SIZES)
ALL = ("value", "NEEDS_ON", "KIND", "SOFT", "EVEN", *SIDES, "REDUCE", *TILE, "GROUPS")


@dataclass(frozen=True)
class Layout:
    """Tiles of (height, width), `unroll` at a time, in blocks gone along in chunks of `steps`."""

    height: int
    width: int
    unroll: int
    blocks: int
    chunks: int
    steps: int

    @property
    def tile(self) -> tuple[int, int, int]:
        return self.height, self.width, self.unroll


@lru_cache(maxsize=256)
def layout(rows: int, n: int, axis: int, item: int, stored: bool) -> Layout:
    """Blocks of columns gone down (axis 0), or of rows gone along (axis 1), in the same tiles."""
    if few(rows, n, stored):
        width = max(NARROWEST, 1 << (n - 1).bit_length())
        height = FEW_THREADS * FEW_ENTRIES // width
        steps = -(-rows // (height * FEW_UNROLL)) * FEW_UNROLL
        return Layout(height, width, FEW_UNROLL, 1, 1, steps)
    plan = STORED if stored else DENSE
    each = plan.entries if stored else 16 // item  # (16 bytes: what a thread reads in one go)
    width = 32 * each  # a warp has a row of the tile to itself
    while width > NARROWEST and -(-n // width) < BLOCKS:
        width //= 2
    unroll = plan.entries // each
    height = plan.threads * each // width
    across, along, step = (n, rows, height) if axis == 0 else (rows, n, width)
    blocks = -(-across // (width if axis == 0 else height))
    chunks = max(1, min(-(-plan.programs // blocks), along // plan.least))
    steps = -(-along // (chunks * unroll * step)) * unroll
    return Layout(height, width, unroll, blocks, -(-along // (steps * step)), steps)


def few(rows: int, n: int, stored: bool) -> bool:
    """Whether one program does all of it: each launch would cost more than its work.

    Stored labels, of which it would have to seek those of a whole row, are left to several.
    """
    return rows * n <= FEW and n <= WIDEST and not stored


def way_kernel(loss: Any, scores: Tensor, labels: LabelTypes, way: str, mean: bool) -> Kernel:
    """The `Way` loss along rows, columns or both of matrices like `scores`."""
    rows, n = scores.shape
    job = _Job(loss, rows, n, scores.dtype, *label_kind(labels), way, mean)
    width = job.at(job.axis).width
    if job.few:
        handed = handed_numbers(job.rows, job.n, sum(job.programs), job.kinds)
        likes = numbers(scores.device, handed), numbers(scores.device)
        return _OneLaunch(job.all_at_once(), width, *likes)
    return _ThreeLaunches(job.log_sums(), job.finish(), job.back(), width, *job.handed())


@dataclass(frozen=True)
class _OneLaunch:
    """The kernel of a small job, and the width of its tiles."""

    ready: Ready
    width: int
    handed: Tensor
    """Like what its parts hand on, as `result` is: to make another like it takes half the time."""
    result: Tensor

    def __call__(self, scores: Tensor, labels: Tensor | Labels) -> Result:
        scores = scores.contiguous()
        gradient, result = torch.empty_like(scores), torch.empty_like(self.result)
        handed = torch.empty_like(self.handed)
        self.ready(scores, *label_arrays(labels, self.width), handed, gradient, result)
        return result, gradient, None


@dataclass(frozen=True)
class _ThreeLaunches:
    """The kernels of a larger one, and how many numbers they hand to one another."""

    log_sums: Ready
    finish: Ready
    back: Ready
    width: int
    parts: tuple[int, int]
    kept: tuple[int, int, int]

    def __call__(self, scores: Tensor, labels: Tensor | Labels) -> Result:
        scores, device = scores.contiguous(), scores.device
        read = scores, *label_arrays(labels, self.width)
        state, result = numbers(device, 3).zero_(), numbers(device)
        gradient = torch.empty_like(scores)
        row_parts, column_parts = parts(device, *self.parts, within=gradient)
        row_kept, column_kept, values = parts(device, *self.kept)
        self.log_sums(*read, row_parts, column_parts, state)
        self.finish(state, row_parts, column_parts, row_kept, column_kept, values)
        self.back(*read, row_kept, column_kept, values, state, gradient, result)
        return result, gradient, None


@dataclass(frozen=True)
class _Job:
    """One loss over a matrix: all that does not depend on what lies in it."""

    loss: Any
    rows: int
    n: int
    dtype: torch.dtype
    kind: str
    soft: bool
    way: str
    mean: bool

    def log_sums(self) -> Ready:
        """Log-sum-exps of parts of the rows and columns."""
        at, axis = self.at(self.axis), self.axis
        even = _even(self.rows, self.n, at, axis)
        constants = self.kind, self.soft, even, axis, *self.sides, *at.tile
        sizes = self.rows, self.n, self.tiles, self.parts[0], at.blocks, at.steps
        numbers = *sizes, *self.loss.exponents
        return _ready(log_sums, SUMS, constants, at.blocks * at.chunks, numbers, self.warps)

    def finish(self) -> Ready:
        """Those of whole rows and columns, their losses, and the sums of these."""
        widths = [parts_at_once(parts) for parts in self.parts]
        sizes = [size for width in widths for size in (FINISHED // width, width)]
        value = compiled(self.loss.text)
        constants = value, self.loss.needs_on, self.loss.reads_mean, *self.sides[:2], *sizes
        programs = self.programs
        numbers = self.rows, self.n, *self.parts, programs[0]
        return _ready(finish, FINISH, constants, sum(programs), (*numbers, *self.loss.exponents))

    def back(self) -> Ready:
        """The gradient, and the value from those sums."""
        at, programs = self.at(0), self.programs
        even = _even(self.rows, self.n, at, 0)
        constants = self.kind, self.soft, even, *self.sides, self.mean, *self.at(self.axis).tile
        sizes = self.rows, self.n, self.tiles, at.blocks, at.steps, programs[0], sum(programs)
        numbers = *sizes, *self.loss.exponents
        return _ready(back, BACK, constants, at.blocks * at.chunks, numbers, self.warps)

    def all_at_once(self) -> Ready:
        """All of it, of a small matrix."""
        at, programs = self.at(0), self.programs
        even = _even(self.rows, self.n, at, 0)
        row = compiled(self.loss.text), self.loss.needs_on
        constants = *row, self.kind, self.soft, even, *self.sides, self.mean, *at.tile, FINISHED
        numbers = self.rows, self.n, at.steps, programs[0], sum(programs)
        warps = FEW_THREADS // 32
        return _ready(few_ways, ALL, constants, 1, (*numbers, *self.loss.exponents), warps)

    def handed(self) -> tuple[tuple[int, int], tuple[int, int, int]]:
        """Numbers: parts of rows and of columns; what is kept of each, and the sums of losses."""
        by_row, by_column = self.sides[:2]
        rows, columns = self.rows * by_row, self.n * by_column
        sums = rows * self.parts[0] * self.kinds, columns * self.parts[1] * self.kinds
        return sums, (rows * int(KEPT), columns * int(KEPT), sum(self.programs))

    def at(self, axis: int) -> Layout:
        """How the matrix is gone through."""
        return layout(self.rows, self.n, axis, self.dtype.itemsize, self.kind == "stored")

    @property
    def axis(self) -> int:
        return int(self.way == "sample" and not self.few)

    @property
    def few(self) -> bool:
        return few(self.rows, self.n, self.kind == "stored")

    @property
    def warps(self) -> int:
        """Of each program that goes through the matrix."""
        return (STORED if self.kind == "stored" else DENSE).threads // 32

    @property
    def kinds(self) -> int:
        """Of numbers that are kept of each part of a row or column."""
        return 4 if self.loss.reads_mean else 2

    @property
    def sides(self) -> tuple[bool, bool, bool, bool]:
        return (
            self.way != "class",
            self.way != "sample",
            self.loss.reads_mean,
            self.dtype.itemsize == 2,
        )

    @property
    def tiles(self) -> int:
        return -(-self.n // self.at(self.axis).width)

    @property
    def parts(self) -> tuple[int, int]:
        """Of how many parts the sums of a row are, and those of a column."""
        at = self.at(self.axis)
        return (at.chunks, 1) if self.axis else (at.blocks, at.chunks)

    @property
    def programs(self) -> tuple[int, int]:
        """How many programs of `finish` there are for rows, and for columns."""
        by_row, by_column = self.sides[:2]
        row, column = (FINISHED // parts_at_once(parts) for parts in self.parts)
        return -(-self.rows // row) * by_row, -(-self.n // column) * by_column


def _ready(
    kernel: Any,
    names: tuple[str, ...],
    constants: tuple[Any, ...],
    programs: int,
    numbers: tuple[Any, ...],
    warps: int = DENSE.threads // 32,
) -> Ready:
    named = dict(zip(names, constants, strict=True))
    checks = kernel in (log_sums, few_ways) and named["KIND"] in ("soft", "hard")
    asserting = ASSERTING if checks else {}
    return Ready(Launch(kernel, named, num_warps=warps, **asserting), programs, numbers)


def _even(rows: int, n: int, at: Layout, axis: int) -> bool:
    """Whether no tile reaches beyond the matrix."""
    down, along = (at.unroll, 1) if axis == 0 else (1, at.unroll)
    return rows % (at.height * down) == 0 and n % (at.width * along) == 0


def parts_at_once(parts: int) -> int:
    """How many parts of a row or column a program of `finish` reads at a time: a power of two."""
    return min(128, 1 << (parts - 1).bit_length())
