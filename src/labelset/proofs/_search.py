"""Least-norm points of many label sets at once: small working sets, grown by violated rows.

For signed unit rows a_i, max over |x| <= 1 of min_i a_i.x is the least norm of their convex hull.
A point x of the hull proves rho <= |x|, and its margins prove rho >= min_i a_i.x / |x|. The small
problems are solved in working sets of a few rows each, by the compiled solver, or by Wolfe's method
(1976) in numpy where there is none; and all rows are priced at their points, in turn. `Single`,
`Double` and `Quadruple` price in their precision: at points of norm `size` they compute the least
margin min_i sign_i row_i.x / |x|, and add up to `most` of the rows whose margins are below `upper`
to the working sets. They return the least margins and which working sets have grown.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labelset.proofs import _certify
from labelset.proofs.problem import OutputLayer

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NIL = {False: 1e-11, True: 1e-22}  # norms that count as 0 until proven otherwise, by precision
solver: Any
"""The compiled solver, where a compiler was at hand when the package was installed."""
try:
    from labelset.proofs import _minnorm as solver
except ImportError:  # numpy does the same, slower, and nothing does quadruple precision
    solver = None
ROUNDS = 60
CLOSE = 2e-7  # relative gap at which a search ends
PANEL = 32  # rows that are priced together
Grown = tuple[Floats, NDArray[np.bool_]]


def compiled() -> bool:
    """Whether the compiled solver is there."""
    if solver is None:
        from labelset.extensions import warn_slow

        warn_slow()
    return solver is not None


def whole(count: int) -> int:
    """Rounded up to whole vectors of eight."""
    return (count + 7) // 8 * 8


class WorkingSets:
    """Rows by number and side, and where each search stands: x, and the rows and weights of it.

    Rows are only ever appended to a working set, so positions in it stay what they are, and a
    search resumes from its last corral and the factor of it.
    """

    def __init__(self, rows: Floats, signs: NDArray[np.int8], precise: bool) -> None:
        count, self.d = len(signs), rows.shape[1]
        self.signs, self.precise = signs, precise
        self.all = np.zeros((len(rows), whole(self.d)))
        self.all[:, : self.d] = rows
        self.has = np.zeros(signs.shape, bool)
        self.counts = np.zeros(count, np.int64)
        most = min(self.d, len(rows))  # rows of a corral differ, and are affinely independent
        self.rows = np.zeros((count, 8 * most), np.int32)
        self.sides = np.zeros((count, 8 * most), np.int8)
        self.corral = np.zeros((count, most + 2), np.int64)
        self.held = np.zeros(count, np.int64)
        self.lam, self.lam_rest = np.zeros((2, count, most + 2))
        self.factor = np.zeros((count, whole(most + 4) ** 2 * (2 if precise else 1)))
        self.x, self.rest = np.zeros((2, count, whole(self.d)))

    def reserve(self, live: Ints, most: int) -> None:
        """Space for `most` further rows in each of these working sets."""
        while self.counts[live].max() + most > self.rows.shape[1]:
            self.rows, self.sides = (
                np.concatenate([m, np.zeros_like(m)], axis=1) for m in (self.rows, self.sides)
            )

    def add(self, i: int, rows: Ints) -> None:
        """Append rows to a working set that has space for them."""
        first, last = self.counts[i], self.counts[i] + len(rows)
        self.rows[i, first:last], self.sides[i, first:last] = rows, self.signs[i, rows]
        self.has[i, rows] = True
        self.counts[i] = last

    def solve(self, live: Ints, pool: ThreadPoolExecutor) -> None:
        """Least-norm points of these working sets, on as many threads as torch has."""
        tol, zero = 1e-20 if self.precise else 1e-10, NIL[self.precise] ** 2
        sizes = (self.rows.shape[1], int(self.counts[live].max()))
        inputs = (self.all, self.d, live, self.rows, self.sides, self.counts, *sizes)
        results = (self.corral, self.lam, self.lam_rest, self.held, self.factor, self.x, self.rest)
        batch = (*inputs, *results, tol, zero, 20 * self.d + 200, int(self.precise))
        spread(pool, solver.solve if compiled() else solve_by_numpy, batch, len(live))


def spread(pool: ThreadPoolExecutor, run: Any, batch: tuple[Any, ...], count: int) -> None:
    """run(*batch, first, last) over `count` label sets in parts, more of them than threads."""
    edges = np.linspace(0, count, min(count, 4 * torch.get_num_threads()) + 1).astype(int).tolist()
    list(pool.map(lambda first, last: run(*batch, first, last), edges[:-1], edges[1:]))


TINY = 64 * np.finfo(np.float64).eps


def least_norm(
    rows: Floats, corral: list[int], weight: Floats, tol: float, zero: float, limit: int
) -> tuple[list[int], Floats]:
    """Indices and weights of rows whose combination has least norm; `corral` is where to begin."""
    if not corral:
        corral, weight = [0], np.ones(1)
    for _ in range(limit):
        corral, weight = _settle(rows, corral, weight)
        x = weight @ rows[corral]
        square = float(x @ x)
        if square <= zero or len(corral) > rows.shape[1]:
            break
        margins = rows @ x
        margins[corral] = np.inf
        new = int(margins.argmin())
        if margins[new] >= square * (1 - tol) or _dependent(rows, corral, new):
            break
        corral, weight = [*corral, new], np.append(weight, 0.0)
    return corral, weight


def _settle(rows: Floats, corral: list[int], weight: Floats) -> tuple[list[int], Floats]:
    """Move to the least norm of the affine hull, letting go of rows that would turn negative."""
    while True:
        gram = rows[corral] @ rows[corral].T + 1.0
        target = np.linalg.lstsq(gram, np.ones(len(corral)), rcond=None)[0]
        target = target / target.sum()
        out = target <= TINY
        if not out.any() or len(corral) == 1:
            return corral, target
        span = weight[out] - target[out]
        shares = np.where(span > 0, weight[out] / np.where(span > 0, span, 1.0), 0.0)
        weight = weight + shares.min() * (target - weight)
        gone = int(np.flatnonzero(out)[shares.argmin()])
        corral = corral[:gone] + corral[gone + 1 :]
        weight = np.delete(weight, gone)


def _dependent(rows: Floats, corral: list[int], new: int) -> bool:
    lifted = np.concatenate([rows[[*corral, new]], np.ones((len(corral) + 1, 1))], axis=1)
    return bool(np.linalg.svd(lifted, compute_uv=False)[-1] ** 2 <= TINY)


def solve_by_numpy(
    rows_all: Floats,
    d: int,
    live: NDArray[np.int64],
    rows: NDArray[np.int32],
    sides: NDArray[np.int8],
    counts: NDArray[np.int64],
    cap: int,
    most: int,
    corral: NDArray[np.int64],
    lam: Floats,
    lam_rest: Floats,
    sizes: NDArray[np.int64],
    factor: Floats,
    x: Floats,
    rest: Floats,
    tol: float,
    zero: float,
    limit: int,
    precise: int,
    first: int,
    last: int,
) -> None:
    """What `_minnorm.solve` does, in double precision only: results are written in place."""
    for i in live[first:last].tolist():
        signed = rows_all[rows[i, : counts[i]], :d] * sides[i, : counts[i], None]
        begin = corral[i, : sizes[i]].tolist()
        found, weight = least_norm(signed, begin, lam[i, : sizes[i]], tol, zero, limit)
        sizes[i] = len(found)
        corral[i, : sizes[i]], lam[i, : sizes[i]] = found, weight
        x[i, :d] = weight @ signed[found]


# ---- pricing all rows ---------------------------------------------------------------------------


class Single:
    """Prices in single precision, its error bounded, and the rows that matter in double again."""

    def __init__(self, sets: WorkingSets, pool: ThreadPoolExecutor) -> None:
        self.sets, self.pool = sets, pool
        (count, n), d = sets.signs.shape, sets.d
        panels = -(-n // PANEL)
        flat = torch.zeros(panels * PANEL, d)
        flat[:n] = torch.from_numpy(sets.all[:, :d])
        self.panels = flat.view(panels, PANEL, d).transpose(1, 2).contiguous().numpy()
        padded = np.zeros((count, panels * PANEL), np.int8)
        padded[:, :n] = sets.signs
        self.signs = padded.reshape(count, panels, PANEL).swapaxes(0, 1).copy()

    def __call__(self, live: Ints, size: Floats, upper: Floats, most: int) -> Grown:
        sets, n = self.sets, self.sets.signs.shape[1]
        most = min(most, n)
        sets.reserve(live, most)
        lower, grown = np.empty(len(live)), np.empty(len(live), bool)
        points = (self.signs, live, sets.x, size, upper)
        working = (sets.has, sets.rows, sets.sides, sets.counts, sets.rows.shape[1], most)
        bounds = (CLOSE, _certify.single_error(sets.d), lower, grown)
        batch = (sets.all, self.panels, n, sets.d, len(sets.signs), *points, *working, *bounds)
        spread(self.pool, solver.grow, batch, len(live))
        return lower, grown


class Double:
    """Prices in double precision, in one matrix product."""

    def __init__(self, sets: WorkingSets) -> None:
        self.sets = sets

    def __call__(self, live: Ints, size: Floats, upper: Floats, most: int) -> Grown:
        margins = self.sets.x[live] @ self.sets.all.T * self.sets.signs[live] / size[:, None]
        margins[self.sets.signs[live] == 0] = np.inf
        return grow(self.sets, live, margins, upper, most)


class Quadruple:
    """Prices in quadruple precision, one label set at a time (compiled)."""

    def __init__(self, sets: WorkingSets, weights: Floats) -> None:
        self.sets, self.weights = sets, weights

    def __call__(self, live: Ints, size: Floats, upper: Floats, most: int) -> Grown:
        sets, margins = self.sets, np.empty((len(live), len(self.weights)))
        for j, i in enumerate(live):
            where = (sets.signs[i], sets.x[i], sets.rest[i], margins[j])
            norm = solver.price(self.weights, *self.weights.shape, *where)
            margins[j] /= norm
        return grow(sets, live, margins, upper, most)


def grow(sets: WorkingSets, live: Ints, margins: Floats, upper: Floats, most: int) -> Grown:
    """Add the rows of least margin below `upper`."""
    most = min(most, margins.shape[1])
    sets.reserve(live, most)
    worst = np.argpartition(margins, most - 1, axis=1)[:, :most]
    below = np.take_along_axis(margins, worst, 1) < (upper * (1 - CLOSE / 4))[:, None]
    new = below & ~sets.has[live[:, None], worst]
    for i, rows, take in zip(live.tolist(), worst, new, strict=True):
        sets.add(i, rows[take])
    return margins.min(1), np.asarray(new.any(1))


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
    problem: OutputLayer, signs: NDArray[np.int8], precise: bool = False, deadline: float = np.inf
) -> Points:
    """Least-norm points for (L, n) signs (0: row left out) over the rows of a problem."""
    d = problem.rows.shape[1]
    sets = WorkingSets(problem.rows if precise else problem.unit, signs, precise)
    lower, upper = np.full(len(signs), -np.inf), np.full(len(signs), np.inf)
    live = np.arange(len(signs))
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        price = _pricer(sets, problem.rows, pool)
        _begin(sets, problem.unit)
        price(live, np.linalg.norm(sets.x, axis=1), upper, 2 * d)
        for _ in range(ROUNDS):
            sets.solve(live, pool)
            size = np.linalg.norm(sets.x[live], axis=1)
            upper[live], lower[live] = np.where(size > NIL[precise], size, 0.0), -np.inf
            live, size = live[size > NIL[precise]], size[size > NIL[precise]]
            if not len(live):
                break
            lower[live], grown = price(live, size, size, max(d // 2, 16))
            live = live[grown & (size - lower[live] > CLOSE * size)]
            if not len(live) or time.monotonic() > deadline:
                break
    return _points(sets, lower, upper)


def _pricer(
    sets: WorkingSets, rows: Floats, pool: ThreadPoolExecutor
) -> Single | Double | Quadruple:
    if sets.precise:
        return Quadruple(sets, rows)
    return Single(sets, pool) if compiled() else Double(sets)


def _begin(sets: WorkingSets, unit: Floats) -> None:
    """Working sets of the side with fewer labels; as first points the sums of all rows."""
    sides = torch.from_numpy(sets.signs).float()
    sums = (sides @ torch.from_numpy(unit).float()).numpy()
    sums[~sums.any(1), 0] = 1.0
    sets.x[:, : sets.d] = sums
    for i, fewer_off in enumerate((sides.sum(1) > 0).tolist()):
        few = np.flatnonzero(sets.signs[i] == (-1 if fewer_off else 1))
        sets.add(i, few[: 4 * sets.d])


def _points(sets: WorkingSets, lower: Floats, upper: Floats) -> Points:
    """What was found, with rows by their number."""
    corrals = [sets.corral[i, :m] for i, m in enumerate(sets.held)]
    rows = [sets.rows[i, at].astype(np.int64) for i, at in enumerate(corrals)]
    weights = [sets.lam[i, : len(at)] for i, at in enumerate(corrals)]
    rest = [sets.lam_rest[i, : len(at)] for i, at in enumerate(corrals)]
    x, x_rest = (np.ascontiguousarray(m[:, : sets.d]) for m in (sets.x, sets.rest))
    return Points(x, x_rest, rows, weights, rest, lower, upper)
