"""Line charts as SVG, in colours that colour-blind readers can tell apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape

import torch
from torch import Tensor

__all__ = ["Line", "Panel", "chart", "words"]

GREY = "#999999"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
WIDTH, HEIGHT, LEFT, TOP, GAP = 260, 190, 44, 34, 50
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#222}"
    ".t{font-weight:600}.a{fill:#666;font-size:11px}"
    "path{fill:none;stroke-width:2}.g{stroke:#e4e4e4;stroke-width:1}"
    'path[stroke="#999999"]{stroke-width:5}'
)


Line = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Panel:
    """One chart: its title, the range of its axes, and a line per name."""

    title: str
    top: float
    lines: Mapping[str, Line]
    low: float = -6.0
    high: float = 6.0
    axis: str = "score"
    log2: bool = False
    """Whether the axis goes by logarithms: its marks then tell the numbers themselves."""


def words(text: str) -> str:
    """Text inside an SVG: markup is escaped, and what XML forbids becomes a blank.

    >>> words("a < b\\x01")
    'a &lt; b '
    """
    return escape("".join(c if c.isprintable() else " " for c in text))


def chart(panels: list[Panel], title: str, familiar: str) -> str:
    """Panels side by side with one legend, as a self-contained SVG; the familiar line is grey."""
    keys = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    others = [name for name in keys if name != familiar]
    colours = {familiar: GREY} | {n: COLOURS[i % len(COLOURS)] for i, n in enumerate(others)}
    width = LEFT + len(panels) * (WIDTH + GAP)
    height = TOP + HEIGHT + 66
    body = [_panel(panel, LEFT + i * (WIDTH + GAP), colours) for i, panel in enumerate(panels)]
    for i, name in enumerate(keys):
        x, y = LEFT + i * 112, height - 12
        body.append(f'<path d="M{x} {y - 4}h20" stroke="{colours[name]}"/>')
        body.append(f'<text x="{x + 26}" y="{y}">{words(name)}</text>')
    width = max(width, LEFT + 112 * len(keys))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
        f"<title>{words(title)}</title><style>{STYLE}</style>"
        f'<rect width="{width}" height="{height}" fill="#fff"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _panel(panel: Panel, x0: float, colours: Mapping[str, str]) -> str:
    out = [f'<text class="t" x="{x0}" y="{TOP - 14}">{words(panel.title)}</text>']
    for share in (0.0, 0.5, 1.0):
        y = TOP + HEIGHT * (1 - share)
        out.append(f'<path class="g" d="M{x0} {y:.0f}h{WIDTH}"/>')
        label = f"{panel.top * share:g}"
        out.append(f'<text class="a" x="{x0 - 6}" y="{y + 4:.0f}" text-anchor="end">{label}</text>')
    for share in (0.0, 0.5, 1.0):
        x = x0 + WIDTH * share
        score = panel.low + (panel.high - panel.low) * share
        told = f"{2**score:.4g}" if panel.log2 else f"{score:g}"
        out.append(
            f'<text class="a" x="{x:.0f}" y="{TOP + HEIGHT + 16}" text-anchor="middle">{told}'
            "</text>"
        )
    middle, below = x0 + WIDTH / 2, TOP + HEIGHT + 30
    out.append(
        f'<text class="a" x="{middle:.0f}" y="{below}" text-anchor="middle">{panel.axis}</text>'
    )
    out += [
        f'<path d="{_line(panel, f, x0)}" stroke="{colours[k]}"/>' for k, f in panel.lines.items()
    ]
    return "\n".join(out)


def _line(panel: Panel, f: Line, x0: float) -> str:
    v = torch.linspace(panel.low, panel.high, 61, dtype=torch.float64)
    y = f(v[:, None])[:, 0]
    xs = x0 + WIDTH * (v - panel.low) / (panel.high - panel.low)
    ys = TOP + HEIGHT * (1 - y / panel.top)
    inside = (y <= panel.top).tolist()  # a line that leaves the panel at the top ends there
    points = [f"{a:.1f} {b:.1f}" for a, b in zip(xs.tolist(), ys.tolist(), strict=True)]
    return "M" + "L".join(point for point, seen in zip(points, inside, strict=True) if seen)
