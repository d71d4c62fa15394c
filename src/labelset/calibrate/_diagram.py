"""Reliability diagrams as SVG: predicted against seen, with confidence bands and counts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import torch

from labelset._svg import COLOURS, words
from labelset.metrics import Reliability

__all__ = ["diagram"]

SIDE, LEFT, TOP, GAP, TALL = 360, 62, 44, 16, 80
FLOOR = TOP + SIDE + GAP + TALL
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#222}.t{font-weight:600;font-size:14px}"
    ".a{fill:#555;font-size:11px}.g{stroke:#e4e4e4}.d{stroke:#777;stroke-dasharray:5 4}"
    "polyline{fill:none;stroke-width:2}polygon{fill-opacity:.16}"
)


def diagram(curves: Mapping[str, Reliability], title: str, level: float = 0.95) -> str:
    """A self-contained SVG of one or more reliability curves, by name.

    A point is a bin: the mean probability that was predicted, and how often the label was on. On
    the dashed diagonal the two agree. The band is Wilson's interval at `level`, which takes entries
    for independent; larger points hold more entries. Below: the entries of each bin, on a
    logarithmic scale.

    >>> from labelset.metrics import reliability
    >>> diagram({"link": reliability([[0.2, 0.7]], [[0, 1]])}, "Two labels")[:4]
    '<svg'
    """
    _refuse(curves)
    most = max(max(_slots(curve).values()) for curve in curves.values())
    keys = [_key(name, curve) for name, curve in curves.items()]
    height = FLOOR + 58 + 18 * len(curves)
    width = max(LEFT + SIDE + 24, *(LEFT + 40 + 8 * len(words) for words in (title, *keys)))
    body = [*_frame(most)]
    for i, curve in enumerate(curves.values()):
        colour, y = COLOURS[i % len(COLOURS)], FLOOR + 58 + 18 * i
        body += _curve(curve, colour, level)
        body += _bars(curve, colour, most, i, len(curves))
        body.append(f'<rect x="{LEFT}" y="{y - 6}" width="20" height="4" fill="{colour}"/>')
        body.append(f'<text x="{LEFT + 28}" y="{y}">{words(keys[i])}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img">'
        f"<title>{words(title)}</title><style>{STYLE}</style>"
        f'<rect width="{width}" height="{height}" fill="#fff"/>\n'
        f'<text class="t" x="{LEFT}" y="24">{words(title)}</text>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def _refuse(curves: Mapping[str, Reliability]) -> None:
    if not curves:
        raise ValueError("a reliability diagram needs at least one curve, got none")
    for name, curve in curves.items():
        if curve.count.ndim != 1:
            raise ValueError(
                f"{name} must be one pooled curve, got shape {tuple(curve.count.shape)}; call "
                "reliability(..., per_label=False)"
            )


def _across(p: float) -> float:
    return LEFT + SIDE * p


def _up(f: float) -> float:
    return TOP + SIDE * (1 - f)


def _frame(most: float) -> Iterable[str]:
    """Grid, diagonal and the words along the axes."""
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, y = _across(tick), _up(tick)
        yield f'<line class="g" x1="{LEFT}" y1="{y:g}" x2="{LEFT + SIDE}" y2="{y:g}"/>'
        yield f'<line class="g" x1="{x:g}" y1="{TOP}" x2="{x:g}" y2="{FLOOR}"/>'
        yield f'<text class="a" x="{LEFT - 8}" y="{y + 4:g}" text-anchor="end">{tick:g}</text>'
        yield f'<text class="a" x="{x:g}" y="{FLOOR + 16}" text-anchor="middle">{tick:g}</text>'
    yield f'<line class="g" x1="{LEFT}" y1="{FLOOR}" x2="{LEFT + SIDE}" y2="{FLOOR}"/>'
    yield f'<line class="d" x1="{LEFT}" y1="{_up(0)}" x2="{LEFT + SIDE}" y2="{_up(1)}"/>'
    for tick in (1.0, 10.0 ** math.floor(math.log10(most))):
        y = FLOOR - _tall(tick, most)
        yield f'<text class="a" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:,.0f}</text>'
    middle = LEFT + SIDE / 2
    yield f'<text x="{middle:g}" y="{FLOOR + 34}" text-anchor="middle">predicted probability</text>'
    for axis, y in (("how often on", TOP + SIDE / 2), ("entries", FLOOR - TALL / 2)):
        yield (
            f'<text transform="translate(14 {y:g}) rotate(-90)" text-anchor="middle">{axis}</text>'
        )


def _tall(count: float, most: float) -> float:
    """Height of a bar: 1 entry is visible, the fullest bin fills the panel."""
    return TALL * math.log1p(count) / math.log1p(most)


def _points(curve: Reliability) -> list[tuple[float, float, float]]:
    """Entries, mean probability and frequency of the bins that are not empty."""
    rows = torch.stack([curve.count, curve.confidence, curve.frequency], 1).double().tolist()
    return [(n, p, f) for n, p, f in rows if n > 0]


def _curve(curve: Reliability, colour: str, level: float) -> Iterable[str]:
    points = _points(curve)
    low, high = (end[curve.count > 0].tolist() for end in curve.interval(level))
    across = [_across(p) for _, p, _ in points]
    edge = [*zip(across, low, strict=True), *reversed([*zip(across, high, strict=True)])]
    band = " ".join(f"{x:.1f},{_up(f):.1f}" for x, f in edge)
    line = " ".join(f"{x:.1f},{_up(f):.1f}" for x, (_, _, f) in zip(across, points, strict=True))
    yield f'<polygon points="{band}" fill="{colour}"/>'
    for x, a, b in zip(across, low, high, strict=True):
        yield (
            f'<line x1="{x:.1f}" y1="{_up(a):.1f}" x2="{x:.1f}" y2="{_up(b):.1f}" '
            f'stroke="{colour}" stroke-opacity=".5"/>'
        )
    yield f'<polyline points="{line}" stroke="{colour}"/>'
    for x, (n, _, f) in zip(across, points, strict=True):
        size = 1.5 + 0.4 * math.log1p(n)
        yield f'<circle cx="{x:.1f}" cy="{_up(f):.1f}" r="{size:.1f}" fill="{colour}"/>'


def _slots(curve: Reliability) -> dict[int, float]:
    """Entries by equal steps of probability, whatever the bins were."""
    bins, held = len(curve.count), dict[int, float]()
    for n, p, _ in _points(curve):
        slot = max(math.ceil(p * bins) - 1, 0)
        held[slot] = held.get(slot, 0.0) + n
    return held


def _bars(curve: Reliability, colour: str, most: float, i: int, of: int) -> Iterable[str]:
    bins = len(curve.count)
    wide = 0.8 * SIDE / bins / of
    for slot, n in _slots(curve).items():
        x, tall = _across((slot + 0.1) / bins) + i * wide, _tall(n, most)
        yield (
            f'<rect x="{x:.1f}" y="{FLOOR - tall:.1f}" width="{wide:.1f}" height="{tall:.1f}" '
            f'fill="{colour}"/>'
        )


def _key(name: str, curve: Reliability) -> str:
    return f"{name}: ACE {curve.ace():.4f}, {int(curve.count.sum()):,} entries"
