"""A panel as SVG, on white, for papers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape

from labelset._svg import COLOURS, GREY
from labelset.report._panel import Band, Bars, Line, Panel, Span

__all__ = ["svg"]

WIDE, TALL, TOP, BOTTOM, RIGHT = 520, 360, 44, 60, 20
DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4", "4 2")
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#222}.t{font-weight:600;font-size:15px}"
    ".k{fill:#555;font-size:12px}.g{stroke:#e4e4e4}path{fill:none;stroke-width:2}"
)

Scale = Callable[[float], float]


def svg(panel: Panel) -> str:
    """The whole file.

    >>> svg(Panel("T", "x", "y", [Line([(0.0, 0.0), (1.0, 1.0)])]))[:4]
    '<svg'
    """
    left = 62 + 7 * max(0, max(len(text) for _, text in panel.y_ticks) - 4)
    named = [mark for mark in panel.marks if isinstance(mark, Line | Bars) and mark.name]
    tall = TALL + 20 * len(named)
    low, high = panel.x
    bottom, top = panel.y

    def sx(v: float) -> float:
        return left + (v - low) / (high - low) * (WIDE - RIGHT - left)

    def sy(v: float) -> float:
        return TALL - BOTTOM - (v - bottom) / (top - bottom) * (TALL - BOTTOM - TOP)

    parts = [*_frame(panel, sx, sy, left)]
    parts += [piece for mark in panel.marks for piece in _drawn(mark, sx, sy)]
    parts += [piece for i, mark in enumerate(named) for piece in _key(mark, left, TALL + 20 * i)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {tall}" width="{WIDE}" '
        f'height="{tall}" role="img"><title>{_text(panel.title)}</title><style>{STYLE}</style>'
        f'<rect width="{WIDE}" height="{tall}" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _text(words: str) -> str:
    """Escaped, without the control characters that XML forbids."""
    return escape("".join(c if c.isprintable() else " " for c in words))


def _frame(panel: Panel, sx: Scale, sy: Scale, left: float) -> Iterable[str]:
    yield f'<text class="t" x="{left}" y="24">{_text(panel.title)}</text>'
    for value, words in panel.y_ticks:
        y = sy(value)
        yield f'<line class="g" x1="{left}" x2="{WIDE - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        at = f'x="{left - 8}" y="{y + 4:.1f}" text-anchor="end"'
        yield f'<text class="k" {at}>{_text(words)}</text>'
    for value, words in panel.x_ticks:
        at = f'x="{sx(value):.1f}" y="{TALL - BOTTOM + 18}" text-anchor="middle"'
        yield f'<text class="k" {at}>{_text(words)}</text>'
    middle, below = (left + WIDE - RIGHT) / 2, TALL - BOTTOM + 40
    yield f'<text x="{middle}" y="{below}" text-anchor="middle">{_text(panel.x_label)}</text>'
    turned = f'transform="translate(16 {(TOP + TALL - BOTTOM) / 2}) rotate(-90)"'
    yield f'<text {turned} text-anchor="middle">{_text(panel.y_label)}</text>'


def _stroke(colour: int | None) -> str:
    if colour is None:
        return f'stroke="{GREY}" stroke-dasharray="4 4"'
    dash = DASHES[colour % len(DASHES)]
    return f'stroke="{_fill(colour)}"' + (f' stroke-dasharray="{dash}"' if dash else "")


def _fill(colour: int) -> str:
    return COLOURS[colour % len(COLOURS)]


def _drawn(mark: Line | Band | Bars | Span, sx: Scale, sy: Scale) -> Iterable[str]:
    if isinstance(mark, Line):
        yield f'<path {_stroke(mark.colour)} d="{_path(mark.points, sx, sy)}"/>'
        for x, y in mark.points if mark.dotted else ():
            at = f'cx="{sx(x):.1f}" cy="{sy(y):.1f}"'
            yield f'<circle {at} r="3" fill="{_fill(mark.colour or 0)}"/>'
    elif isinstance(mark, Band):
        edge = [(x, low) for x, low, _ in mark.points]
        edge += [(x, high) for x, _, high in reversed(mark.points)]
        yield f'<path d="{_path(edge, sx, sy)}Z" style="fill:{_fill(mark.colour)};opacity:.16"/>'
    elif isinstance(mark, Bars):
        for a, b, tall in mark.bars:
            y, size = min(sy(0), sy(tall)), abs(sy(0) - sy(tall))
            place = f'x="{sx(a) + 0.5:.1f}" y="{y:.1f}" width="{max(1, sx(b) - sx(a) - 1):.1f}"'
            yield f'<rect {place} height="{size:.1f}" fill="{_fill(mark.colour)}"/>'
    else:
        y, line = sy(mark.y), _fill(mark.colour)
        yield f'<path stroke="{line}" d="M{sx(mark.low):.1f} {y:.1f}H{sx(mark.high):.1f}"/>'
        inside = line if mark.sure else "#fff"
        place = f'cx="{sx(mark.middle):.1f}" cy="{y:.1f}"'
        yield f'<circle {place} r="5" fill="{inside}" stroke="{line}" stroke-width="2"/>'


def _path(points: Iterable[tuple[float, float]], sx: Scale, sy: Scale) -> str:
    return "M" + "L".join(f"{sx(x):.1f} {sy(y):.1f}" for x, y in points)


def _key(mark: Line | Bars, left: float, y: float) -> Iterable[str]:
    if isinstance(mark, Line):
        yield f'<path {_stroke(mark.colour)} d="M{left} {y - 4}h24"/>'
    else:
        size = f'y="{y - 10}" width="12" height="12"'
        yield f'<rect x="{left + 6}" {size} fill="{_fill(mark.colour)}"/>'
    yield f'<text class="k" x="{left + 32}" y="{y}">{_text(mark.name)}</text>'
