"""Exact arithmetic on floating-point weights: they are fractions, and sums of fractions are exact.

python-flint makes it fast where it is installed; without it Python's own integers do. The last word
is the simplex method: a witness or a certificate from

    maximise sum of weights subject to sum of weights * rows = 0, sum of weights <= 1, weights >= 0

If any weights > 0 combine the rows to 0, they are a certificate, and the first step away from 0
finds them. Otherwise the maximum is 0, and the multipliers of the equations are an x with
row.x >= 1 for every row: a witness. Every step before that is degenerate, so after a while rows
enter and leave by Bland's rule, with which the method cannot go round in circles.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from fractions import Fraction
from math import gcd, lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    import flint
except ImportError:
    flint = None  # type: ignore[assignment, unused-ignore]

Floats = NDArray[np.float64]


def integers(rows: Floats) -> list[list[int]]:
    """Each row times a power of two that makes all its entries whole: signs are unchanged."""
    mantissa, exponent = np.frexp(rows)
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    lowest = np.where(whole != 0, exponent, np.iinfo(np.int32).max).min(axis=1, keepdims=True)
    shift = np.where(whole != 0, exponent - lowest, 0)
    return [
        [int(w) << int(s) for w, s in zip(*pair, strict=True)]
        for pair in zip(whole.tolist(), shift.tolist(), strict=True)
    ]


def scale_of(row: Floats) -> Fraction:
    """The power of two by which `integers` multiplied a row."""
    _, exponent = np.frexp(row[row != 0])
    return Fraction(2) ** (53 - int(exponent.min())) if len(exponent) else Fraction(1)


def null_weights(rows: Floats) -> list[Fraction] | None:
    """Weights > 0 with sum of weights * rows = 0, exactly; None if the rows have no such ones.

    The rows must be minimal: no proper part of them is dependent (what a simplex around the
    origin is). Then the weights are unique up to a factor.
    """
    if len(rows) == 1:
        return [Fraction(1)] if not rows.any() else None
    whole = integers(rows)
    found = _null_flint(whole) if flint is not None else _null_plain(whole)
    if found is None or not (all(w > 0 for w in found) or all(w < 0 for w in found)):
        return None
    # undo the row scaling, then make the weights whole numbers without a common factor
    back = [abs(w) * scale_of(row) for w, row in zip(found, rows, strict=True)]
    common = lcm(*(w.denominator for w in back))
    ints = [int(w * common) for w in back]
    shared = gcd(*ints)
    return [Fraction(w // shared) for w in ints]


def fewer(rows: Floats, weights: Sequence[Fraction]) -> list[tuple[int, Fraction]]:
    """At most d + 1 of the rows (of d numbers and a bias), and weights >= 0 on them.

    They combine the d numbers to 0 and the biases to no more than before (Caratheodory's step,
    repeated: along a change that keeps the sum of weights, until one of them is 0).
    """
    kept = [(i, w) for i, w in enumerate(weights) if w > 0]
    while len(kept) > rows.shape[1]:
        part = rows[[i for i, _ in kept]]
        change = _any_null(np.column_stack([part[:, :-1], np.ones(len(part))]))
        drift = sum(
            (c * Fraction(float(row[-1])) for c, row in zip(change, part, strict=True)), Fraction(0)
        )
        if drift > 0 or (drift == 0 and not any(c < 0 for c in change)):
            change = [-c for c in change]
        far = min(-w / c for (_, w), c in zip(kept, change, strict=True) if c < 0)
        moved = [(i, w + far * c) for (i, w), c in zip(kept, change, strict=True)]
        kept = [(i, w) for i, w in moved if w > 0]
    return kept


def _null_flint(whole: list[list[int]]) -> list[Fraction] | None:
    """The one-dimensional null space of the transposed rows, if it is one-dimensional."""
    columns = [list(column) for column in zip(*whole, strict=True)]
    matrix = flint.fmpz_mat(columns)
    if len(whole) == len(columns) + 1:  # the usual case: d + 1 rows, one solve by lifting
        square = flint.fmpz_mat([column[:-1] for column in columns])
        last = flint.fmpz_mat([[-column[-1]] for column in columns])
        try:
            solution = square.solve(last)
        except ZeroDivisionError:
            pass
        else:
            return [*(_fraction(row[0]) for row in solution.tolist()), Fraction(1)]
    basis, nullity = matrix.nullspace()
    if nullity != 1:
        return None
    return [Fraction(int(row[0])) for row in basis.tolist()]


def _fraction(value: object) -> Fraction:
    return Fraction(int(value.p), int(value.q))  # type: ignore[attr-defined]


def _null_plain(whole: list[list[int]]) -> list[Fraction] | None:
    """The same by elimination over fractions."""
    basis = _null_space([[Fraction(x) for x in row] for row in whole])
    return basis[0] if len(basis) == 1 else None


def _any_null(rows: Floats) -> list[Fraction]:
    """Some weights, not all 0, that combine the rows to 0; the rows must be dependent."""
    whole = integers(rows)
    if flint is None:
        found = _null_space([[Fraction(x) for x in row] for row in whole])[0]
    else:
        columns = [list(column) for column in zip(*whole, strict=True)]
        basis, _ = flint.fmpz_mat(columns).nullspace()
        found = [Fraction(int(row[0])) for row in basis.tolist()]
    return [w * scale_of(row) for w, row in zip(found, rows, strict=True)]


def _null_space(rows: list[list[Fraction]]) -> list[list[Fraction]]:
    """A basis of the weights that combine the rows to 0."""
    matrix = [list(column) for column in zip(*rows, strict=True)]
    count, pivots = len(rows), list[int]()
    for column in range(count):
        at = len(pivots)
        pick = next((r for r in range(at, len(matrix)) if matrix[r][column]), None)
        if pick is None:
            continue
        matrix[at], matrix[pick] = matrix[pick], matrix[at]
        lead = matrix[at][column]
        top = matrix[at] = [x / lead for x in matrix[at]]
        for r, row in enumerate(matrix):
            if r != at and row[column]:
                factor = row[column]
                matrix[r] = [x - factor * y for x, y in zip(row, top, strict=True)]
        pivots.append(column)
    basis = []
    for free in (column for column in range(count) if column not in pivots):
        values = {column: -matrix[r][free] for r, column in enumerate(pivots)}
        values[free] = Fraction(1)
        basis.append([values.get(column, Fraction(0)) for column in range(count)])
    return basis


def fractions(x: NDArray[Any]) -> list[Fraction]:
    """The entries of a vector, exactly."""
    return [
        value if isinstance(value, Fraction) else Fraction(float(value)) for value in x.tolist()
    ]


def array(values: Sequence[Fraction]) -> NDArray[Any]:
    """Fractions as a numpy vector."""
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def pairs(high: Floats, low: Floats) -> NDArray[Any]:
    """Sums of two float64 each, exactly; float64 where the second is 0 throughout."""
    if not low.any():
        return high
    both = zip(high.tolist(), low.tolist(), strict=True)
    return array([Fraction(a) + Fraction(b) for a, b in both])


def halves(x: NDArray[Any]) -> tuple[Floats, Floats]:
    """A vector, up to a factor, as the sum of two float64 each."""
    exact = fractions(x)
    size = max(map(abs, exact)) or Fraction(1)
    high = np.array([float(value / size) for value in exact])
    low = [float(value / size - Fraction(h)) for value, h in zip(exact, high.tolist(), strict=True)]
    return high, np.array(low)


def combine(rows: Floats, weights: Sequence[Fraction]) -> list[Fraction]:
    """sum of weights * rows, exactly; in whole numbers until the end, which is far quicker."""
    shares = [w / scale_of(row) for w, row in zip(weights, rows, strict=True)]
    common = lcm(*(share.denominator for share in shares))
    whole = [int(share * common) for share in shares]
    columns = zip(*integers(rows), strict=True)
    sums = (sum(w * x for w, x in zip(whole, column, strict=True)) for column in columns)
    return [Fraction(total, common) for total in sums]


def margin_signs(rows: Floats, x: Sequence[Fraction]) -> NDArray[np.int8]:
    """The exact sign of row.x for every row."""
    common = lcm(*(value.denominator for value in x))
    whole = [int(value * common) for value in x]
    dots = (sum(a * b for a, b in zip(row, whole, strict=True)) for row in integers(rows))
    return np.array([(dot > 0) - (dot < 0) for dot in dots], dtype=np.int8)


Vector = list[Fraction]
Answer = tuple[Vector | None, dict[int, Fraction] | None]


def by_simplex(rows: list[list[int]], deadline: float) -> Answer:
    """(witness, None), (None, weights by row), or (None, None) when time runs out."""
    d = len(rows[0])
    norms = [math.sqrt(float(sum(x * x for x in row) >> shift)) for row, shift in _shifts(rows)]
    # basis: -1 for the slack of sum <= 1, -2 - i for the stand-in of equation i, which must stay 0
    basis = [-2 - i for i in range(d)] + [-1]
    inverse = [[Fraction(int(i == j)) for j in range(d + 1)] for i in range(d + 1)]
    steps = 0
    while time.monotonic() < deadline:
        x = [
            sum((inverse[i][j] for i, b in enumerate(basis) if b >= 0), Fraction(0))
            for j in range(d + 1)
        ]
        entering = _enter(rows, norms, x, bland=steps > 5 * d)
        if entering is None:
            return x[:d], None
        column = [*map(Fraction, rows[entering]), Fraction(1)]
        direction = [
            sum((a * b for a, b in zip(line, column, strict=True)), Fraction(0)) for line in inverse
        ]
        leaving = _leave(basis, direction)
        if basis[leaving] == -1:  # nothing holds the new weight at 0: it grows, and with it others
            step = {b: -c for b, c in zip(basis, direction, strict=True) if b >= 0 and c}
            return None, {entering: Fraction(1), **step}
        _pivot(inverse, direction, leaving)
        basis[leaving] = entering
        steps += 1
    return None, None


def _shifts(rows: list[list[int]]) -> list[tuple[list[int], int]]:
    """Each row with the bits by which its squared norm is cut to fit a float."""
    return [(row, max(2 * max(abs(x) for x in row).bit_length() - 1000, 0)) for row in rows]


def _enter(rows: list[list[int]], norms: list[float], x: Vector, bland: bool) -> int | None:
    """A row with row.x + x_last < 1: the most violated one, or, by Bland's rule, the first."""
    common = math.lcm(*(value.denominator for value in x))
    whole = [int(value * common) for value in x]
    best, worst = None, 0.0
    for i, row in enumerate(rows):
        gap = common - whole[-1] - sum(a * b for a, b in zip(row, whole, strict=False))
        if gap > 0:
            if bland:
                return i
            size = math.log2(gap) - math.log2(max(norms[i], 1e-300))
            if best is None or size > worst:
                best, worst = i, size
    return best


def _leave(basis: list[int], direction: Vector) -> int:
    """A row of the basis that the new one would push below 0, or a stand-in it would move."""
    for i, (b, c) in enumerate(zip(basis, direction, strict=True)):
        if b < -1 and c:
            return i
    bounding = [
        i for i, (b, c) in enumerate(zip(basis, direction, strict=True)) if b >= 0 and c > 0
    ]
    return min(bounding, key=lambda i: basis[i]) if bounding else basis.index(-1)


def _pivot(inverse: list[Vector], direction: Vector, leaving: int) -> None:
    pivot = direction[leaving]
    top = inverse[leaving] = [value / pivot for value in inverse[leaving]]
    for i, factor in enumerate(direction):
        if i != leaving and factor:
            inverse[i] = [a - factor * b for a, b in zip(inverse[i], top, strict=True)]
