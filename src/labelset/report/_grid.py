"""Probabilities as one byte each, so that every threshold on a grid decides as it did before."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["CODES", "GRID", "codes", "histograms", "positions"]

CODES = 256


def _grid() -> Tensor:
    """254 thresholds: half per cents, and finer towards both ends."""
    ends = [1e-6, 1e-5, *(i / 10_000 for i in range(1, 10)), *(i / 2_000 for i in range(2, 20))]
    inner = [i / 200 for i in range(2, 199)]
    tops = [1 - 1e-5, *(1 - e for e in ends[2:])]
    return torch.tensor(sorted([*ends, *inner, *tops]), dtype=torch.float64)


GRID = _grid()
"""The thresholds that the report's sliders stop at, rising."""


def codes(p: Tensor, own: Tensor) -> Tensor:
    """(rows, labels) uint8: how many thresholds, of the grid and the label's own, p reaches.

    p >= GRID[k] exactly where the code exceeds k, or k + 1 if own <= GRID[k]; and p >= own exactly
    where it exceeds the number of grid points below own. Nothing is lost by rounding.

    >>> codes(torch.tensor([[0.0, 0.3, 1.0]]), torch.tensor([0.5, 0.5, 0.5])).tolist()
    [[0, 88, 255]]
    """
    out = torch.empty(p.shape, dtype=torch.uint8)
    for first in range(0, len(p), 1024):  # float64 for some rows at a time
        block = p[first : first + 1024].double()
        reached = torch.bucketize(block, GRID, right=True) + (block >= own)
        out[first : first + 1024] = reached.to(torch.uint8)
    return out


def positions(p: Tensor, own: Tensor, code: Tensor) -> Tensor:
    """(rows, labels) uint8: where p lies between the two thresholds around it, in 256ths."""
    each = torch.cat([GRID.expand(len(own), -1), own[:, None].clamp(max=1.0)], 1).sort(1).values
    ends = torch.cat([torch.zeros(len(own), 1), each, torch.ones(len(own), 1)], 1)
    at = code.T.long()
    low, high = ends.gather(1, at), ends.gather(1, at + 1)
    share = (p.T.double() - low) / (high - low).clamp(min=1e-300)
    return (share * 256).clamp(0, 255).to(torch.uint8).T


def histograms(code: Tensor, truth: Tensor) -> NDArray[np.uint32]:
    """(labels, 2, 256): of the rows where the label is off, and on, how many have each code."""
    n = truth.shape[1]
    label = torch.arange(n).expand_as(truth)
    known = truth < 2
    cell = (label * 2 + truth) * CODES + code
    counts = torch.bincount(cell[known], minlength=n * 2 * CODES)
    return counts.reshape(n, 2, CODES).numpy().astype(np.uint32)
