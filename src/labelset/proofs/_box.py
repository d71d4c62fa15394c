"""The paper's radius: the largest ball in the region whose centre lies in a box (errata to (3)).

    maximise e subject to y_i (w_i.x + b_i) >= e |w_i|, |x_j| <= box

A small linear programme over the rows that matter, grown by violated ones. Its value is bracketed
from both sides: by the margins of its x over all rows, and by its dual weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelset.labels import Labels
from labelset.proofs._prove import Verdict
from labelset.proofs.problem import OutputLayer, signs_of

Floats = NDArray[np.float64]
AGREE = 1e-6


def box_radii(
    problem: OutputLayer,
    sets: Labels,
    verdicts: list[Verdict],
    box: float,
    progress: Callable[[int, int], None] | None = None,
) -> Floats:
    """The value of the programme for every argmaxable label set; NaN elsewhere."""
    try:
        import highspy
    except ImportError:
        raise ImportError(
            'radius="box" needs the solver highspy: pip install "labelset[proofs]"'
        ) from None
    d = problem.weight.shape[1]
    norms = np.linalg.norm(problem.rows[:, :d], axis=1)
    real = norms > 0
    unit = problem.rows[real, :d] / norms[real, None]
    offset = np.zeros(len(unit)) if problem.bias is None else problem.rows[real, d] / norms[real]
    radii = np.full(len(verdicts), np.nan)
    for i, verdict in enumerate(verdicts):
        if verdict.witness is not None:
            signs = signs_of(sets[i])[0][real].astype(np.float64)
            known = signs != 0
            rows, side = unit[known] * signs[known, None], offset[known] * signs[known] / box
            start = np.array([float(v) for v in verdict.witness]) / box
            radii[i] = box * _largest(highspy, rows, side, np.clip(start, -1.0, 1.0))
        if progress is not None:
            progress(i + 1, len(verdicts))
    return radii


def _largest(highspy: Any, rows: Floats, side: Floats, start: Floats) -> float:
    """max over |x|_inf <= 1 of min_i rows_i.x + side_i; NaN if not above 0, or not found."""
    if not len(rows):
        return np.inf
    x, scale, lower, upper = start, 1.0, -np.inf, np.inf
    if not side.any() and x.any():
        x = x / np.abs(x).max()  # a cone: the witness can be taken to the edge of the box
    for _ in range(4):  # e is counted in units of scale, so that small radii keep their digits
        x, low, upper = _cut(highspy, rows, side, x, scale, upper)
        lower = max(lower, low)
        if upper - lower <= AGREE * abs(lower):
            return lower if lower > 0 else np.nan
        scale = max(abs(lower), 1e-12)
    return np.nan


def _cut(
    highspy: Any, rows: Floats, side: Floats, x: Floats, scale: float, upper: float
) -> tuple[Floats, float, float]:
    """Cutting planes: the best x, the value it proves, and that which the dual weights prove."""
    d = rows.shape[1]
    solver = highspy.Highs()
    solver.silent()
    for option in ("primal_feasibility_tolerance", "dual_feasibility_tolerance"):
        solver.setOptionValue(option, 1e-10)
    edge = np.full(d + 1, 1.0)
    edge[d] = np.inf
    solver.addVars(d + 1, -edge, edge)
    solver.changeColCost(d, 1.0)
    solver.changeObjectiveSense(highspy.ObjSense.kMaximize)
    best, lower, work = x, -np.inf, np.empty(0, np.int64)
    for _ in range(200):
        margins = rows @ x + side
        if margins.min() > lower:
            best, lower = x, float(margins.min())
        new = np.setdiff1d(np.argsort(margins)[: 2 * d + 8], work)
        if upper - lower <= AGREE / 4 * abs(lower) or not len(new):
            break
        _add(solver, rows[new], side[new] / scale, scale, d)
        work = np.concatenate([work, new])
        solver.run()
        solution = solver.getSolution()
        x = np.clip(np.array(solution.col_value[:d]), -1.0, 1.0)
        dual = np.abs(np.array(solution.row_dual))
        if dual.sum() > 0:
            dual = dual / dual.sum()
            bound = np.abs(dual @ rows[work]).sum() + float(dual @ side[work])
            upper = min(upper, float(bound))
    return best, lower, upper


def _add(solver: Any, rows: Floats, side: Floats, scale: float, d: int) -> None:
    """Constraints rows.x / scale - e >= -side, e being counted in units of scale."""
    count = len(rows)
    values = np.concatenate([rows / scale, np.full((count, 1), -1.0)], axis=1)
    starts = np.arange(count, dtype=np.int32) * (d + 1)
    index = np.tile(np.arange(d + 1, dtype=np.int32), count)
    far = np.full(count, np.inf)
    solver.addRows(count, -side, far, count * (d + 1), starts, index, values.ravel())
