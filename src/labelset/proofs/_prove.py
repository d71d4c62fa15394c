"""From a search to verdicts: each is proven from the stored weights, or left undecided."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labelset.proofs import _certify, _exact, _search
from labelset.proofs._search import Points
from labelset.proofs.problem import OutputLayer

Floats = NDArray[np.float64]
Signs = NDArray[np.int8]
Hull = tuple[NDArray[np.int64], Floats, Floats]
Certificate = tuple[NDArray[np.int64], tuple[Fraction, ...]]
AGREE = 1e-6  # relative gap allowed between the proven bounds of a radius


@dataclass(frozen=True)
class Verdict:
    """What is proven of one label set, and by what."""

    status: str
    """argmaxable, unargmaxable or undecided"""
    lower: float = 0.0
    """Proven: rho is at least this."""
    upper: float = np.inf
    """Proven: rho is at most this."""
    witness: NDArray[Any] | None = None
    """x: float64, or exact fractions."""
    centre: NDArray[Any] | None = None
    """The point whose margins prove `lower`; None where it is the witness."""
    hull: Hull | None = None
    """Rows and weights (two float64 each) of the point whose norm proves `upper`."""
    rows: NDArray[np.int64] | None = None
    """Labels of the certificate."""
    weights: tuple[Fraction, ...] | None = None
    """Its exact weights on the labels as stored, once they were computed."""


def prove(problem: OutputLayer, signs: Signs, deadline: float = np.inf) -> list[Verdict]:
    """A verdict for each of (L, n) signs.

    What double precision leaves open is taken up in quadruple precision, then in exact fractions,
    until the deadline (of `time.monotonic`).
    """
    verdicts = _at_once(problem, signs)
    left = [i for i, v in enumerate(verdicts) if v is None]
    if left:
        some = signs if len(left) == len(signs) else signs[left]
        points = _search.search(problem, some)
        for i, verdict in zip(left, _judge(problem, some, points), strict=True):
            verdicts[i] = verdict
    done = [v for v in verdicts if v is not None]
    return [_finish(problem, s, v, deadline) for s, v in zip(signs, done, strict=True)]


def _at_once(problem: OutputLayer, signs: Signs) -> list[Verdict | None]:
    """What needs no search: nothing known, a zero row, a row and its exact opposite."""
    verdicts: list[Verdict | None] = [None] * len(signs)
    x = np.zeros(problem.rows.shape[1])
    x[-1] = 1.0
    unknown = Verdict("argmaxable", np.inf, np.inf, x if problem.bias is None else x[:-1], x)
    empty = np.flatnonzero(problem.empty)
    for i, known in enumerate(np.asarray(signs.any(1))):
        hit = empty[signs[i, empty] != 0]
        pair = problem.clash(signs[i])
        if not known:
            verdicts[i] = unknown
        elif len(hit):
            verdicts[i] = Verdict("unargmaxable", 0.0, 0.0, rows=hit[:1], weights=(Fraction(1),))
        elif pair is not None:
            verdicts[i] = _exactly(problem, signs[i], pair)
    return verdicts


def _judge(problem: OutputLayer, signs: Signs, points: Points) -> list[Verdict]:
    """Proofs in double precision, all rounding bounded."""
    lower = _certify.searched_margin(points.lower, problem.rows.shape[1])
    upper = _certify.hull_norms(problem.unit, signs, points.rows, points.weights)
    certified, x = _certified(problem, signs, points), _certify.scaled(points.x)
    out = []
    for i, rows in enumerate(points.rows):
        hull = (rows, points.weights[i], np.zeros_like(points.weights[i]))
        if lower[i] > 0:
            out.append(Verdict("argmaxable", lower[i], upper[i], x[i], hull=hull))
        elif i in certified:
            out.append(Verdict("unargmaxable", 0.0, 0.0, rows=np.sort(rows)))
        else:
            verdict = Verdict("undecided", 0.0, upper[i], hull=hull)
            if points.upper[i] == 0:
                verdict = _better(verdict, _exactly(problem, signs[i], rows))
            out.append(verdict)
    return out


def _certified(problem: OutputLayer, signs: Signs, points: Points) -> set[int]:
    """Label sets with d + 1 rows whose hull provably holds the origin."""
    size = problem.rows.shape[1] + 1
    full = [i for i, rows in enumerate(points.rows) if points.upper[i] == 0 and len(rows) == size]
    if not full:
        return set()
    rows = np.stack([points.rows[i] for i in full])
    signed = problem.rows[rows] * np.take_along_axis(signs[full], rows, 1)[..., None]
    weights = torch.from_numpy(np.stack([points.weights[i] for i in full]))
    proven = _certify.hold_origin(torch.from_numpy(signed), weights).tolist()
    return {i for i, holds in zip(full, proven, strict=True) if holds}


def _finish(problem: OutputLayer, signs: Signs, verdict: Verdict, deadline: float) -> Verdict:
    """Higher precision where it is wanted, exact fractions where even that is not enough."""
    wide = verdict.upper - verdict.lower > AGREE * verdict.upper
    wanted = verdict.status == "undecided" or (verdict.status == "argmaxable" and wide)
    if wanted and _search.compiled() and time.monotonic() < deadline:
        verdict = _better(verdict, _precisely(problem, signs, deadline))
    if problem.bias is not None:
        verdict = _with_bias(problem, signs, verdict, deadline)
    if verdict.status == "undecided" and time.monotonic() < deadline:
        verdict = _better(verdict, _by_simplex(problem, signs, deadline))
    return verdict


def _better(old: Verdict, new: Verdict) -> Verdict:
    """The more that is known: a verdict over none, the tighter bounds of two."""
    if new.status == "unargmaxable":
        return new
    gains = new.status != "undecided" and (old.status == "undecided" or new.lower > old.lower)
    best, other = (new, old) if gains else (old, new)
    if other.upper < best.upper:
        best = replace(best, upper=other.upper, hull=other.hull)
    return best


def _exactly(problem: OutputLayer, signs: Signs, rows: NDArray[np.int64]) -> Verdict:
    found = exact_certificate(problem, signs, rows)
    if found is None:
        return Verdict("undecided")
    return Verdict("unargmaxable", 0.0, 0.0, rows=found[0], weights=found[1])


def exact_certificate(
    problem: OutputLayer, signs: Signs, rows: NDArray[np.int64]
) -> Certificate | None:
    """Labels among these and exact weights for the stored numbers; None if there are none.

    With a bias, row n is the open one, which is left out, and at most d + 1 labels are kept.
    """
    rows = np.sort(rows)
    full = problem.rows if problem.bias is None else problem.opened().rows
    found = _exact.null_weights(full[rows] * np.append(signs, np.int8(1))[rows, None])
    if found is None:
        return None
    pairs = [(r, w) for r, w in zip(rows.tolist(), found, strict=True) if r < problem.n]
    labels = np.array([r for r, _ in pairs], dtype=np.int64)
    weights = [w * problem.scale(r) for r, w in pairs]
    if problem.bias is None:
        return labels, tuple(weights)
    kept = _exact.fewer(problem.stored()[labels] * signs[labels, None], weights)
    return labels[[i for i, _ in kept]], tuple(w for _, w in kept)


# ---- quadruple precision -------------------------------------------------------------------------


def _precisely(problem: OutputLayer, signs: Signs, deadline: float) -> Verdict:
    points = _search.search(problem, signs[None], True, deadline)
    rows = points.rows[0]
    if points.upper[0] == 0:
        exact = _exactly(problem, signs, rows)
        if exact.status != "undecided":
            return exact
    hull = (rows, points.weights[0], points.weights_rest[0])
    upper = least_norm(problem, signs, hull)
    x = _exact.pairs(points.x[0], points.rest[0])
    lower = least_margin(problem, signs, x)
    if lower <= 0:
        return Verdict("undecided", 0.0, upper, hull=hull)
    short = _certify.scaled(points.x[0])
    plain = _says(problem, signs, short)
    return Verdict("argmaxable", lower, upper, short if plain else x, x if plain else None, hull)


def least_margin(problem: OutputLayer, signs: Signs, x: NDArray[Any]) -> float:
    """A proven lower bound of min_i sign_i row_i.x / (|row_i| |x|), in the precision of x."""
    if x.dtype != object:
        return float(_certify.least_margin(problem.rows, signs[None], _certify.scaled(x)[None])[0])
    if not _search.compiled():
        return 0.0
    high, low = _exact.halves(x)
    margins = np.empty(len(problem.rows))
    norm = _search.solver.price(problem.rows, *problem.rows.shape, signs, high, low, margins)
    slack = 8 * (problem.rows.shape[1] + 8) * _search.solver.epsilon
    return float(margins.min() / norm * (1 - _certify.gamma(8)) - slack) if norm > 0 else 0.0


def least_norm(problem: OutputLayer, signs: Signs, hull: Hull) -> float:
    """A proven upper bound of rho: the norm of a point in the hull of the signed unit rows."""
    rows, high, low = hull
    if not _search.compiled():
        return float(_certify.hull_norms(problem.unit, signs[None], [rows], [high])[0])
    d = problem.rows.shape[1]
    norm = _search.solver.hull(problem.rows, d, rows.astype(np.int32), signs[rows], high, low)
    return float(
        (norm + 8 * (d + len(rows) + 8) * _search.solver.epsilon) * (1 + _certify.gamma(8))
    )


def _says(problem: OutputLayer, signs: Signs, x: Floats) -> bool:
    """Whether a float64 point provably has these signs."""
    if _certify.least_margin(problem.rows, signs[None], x[None])[0] > 0:
        return True
    exact = _exact.margin_signs(problem.rows, _exact.fractions(x))
    return bool((exact == signs)[signs != 0].all())


# ---- with a bias: the last coordinate of the homogenised witness must be positive ----------------


def _with_bias(problem: OutputLayer, signs: Signs, verdict: Verdict, deadline: float) -> Verdict:
    """The verdict about W x + b from that about [W b] z, whose z must end above 0."""
    if verdict.witness is None or len(verdict.witness) < problem.rows.shape[1]:
        return verdict
    point = _divide(problem, signs, verdict.witness)
    if point is not None:
        centre = verdict.witness if verdict.centre is None else verdict.centre
        return replace(verdict, witness=point, centre=centre)
    again = prove(problem.opened(), np.append(signs, np.int8(1))[None], deadline)[0]
    point = None if again.witness is None else _divide(problem, signs, again.witness)
    return reopened(problem, signs, verdict, again.rows, point)


def reopened(
    problem: OutputLayer,
    signs: Signs,
    verdict: Verdict,
    rows: NDArray[np.int64] | None,
    point: NDArray[Any] | None,
) -> Verdict:
    """The verdict whose z ends below 0, once z > 0 at the end was asked for.

    That gave the rows of a certificate, or a point, or neither.
    """
    if rows is not None:
        return _better(verdict, _exactly(problem, signs, rows))
    if point is None:
        return Verdict("undecided", 0.0, verdict.upper, hull=verdict.hull)
    centre = verdict.witness if verdict.centre is None else verdict.centre
    return replace(verdict, witness=point, centre=centre)


def _divide(problem: OutputLayer, signs: Signs, z: NDArray[Any]) -> NDArray[Any] | None:
    """x = z / its last coordinate: in float64 where that is a witness still, else exactly."""
    if z[-1] <= 0:
        return None
    if z.dtype != object:
        with np.errstate(over="ignore"):
            x = z[:-1] / z[-1]
        if np.isfinite(x).all() and _says(problem, signs, np.append(x, 1.0)):
            return np.asarray(x)
    exact = _exact.fractions(z)
    return _exact.array([value / exact[-1] for value in exact[:-1]])


# ---- exact fractions -----------------------------------------------------------------------------


def _by_simplex(problem: OutputLayer, signs: Signs, deadline: float) -> Verdict:
    """The verdict by the exact simplex method; undecided if it runs out of time."""
    known = np.flatnonzero(signs)
    rows = problem.rows[known] * signs[known, None]
    if problem.bias is not None:
        rows = np.concatenate([rows, problem.open_row])
    witness, weights = _exact.by_simplex(_exact.integers(rows), deadline)
    if weights is not None:
        return _exactly(problem, signs, np.append(known, problem.n)[list(weights)])
    if witness is None:
        return Verdict("undecided")
    z = _exact.array(witness)
    x = z if problem.bias is None else _exact.array([v / witness[-1] for v in witness[:-1]])
    return Verdict("argmaxable", max(least_margin(problem, signs, z), 0.0), 1.0, x, z)
