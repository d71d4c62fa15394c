"""Working sets, one to a label set: a few rows, and the point of least norm of their hull.

It is computed by the compiled solver, or by Wolfe's method (1976) in numpy where there is none.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NIL = {False: 1e-11, True: 1e-22}  # norms that count as 0 until proven otherwise, by precision
solver: Any
"""The compiled solver, where a compiler was at hand when the package was installed."""
try:
    from labelset.proofs import _minnorm as solver
except ImportError:  # numpy does the same, slower, and nothing does quadruple precision
    solver = None


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
