"""Least-norm points of many label sets at once: small working sets, grown by violated rows.

For signed unit rows a_i, max over |x| <= 1 of min_i a_i.x is the least norm of their convex hull.
A point x of the hull proves rho <= |x|, and its margins prove rho >= min_i a_i.x / |x|. All label
sets are priced together in one matrix product; the small problems are solved by `_minnorm`.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from labelset.proofs import _wolfe

try:
    from labelset.proofs import _minnorm
except ImportError:  # no compiler where this was installed: slower, and no quadruple precision
    _minnorm = None  # type: ignore[assignment, unused-ignore]

__all__ = ["Points", "compiled", "search"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CLOSE = 2e-7  # relative gap at which a search ends
NIL = {False: 1e-11, True: 1e-22}  # norms that count as 0 until proven otherwise, by precision
ROUNDS = 60


def compiled() -> bool:
    """Whether the compiled solver is there."""
    return _minnorm is not None


@dataclass
class Points:
    """What a search found, per label set."""

    x: Floats
    """(L, d): the point of least norm; with `rest` to twice the precision."""
    rest: Floats
    rows: list[Ints]
    """Rows whose hull holds the point."""
    weights: list[Floats]
    """Their weights, positive, adding up to 1; with `weights_rest` to twice the precision."""
    weights_rest: list[Floats]
    lower: Floats
    """min_i a_i.x / |x| as computed, not yet proven."""
    upper: Floats
    """|x|, 0 where the hull seems to hold the origin."""

    @classmethod
    def start(cls, count: int, d: int) -> Points:
        """Nothing known yet."""
        empty: list[Ints] = [np.empty(0, np.int64)] * count
        none: list[Floats] = [np.empty(0)] * count
        far = np.full(count, np.inf)
        nil = np.zeros((count, d))
        return cls(nil, nil.copy(), empty, none, none.copy(), -far, far)

    @property
    def settled(self) -> NDArray[np.bool_]:
        """Where the bounds meet, or the origin seems to lie in the hull."""
        met = self.upper - self.lower <= CLOSE * self.upper
        return np.asarray(met | (self.upper == 0), dtype=np.bool_)


def search(
    weights: Floats, signs: NDArray[np.int8], precise: bool = False, deadline: float = np.inf
) -> Points:
    """Least-norm points for (L, n) signs (0: row left out) over (n, d) weights."""
    d = weights.shape[1]
    points = Points.start(len(signs), d)
    norms = np.linalg.norm(weights, axis=1, keepdims=True)
    unit = torch.from_numpy(weights / np.where(norms > 0, norms, 1.0))
    price = _Quad(weights, signs) if precise else _Double(unit, signs)
    toward = (torch.from_numpy(signs).double() @ unit).numpy()
    live = np.arange(len(signs))
    margins, _ = price(live, toward, points.rest)
    worst, _ = _smallest(margins, 2 * d)
    work = [_first(some, side, d) for some, side in zip(worst, signs, strict=True)]
    for _ in range(ROUNDS):
        _solve(points, weights, signs, work, live, precise)
        margins, norms = price(live, points.x[live], points.rest[live])
        with np.errstate(divide="ignore", invalid="ignore"):
            lower = margins.min(1).values.numpy() / norms
        points.lower[live] = np.where(norms > 0, lower, -np.inf)
        points.upper[live] = np.where(norms > NIL[precise], norms, 0.0)
        going = ~points.settled[live]
        live, norms = live[going], norms[going]
        worst, least = _smallest(margins[torch.from_numpy(going)], max(d // 2, 16))
        violated = least < (norms**2 * (1 - CLOSE / 4))[:, None]
        grew = [
            _grow(work, i, w[v]) for i, w, v in zip(live.tolist(), worst, violated, strict=True)
        ]
        live = live[grew]
        if not len(live) or time.monotonic() > deadline:
            break
    return points


class _Double:
    """sign * row.x for unit rows, in one matrix product; rows left out are infinitely far."""

    def __init__(self, unit: torch.Tensor, signs: NDArray[np.int8]) -> None:
        self.unit, self.signs = unit, torch.from_numpy(signs).double()
        self.out = self.signs == 0 if (signs == 0).any() else None

    def __call__(self, live: Ints, x: Floats, rest: Floats) -> tuple[torch.Tensor, Floats]:
        rows = slice(None) if len(live) == len(self.signs) else torch.from_numpy(live)
        margins = (torch.from_numpy(x) @ self.unit.T).mul_(self.signs[rows])
        if self.out is not None:
            margins.masked_fill_(self.out[rows], torch.inf)
        return margins, np.linalg.norm(x, axis=1)


class _Quad:
    """The same in quadruple precision, one label set at a time."""

    def __init__(self, weights: Floats, signs: NDArray[np.int8]) -> None:
        self.weights, self.signs = weights, signs

    def __call__(self, live: Ints, x: Floats, rest: Floats) -> tuple[torch.Tensor, Floats]:
        margins, norms = np.empty((len(live), len(self.weights))), np.empty(len(live))
        for j, i in enumerate(live):
            where = (*self.weights.shape, self.signs[i], x[j], rest[j], margins[j])
            norms[j] = _minnorm.price(self.weights, *where)
        return torch.from_numpy(margins), norms


def _smallest(margins: torch.Tensor, count: int) -> tuple[Ints, Floats]:
    least, where = margins.topk(min(count, margins.shape[1]), dim=1, largest=False, sorted=False)
    return where.numpy(), least.numpy()


def _first(worst: Ints, signs: NDArray[np.int8], d: int) -> Ints:
    """To begin with: the rows worst off along the sum of all, and the side with fewer labels."""
    few = np.flatnonzero(signs == (1 if (signs > 0).sum() * 2 <= (signs != 0).sum() else -1))
    return np.union1d(worst[signs[worst] != 0], few[: 4 * d])


def _grow(work: list[Ints], i: int, violated: Ints) -> bool:
    """Add violated rows to a working set; False if none of them is new."""
    new = np.setdiff1d(violated, work[i], assume_unique=True)
    work[i] = np.concatenate([work[i], new])
    return len(new) > 0


def _solve(
    points: Points,
    weights: Floats,
    signs: NDArray[np.int8],
    work: list[Ints],
    live: Ints,
    precise: bool,
) -> None:
    d, count = weights.shape[1], len(live)
    cap = max(len(work[i]) for i in live)
    rows, side = np.zeros((count, cap), np.int32), np.zeros((count, cap), np.int8)
    corral = np.zeros((count, d + 2), np.int64)
    lam, lam_rest = np.zeros((count, d + 2)), np.zeros((count, d + 2))
    size, sizes = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for j, i in enumerate(live):
        sizes[j] = len(work[i])
        rows[j, : sizes[j]], side[j, : sizes[j]] = work[i], signs[i, work[i]]
        size[j] = len(points.rows[i])
        place = np.argsort(work[i])
        corral[j, : size[j]] = place[np.searchsorted(work[i], points.rows[i], sorter=place)]
        lam[j, : size[j]], lam_rest[j, : size[j]] = points.weights[i], points.weights_rest[i]
    x, rest = np.zeros((count, d)), np.zeros((count, d))
    tol, zero = 1e-20 if precise else 1e-10, NIL[precise] ** 2
    inputs = (weights, d, rows, side, sizes, cap)
    batch = (*inputs, corral, lam, lam_rest, size, x, rest, tol, zero, 20 * d + 200)
    run = _wolfe.solve if _minnorm is None else _minnorm.solve
    _spread(lambda first, last: run(*batch, int(precise), first, last), count)
    points.x[live], points.rest[live] = x, rest
    for j, i in enumerate(live):
        points.rows[i] = work[i][corral[j, : size[j]]]
        points.weights[i] = lam[j, : size[j]].copy()
        points.weights_rest[i] = lam_rest[j, : size[j]].copy()


def _spread(task: object, count: int) -> None:
    """Run task(first, last) over chunks of a batch, one thread per core."""
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    chunks = np.linspace(0, count, min(count, 4 * cores) + 1).astype(int).tolist()
    with ThreadPoolExecutor(cores) as pool:
        list(pool.map(task, chunks[:-1], chunks[1:]))  # type: ignore[arg-type]
