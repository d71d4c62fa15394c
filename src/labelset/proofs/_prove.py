"""From a search to verdicts: each is proven from the stored weights, or left undecided."""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from labelset.proofs import _certify, _exact, _search
from labelset.proofs._problem import Problem
from labelset.proofs._search import Points

__all__ = ["Verdict", "prove"]

Floats = NDArray[np.float64]
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
    witness: tuple[Floats, Floats] | None = None
    """x as the sum of two float64 vectors (the second is 0 where the first is enough)."""
    rows: NDArray[np.int64] | None = None
    """Labels of the certificate; with a bias, n stands for the row that keeps inputs finite."""
    weights: tuple[Fraction, ...] | None = None
    """Its exact weights on the labels as stored, once they were computed."""


def prove(problem: Problem, signs: NDArray[np.int8], deadline: float = np.inf) -> list[Verdict]:
    """A verdict for each of (L, n) signs; what double precision leaves open waits no longer than
    the deadline (of `time.monotonic`) for quadruple precision."""
    verdicts = [_at_once(problem, s) for s in signs]
    left = [i for i, v in enumerate(verdicts) if v is None]
    if left:
        points = _search.search(problem.rows, signs[left])
        for i, verdict in zip(left, _judge(problem, signs[left], points), strict=True):
            verdicts[i] = verdict
    for i in left:
        if _wants_more(verdicts[i]) and _search.compiled() and time.monotonic() < deadline:
            points = _search.search(problem.rows, signs[i : i + 1], True, deadline)
            new = _judge_precisely(problem, signs[i : i + 1], points)[0]
            verdicts[i] = _better(verdicts[i], new)
    done = [v for v in verdicts if v is not None]
    if problem.bias is None:
        return done
    return [_with_bias(problem, s, v, deadline) for s, v in zip(signs, done, strict=True)]


def _at_once(problem: Problem, signs: NDArray[np.int8]) -> Verdict | None:
    """Where nothing is known every input will do; a label whose row is zero has logit 0 for all."""
    if not signs.any():
        x = np.zeros(problem.rows.shape[1])
        x[-1] = 1.0
        return Verdict("argmaxable", 1.0, 1.0, (x, np.zeros_like(x)))
    hit = np.flatnonzero(problem.empty & (signs != 0))
    if len(hit):
        return Verdict("unargmaxable", 0.0, 0.0, rows=hit[:1], weights=(Fraction(1),))
    return None


def _better(old: Verdict | None, new: Verdict) -> Verdict:
    if old is None or (old.status == "undecided") or new.status == "unargmaxable":
        return new
    return new if new.status != "undecided" and new.lower > 0 else old


def _wants_more(verdict: Verdict | None) -> bool:
    if verdict is None or verdict.status == "undecided":
        return True
    wide = verdict.upper - verdict.lower > AGREE * verdict.upper
    return verdict.status == "argmaxable" and wide


def _judge(problem: Problem, signs: NDArray[np.int8], points: Points) -> list[Verdict]:
    """Proofs in double precision, all rounding bounded."""
    lower = _certify.least_margin(problem.rows, signs, points.x)
    out = []
    for i in range(len(signs)):
        rows = points.rows[i]
        signed = problem.rows[rows] * signs[i, rows, None]
        if lower[i] > 0:
            upper = _certify.hull_norm(signed, points.weights[i])
            x = _scaled(points.x[i])
            out.append(Verdict("argmaxable", lower[i], upper, (x, np.zeros_like(x))))
        elif points.upper[i] == 0 and _certify.holds_origin(signed, points.weights[i]):
            out.append(Verdict("unargmaxable", 0.0, 0.0, rows=np.sort(rows)))
        elif points.upper[i] == 0:
            out.append(_exactly(problem, signs[i], rows))
        else:
            out.append(Verdict("undecided", 0.0, _certify.hull_norm(signed, points.weights[i])))
    return out


def _exactly(problem: Problem, signs: NDArray[np.int8], rows: NDArray[np.int64]) -> Verdict:
    rows = np.sort(rows)
    weights = exact_weights(problem, signs, rows)
    if weights is None:
        return Verdict("undecided")
    return Verdict("unargmaxable", 0.0, 0.0, rows=rows, weights=weights)


