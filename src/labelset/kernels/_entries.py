"""Separable losses on the GPU: value and gradient of every entry in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from labelset.kernels._entry_blocks import block_of_entries, few_entries, mean_of_blocks
from labelset.kernels._gradient import Kernel, Result
from labelset.kernels._kinds import LabelTypes, label_kind, label_types
from labelset.kernels._launch import Launch, Ready, numbers
from labelset.kernels._stored import block_starts
from labelset.kernels._tile import ASSERTING
from labelset.labels import Labels

__all__ = ["Sums", "block_width", "blocks_of_entries", "entries"]

BLOCK = 2048
SMALL, SMALL_BLOCK = 2**16, 4096  # entries that one program goes through, and how many at a time
FEW = 2**14  # sums of blocks that one program adds up
STORED_BLOCK = 1024  # most such blocks hold no label at all, and are spared one side
REGISTERS = 64  # of each thread there: the search for the others must not leave processors idle

_mean = Launch(mean_of_blocks, {"BLOCK": 1024}, **ASSERTING)


@lru_cache(maxsize=1024)
def _launch(
    formula: Any, kind: str, soft: bool, n: int, stride: int, block: int,
    strides: tuple[int, ...], types: tuple[torch.dtype, ...],
) -> Launch:  # fmt: skip
    """For rows of n labels, `stride` entries apart.

    `strides`: 1 for numbers per label, 0 for one number.
    """
    first, second = (*strides, 0, 0)[:2]
    constants = {
        "formula": formula, "KIND": kind, "COLUMNS": len(strides), "STRIDE0": first,
        "STRIDE1": second, "SOFT": soft, "EVEN": n % block == 0, "BLOCK": block,
    }  # fmt: skip
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
    n = scores.numel()
    if columns or isinstance(labels, tuple) or n > SMALL:
        return lambda v, y: blocks_of_entries(formula, columns, v, y, mean)
    kind, soft = label_kind(labels)
    constants = {
        "formula": formula, "KIND": kind, "SOFT": soft, "EVEN": n % SMALL_BLOCK == 0,
        "BLOCK": SMALL_BLOCK,
    }  # fmt: skip
    asserting = ASSERTING if kind != "bits" else {}
    launch = Launch(few_entries, constants, num_warps=SMALL_BLOCK // 512, **asserting)
    scaled = (1.0 / n, float(n)) if mean else (1.0, 0.0)
    ready = Ready(launch, 1, (n, -(-n // SMALL_BLOCK), *scaled))
    return _Few(ready, numbers(scores.device))


@dataclass(frozen=True)
class _Few:
    """All in one launch: for so few entries each of them costs more than its work."""

    ready: Ready
    number: Tensor
    """Like the value: to make another like it takes half the time."""

    def __call__(self, scores: Tensor, labels: Tensor) -> Result:
        scores = scores.contiguous()
        gradient, value = torch.empty_like(scores), torch.empty_like(self.number)
        self.ready(scores, labels.contiguous(), gradient, value)
        return value, gradient, None


def blocks_of_entries(
    formula: Any, columns: list[Tensor], scores: Tensor, labels: Tensor | Labels, mean: bool
) -> Result:
    """By as many programs as there are blocks."""
    scores = scores.contiguous()
    gradient = torch.empty_like(scores)
    entries = scores.numel()
    rows, n = scores.shape
    stored = isinstance(labels, Labels)
    if not stored and not columns and entries < 2**31 - BLOCK:
        rows, n = 1, entries  # entry by entry, the matrix is one long row
    sums = Sums(labels, rows, n, block_width(n, stored))
    sums.add(formula, columns, scores, n, n, gradient, 1.0 / entries if mean else 1.0)
    value, factor = sums.value(entries, mean)
    return value, gradient, factor


def block_width(n: int, stored: bool) -> int:
    """How many labels a program takes."""
    return min(STORED_BLOCK if stored else BLOCK, max(128, 1 << (n - 1).bit_length()))


class Sums:
    """Sums of values over the entries of a matrix, which may come in parts, label by label."""

    def __init__(self, labels: Tensor | Labels, rows: int, n: int, block: int) -> None:
        self.rows, self.block, self.tiles = rows, block, -(-n // block)
        self.kind, self.soft = label_kind(label_types(labels))
        self.target = _arrays(labels, block)
        device = self.target[0].device
        self.partial = numbers(device, rows * self.tiles)
        self.counted = self.soft or self.kind == "hard"
        self.counts = torch.empty_like(self.partial) if self.counted else self.partial

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
        columns = [t.contiguous() for t in columns]
        first, second = (*columns, scores, scores)[:2]
        target, stored, soft = self.target
        strides = tuple(int(t.numel() > 1) for t in columns)
        types = scores.dtype, target.dtype, soft.dtype, first.dtype, second.dtype
        kind = self.kind, self.soft
        launch = _launch(formula, *kind, n, stride, self.block, strides, types)
        launch(
            self.rows * tiles,
            (scores, target, stored, soft, first, second, gradient, self.partial, self.counts),
            (n, stride, tiles, skipped, self.tiles, scale),
        )

    def value(self, entries: int, mean: bool) -> tuple[Tensor, Tensor | None]:
        """The sum, or, for the mean, that times entries / known entries, and this factor."""
        if not self.counted:
            return self.partial.sum(), None
        partial, counts = self.partial, self.counts
        if len(partial) > FEW:  # one program adds up a few; many are added up beforehand
            partial, counts = partial.sum()[None], counts.sum()[None]
        value, share = numbers(partial.device), numbers(partial.device)
        _mean(1, (partial, counts, value, share), (len(partial), float(entries if mean else 0)))
        return value, share if mean and self.soft else None


def _arrays(labels: Tensor | Labels, block: int) -> tuple[Tensor, Tensor, Tensor]:
    """What the kernel reads as target, stored and soft."""
    if isinstance(labels, Labels):
        values = labels.indices if labels.values is None else labels.values
        return block_starts(labels, block), labels.indices, values
    return (labels.contiguous(),) * 3
