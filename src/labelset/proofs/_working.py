"""Working sets, one to a label set: a few rows, and the point of least norm of their hull."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labelset.proofs import _compiled, _wolfe

__all__ = ["NIL", "WorkingSets", "spread"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NIL = {False: 1e-11, True: 1e-22}  # norms that count as 0 until proven otherwise, by precision


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
        self.rows = np.zeros((count, 8 * self.d), np.int32)
        self.sides = np.zeros((count, 8 * self.d), np.int8)
        self.corral = np.zeros((count, self.d + 2), np.int64)
        self.held = np.zeros(count, np.int64)
        self.lam, self.lam_rest = np.zeros((2, count, self.d + 2))
        self.factor = np.zeros((count, whole(self.d + 4) ** 2 * (2 if precise else 1)))
        self.x, self.rest = np.zeros((2, count, whole(self.d)))

    def reserve(self, live: Ints, most: int) -> None:
        """Space for so many rows more in each of these working sets."""
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
        found = (self.corral, self.lam, self.lam_rest, self.held, self.factor, self.x, self.rest)
        batch = (*inputs, *found, tol, zero, 20 * self.d + 200, int(self.precise))
        spread(pool, (_compiled.solver or _wolfe).solve, batch, len(live))


def spread(pool: ThreadPoolExecutor, run: Any, batch: tuple[Any, ...], count: int) -> None:
    """run(*batch, first, last) over `count` label sets in parts, more of them than threads."""
    edges = np.linspace(0, count, min(count, 4 * torch.get_num_threads()) + 1).astype(int).tolist()
    list(pool.map(lambda first, last: run(*batch, first, last), edges[:-1], edges[1:]))
