"""Least-norm points of many label sets on a device, and simplices around the origin.

Every label set has a working set of a few rows, those of least margin at its point. `separate`
solves all of these together, prices all rows at the new points in one product, and renews the
working sets, until no row matters that is not in them. Where the norm vanishes the origin seems to
be in the hull of a working set, and `surround` moves the multipliers to a vertex: d + 1 rows, the
certificate. What is found is not proven here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from labelset.proofs._device_interior import Interior, begin, step
from labelset.proofs._device_rows import SignedRows, halves

__all__ = ["Found", "separate", "size", "surround"]

TOLERANCES = (0.2, 1e-2, *[1e-7] * 6)  # the relative gap at which each round ends
CLOSE = 3e-7  # the one, over all rows, at which a search ends
NOUGHT = 1e-4  # |w|^2 over the gap, below which the norm counts as 0
STAY = 1e-3  # rows stay in a working set whose multiplier is so large a share of the largest
STEPS = 15
FEW = 32  # a round ends when one label set in so many is not done
Done = Callable[[Interior], Tensor]


@dataclass(frozen=True)
class Found:
    """Where the searches ended."""

    at: Interior
    which: Tensor
    """(L, m): the rows of the working sets"""
    least: Tensor
    """(L,): the least margin of all rows at w; -inf where the hull seems to hold the origin"""

    def __getitem__(self, some: Tensor) -> Found:
        return Found(self.at[some], self.which[some], self.least[some])

    def put(self, live: Tensor, at: Interior, which: Tensor, least: Tensor) -> None:
        """Write where some of the label sets stand, in place."""
        self.at.put(live, at)
        self.which[live], self.least[live] = which, least


def size(n: int, d: int) -> int:
    """How many rows a working set has."""
    return min(n, 3 * d + 8)


def separate(rows: SignedRows) -> Found:
    """Points of least norm of the hulls."""
    d = rows.unit.shape[1]
    which = _lowest(rows.margins(rows.mean()), d)
    lam = halves(rows.signs.gather(1, which))
    found, live = _nothing(which, d), torch.arange(len(which), device=which.device)
    for tolerance in TOLERANCES:
        working = rows.working(which)
        at = _until(working, begin(working, lam), partial(_settled, tolerance), 1.0)
        around = _vanished(at)
        margins = rows.margins(at.z[:, :-1])
        least = margins.amin(1)
        found.put(live, at, which, least.masked_fill(around, -torch.inf))
        left = torch.nonzero((at.norms - least > CLOSE * at.norms) & ~around)[:, 0]
        if not len(left):
            break
        rows, live = rows[left], live[left]
        which, lam = _renewed(margins[left], which[left], at.lam[left], d)
    return found


def _nothing(which: Tensor, d: int) -> Found:
    """Space for what is to be found."""
    count, m = which.shape
    z, s, lam, least = (
        torch.zeros(shape, dtype=torch.float64, device=which.device)
        for shape in ((count, d + 1), (count, m), (count, m), (count,))
    )
    return Found(Interior(z, s, lam), which.clone(), least)


def _lowest(margins: Tensor, d: int) -> Tensor:
    """(L, m): the rows of least margin."""
    return margins.topk(size(margins.shape[1], d), largest=False, sorted=False).indices


def _renewed(margins: Tensor, which: Tensor, lam: Tensor, d: int) -> tuple[Tensor, Tensor]:
    """The next working sets, and the multipliers of the last for the rows in both."""
    weights = torch.zeros_like(margins).scatter_(1, which, lam)
    stay = weights > STAY * lam.amax(1, keepdim=True)
    which = _lowest(margins.masked_fill_(stay, -torch.inf), d)
    return which, weights.gather(1, which)


def _vanished(at: Interior) -> Tensor:
    return at.norms < NOUGHT * at.gap


def _settled(tolerance: float, at: Interior) -> Tensor:
    ratio = at.norms / at.gap
    return (ratio * tolerance > 1) | (ratio < NOUGHT)


def surround(rows: SignedRows, found: Found) -> tuple[Tensor, Tensor]:
    """(L, d + 1) rows and weights of a simplex around the origin, from where `separate` ended.

    There all multipliers are about equally far from 0. A small random cost on each row decides
    which vertex they move to.
    """
    d, (_, m) = rows.unit.shape[1], found.which.shape
    generator = torch.Generator().manual_seed(m)
    cost = torch.rand(m, generator=generator, dtype=torch.float64).to(found.which.device)
    scale = 1 / found.at.s.mean(1, keepdim=True)
    start = Interior(found.at.z * scale, found.at.s * scale + cost, found.at.lam)

    def sharp(at: Interior) -> Tensor:
        largest = at.lam.topk(d + 2).values
        return largest[:, -1] < 1e-3 * largest[:, -2]

    end = _until(rows.working(found.which), start, sharp, 0.0, 4 * STEPS)
    weights, place = end.lam.topk(d + 1)
    return found.which.gather(1, place), weights


def _until(rows: Tensor, at: Interior, done: Done, r: float, steps: int = STEPS) -> Interior:
    """Steps until all label sets but a few are done or stuck; the batch shrinks as they are."""
    few = len(at.z) // FEW
    found, live = at.copy(), torch.arange(len(at.z), device=at.z.device)
    moving = torch.ones_like(live, dtype=torch.bool)
    for _ in range(steps):
        at, moving = step(rows, at, r, moving)
        moving = moving & ~done(at)
        left = int(moving.sum())
        if left <= few:
            break
        if left <= len(live) * 3 // 4:
            found.put(live, at)
            going = torch.nonzero(moving)[:, 0]
            rows, at, live, moving = rows[going], at[going], live[going], moving[going]
    found.put(live, at)
    return found
