"""Separable losses on the GPU: value and gradient of every entry in one pass."""

# mypy: ignore-errors
# (Triton's language is Python only to the eye.)

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from labelset.kernels._launch import Launch
from labelset.kernels._stored import block_starts, stored_block
from labelset.labels import Labels

__all__ = ["Sums", "block_width", "value_and_gradient"]

BLOCK = 2048
FEW = 2**14  # sums of blocks that one program adds up
STORED_BLOCK = 1024  # most such blocks hold no label at all, and are spared one side


@triton.jit(do_not_specialize=["tiles", "skipped", "all_tiles", "scale"])
def _entries(
    scores, target, stored, soft, column0, column1, gradient, partial, known,
    n, tiles, skipped, all_tiles, scale,
    formula: tl.constexpr, KIND: tl.constexpr, COLUMNS: tl.constexpr,
    STRIDE0: tl.constexpr, STRIDE1: tl.constexpr, SOFT: tl.constexpr, EVEN: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """One block of one row: its gradient, the sum of its values, how many of them are known.

    That number is NaN where a label lies outside [0, 1], which is for `_mean` to complain about.
    The scores may be those of a part of the labels, after `skipped` of `all_tiles` blocks.
    """
    program = tl.program_id(0)
    row, tile = program // tiles, program % tiles
    place = row * all_tiles + skipped + tile
    column = tile * BLOCK + tl.arange(0, BLOCK)
    inside = (column < n) | EVEN  # where blocks fill the rows exactly, no entry lies outside
    at = row.to(tl.int64) * n + column
    v = tl.load(scores + at, mask=inside, other=0.0).to(tl.float32)
    told = inside
    if SOFT:
        if KIND == "stored":
            first, last = tl.load(target + place), tl.load(target + place + 1)
            y = stored_block(first, last, stored, soft, column + skipped * BLOCK, SOFT, BLOCK)
        else:
            y = tl.load(target + at, mask=inside, other=0).to(tl.float32)
        told = (y == y) & inside
        v = tl.where(told, v, 0.0)
        y = tl.where(told, y, 0.0)
        counted = tl.sum(tl.where((y < 0) | (y > 1), float("nan"), told.to(tl.float32)), 0)
        tl.store(known + place, counted)
        value, slope = _blend(
            formula, v, y, column0, column1, column, inside, COLUMNS, STRIDE0, STRIDE1
        )
    elif KIND == "stored":
        first, last = tl.load(target + place), tl.load(target + place + 1)
        if first == last:  # most blocks have no label on, and only the other side is computed
            on = tl.zeros([BLOCK], tl.int1)
            value, slope = _hard(
                formula, v, on, column0, column1, column, inside, COLUMNS, STRIDE0, STRIDE1
            )
        else:
            y = stored_block(first, last, stored, soft, column + skipped * BLOCK, SOFT, BLOCK)
            value, slope = _hard(
                formula, v, y != 0, column0, column1, column, inside, COLUMNS, STRIDE0, STRIDE1
            )
    else:
        y = tl.load(target + at, mask=inside, other=0)
        if KIND == "hard":
            counted = tl.where((y < 0) | (y > 1), float("nan"), inside.to(tl.float32))
            tl.store(known + place, tl.sum(counted, 0))
        value, slope = _hard(
            formula, v, y != 0, column0, column1, column, inside, COLUMNS, STRIDE0, STRIDE1
        )
    if SOFT or not EVEN:
        value = tl.where(told, value, 0.0)
        slope = tl.where(told, slope, 0.0)
    tl.store(gradient + at, (slope * scale).to(gradient.dtype.element_ty), mask=inside)
    tl.store(partial + place, tl.sum(value, 0) * scale)


@triton.jit
def _hard(
    formula: tl.constexpr, v, on, column0, column1, column, inside,
    COLUMNS: tl.constexpr, STRIDE0: tl.constexpr, STRIDE1: tl.constexpr,
):  # fmt: skip
    """Labels that are on or off: value and slope of the one side or the other."""
    if COLUMNS == 0:
        value, slope = formula(v, on)
    elif COLUMNS == 1:
        value, slope = formula(v, on, _per_label(column0, column, inside, STRIDE0))
    else:
        first = _per_label(column0, column, inside, STRIDE0)
        value, slope = formula(v, on, first, _per_label(column1, column, inside, STRIDE1))
    return value, slope


@triton.jit
def _blend(
    formula: tl.constexpr, v, y, column0, column1, column, inside,
    COLUMNS: tl.constexpr, STRIDE0: tl.constexpr, STRIDE1: tl.constexpr,
):  # fmt: skip
    """Soft labels: both sides, in the proportion y to 1 - y."""
    if COLUMNS == 0:
        pos, neg, pos_slope, neg_slope = formula(v)
    elif COLUMNS == 1:
        pos, neg, pos_slope, neg_slope = formula(v, _per_label(column0, column, inside, STRIDE0))
    else:
        first = _per_label(column0, column, inside, STRIDE0)
        second = _per_label(column1, column, inside, STRIDE1)
        pos, neg, pos_slope, neg_slope = formula(v, first, second)
    return y * pos + (1.0 - y) * neg, y * pos_slope + (1.0 - y) * neg_slope


@triton.jit
def _per_label(values, column, inside, STRIDE: tl.constexpr):
    return tl.load(values + column * STRIDE, mask=inside, other=1.0).to(tl.float32)


@triton.jit(do_not_specialize=["size", "entries"])
def _mean(partial, counts, out, size, entries, BLOCK: tl.constexpr):
    """The sum of values over the share of entries that are known, and that share's inverse.

    It is compiled with its assertion, as torch's own kernels are.
    """
    total = tl.zeros([BLOCK], tl.float32)
    known = tl.zeros([BLOCK], tl.float32)
    start = 0
    while start < size:
        at = start + tl.arange(0, BLOCK)
        total += tl.load(partial + at, mask=at < size, other=0.0)
        known += tl.load(counts + at, mask=at < size, other=0.0)
        start += BLOCK
    count = tl.sum(known, 0)
    tl.device_assert(count == count, "labelset: labels must lie in [0, 1] (NaN: unknown)")
    share = tl.where(entries > 0, entries / tl.maximum(count, 1.0), 1.0)
    tl.store(out, tl.sum(total, 0) * share)
    tl.store(out + 1, share)


_launch_mean = Launch(_mean, {"BLOCK": 1024}, debug=True)


@lru_cache(maxsize=1024)
def _launch(
    formula: Any, kind: str, soft: bool, n: int, block: int, strides: tuple[int, ...],
    types: tuple[torch.dtype, ...],
) -> Launch:  # fmt: skip
    """The kernel for rows of n labels; `strides`: 1 for numbers per label, 0 for one number."""
    first, second = (*strides, 0, 0)[:2]
    constants = {
        "formula": formula, "KIND": kind, "COLUMNS": len(strides), "STRIDE0": first,
        "STRIDE1": second, "SOFT": soft, "EVEN": n % block == 0, "BLOCK": block,
    }  # fmt: skip
    return Launch(_entries, constants, num_warps=max(1, block // 512))


def value_and_gradient(
    formula: Any, columns: list[Tensor], scores: Tensor, labels: Tensor | Labels, mean: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The mean over known entries, or the sum; its gradient; a factor that is still missing in it.

    `formula` gives (value, slope) of (v, on) where labels are hard, and the values and slopes of
    both sides where they may be soft.
    """
    scores = scores.contiguous()
    gradient = torch.empty_like(scores)
    stored = isinstance(labels, Labels)
    entries = scores.numel()
    rows, n = scores.shape
    if not stored and not columns and entries < 2**31 - BLOCK:
        rows, n = 1, entries  # entry by entry, the matrix is one long row
    sums = Sums(labels, rows, n, block_width(n, stored))
    sums.add(formula, columns, scores, n, gradient, 1.0 / entries if mean else 1.0)
    value, factor = sums.value(entries, mean)
    return value, gradient, factor


def block_width(n: int, stored: bool) -> int:
    """How many labels a program takes."""
    return min(STORED_BLOCK if stored else BLOCK, max(128, 1 << (n - 1).bit_length()))


class Sums:
    """Sums of values over the entries of a matrix, which may come in parts, label by label."""

    def __init__(self, labels: Tensor | Labels, rows: int, n: int, block: int) -> None:
        self.rows, self.block, self.tiles = rows, block, -(-n // block)
        self.kind, self.soft, self.target = _target(labels, block)
        device = self.target[0].device
        self.partial = torch.empty(rows * self.tiles, device=device)
        self.counted = self.soft or self.kind == "hard"
        self.counts = torch.empty_like(self.partial) if self.counted else self.partial

    def add(
        self,
        formula: Any,
        columns: list[Tensor],
        scores: Tensor,
        n: int,
        gradient: Tensor,
        scale: float,
        skipped: int = 0,
    ) -> None:
        """The scores of n labels after `skipped` blocks of them; writes their gradient."""
        tiles = -(-n // self.block)
        first, second = (*columns, scores, scores)[:2]
        target, stored, soft = self.target
        strides = tuple(int(t.numel() > 1) for t in columns)
        types = scores.dtype, target.dtype, soft.dtype, first.dtype, second.dtype
        launch = _launch(formula, self.kind, self.soft, n, self.block, strides, types)
        launch(
            self.rows * tiles,
            (scores, target, stored, soft, first, second, gradient, self.partial, self.counts),
            (n, tiles, skipped, self.tiles, scale),
        )

    def value(self, entries: int, mean: bool) -> tuple[Tensor, Tensor | None]:
        """The sum, or, for the mean, that times entries / known entries, and this factor."""
        if not self.counted:
            return self.partial.sum(), None
        partial, counts = self.partial, self.counts
        if len(partial) > FEW:  # one program adds up a few; many are added up beforehand
            partial, counts = partial.sum()[None], counts.sum()[None]
        out = torch.empty(2, device=partial.device)
        whole = float(entries if mean else 0)
        _launch_mean(1, (partial, counts, out), (len(partial), whole))
        return out[0], out[1] if mean and self.soft else None


def _target(labels: Tensor | Labels, block: int) -> tuple[str, bool, tuple[Tensor, ...]]:
    """How the kernel reads the labels, whether they may be soft, and where they are."""
    if isinstance(labels, Labels):
        soft = labels.values is not None
        values = labels.values if soft else labels.indices
        return "stored", soft, (block_starts(labels, block), labels.indices, values)
    labels = labels.contiguous()
    if labels.dtype == torch.bool:
        return "bits", False, (labels,) * 3
    soft = labels.is_floating_point()
    return ("soft" if soft else "hard"), soft, (labels,) * 3
