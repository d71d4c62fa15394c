"""How a matrix is cut into tiles, and how labels lie in memory so that tiles of them are read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from labelset import check
from labelset.kernels.dispatch import place_type
from labelset.kernels.triton.launch import current
from labelset.kernels.triton.tile import search_blocks
from labelset.labels import Labels

SEARCHERS = 256
NARROWEST, BLOCKS = 16, 512  # columns of a block; blocks for which it is made narrower
SMALL, MOST_GROUPS = 2**16, 1024  # entries, of so many groups at most, for one program alone
# of that program: eight entries for each thread of sixteen warps, twice over
SMALL_TILE, SMALL_UNROLL, SMALL_WARPS = 4096, 2, 16


class Tuning(NamedTuple):
    """How a large matrix is iterated over: tuned numbers, the same for all shapes."""

    tile: int
    """Entries of a tile."""
    unroll: int
    """Tiles read before any of them is needed."""
    warps: int
    widest: int | None
    """Columns of a tile at most; None: a whole row, as far as a tile reaches."""
    programs: int
    """So many that the last ones to finish do not count."""
    least: int
    """Rows or columns that are worth a program of their own."""
    registers: int | None = None
    """Of each thread, so that enough programs fit on a processor; None: as Triton likes."""


@dataclass(frozen=True)
class Layout:
    """Tiles of (height, width), `unroll` at a time, in blocks of groups: columns (axis 0) or rows
    (axis 1). Along a block its `chunks` have a program each, of so many `steps`."""

    axis: int
    height: int
    width: int
    blocks: int
    chunks: int
    steps: int
    unroll: int
    warps: int

    @property
    def tile(self) -> dict[str, int]:
        """The constants of a kernel that reads such tiles."""
        return {"HEIGHT": self.height, "WIDTH": self.width, "UNROLL": self.unroll}

    def even(self, rows: int, n: int) -> bool:
        """Whether no tile reaches beyond the matrix."""
        down, along = (self.unroll, 1) if self.axis == 0 else (1, self.unroll)
        return rows % (self.height * down) == 0 and n % (self.width * along) == 0


def is_small(rows: int, n: int, axis: int, stored: bool) -> bool:
    """Whether one program does all of it: each launch would cost more than its work.

    Sparse labels, of which it would have to seek those of a whole row, are left to several.
    """
    return rows * n <= SMALL and (n, rows)[axis] <= MOST_GROUPS and not stored


@lru_cache(maxsize=512)
def layout(rows: int, n: int, axis: int, small: bool, plan: Tuning) -> Layout:
    """Blocks of columns, from top to bottom (axis 0), or of rows, from left to right (axis 1)."""
    groups, along = (n, rows) if axis == 0 else (rows, n)
    if small:
        across = max(NARROWEST, 1 << (groups - 1).bit_length())
        deep = SMALL_TILE // across
        height, width = (deep, across) if axis == 0 else (across, deep)
        steps = -(-along // (deep * SMALL_UNROLL)) * SMALL_UNROLL
        return Layout(axis, height, width, 1, 1, steps, SMALL_UNROLL, SMALL_WARPS)
    width = plan.widest or min(plan.tile, max(NARROWEST, 1 << (n - 1).bit_length()))
    while plan.widest and width > NARROWEST and -(-n // width) < BLOCKS:
        width //= 2
    height = plan.tile // width
    size, step = (width, height) if axis == 0 else (height, width)
    blocks = -(-groups // size)
    chunks = max(1, min(-(-plan.programs // blocks), along // plan.least))
    steps = -(-along // (chunks * plan.unroll * step)) * plan.unroll
    chunks = -(-along // (steps * step))
    return Layout(axis, height, width, blocks, chunks, steps, plan.unroll, plan.warps)


def label_arrays(labels: Tensor | Labels, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """What `read_tile` reads as target, stored and soft, for tiles of that many columns."""
    if isinstance(labels, Labels):
        values = labels.indices if labels.values is None else labels.values
        return block_starts(labels, width), labels.indices, values
    if not labels.is_cuda:  # there it is the kernel that looks
        check.unit_interval(labels)
    labels = labels.contiguous()
    return labels, labels, labels


def block_starts(labels: Labels, block: int) -> Tensor:
    """(rows * blocks + 1,): the first stored entry of each block of each row, then the end."""
    tiles = -(-labels.n // block)
    if tiles == 1:
        return labels.indptr
    count = len(labels) * tiles
    starts = torch.empty(count + 1, dtype=place_type(labels), device=labels.device)
    with current(labels.device):
        search_blocks[(-(-(count + 1) // SEARCHERS),)](
            labels.indptr, labels.indices, starts, len(labels), tiles, labels.n.bit_length(),
            BLOCK=block, LANES=SEARCHERS,
        )  # fmt: skip
    return starts
