"""How the kernels of the way losses are laid out over a matrix, and launched.

Worth it: two-way takes 2.27 ms, by torch.compile 4.8 times as long, by the formula 44 times:
`labelset bench --device cuda --shapes 4096x131072`, one H200, torch 2.11.0+cu130.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labelset.kernels.dispatch import Kernel, LabelTypes, Result, label_kind
from labelset.kernels.triton.axes_kernels import KEPT, STATE, back, finish, log_sums, single_block
from labelset.kernels.triton.launch import ASSERTING, BoundLaunch, Launch, numbers, parts
from labelset.kernels.triton.layout import Layout, Tuning, is_small, label_arrays, layout
from labelset.kernels.triton.source import compiled
from labelset.labels import Labels

# of dense labels by the bytes of a score: 16 bytes are what a thread reads at once, a warp has a
# row of the tile to itself, and 16 entries of each thread are on their way at a time
DENSE = {
    2: Tuning(tile=1024, unroll=2, warps=4, widest=256, programs=8192, least=256),
    4: Tuning(tile=512, unroll=4, warps=4, widest=128, programs=8192, least=256),
}
# Sparse labels are sought tile by tile: a warp alone waits for no other to know that none is there.
STORED = Tuning(tile=256, unroll=1, warps=1, widest=256, programs=16384, least=128)
FINISHED = 1024  # numbers that one program of `finish` reads at a time


def layout_of(rows: int, n: int, axis: int, item: int, stored: bool) -> Layout:
    """How a matrix of scores of `item` bytes is iterated over: for both axes in the same tiles."""
    small = is_small(rows, n, 0, stored)  # whatever the axis, for a small matrix is read once
    return layout(rows, n, axis, small, STORED if stored else DENSE[item])


def scratch_size(rows: int, n: int, programs: int, kinds: int) -> int:
    """How many: the state, parts of rows and columns and what is kept of them, sums of losses."""
    return int(STATE) + (kinds + int(KEPT)) * (rows + n) + programs


def way_kernel(loss: Any, scores: Tensor, labels: LabelTypes, way: str, mean: bool) -> Kernel:
    """The `Way` loss along rows, columns or both of matrices like `scores`."""
    rows, n = scores.shape
    job = _AxesJob(loss, rows, n, scores.dtype, *label_kind(labels), way, mean)
    width = job.at(job.axis).width
    if job.few:
        scratch = scratch_size(job.rows, job.n, sum(job.programs), job.kinds)
        likes = numbers(scores.device, scratch), numbers(scores.device)
        return _OneLaunch(job.single_block(), width, *likes)
    return _ThreeLaunches(job.log_sums(), job.finish(), job.back(), width, *job.scratch())


@dataclass(frozen=True)
class _OneLaunch:
    """The kernel of a small job, and the width of its tiles."""

    ready: BoundLaunch
    width: int
    scratch: Tensor
    """Like what its parts hand on, as `result` is: to make another like it takes half the time."""
    result: Tensor

    def __call__(self, scores: Tensor, labels: Tensor | Labels) -> Result:
        scores = scores.contiguous()
        gradient, result = torch.empty_like(scores), torch.empty_like(self.result)
        scratch = torch.empty_like(self.scratch)
        self.ready(scores, *label_arrays(labels, self.width), scratch, gradient, result)
        return result, gradient, None


@dataclass(frozen=True)
class _ThreeLaunches:
    """The kernels of a larger one, and how many numbers they hand to one another."""

    log_sums: BoundLaunch
    finish: BoundLaunch
    back: BoundLaunch
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
class _AxesJob:
    """One loss over a matrix: all that does not depend on what lies in it."""

    loss: Any
    rows: int
    n: int
    dtype: torch.dtype
    kind: str
    soft: bool
    way: str
    mean: bool

    def log_sums(self) -> BoundLaunch:
        """Log-sum-exps of parts of the rows and columns."""
        at = self.at(self.axis)
        constants = {**self.labels(at), "AXIS": self.axis, **self.sides, **at.tile}
        sizes = self.rows, self.n, self.tiles, self.parts[0], at.blocks, at.steps
        numbers = *sizes, *self.loss.exponents
        return _ready(log_sums, constants, at.blocks * at.chunks, numbers, at.warps)

    def finish(self) -> BoundLaunch:
        """Those of whole rows and columns, their losses, and the sums of these."""
        row, column = map(parts_at_once, self.parts)
        constants = {
            **self.value, **self.sides,
            "ROWS": FINISHED // row, "ROW_PARTS": row,
            "COLUMNS": FINISHED // column, "COLUMN_PARTS": column,
        }  # fmt: skip
        del constants["SHORT"]
        programs = self.programs
        numbers = self.rows, self.n, *self.parts, programs[0], *self.loss.exponents
        return _ready(finish, constants, sum(programs), numbers)

    def back(self) -> BoundLaunch:
        """The gradient, and the value from those sums."""
        at, programs = self.at(0), self.programs
        tile = self.at(self.axis).tile
        constants = {**self.labels(at), **self.sides, "REDUCE": self.mean, **tile}
        sizes = self.rows, self.n, self.tiles, at.blocks, at.steps, programs[0], sum(programs)
        numbers = *sizes, *self.loss.exponents
        return _ready(back, constants, at.blocks * at.chunks, numbers, at.warps)

    def single_block(self) -> BoundLaunch:
        """All of it, of a small matrix."""
        at, programs = self.at(0), self.programs
        constants = {
            **self.value, **self.labels(at), **self.sides, "REDUCE": self.mean, **at.tile,
            "GROUPS": FINISHED,
        }  # fmt: skip
        numbers = self.rows, self.n, at.steps, programs[0], sum(programs), *self.loss.exponents
        return _ready(single_block, constants, 1, numbers, at.warps)

    def scratch(self) -> tuple[tuple[int, int], tuple[int, int, int]]:
        """Numbers: parts of rows and of columns; what is kept of each, and the sums of losses."""
        by_row, by_column = self.sides["BY_ROW"], self.sides["BY_COLUMN"]
        rows, columns = self.rows * by_row, self.n * by_column
        sums = rows * self.parts[0] * self.kinds, columns * self.parts[1] * self.kinds
        return sums, (rows * int(KEPT), columns * int(KEPT), sum(self.programs))

    def at(self, axis: int) -> Layout:
        """How the matrix is iterated over."""
        return layout_of(self.rows, self.n, axis, self.dtype.itemsize, self.kind == "stored")

    def labels(self, at: Layout) -> dict[str, Any]:
        """The constants that say what labels are, and whether tiles fill the matrix."""
        return {"KIND": self.kind, "SOFT": self.soft, "EVEN": at.even(self.rows, self.n)}

    @property
    def value(self) -> dict[str, Any]:
        """The loss of one row or column, and whether it needs a positive."""
        return {"value": compiled(self.loss.text), "NEEDS_ON": self.loss.needs_on}

    @property
    def axis(self) -> int:
        return int(self.way == "sample" and not self.few)

    @property
    def few(self) -> bool:
        return is_small(self.rows, self.n, 0, self.kind == "stored")

    @property
    def kinds(self) -> int:
        """Of numbers that are kept of each part of a row or column."""
        return 4 if self.loss.reads_mean else 2

    @property
    def sides(self) -> dict[str, bool]:
        """The constants that say which sums there are, and in which precision."""
        return {
            "BY_ROW": self.way != "class",
            "BY_COLUMN": self.way != "sample",
            "MEAN": self.loss.reads_mean,
            "SHORT": self.dtype.itemsize == 2,
        }

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
        by_row, by_column = self.sides["BY_ROW"], self.sides["BY_COLUMN"]
        row, column = (FINISHED // parts_at_once(parts) for parts in self.parts)
        return -(-self.rows // row) * by_row, -(-self.n // column) * by_column


def _ready(
    kernel: Any, constants: dict[str, Any], programs: int, numbers: tuple[Any, ...], warps: int = 4
) -> BoundLaunch:
    checks = kernel in (log_sums, single_block) and constants["KIND"] in ("soft", "hard")
    options = ASSERTING if checks else {}
    return BoundLaunch(Launch(kernel, constants, num_warps=warps, **options), programs, numbers)


def parts_at_once(parts: int) -> int:
    """How many parts of a row or column a program of `finish` reads at a time: a power of two."""
    return min(128, 1 << (parts - 1).bit_length())
