"""How many label sets a head can say at all (Cover, 1965)."""

from __future__ import annotations

import math

from labelset import check

__all__ = ["expressible", "log2_expressible"]


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

    >>> log2_expressible(1000, 1000)
    1000.0
    """
    _check(n, d)
    top, count = (n, min(d, n) + 1) if bias else (n - 1, min(d, n))
    logs = [_log2_comb(top, i) for i in range(count)]
    most = max(logs)
    return most + math.log2(math.fsum(2 ** (x - most) for x in logs)) + (0.0 if bias else 1.0)


def _log2_comb(n: int, i: int) -> float:
    return (math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1)) / math.log(2)


def _check(n: int, d: int) -> None:
    check.whole("n", n, low=1)
    check.whole("d", d, low=1)
