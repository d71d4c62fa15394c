"""Ratios to the floor as dots on a logarithmic axis, a panel for every shape and dtype."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from labelset._svg import COLOURS, GREY, words
from labelset.bench._row import Row

__all__ = ["plot"]

WIDTH, LINE, LEFT, TOP, GAP, KEY = 230, 17, 110, 64, 34, 118
ACROSS = 4  # panels in a line
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#222}.t{font-weight:600}.a{fill:#666;font-size:11px}"
    ".g{stroke:#e4e4e4}.f{stroke:#222;stroke-dasharray:3 3}"
)
Key = tuple[int, int, str, str]


def plot(
    rows: Iterable[Row], title: str = "Forward and backward, as a multiple of the floor"
) -> str:
    """A self-contained SVG; the dashed line is the floor, grey is the plain eager formula.

    Synchronised timings, which are about the latency of a call, are left out.
    """
    kept = [r for r in rows if r.ratio_to_floor and r.timing != "synchronised"]
    if not kept:
        raise ValueError("there is no figure to plot: every case failed; the notes say why")
    panels: dict[Key, list[Row]] = {}
    for row in kept:
        panels.setdefault((row.rows, row.labels, row.dtype, row.label_kind), []).append(row)
    losses = list(dict.fromkeys(row.loss for row in kept))
    looks = _looks(list(dict.fromkeys(row.implementation for row in kept)))
    tall = TOP + LINE * len(losses)
    body = [_legend(looks)]
    for i, (key, inside) in enumerate(panels.items()):
        left, top = LEFT + i % ACROSS * (WIDTH + GAP), TOP + i // ACROSS * tall
        body += [_losses(losses, top)] if i % ACROSS == 0 else []
        body.append(_panel(left, top, key, inside, losses, looks))
    width = LEFT + max(min(len(panels), ACROSS) * (WIDTH + GAP), KEY * len(looks))
    height = -(-len(panels) // ACROSS) * tall + 40
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
        f"<title>{words(title)}</title><style>{STYLE}</style>"
        f'<rect width="{width}" height="{height}" fill="#fff"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _looks(names: Sequence[str]) -> dict[str, str]:
    """Attributes of a dot: eager is grey, and where colours come round again they are rings."""
    others = [name for name in names if name != "eager"]
    looks = {"eager": f'fill="{GREY}" stroke="#fff"'} if "eager" in names else {}
    for i, name in enumerate(others):
        colour = COLOURS[i % len(COLOURS)]
        ring = i >= len(COLOURS)
        looks[name] = (
            f'fill="#fff" stroke="{colour}" stroke-width="3"' if ring else f'fill="{colour}"'
        )
    return looks


def _legend(looks: dict[str, str]) -> str:
    return "\n".join(
        f'<circle cx="{LEFT + 5 + i * KEY}" cy="14" r="5" {look}/>'
        f'<text x="{LEFT + 14 + i * KEY}" y="18">{words(name)}</text>'
        for i, (name, look) in enumerate(looks.items())
    )


def _losses(losses: Sequence[str], top: int) -> str:
    return "\n".join(
        f'<text x="{LEFT - 10}" y="{_height(i, top) + 4}" text-anchor="end">{words(loss)}</text>'
        for i, loss in enumerate(losses)
    )


def _height(i: int, top: int) -> int:
    return top + LINE * i + LINE // 2


def _panel(
    left: int, top: int, key: Key, rows: list[Row], losses: Sequence[str], looks: dict[str, str]
) -> str:
    """One panel; its axis goes from a power of ten to a power of ten, and has the floor on it."""
    ratios = [row.ratio_to_floor or 1.0 for row in rows]
    low = min(0, math.floor(math.log10(min(ratios))))
    high = max(low + 1, math.ceil(math.log10(max(ratios))))
    scale = WIDTH / (high - low)
    about = f"{key[0]:,} x {key[1]:,} {key[2]}" + (", sparse" if key[3] == "sparse" else "")
    out = [f'<text class="t" x="{left}" y="{top - 16}">{words(about)}</text>']
    bottom = top + LINE * len(losses)
    out += [_power(left + scale * (p - low), p, top, bottom) for p in range(low, high + 1)]
    for row, ratio in zip(rows, ratios, strict=True):
        x, y = left + scale * (math.log10(ratio) - low), _height(losses.index(row.loss), top)
        about = f"{row.loss}, {row.implementation}: {ratio:.3g} x the floor, {row.p50_ms:.3g} ms"
        out.append(
            f'<circle cx="{x:.1f}" cy="{y}" r="5" {looks[row.implementation]}>'
            f"<title>{words(about)}</title></circle>"
        )
    return "\n".join(out)


def _power(x: float, power: int, top: int, bottom: int) -> str:
    """A line at a power of ten, dashed where it is the floor, and its number."""
    return (
        f'<path class="{"f" if power == 0 else "g"}" d="M{x:.1f} {top - 6}V{bottom}"/>'
        f'<text class="a" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{10.0**power:g}</text>'
    )
