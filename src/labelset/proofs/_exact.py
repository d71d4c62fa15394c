"""Exact arithmetic on floating-point weights: they are fractions, and sums of fractions are exact.

python-flint makes it fast where it is installed; without it Python's own integers do.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import gcd, lcm

import numpy as np
from numpy.typing import NDArray

try:
    import flint
except ImportError:
    flint = None  # type: ignore[assignment, unused-ignore]

__all__ = ["combine", "integers", "margin_signs", "null_weights"]

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
    matrix = [[Fraction(x) for x in column] for column in zip(*whole, strict=True)]
    count, pivots = len(whole), list[int]()
    for column in range(count):
        at = len(pivots)
        pick = next((r for r in range(at, len(matrix)) if matrix[r][column]), None)
        if pick is None:
            continue
        matrix[at], matrix[pick] = matrix[pick], matrix[at]
        top = matrix[at] = [x / matrix[at][column] for x in matrix[at]]
        for r, row in enumerate(matrix):
            if r != at and row[column]:
                factor = row[column]
                matrix[r] = [x - factor * y for x, y in zip(row, top, strict=True)]
        pivots.append(column)
    free = [column for column in range(count) if column not in pivots]
    if len(free) != 1:
        return None
    values = {column: -matrix[r][free[0]] for r, column in enumerate(pivots)}
    return [values.get(column, Fraction(1)) for column in range(count)]


def combine(rows: Floats, weights: Sequence[Fraction]) -> list[Fraction]:
    """sum of weights * rows, exactly."""
    return [
        sum((w * Fraction(float(x)) for w, x in zip(weights, column, strict=True)), Fraction(0))
        for column in rows.T
    ]


def margin_signs(rows: Floats, x: Sequence[Fraction]) -> NDArray[np.int8]:
    """The exact sign of row.x for every row."""
    common = lcm(*(value.denominator for value in x))
    whole = [int(value * common) for value in x]
    dots = (sum(a * b for a, b in zip(row, whole, strict=True)) for row in integers(rows))
    return np.array([(dot > 0) - (dot < 0) for dot in dots], dtype=np.int8)
