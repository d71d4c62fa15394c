"""Least-norm points of many label sets at once: small working sets, grown by violated rows.

For signed unit rows a_i, max over |x| <= 1 of min_i a_i.x is the least norm of their convex hull.
A point x of the hull proves rho <= |x|, and its margins prove rho >= min_i a_i.x / |x|. The small
problems are solved by `_working`, all rows are priced at their points by `_pricing`, in turn.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from labelset.proofs import _compiled, _pricing
from labelset.proofs._problem import Problem
from labelset.proofs._working import NIL, Floats, Ints, WorkingSets

__all__ = ["Points", "compiled", "search"]

ROUNDS = 60


def compiled() -> bool:
    """Whether the compiled solver is there."""
    return _compiled.solver is not None


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
            live = live[grown & (size - lower[live] > _pricing.CLOSE * size)]
            if not len(live) or time.monotonic() > deadline:
                break
    return _points(sets, lower, upper)


def _pricer(
    sets: WorkingSets, rows: Floats, pool: ThreadPoolExecutor
) -> _pricing.Single | _pricing.Double | _pricing.Quadruple:
    if sets.precise:
        return _pricing.Quadruple(sets, rows)
    return _pricing.Single(sets, pool) if compiled() else _pricing.Double(sets)


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
    held = [sets.corral[i, :m] for i, m in enumerate(sets.held)]
    rows = [sets.rows[i, at].astype(np.int64) for i, at in enumerate(held)]
    weights = [sets.lam[i, : len(at)] for i, at in enumerate(held)]
    rest = [sets.lam_rest[i, : len(at)] for i, at in enumerate(held)]
    x, x_rest = (np.ascontiguousarray(m[:, : sets.d]) for m in (sets.x, sets.rest))
    return Points(x, x_rest, rows, weights, rest, lower, upper)
