"""Stored labels inside a kernel: those of one block of a row, with no dense labels anywhere."""

# mypy: ignore-errors
# (Triton's language is Python only to the eye.)

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from labelset.kernels._kinds import place_type
from labelset.kernels._launch import current
from labelset.labels import Labels

__all__ = ["block_starts", "stored_block"]

SEARCHERS = 256


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
def _search(pointers, stored, starts, rows, tiles, steps, BLOCK: tl.constexpr, LANES: tl.constexpr):
    """Where the stored labels of each block begin, by bisection among those of its row."""
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


def block_starts(labels: Labels, block: int) -> Tensor:
    """(rows * blocks + 1,): the first stored entry of each block of each row, then the end."""
    tiles = -(-labels.n // block)
    if tiles == 1:
        return labels.indptr
    count = len(labels) * tiles
    starts = torch.empty(count + 1, dtype=place_type(labels), device=labels.device)
    with current(labels.device):
        _search[(-(-(count + 1) // SEARCHERS),)](
            labels.indptr, labels.indices, starts, len(labels), tiles, labels.n.bit_length(),
            BLOCK=block, LANES=SEARCHERS,
        )  # fmt: skip
    return starts
