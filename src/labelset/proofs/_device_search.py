"""Least-norm points of many label sets on a device, and simplices around the origin.

Every label set starts in `separate`. Once points and multipliers are near, all margins are positive
and a few rows steer the steps, until they agree. Where the norm vanishes before that, the origin
seems to be in the hull, and `surround` moves the multipliers to a vertex: d + 1 rows, the
certificate. Label sets leave as they are done; what is found is not proven here.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from labelset.proofs._device_interior import Interior, begin, step
from labelset.proofs._device_rows import SignedRows

__all__ = ["separate", "surround"]

NEAR = 0.2  # relative gap from which on a few rows steer the search
CLOSE = 1e-7  # relative gap at which it ends
NOUGHT = 1e-4  # |w|^2 over the gap, below which the norm counts as 0
STEPS = 60
Done = Callable[[Interior], Tensor]


def separate(rows: SignedRows) -> Interior:
    """(w, t, multipliers) of least norm; t <= 0 where the hull seems to hold the origin."""
    d = rows.unit.shape[1]
    found = _until(rows, begin(rows), lambda at: _within(NEAR, at) | _vanished(at), 1.0, None)
    for most in (3 * d + 8, None) if rows.dear else (None,):
        ahead = torch.nonzero((found.t[:, 0] > 0) & ~_within(CLOSE, found))[:, 0]
        close = _until(rows[ahead], found[ahead], lambda at: _within(CLOSE, at), 1.0, most)
        if most is not None:  # those that few rows led astray go on from where they were
            there = _within(CLOSE, close)
            ahead, close = ahead[there], close[there]
        found.put(ahead, close)
    return found


def _within(share: float, at: Interior) -> Tensor:
    return at.gap < share * at.w.square().sum(1)


def _vanished(at: Interior) -> Tensor:
    return (at.t[:, 0] < 0) & (at.w.square().sum(1) < NOUGHT * at.gap)


def surround(rows: SignedRows, at: Interior) -> tuple[Tensor, Tensor]:
    """(L, d + 1) rows and weights of a simplex around the origin, from where `separate` ended.

    There all multipliers are about equally far from 0. A small random cost on each row decides
    which vertex they move to.
    """
    n, d = rows.unit.shape
    generator = torch.Generator().manual_seed(n)
    cost = torch.rand(n, generator=generator, dtype=torch.float64).to(at.w.device)
    scale = 1 / at.s.mean(1, keepdim=True)
    s = rows.known(at.s * scale + cost, 1.0)
    start = Interior(at.w * scale, at.t * scale, s, at.lam)

    def sharp(at: Interior) -> Tensor:
        largest = at.lam.topk(d + 2).values
        return largest[:, -1] < 1e-3 * largest[:, -2]

    weights, which = _until(rows, start, sharp, 0.0, None).lam.topk(d + 1)
    return which, weights


def _until(rows: SignedRows, at: Interior, done: Done, r: float, most: int | None) -> Interior:
    """Steps until each label set is done or cannot go on; the batch shrinks as they leave."""
    found, live = at.copy(), torch.arange(len(at.w), device=at.w.device)
    moving = torch.ones_like(live, dtype=torch.bool)
    for _ in range(STEPS if len(live) else 0):
        at, moving = step(rows, at, r, most, moving)
        moving = moving & ~done(at)
        left = int(moving.sum())
        if left <= len(live) * 7 // 8:
            found.put(live[~moving], at[~moving])
            rows, at, live = rows[moving], at[moving], live[moving]
            moving = moving[moving]
        if not left:
            break
    found.put(live, at)
    return found
