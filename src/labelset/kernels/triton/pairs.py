"""Label pairs on the GPU: every label that is on against every one that is off, in registers.

Worth it: lpr at 256 x 20,000 takes 0.51 ms, eager 8.4 ms and 50 times the memory:
`labelset bench --losses lpr --shapes 256x20000`, one H200, torch 2.11.0+cu130.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from labelset import check
from labelset.kernels.triton.launch import Launch, column_constants, padded
from labelset.kernels.triton.pairs_kernels import (
    gradient_of_negatives,
    gradient_of_positives,
    list_positives,
    log_odds,
    scale_rows,
)
from labelset.labels import Labels

BLOCK = 1024  # labels of a row that one program sets against all those that are on
GROUP = 4  # labels that are on, taken together
WIDE = 512  # labels of a row at a time, where a program runs through all of them
LANES = 16  # programs that share the labels of a row that are on
LIST_BLOCK = 4096


@lru_cache(maxsize=256)
def _launches(
    types: tuple[torch.dtype, ...], n: int, soft: bool, mean: bool
) -> tuple[Launch, Launch, Launch, Launch]:
    """The kernels for rows of n labels and tensors of these types."""
    wide = min(LIST_BLOCK, max(128, 1 << (n - 1).bit_length()))
    return (
        Launch(list_positives, {"BLOCK": wide}, num_warps=8),
        Launch(scale_rows, {"MEAN": mean, "BLOCK": 1024}),
        Launch(gradient_of_negatives, {"SOFT": soft, "BLOCK": BLOCK, "GROUP": GROUP}),
        Launch(gradient_of_positives, {"SOFT": soft, "BLOCK": WIDE, "GROUP": GROUP}),
    )


def value_and_gradient(
    odds: Tensor, slopes: Tensor, labels: Tensor | Labels, mean: bool, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Mean over the rows that have two known labels, or sum, and its gradient by the scores.

    Two passes over the pairs: sums over the labels on stay in registers in the first, sums over
    the labels off in the second, so that neither is ever stored in parts. Nothing is waited for.
    """
    rows, n = odds.shape
    target = _dense(labels)
    soft, device = target.is_floating_point(), odds.device
    listed = torch.empty(rows, n, dtype=torch.int32, device=device)
    counts, known = (torch.empty(rows, dtype=torch.int32, device=device) for _ in range(2))
    lister, scaler, by_off, by_on = _launches((target.dtype, dtype), n, soft, mean)
    lister(rows, (target, listed, counts, known), (n,))
    scales, gradient = torch.empty(rows, device=device), torch.empty_like(odds, dtype=dtype)
    scaler(1, (known, scales), (rows,))
    tiles = -(-n // BLOCK)
    partial = torch.empty(rows * tiles, dtype=torch.float32, device=device)
    given = (odds, slopes, target, listed, counts, scales, gradient)
    by_off(rows * tiles, (*given, partial), (n, tiles))
    by_on(rows * LANES, given, (n, LANES))
    return partial.sum(), gradient


def _dense(labels: Tensor | Labels) -> Tensor:
    """(rows, n) labels as the kernels read them: bytes, or floating-point numbers."""
    if isinstance(labels, Labels):
        if labels.values is not None:
            return labels.dense()
        stored = torch.ones_like(labels.indices, dtype=torch.uint8)
        out = torch.zeros(labels.shape, dtype=torch.uint8, device=labels.device)
        return out.index_put_((labels.rows(), labels.indices.long()), stored)
    check.unit_interval(labels)
    labels = labels.contiguous()
    return labels.view(torch.uint8) if labels.dtype == torch.bool else labels


@lru_cache(maxsize=256)
def _launch_odds(
    formula: Any,
    n: int,
    columns: tuple[tuple[str, int], ...],
    types: tuple[torch.dtype, ...],
) -> Launch:
    """The kernel for rows of n labels; `columns` are those of `column_constants`."""
    return Launch(log_odds, {"formula": formula, **dict(columns), "BLOCK": BLOCK})


def odds_and_slopes(formula: Any, columns: list[Tensor], scores: Tensor) -> tuple[Tensor, Tensor]:
    """(rows, n) float32 each: u(v) and du/dv, by a formula of v and of numbers per label."""
    scores = scores.contiguous()
    rows, n = scores.shape
    odds, slopes = (torch.empty_like(scores, dtype=torch.float32) for _ in range(2))
    tiles = -(-n // BLOCK)
    strides = tuple(column_constants(columns).items())
    read = scores, *padded(columns, scores)
    launch = _launch_odds(formula, n, strides, tuple(t.dtype for t in read))
    launch(rows * tiles, (*read, odds, slopes), (n, tiles))
    return odds, slopes
