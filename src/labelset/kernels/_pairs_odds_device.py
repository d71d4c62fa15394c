"""Log-odds of every score and their slopes on the GPU, by a traced formula."""

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
from labelset.kernels._pairs_odds import FAR, HUGE

__all__ = ["odds_and_slopes"]

BLOCK = 1024
CERTAIN, BOUND = tl.constexpr(FAR), tl.constexpr(HUGE / 3)


@triton.jit(do_not_specialize=["tiles"])
def _odds(
    scores, column0, column1, odds, slopes, n, tiles, formula: tl.constexpr,
    COLUMNS: tl.constexpr, STRIDE0: tl.constexpr, STRIDE1: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """u and du/dv of one block of a row; certainty is far, and flat."""
    row, tile = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    column = tile * BLOCK + tl.arange(0, BLOCK)
    inside = column < n
    at = row.to(tl.int64) * n + column
    v = tl.load(scores + at, mask=inside, other=0.0).to(tl.float32)
    if COLUMNS == 0:
        u, slope = formula(v)
    else:
        first = tl.load(column0 + column * STRIDE0, mask=inside, other=1.0).to(tl.float32)
        if COLUMNS == 1:
            u, slope = formula(v, first)
        else:
            second = tl.load(column1 + column * STRIDE1, mask=inside, other=1.0).to(tl.float32)
            u, slope = formula(v, first, second)
    certain = tl.abs(u) > BOUND
    u = tl.where(certain, tl.where(u > 0, CERTAIN, -CERTAIN), u)
    tl.store(odds + at, u, mask=inside)
    tl.store(slopes + at, tl.where(certain, 0.0, slope), mask=inside)


@lru_cache(maxsize=256)
def _launch(
    formula: Any, n: int, strides: tuple[int, ...], types: tuple[torch.dtype, ...]
) -> Launch:
    """The kernel for rows of n labels; `strides`: 1 for numbers per label, 0 for one number."""
    first, second = (*strides, 0, 0)[:2]
    constants = {"formula": formula, "COLUMNS": len(strides), "STRIDE0": first, "STRIDE1": second}
    return Launch(_odds, constants | {"BLOCK": BLOCK})


def odds_and_slopes(formula: Any, columns: list[Tensor], scores: Tensor) -> tuple[Tensor, Tensor]:
    """(rows, n) float32 each: u(v) and du/dv, by a formula of v and of numbers per label."""
    scores = scores.contiguous()
    rows, n = scores.shape
    odds, slopes = (torch.empty_like(scores, dtype=torch.float32) for _ in range(2))
    tiles = -(-n // BLOCK)
    strides = tuple(int(t.numel() > 1) for t in columns)
    read = (scores, *(*columns, scores, scores)[:2])
    launch = _launch(formula, n, strides, tuple(t.dtype for t in read))
    launch(rows * tiles, (*read, odds, slopes), (n, tiles))
    return odds, slopes
