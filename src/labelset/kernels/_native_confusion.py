"""Sums of soft decisions on the CPU, along columns or rows, and the gradient through them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from labelset.kernels._native import Program
from labelset.kernels._native_calls import Given, address, grid, loops, per_label, sizes
from labelset.labels import Labels

__all__ = ["SoftCounts", "soft_counts", "soft_counts_gradient"]


class SoftCounts(NamedTuple):
    """Sums in float64, one per column or per row."""

    sums: Tensor
    """(4, lines): of yes * on, yes * off, no * on, no * off; 0 for the last if not wanted."""
    on: Tensor
    """(lines,): how much is on."""
    known: Tensor
    """(lines,): how many entries are known."""


def soft_counts(
    program: Program,
    columns: Sequence[Tensor],
    scores: Tensor,
    labels: Tensor | Labels,
    by_row: bool,
    last: bool = True,
) -> SoftCounts:
    """The soft confusion matrix of each row, or of each column, of yes(v) and no(v).

    Without the `last` sum, no(v) is computed only where labels are on.
    """
    given, others = Given(scores, labels), per_label(columns, program.columns)
    rows, n = given.v.shape
    tall, wide = grid(rows, n, by_row, not by_row)
    bands = -(-rows // tall)
    sums = np.zeros((1, 6, rows) if by_row else (bands, 6, n))
    codes = address(program.values if last else program.yes), address(program.values), last
    where = sizes(others), by_row, tall, wide, sums.ctypes.data
    given.run(loops.decisions, bands * -(-n // wide), (program, others, sums), *codes, *where)
    total = torch.from_numpy(sums[0] if len(sums) == 1 else sums.sum(0))
    total[3] *= last
    return SoftCounts(total[:4], total[4], (n if by_row else rows) - total[5])


def soft_counts_gradient(
    program: Program,
    columns: Sequence[Tensor],
    scores: Tensor,
    labels: Tensor | Labels,
    by_row: bool,
    factors: Tensor,
) -> Tensor:
    """sum of factors * sums, by the scores; factors are (4, lines), or (4, 1) for all lines."""
    given, others = Given(scores, labels), per_label(columns, program.columns)
    rows, n = given.v.shape
    by = factors.detach().numpy()
    if program.opposite:
        by = np.concatenate([by[:2] - by[2:], np.zeros_like(by[2:])])
    each = np.empty((4, rows if by_row else n), np.float32)
    each[:] = by
    gradient = torch.empty_like(given.v)
    codes = address(program.slopes), program.opposite, sizes(others)
    out = by_row, each.ctypes.data, gradient.data_ptr()
    held, units = (program, others, each, gradient), -(-given.v.numel() // loops.UNIT)
    given.run(loops.returns, units, held, *codes, *out)
    return gradient
