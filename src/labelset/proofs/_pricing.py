"""Pricing: the margins of all rows at the points of many label sets, the worst of them to be added.

Every class does the same in its own way: at points of norm `size` it finds the least margin
min_i sign_i row_i.x / |x|, and adds up to `most` of the rows whose margins are below `upper` to
the working sets. It tells the least margins and which working sets have grown.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray

from labelset.proofs import _certify, _compiled
from labelset.proofs._working import Floats, Ints, WorkingSets, spread

__all__ = ["CLOSE", "Double", "Quadruple", "Single"]

CLOSE = 2e-7  # relative gap at which a search ends
PANEL = 32  # rows that are priced together
Grown = tuple[Floats, NDArray[np.bool_]]


class Single:
    """In single precision, whose error is bounded; rows that matter again in double (compiled)."""

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
        spread(self.pool, _compiled.solver.grow, batch, len(live))
        return lower, grown


class Double:
    """In double precision, in one matrix product."""

    def __init__(self, sets: WorkingSets) -> None:
        self.sets = sets

    def __call__(self, live: Ints, size: Floats, upper: Floats, most: int) -> Grown:
        margins = self.sets.x[live] @ self.sets.all.T * self.sets.signs[live] / size[:, None]
        margins[self.sets.signs[live] == 0] = np.inf
        return grow(self.sets, live, margins, upper, most)


class Quadruple:
    """In quadruple precision, one label set at a time (compiled)."""

    def __init__(self, sets: WorkingSets, weights: Floats) -> None:
        self.sets, self.weights = sets, weights

    def __call__(self, live: Ints, size: Floats, upper: Floats, most: int) -> Grown:
        sets, margins = self.sets, np.empty((len(live), len(self.weights)))
        for j, i in enumerate(live):
            where = (sets.signs[i], sets.x[i], sets.rest[i], margins[j])
            norm = _compiled.solver.price(self.weights, *self.weights.shape, *where)
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
