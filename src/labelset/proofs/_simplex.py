"""The last word, in exact fractions: a witness or a certificate by the simplex method.

    maximise sum of weights subject to sum of weights * rows = 0, sum of weights <= 1, weights >= 0

If any weights > 0 combine the rows to 0, they are a certificate, and the first step away from 0
finds them. Otherwise the maximum is 0, and the multipliers of the equations are an x with
row.x >= 1 for every row: a witness. Every step before that is degenerate, so after a while rows
enter and leave by Bland's rule, with which the method cannot go round in circles.
"""

from __future__ import annotations

import math
import time
from fractions import Fraction

__all__ = ["decide"]

Vector = list[Fraction]
Answer = tuple[Vector | None, dict[int, Fraction] | None]


def decide(rows: list[list[int]], deadline: float) -> Answer:
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
    held = [i for i, (b, c) in enumerate(zip(basis, direction, strict=True)) if b >= 0 and c > 0]
    return min(held, key=lambda i: basis[i]) if held else basis.index(-1)


def _pivot(inverse: list[Vector], direction: Vector, leaving: int) -> None:
    pivot = direction[leaving]
    top = inverse[leaving] = [value / pivot for value in inverse[leaving]]
    for i, factor in enumerate(direction):
        if i != leaving and factor:
            inverse[i] = [a - factor * b for a, b in zip(inverse[i], top, strict=True)]
