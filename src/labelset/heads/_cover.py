"""How many label sets a head can say at all (Cover, 1965)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from labelset import check
from labelset._svg import Line, Panel, chart

__all__ = ["draw_expressible", "expressible", "log2_expressible"]


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
    """How the number of label sets that can be said grows with d, as an SVG (Figure 2, left).

    >>> draw_expressible(100).startswith("<svg")
    True
    """

    def said(d: Tensor) -> Tensor:
        counts = [log2_expressible(n, max(round(x), 1), bias) for x in d.flatten().tolist()]
        return torch.tensor(counts, dtype=torch.float64).reshape(d.shape)

    lines: dict[str, Line] = {
        "all label sets": lambda d: torch.full_like(d, n),
        "can be said": said,
    }
    title = f"label sets of {n} labels (log2)"
    panel = Panel(title, float(n), lines, 1.0, float(n), "features d")
    return chart([panel], title, "all label sets")


def _log2_comb(n: int, i: int) -> float:
    return (math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1)) / math.log(2)


def _check(n: int, d: int) -> None:
    check.whole("n", n, low=1)
    check.whole("d", d, low=1)
