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


def search(
    weights: Floats, signs: NDArray[np.int8], precise: bool = False, deadline: float = np.inf
) -> Points:
    """Least-norm points for (L, n) signs (0: row left out) over (n, d) weights."""
    d = weights.shape[1]
    norms = np.linalg.norm(weights, axis=1, keepdims=True)
    unit = torch.from_numpy(weights / np.where(norms > 0, norms, 1.0))
    price = _Quad(weights, signs) if precise else _Double(unit, signs)
    state = _State(weights, signs, precise)
    live = np.arange(len(signs))
    state.begin(_worst(unit.float(), torch.from_numpy(signs), 2 * d))
    lower, upper = np.full(len(signs), -np.inf), np.full(len(signs), np.inf)
    with ThreadPoolExecutor(_cores()) as pool:
        for _ in range(ROUNDS):
            state.solve(live, pool)
            margins, size = price(live, state.x[live], state.rest[live])
            with np.errstate(divide="ignore", invalid="ignore"):
                least = margins.min(1).values.numpy() / size
            lower[live] = np.where(size > 0, least, -np.inf)
            upper[live] = np.where(size > NIL[precise], size, 0.0)
            gap = upper[live] - lower[live]
            going = (gap > CLOSE * upper[live]) & (upper[live] > 0)
            live, size = live[going], size[going]
            rows, values = _smallest(margins[torch.from_numpy(going)], max(d // 2, 16))
            live = live[state.grow(live, rows, values < (size**2 * (1 - CLOSE / 4))[:, None])]
            if not len(live) or time.monotonic() > deadline:
                break
    return state.points(lower, upper)


class _State:
    """The working sets of all label sets, and where each search stands.

    Rows are only ever appended to a working set, so positions in it stay what they are.
    """

    def __init__(self, weights: Floats, signs: NDArray[np.int8], precise: bool) -> None:
        self.weights, self.signs, self.precise = weights, signs, precise
        count, d = len(signs), weights.shape[1]
        self.has = np.zeros(signs.shape, bool)
        self.sizes = np.zeros(count, np.int64)
        self.rows = np.zeros((count, 8 * d), np.int32)
        self.sides = np.zeros((count, 8 * d), np.int8)
        self.corral, self.held = np.zeros((count, d + 2), np.int64), np.zeros(count, np.int64)
        self.lam, self.lam_rest = np.zeros((count, d + 2)), np.zeros((count, d + 2))
        self.x, self.rest = np.zeros((count, d)), np.zeros((count, d))

    def begin(self, worst: Ints) -> None:
        """The side with fewer labels, and these rows."""
        d = self.weights.shape[1]
        fewer = np.where((self.signs > 0).sum(1) * 2 <= (self.signs != 0).sum(1), 1, -1)
        for i, rows in enumerate(worst):
            few = np.flatnonzero(self.signs[i] == fewer[i])[: 4 * d]
            self.has[i, few] = True
            self._add(
                i, np.concatenate([few, rows[~self.has[i, rows] & (self.signs[i, rows] != 0)]])
            )

    def grow(self, live: Ints, rows: Ints, violated: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Add violated rows to the working sets; which of these had any that is new."""
        new = violated & ~self.has[live[:, None], rows]
        for i, some, take in zip(live.tolist(), rows, new, strict=True):
            self._add(i, some[take])
        return np.asarray(new.any(1))

    def _add(self, i: int, rows: Ints) -> None:
        first, last = self.sizes[i], self.sizes[i] + len(rows)
        if last > self.rows.shape[1]:
            self.rows, self.sides = (
                np.concatenate([m, np.zeros_like(m)], axis=1) for m in (self.rows, self.sides)
            )
            self._add(i, rows)
            return
        self.rows[i, first:last], self.sides[i, first:last] = rows, self.signs[i, rows]
        self.has[i, rows] = True
        self.sizes[i] = last

    def solve(self, live: Ints, pool: ThreadPoolExecutor) -> None:
        """Least-norm points of the working sets, on all cores."""
        d, cap = self.weights.shape[1], self.rows.shape[1]
        tol, zero = 1e-20 if self.precise else 1e-10, NIL[self.precise] ** 2
        most = int(self.sizes[live].max())
        inputs = (self.weights, d, live, self.rows, self.sides, self.sizes, cap, most)
        found = (self.corral, self.lam, self.lam_rest, self.held, self.x, self.rest)
        batch = (*inputs, *found, tol, zero, 20 * d + 200, int(self.precise))
        run = _wolfe.solve if _minnorm is None else _minnorm.solve
        chunks = np.linspace(0, len(live), min(len(live), 4 * _cores()) + 1).astype(int).tolist()
        list(pool.map(lambda first, last: run(*batch, first, last), chunks[:-1], chunks[1:]))

    def points(self, lower: Floats, upper: Floats) -> Points:
        """What was found, with rows by their number."""
        held = [self.corral[i, :m] for i, m in enumerate(self.held)]
        rows = [self.rows[i, at].astype(np.int64) for i, at in enumerate(held)]
        weights = [self.lam[i, : len(at)] for i, at in enumerate(held)]
        rest = [self.lam_rest[i, : len(at)] for i, at in enumerate(held)]
        return Points(self.x, self.rest, rows, weights, rest, lower, upper)


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


def _worst(unit: torch.Tensor, signs: torch.Tensor, count: int) -> Ints:
    """Rows worst off along the sum of all, to no more precision than a first guess needs."""
    sides = signs.float()
    margins = (sides @ unit @ unit.T).mul_(sides)
    return _smallest(margins.masked_fill_(signs == 0, torch.inf), count)[0]


def _smallest(margins: torch.Tensor, count: int) -> tuple[Ints, Floats]:
    least, where = margins.topk(min(count, margins.shape[1]), dim=1, largest=False, sorted=False)
    return where.numpy(), least.numpy()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
