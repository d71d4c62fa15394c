"""The retrieval figure: mean average precision against the length of the query."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from labelset._svg import COLOURS, words
from labelset.retrieve._protocol import Group, Retrieval

__all__ = ["curves"]

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 400, 260, 56, 58, 52
DASHES = ("", "7 3", "2 3", "9 3 2 3")  # colours come round again, with other dashes
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#222}"
    ".t{font-weight:600}.a{fill:#666;font-size:11px}"
    ".l{fill:none;stroke-width:2}.g{fill:none;stroke:#e4e4e4;stroke-width:1}.b{opacity:.18}circle{stroke:#fff}"
)


@dataclass(frozen=True)
class _Scale:
    """Where a length and an mAP stand on the page."""

    longest: int
    low: float
    high: float

    @classmethod
    def of(cls, points: list[Group]) -> _Scale:
        """From a tenth below the lowest band to a tenth above the highest."""
        low = math.floor(min(p.low for p in points) * 10 - 1e-9) / 10
        high = math.ceil(max(p.high for p in points) * 10 + 1e-9) / 10
        return cls(max(p.length for p in points), max(low, 0.0), min(high, 1.0))

    def x(self, length: float) -> float:
        return LEFT + WIDTH * (length - 1) / max(self.longest - 1, 1)

    def y(self, value: float) -> float:
        return TOP + HEIGHT * (self.high - value) / (self.high - self.low)


def curves(found: Mapping[str, Retrieval], title: str = "Retrieval by queries") -> str:
    """An SVG: mAP against query length, one line per name, bands for the 95% intervals.

    >>> from labelset.retrieve import evaluate
    >>> one = evaluate([[0.9, 0.2], [0.6, 0.7], [0.2, 0.8]], [[1, 0], [1, 1], [0, 1]])
    >>> curves({"model": one}).startswith("<svg")
    True
    """
    lines = {name: _points(table) for name, table in found.items()}
    drawn = [(name, line) for name, line in lines.items() if line]
    if not drawn:
        raise ValueError("curves needs at least one evaluation with a query that has a right row")
    scale = _Scale.of([point for _, line in drawn for point in line])
    heights = _apart({name: scale.y(line[-1].map) for name, line in drawn})
    body = [_axes(scale, title)]
    body += [_band(scale, line, _colour(i)) for i, (_, line) in enumerate(drawn)]
    for i, (name, line) in enumerate(drawn):  # after all bands, so that none covers a line
        x, y = scale.x(line[-1].length) + 10, heights[name] + 4
        label = f'<text x="{x:.1f}" y="{y:.1f}" style="fill:{_colour(i)}">{words(name)}</text>'
        body += [_line(scale, line, _colour(i), i // len(COLOURS)), label]
    right = 30 + 7 * max(len(name) for name, _ in drawn)  # room for the names
    width, height = LEFT + WIDTH + right, TOP + HEIGHT + BOTTOM
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
        f"<title>{words(title)}</title><style>{STYLE}</style>"
        f'<rect width="{width}" height="{height}" fill="#fff"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _points(table: Retrieval) -> list[Group]:
    return [group for group in table.by_length if not math.isnan(group.map)]


def _axes(scale: _Scale, title: str) -> str:
    out = [f'<text class="t" x="{LEFT}" y="{TOP - 36}">{words(title)}</text>']
    tenths = range(round(scale.low * 10), round(scale.high * 10) + 1)
    for tenth in tenths if len(tenths) <= 6 else [t for t in tenths if t % 2 == 0]:
        y = scale.y(tenth / 10)
        out.append(f'<path class="g" d="M{LEFT} {y:.1f}h{WIDTH}"/>')
        out.append(_text(LEFT - 8, y + 4, f"{tenth / 10:.1f}", "end"))
    for length in range(1, scale.longest + 1):
        out.append(_text(scale.x(length), TOP + HEIGHT + 18, str(length), "middle"))
    out.append(
        _text(LEFT + WIDTH / 2, TOP + HEIGHT + 38, "labels in the query, |P| + |N|", "middle")
    )
    out.append(_text(LEFT - 8, TOP - 16, "mAP", "end"))
    return "\n".join(out)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text class="a" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _colour(i: int) -> str:
    return COLOURS[i % len(COLOURS)]


def _band(scale: _Scale, line: list[Group], colour: str) -> str:
    edge = [(p.length, p.high) for p in line] + [(p.length, p.low) for p in reversed(line)]
    points = "L".join(f"{scale.x(a):.1f} {scale.y(b):.1f}" for a, b in edge)
    return f'<path class="b" d="M{points}Z" fill="{colour}"/>'


def _line(scale: _Scale, line: list[Group], colour: str, turn: int) -> str:
    """The line, and a dot per length."""
    path = "L".join(f"{scale.x(p.length):.1f} {scale.y(p.map):.1f}" for p in line)
    dots = "".join(
        f'<circle cx="{scale.x(p.length):.1f}" cy="{scale.y(p.map):.1f}" r="4" fill="{colour}"/>'
        for p in line
    )
    dash = f' stroke-dasharray="{DASHES[turn % len(DASHES)]}"' if turn else ""
    return f'<path class="l" d="M{path}" stroke="{colour}"{dash}/>{dots}'


def _apart(places: Mapping[str, float], gap: float = 15.0) -> dict[str, float]:
    """Heights of the labels, moved so that none covers another."""
    order = sorted(places, key=lambda name: places[name])
    moved, floor = dict[str, float](), -math.inf
    for name in order:
        floor = max(places[name], floor + gap)
        moved[name] = floor
    ceiling = TOP + HEIGHT + gap
    for name in reversed(order):  # what would run off the bottom moves up, and pushes the rest
        ceiling = min(moved[name], ceiling - gap)
        moved[name] = ceiling
    return moved