def exact_weights(
    problem: Problem, signs: NDArray[np.int8], rows: NDArray[np.int64]
) -> tuple[Fraction, ...] | None:
    """Weights of a certificate for the stored weights; None if these rows are none.

    Row n, where it is among them, keeps its own weight at the end.
    """
    full = (
        problem.rows if problem.bias is None else np.concatenate([problem.rows, problem.open_row])
    )
    sides = np.append(signs, np.int8(1))
    found = _exact.null_weights(full[rows] * sides[rows, None])
    if found is None:
        return None
    return tuple(w * problem.scale(row) for w, row in zip(found, rows.tolist(), strict=True))


def _judge_precisely(problem: Problem, signs: NDArray[np.int8], points: Points) -> list[Verdict]:
    """Proofs in quadruple precision, or in exact fractions."""
    from labelset.proofs import _minnorm

    d = problem.rows.shape[1]
    out = []
    for i in range(len(signs)):
        rows = points.rows[i]
        chosen = signs[i, rows]
        if points.upper[i] == 0:
            out.append(_exactly(problem, signs[i], rows))
            continue
        slack = 8 * (d + len(rows) + 8) * _minnorm.epsilon
        margins = np.empty(len(problem.rows))
        norm = _minnorm.price(
            problem.rows, *problem.rows.shape, signs[i], points.x[i], points.rest[i], margins
        )
        lower = (margins.min() - slack) / norm * (1 - _certify.gamma(8))
        parts = (points.weights[i], points.weights_rest[i])
        upper = _minnorm.hull(problem.rows, d, rows.astype(np.int32), chosen, *parts) + slack
        upper *= 1 + _certify.gamma(8)
        if lower <= 0:
            out.append(Verdict("undecided", 0.0, upper))
        else:
            out.append(Verdict("argmaxable", lower, upper, _shortest(problem, signs[i], points, i)))
    return out


def _shortest(
    problem: Problem, signs: NDArray[np.int8], points: Points, i: int
) -> tuple[Floats, Floats]:
    """The witness in one float64 vector where that is enough, else in two."""
    high, low = points.x[i], points.rest[i]
    if _certify.least_margin(problem.rows, signs[None], high[None])[0] > 0:
        return _scaled(high), np.zeros_like(high)
    exact = _exact.margin_signs(problem.rows, [Fraction(float(v)) for v in high])
    if (exact == signs)[signs != 0].all():
        return _scaled(high), np.zeros_like(high)
    return high, low


def _scaled(x: Floats) -> Floats:
    """x times a power of two, so that its size is about 1: no bit changes."""
    _, exponent = np.frexp(np.linalg.norm(x))
    scaled: Floats = np.ldexp(x, -exponent)
    return scaled


# ---- with a bias: the last coordinate of the homogenised witness must be positive ----------------


def _with_bias(
    problem: Problem, signs: NDArray[np.int8], verdict: Verdict, deadline: float
) -> Verdict:
    """The verdict about W x + b from that about [W b] z, whose z must end above 0."""
    if verdict.witness is None:
        return verdict
    point = _divide(problem, signs, verdict.witness[0])
    if point is not None:
        return Verdict(verdict.status, verdict.lower, verdict.upper, (point, np.zeros_like(point)))
    opened = Problem(
        np.concatenate([problem.rows, problem.open_row]),
        None,
        problem.rounding,
        np.concatenate([problem.rows, problem.open_row]),
        np.append(problem.empty, False),
    )
    again = prove(opened, np.append(signs, np.int8(1))[None], deadline)[0]
    if again.rows is not None:
        return _exactly(problem, signs, again.rows)
    point = None if again.witness is None else _divide(problem, signs, again.witness[0])
    if point is None:
        return Verdict("undecided", 0.0, verdict.upper)
    return Verdict("argmaxable", verdict.lower, verdict.upper, (point, np.zeros_like(point)))


def _divide(problem: Problem, signs: NDArray[np.int8], z: Floats) -> Floats | None:
    """x = z / its last coordinate, if that is a witness still."""
    if z[-1] <= 0:
        return None
    x: Floats = z[:-1] / z[-1]
    lifted = np.append(x, 1.0)
    if not np.isfinite(lifted).all():
        return None
    if _certify.least_margin(problem.rows, signs[None], lifted[None])[0] > 0:
        return x
    exact = _exact.margin_signs(problem.rows, [Fraction(float(v)) for v in lifted])
    return x if (exact == signs)[signs != 0].all() else None
