"""Least-norm points of many label sets at once: small working sets, grown by violated rows.

For signed unit rows a_i, max over |x| <= 1 of min_i a_i.x is the least norm of their convex hull.
A point x of the hull proves rho <= |x|, and its margins prove rho >= min_i a_i.x / |x|. The small
problems are solved by `_least_norm`, and all rows are priced at their points, in turn. `Single`,
`Double` and `Quadruple` price in their precision: at points of norm `size` they compute the least
margin min_i sign_i row_i.x / |x|, and add up to `most` of the rows whose margins are below `upper`
to the working sets. They return the least margins and which working sets have grown.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from labelset.proofs import _certify, _least_norm
from labelset.proofs._least_norm import NIL, Floats, Ints, WorkingSets, compiled, spread
from labelset.proofs.problem import Problem

ROUNDS = 60
CLOSE = 2e-7  # relative gap at which a search ends
PANEL = 32  # rows that are priced together
Grown = tuple[Floats, NDArray[np.bool_]]


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
        spread(self.pool, _least_norm.solver.grow, batch, len(live))
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
            norm = _least_norm.solver.price(self.weights, *self.weights.shape, *where)
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
    problem: Problem, signs: NDArray[np.int8], precise: bool = False, deadline: float = np.inf
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
