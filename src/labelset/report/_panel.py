"""What a static figure shows, before anything draws it: axes and what lies on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = ["Band", "Bars", "Line", "Panel", "Span", "round_ticks"]

Points: TypeAlias = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Line:
    """Points joined by a line, in the colour of that number; None is the grey of a reference."""

    points: Points
    colour: int | None = 0
    name: str = ""
    dotted: bool = False
    """Whether each point is marked."""


@dataclass(frozen=True)
class Band:
    """The region between two heights: points are (x, low, high)."""

    points: Sequence[tuple[float, float, float]]
    colour: int = 0


@dataclass(frozen=True)
class Bars:
    """Bars from 0: (from, to, height)."""

    bars: Sequence[tuple[float, float, float]]
    colour: int = 0
    name: str = ""


@dataclass(frozen=True)
class Span:
    """An estimate with its interval, along x at height y; `sure` where the interval excludes 0."""

    middle: float
    low: float
    high: float
    y: float
    sure: bool
    colour: int = 0


@dataclass(frozen=True)
class Panel:
    """One chart."""

    title: str
    x_label: str
    y_label: str
    marks: Sequence[Line | Band | Bars | Span]
    x: tuple[float, float] = (0.0, 1.0)
    y: tuple[float, float] = (0.0, 1.0)
    x_ticks: Sequence[tuple[float, str]] = field(default_factory=lambda: unit_ticks())
    y_ticks: Sequence[tuple[float, str]] = field(default_factory=lambda: unit_ticks())


def unit_ticks() -> list[tuple[float, str]]:
    """Quarters of 1."""
    return [(i / 4, f"{i / 4:g}") for i in range(5)]


def round_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """A few round numbers that reach from at most `low` to at least `high`.

    >>> round_ticks(0.0, 7.0)
    [(0.0, '0'), (2.0, '2'), (4.0, '4'), (6.0, '6'), (8.0, '8')]
    """
    raw = max(high - low, abs(high) * 1e-9, 1e-12) / 4
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(m * unit for m in (1, 2, 5, 10) if m * unit >= raw * (1 - 1e-9))
    first = math.floor(low / step + 1e-9)
    last = max(first + 1, math.ceil(high / step - 1e-9))
    return [(i * step, f"{i * step:.6g}") for i in range(first, last + 1)]
