"""Separable losses on the GPU: value and gradient of every entry in one pass.

Worth it: asl takes 1.49 ms, by torch.compile 2.8 times as long, by the formula 39 times:
`labelset bench --device cuda --shapes 4096x131072`, one H200, torch 2.11.0+cu130.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from labelset.kernels.dispatch import Kernel, LabelTypes, Result, label_kind
from labelset.kernels.triton.launch import (
    ASSERTING,
    BoundLaunch,
    Launch,
    column_constants,
    numbers,
    padded,
)
from labelset.kernels.triton.layout import block_starts
from labelset.kernels.triton.separable_kernels import block_of_entries, few_entries, mean_of_blocks
from labelset.labels import Labels

BLOCK = 2048
SMALL, SMALL_BLOCK = 2**16, 4096  # entries that one program goes through, and how many at a time
FEW = 2**14  # sums of blocks that one program adds up
STORED_BLOCK = 1024  # most such blocks hold no label at all, and are spared one side
REGISTERS = 64  # of each thread there: the search for the others must not leave processors idle

_mean = Launch(mean_of_blocks, {"BLOCK": 1024}, **ASSERTING)


@lru_cache(maxsize=1024)
def _launch(
    formula: Any, kind: str, soft: bool, n: int, stride: int, block: int,
    columns: tuple[tuple[str, int], ...], types: tuple[torch.dtype, ...],
) -> Launch:  # fmt: skip
    """For rows of n labels, `stride` entries apart; `columns` are those of `column_constants`."""
    constants = {"formula": formula, "KIND": kind, "SOFT": soft, **dict(columns)}
    constants |= {"EVEN": n % block == 0, "BLOCK": block}
    seeks = kind == "stored" and not torch.version.hip
    options = {"maxnreg": REGISTERS} if seeks else {}
    return Launch(block_of_entries, constants, num_warps=max(1, block // 512), **options)


def entries(
    formula: Any, columns: list[Tensor], scores: Tensor, labels: LabelTypes, mean: bool
) -> Kernel:
    """The mean over known entries, or the sum, of matrices like `scores`.

    `formula` gives (value, slope) of (v, on) where labels are hard, and the values and slopes of
    both sides where they may be soft.
    """
    if isinstance(labels, tuple):
        return lambda v, y: _stored_entries(formula, columns, v, y, mean)
    if columns or scores.numel() > SMALL:
        return _many(formula, columns, scores, labels, mean)
    n, (kind, soft) = scores.numel(), label_kind(labels)
    constants = {
        "formula": formula, "KIND": kind, "SOFT": soft, "EVEN": n % SMALL_BLOCK == 0,
        "BLOCK": SMALL_BLOCK,
    }  # fmt: skip
    asserting = ASSERTING if kind != "bits" else {}
    launch = Launch(few_entries, constants, num_warps=SMALL_BLOCK // 512, **asserting)
    scaled = (1.0 / n, float(n)) if mean else (1.0, 0.0)
    ready = BoundLaunch(launch, 1, (n, -(-n // SMALL_BLOCK), *scaled))
    return _Few(ready, numbers(scores.device))


@dataclass(frozen=True)
class _Few:
    """All in one launch: for so few entries each of them costs more than its work."""

    ready: BoundLaunch
    number: Tensor
    """Like the value: to make another like it takes half the time."""

    def __call__(self, scores: Tensor, labels: Tensor) -> Result:
        scores = scores.contiguous()
        gradient, value = torch.empty_like(scores), torch.empty_like(self.number)
        self.ready(scores, labels.contiguous(), gradient, value)
        return value, gradient, None


def _many(
    formula: Any, columns: list[Tensor], scores: Tensor, labels: torch.dtype, mean: bool
) -> Kernel:
    entries = scores.numel()
    rows, n = scores.shape
    if not columns and entries < 2**31 - BLOCK:
        rows, n = 1, entries  # entry by entry, the matrix is one long row
    block, (kind, soft) = block_width(n, stored=False), label_kind(labels)
    tiles = -(-n // block)
    strides = tuple(column_constants(columns).items())
    types = scores.dtype, labels, *(t.dtype for t in columns)
    launch = _launch(formula, kind, soft, n, n, block, strides, types)
    scale = 1.0 / entries if mean else 1.0
    ready = BoundLaunch(launch, rows * tiles, (n, n, tiles, 0, tiles, scale))
    counted = soft or kind == "hard"
    share = entries if mean and counted else 0
    return _Many(ready, columns, numbers(scores.device, rows * tiles), counted, soft, share)


@dataclass(frozen=True)
class _Many:
    """By as many programs as there are blocks."""

    ready: BoundLaunch
    columns: list[Tensor]
    partial: Tensor
    """Like the sums of the values of all blocks."""
    counted: bool
    soft: bool
    entries: int
    """How many there are, where the mean is over those that are known; 0 where it is not."""

    def __call__(self, scores: Tensor, labels: Tensor) -> Result:
        scores, labels = scores.contiguous(), labels.contiguous()
        gradient, partial = torch.empty_like(scores), torch.empty_like(self.partial)
        counts = torch.empty_like(partial) if self.counted else partial
        read = scores, labels, labels, labels, *padded(self.columns, scores)
        self.ready(*read, gradient, partial, counts)
        if not self.counted:
            return partial.sum(), gradient, None
        value, share = _known(partial, counts, self.entries)
        return value, gradient, share if self.entries and self.soft else None


def _stored_entries(
    formula: Any, columns: list[Tensor], scores: Tensor, labels: Labels, mean: bool
) -> Result:
    scores = scores.contiguous()
    gradient = torch.empty_like(scores)
    rows, n = scores.shape
    entries = rows * n
    sums = Sums(labels, rows, n, block_width(n, stored=True))
    sums.add(formula, columns, scores, n, n, gradient, 1.0 / entries if mean else 1.0)
    value, factor = sums.value(entries if mean else 0)
    return value, gradient, factor


def block_width(n: int, stored: bool) -> int:
    """How many labels a program takes."""
    return min(STORED_BLOCK if stored else BLOCK, max(128, 1 << (n - 1).bit_length()))


class Sums:
    """Sums of values where labels are stored; a matrix may come in parts, label by label."""

    def __init__(self, labels: Labels, rows: int, n: int, block: int) -> None:
        self.rows, self.block, self.tiles = rows, block, -(-n // block)
        self.soft = labels.values is not None
        values = labels.indices if labels.values is None else labels.values
        self.target = block_starts(labels, block), labels.indices, values
        self.partial = numbers(labels.device, rows * self.tiles)
        self.counts = torch.empty_like(self.partial) if self.soft else self.partial

    def add(
        self,
        formula: Any,
        columns: list[Tensor],
        scores: Tensor,
        n: int,
        stride: int,
        gradient: Tensor,
        scale: float,
        skipped: int = 0,
    ) -> None:
        """The scores of n labels after `skipped` blocks of them; writes their gradient.

        Rows of scores and gradient are `stride` entries apart.
        """
        tiles = -(-n // self.block)
        first, second = padded(columns, scores)
        strides = tuple(column_constants(columns).items())
        types = scores.dtype, *(t.dtype for t in (*self.target, first, second))
        launch = _launch(formula, "stored", self.soft, n, stride, self.block, strides, types)
        launch(
            self.rows * tiles,
            (scores, *self.target, first, second, gradient, self.partial, self.counts),
            (n, stride, tiles, skipped, self.tiles, scale),
        )

    def value(self, entries: int) -> tuple[Tensor, Tensor | None]:
        """The sum; for a mean, that times entries / known entries, and this factor."""
        if not self.soft:
            return self.partial.sum(), None
        value, share = _known(self.partial, self.counts, entries)
        return value, share if entries else None


def _known(partial: Tensor, counts: Tensor, entries: int) -> tuple[Tensor, Tensor]:
    """The sum of what is known, times the inverse of its share of the entries, and that."""
    if len(partial) > FEW:  # one program adds up a few; many are added up beforehand
        partial, counts = partial.sum()[None], counts.sum()[None]
    value, share = torch.empty_like(partial[0]), torch.empty_like(partial[0])
    _mean(1, (partial, counts, value, share), (len(partial), float(entries)))
    return value, share
