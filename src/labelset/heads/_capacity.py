"""How many label sets a head can represent (Cover, 1965)."""

from __future__ import annotations

import math

from labelset import charts, check


def expressible(n: int, d: int, bias: bool = False) -> int:
    """How many of the 2^n label sets sign(W x) takes, W (n, d) in general position, exactly.

        without bias  2 sum_{i < d} C(n - 1, i)                                            (2)
        with bias     sum_{i <= d} C(n, i): as in one more dimension, halved by x -> -x

    >>> expressible(3, 2), expressible(3, 2, bias=True), 2**3
    (6, 7, 8)
    """
    _check(n, d)
    if bias:
        return sum(math.comb(n, i) for i in range(min(d, n) + 1))
    return 2 * sum(math.comb(n - 1, i) for i in range(min(d, n)))


def log2_expressible(n: int, d: int, bias: bool = False) -> float:
    """log2 of `expressible`, for numbers that are too long to write down.

    >>> round(log2_expressible(1000, 500), 6)
    999.0
    """
    _check(n, d)
    top, count = (n, min(d, n) + 1) if bias else (n - 1, min(d, n))
    logs = [_log2_comb(top, i) for i in range(count)]
    most = max(logs)
    return most + math.log2(math.fsum(2 ** (x - most) for x in logs)) + (0.0 if bias else 1.0)


def draw_expressible(n: int, bias: bool = False) -> str:
    """How the number of representable label sets grows with d, as an SVG (Figure 2, left).

    >>> draw_expressible(100).startswith("<svg")
    True
    """

    some = sorted({1 + round(i * (n - 1) / 60) for i in range(61)})
    lines = [
        charts.Line([(1, n), (n, n)], None, "all label sets", width=5.0),
        charts.Line([(d, log2_expressible(n, d, bias)) for d in some], 0, "representable"),
    ]
    title, x = f"label sets of {n} labels (log2)", charts.round_ticks(1, n, inside=True)
    y = charts.round_ticks(0, n)
    panel = charts.Panel(title, "features d", "", lines, (1, max(n, 2)), (0, y[-1][0]), x, y)
    return charts.svg([panel], title)


def _log2_comb(n: int, i: int) -> float:
    return (math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1)) / math.log(2)


def _check(n: int, d: int) -> None:
    check.whole("n", n, low=1)
    check.whole("d", d, low=1)
