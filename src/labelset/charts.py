"""Every chart of the package: a `Panel` says what there is to see, `svg` and `png` draw it.

Rooms compute plain numbers and put them into panels; how these look on paper is decided here alone.
Colours are those that colour-blind readers can tell apart, and lines differ by their dashes too.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, TypeAlias

GREY = "#999999"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4", "4 2")
RIGHT, LINE = 24, 20  # room to the right of a panel; height of a line of the legend
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#222}.t{font-weight:600;font-size:13px}"
    ".k{fill:#555;font-size:11px}.g{stroke:#e4e4e4}path{fill:none}"
)
Points: TypeAlias = Sequence[tuple[float, float]]
Ticks: TypeAlias = Sequence[tuple[float, str]]


@dataclass(frozen=True)
class Line:
    """Points joined by a line, in the colour of that number; None is the grey of a reference.

    Points above or below the panel are left out. A grey line is dashed unless it is wide.
    """

    points: Points
    colour: int | None = 0
    name: str = ""
    width: float = 2.0
    dots: Sequence[float] = ()
    """The radius of the dot on each point, if there are any."""


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
class Dot:
    """An estimate, with its interval along x if it has one."""

    x: float
    y: float
    colour: int | None = 0
    name: str = ""
    interval: tuple[float, float] | None = None
    hollow: bool = False
    note: str = ""
    """What a pointer that rests on it is told."""


Mark: TypeAlias = Line | Band | Bars | Dot


@dataclass(frozen=True)
class Panel:
    """One chart: marks on axes, `width` by `height` pixels without what stands around it."""

    title: str
    x_label: str
    y_label: str
    marks: Sequence[Mark]
    x: tuple[float, float] = (0.0, 1.0)
    y: tuple[float, float] = (0.0, 1.0)
    x_ticks: Ticks = field(default_factory=lambda: unit_ticks())
    y_ticks: Ticks = field(default_factory=lambda: unit_ticks())
    grid: str = "y"
    """The axes whose ticks are drawn through the panel: "x", "y" or "xy"."""
    names_at_ends: bool = False
    """Whether names stand where their lines end, rather than in the legend."""
    width: int = 260
    height: int = 190


def unit_ticks() -> list[tuple[float, str]]:
    """Quarters of 1."""
    return [(i / 4, f"{i / 4:g}") for i in range(5)]


def round_ticks(low: float, high: float, inside: bool = False) -> list[tuple[float, str]]:
    """A few round numbers that reach from at most `low` to at least `high`, or lie `inside`.

    >>> round_ticks(0.0, 7.0)
    [(0.0, '0'), (2.0, '2'), (4.0, '4'), (6.0, '6'), (8.0, '8')]
    """
    raw = max(high - low, abs(high) * 1e-9, 1e-12) / 4
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(m * unit for m in (1, 2, 5, 10) if m * unit >= raw * (1 - 1e-9))
    first = math.floor(low / step + 1e-9)
    last = max(first + 1, math.ceil(high / step - 1e-9))
    ticks = [(i * step, f"{i * step:.6g}") for i in range(first, last + 1)]
    return [(v, text) for v, text in ticks if not inside or low <= v <= high]


def differences(
    rows: Sequence[tuple[str, float, float, float, str]], title: str, x_label: str
) -> Panel:
    """Differences from a baseline with their intervals, the largest on top: a name, the difference,
    its ends, and whether that is `better`, `worse` or neither, which is hollow.

    >>> panel = differences([("a", 0.1, -0.1, 0.3, ""), ("b", 0.3, 0.2, 0.4, "better")], "T", "x")
    >>> [name for _, name in panel.y_ticks]
    ['a', 'b']
    """
    shown = sorted(rows, key=lambda row: row[1])
    ticks = round_ticks(
        min(0.0, *(low for _, _, low, _, _ in shown)), max(0.0, *(row[3] for row in shown))
    )
    marks: list[Mark] = [Line([(0.0, -0.7), (0.0, len(shown) - 0.3)], None)]
    for y, (_, delta, low, high, verdict) in enumerate(shown):
        hollow, colour = verdict not in ("better", "worse"), 1 if verdict == "worse" else 0
        marks.append(Dot(delta, y, colour, interval=(low, high), hollow=hollow))
    return Panel(
        title=title,
        x_label=x_label,
        y_label="",
        marks=marks,
        x=(ticks[0][0], ticks[-1][0]),
        y=(-0.7, len(shown) - 0.3),
        x_ticks=ticks,
        y_ticks=[(float(y), row[0][:28]) for y, row in enumerate(shown)],
    )


def shares(rows: Sequence[tuple[str, float]], title: str, x_label: str) -> Panel:
    """Bars to the right, one per name, the first on top.

    >>> shares([("a", 0.5), ("b", 2.0)], "T", "x").x
    (0.0, 2.0)
    """
    ticks = round_ticks(0.0, max((value for _, value in rows), default=1.0) or 1.0)
    last = len(rows) - 1
    thick = max(2.0, min(12.0, 130 / max(len(rows), 1)))
    return Panel(
        title=title,
        x_label=x_label,
        y_label="",
        marks=[
            Line([(0.0, float(last - y)), (value, float(last - y))], 0, width=thick)
            for y, (_, value) in enumerate(rows)
        ],
        x=(0.0, ticks[-1][0]),
        y=(-0.7, last + 0.7),
        x_ticks=ticks,
        y_ticks=[(float(last - y), name[:28]) for y, (name, _) in enumerate(rows)],
        grid="x",
        height=max(60, min(400, 22 * len(rows))),
    )


def svg(panels: Sequence[Panel], title: str, across: int = 4) -> str:
    """Panels in rows of `across`, with one legend below, as a self-contained SVG on white.

    >>> svg([Panel("T", "x", "y", [Line([(0.0, 0.0), (1.0, 1.0)])])], "One line")[:4]
    '<svg'
    """
    frames, bottom = _arranged(panels, across)
    width = max(RIGHT + f.left + max(f.panel.width, _wide(f.panel.title)) for f in frames)
    width = max(width, *(f.left + f.panel.width + _ends_width(f.panel) for f in frames))
    legend, height = _legend(panels, frames[0].left, bottom + LINE, width)
    body = [piece for frame in frames for piece in frame.draw() if piece] + legend
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img">'
        f"<title>{_text(title)}</title><style>{STYLE}</style>"
        f'<rect width="{width}" height="{height}" fill="#fff"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _arranged(panels: Sequence[Panel], across: int) -> tuple[list[_Frame], int]:
    """Each panel in its place, and where the last row ends."""
    columns = [panels[i::across] for i in range(min(across, len(panels)))]
    margins = [max(map(_margin, column)) for column in columns]
    frames, top = list[_Frame](), 0
    for at in range(0, len(panels), across):
        row, left = panels[at : at + across], 0
        top += 36 if any(panel.title for panel in row) else 10
        for margin, panel in zip(margins, row, strict=False):
            left += margin
            frames.append(_Frame(panel, left, top))
            left += panel.width
        around = 38 if any(panel.x_label for panel in row) else 22
        top += max(panel.height for panel in row) + around
    return frames, top


def _margin(panel: Panel) -> int:
    """The room that a panel needs on its left."""
    return 24 + 20 * bool(panel.y_label) + max(12, *(_wide(text) for _, text in panel.y_ticks))


def _wide(text: str) -> int:
    """About how many pixels a text takes."""
    return sum(7 if ord(c) < 0x2E80 else 13 for c in text)


def _text(words: str) -> str:
    """Markup is escaped, and what XML forbids becomes a blank.

    >>> _text("a < b\\x01")
    'a &lt; b '
    """
    return escape("".join(c if c.isprintable() else " " for c in words))


def _words(text: str, place: str) -> str:
    return f"<text {place}>{_text(text)}</text>" if text else ""


def _fill(colour: int | None) -> str:
    return GREY if colour is None else COLOURS[colour % len(COLOURS)]


def _dash(line: Line) -> str:
    """Colours that come round again have other dashes."""
    if line.colour is None:
        return "4 4" if line.width <= 2 else ""
    return DASHES[(line.colour + line.colour // len(COLOURS)) % len(DASHES)]


def _stroke(line: Line) -> str:
    dash = f' stroke-dasharray="{_dash(line)}"' if _dash(line) else ""
    return f'stroke="{_fill(line.colour)}" stroke-width="{line.width:g}"{dash}'


def _disc(dot: Dot, x: float, y: float) -> str:
    inside = "#fff" if dot.hollow else _fill(dot.colour)
    note = f"<title>{_text(dot.note)}</title>" if dot.note else ""
    edge = f'stroke="{_fill(dot.colour)}" stroke-width="2"' if dot.hollow else 'stroke="#fff"'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{inside}" {edge}>{note}</circle>'


def _named(panels: Iterable[Panel]) -> dict[str, Line | Bars | Dot]:
    """What the legend names, each name once."""
    named = dict[str, Line | Bars | Dot]()
    for panel in panels:
        for mark in () if panel.names_at_ends else panel.marks:
            if not isinstance(mark, Band) and mark.name:
                named.setdefault(mark.name, mark)
    return named


def _legend(panels: Sequence[Panel], left: int, top: int, width: int) -> tuple[list[str], int]:
    """Names from left to right and line by line, and where they end."""
    out, x, y = list[str](), left, top
    for name, mark in _named(panels).items():
        needed = 54 + _wide(name)
        if x > left and x + needed - 20 > width:
            x, y = left, y + LINE
        if isinstance(mark, Line):
            out.append(f'<path {_stroke(mark)} d="M{x} {y - 4}h26"/>')
        elif isinstance(mark, Bars):
            place = f'x="{x + 7}" y="{y - 10}" width="12" height="12"'
            out.append(f'<rect {place} fill="{_fill(mark.colour)}"/>')
        else:
            out.append(_disc(Dot(0, 0, mark.colour, hollow=mark.hollow), x + 13, y - 4))
        out.append(_words(name, f'x="{x + 32}" y="{y}"'))
        x += needed
    return out, y + 10 if out else top - LINE + 4


def _ends(panel: Panel) -> list[Line]:
    lines = [mark for mark in panel.marks if isinstance(mark, Line) and mark.name]
    return lines if panel.names_at_ends else []


def _ends_width(panel: Panel) -> int:
    return max((30 + _wide(line.name) for line in _ends(panel)), default=RIGHT)


def spread(heights: Mapping[str, float], floor: float, gap: float = 15.0) -> dict[str, float]:
    """Heights of names, moved so that none covers another nor lies below `floor`, further down."""
    order = sorted(heights, key=lambda name: heights[name])
    moved, least = dict[str, float](), -math.inf
    for name in order:
        moved[name] = least = max(heights[name], least + gap)
    most = floor + gap
    for name in reversed(order):  # what would run off the bottom moves up, and pushes the rest
        moved[name] = most = min(moved[name], most - gap)
    return moved


@dataclass(frozen=True)
class _Frame:
    """A panel in its place on the page: the left upper corner is that of its axes."""

    panel: Panel
    left: int
    top: int

    def x(self, value: float) -> float:
        low, high = self.panel.x
        return self.left + (value - low) / (high - low) * self.panel.width

    def y(self, value: float) -> float:
        low, high = self.panel.y
        return self.top + (high - value) / (high - low) * self.panel.height

    def draw(self) -> Iterable[str]:
        yield from self._axes()
        for mark in sorted(self.panel.marks, key=lambda mark: not isinstance(mark, Band)):
            yield from self._drawn(mark)  # bands first, so that none covers a line
        ends = {line.name: line for line in _ends(self.panel)}
        places = {name: self.y(line.points[-1][1]) for name, line in ends.items()}
        for name, y in spread(places, self.top + self.panel.height).items():
            x, colour = self.x(ends[name].points[-1][0]) + 10, _fill(ends[name].colour)
            yield _words(name, f'x="{x:.1f}" y="{y + 4:.1f}" style="fill:{colour}"')

    def _axes(self) -> Iterable[str]:
        """Title, grid, ticks and the words along the axes."""
        panel, left, top = self.panel, self.left, self.top
        right, bottom = left + panel.width, top + panel.height
        yield _words(panel.title, f'class="t" x="{left}" y="{top - 16}"')
        for value, words in panel.y_ticks:
            y = self.y(value)
            if "y" in panel.grid:
                yield f'<path class="g" d="M{left} {y:.1f}H{right}"/>'
            yield _words(words, f'class="k" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end"')
        for value, words in panel.x_ticks:
            x = self.x(value)
            if "x" in panel.grid:
                yield f'<path class="g" d="M{x:.1f} {top}V{bottom}"/>'
            yield _words(words, f'class="k" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle"')
        place = f'x="{(left + right) / 2:g}" y="{bottom + 34}"'
        yield _words(panel.x_label, f'{place} text-anchor="middle"')
        across = max(12, left - _margin(panel) + 18)
        turned = f'transform="translate({across} {(top + bottom) / 2:g}) rotate(-90)"'
        yield _words(panel.y_label, f'{turned} text-anchor="middle"')

    def _drawn(self, mark: Mark) -> Iterable[str]:
        fill = _fill(mark.colour)
        if isinstance(mark, Line):
            points = self._inside(mark.points)
            yield f'<path {_stroke(mark)} d="{self._path(points)}"/>'
            for (x, y), r in zip(mark.points, mark.dots, strict=False):
                place = f'cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="{r:.1f}"'
                yield f'<circle {place} fill="{fill}" stroke="#fff" stroke-width=".7"/>'
        elif isinstance(mark, Band):
            edge = [(x, low) for x, low, _ in mark.points]
            edge += [(x, high) for x, _, high in reversed(mark.points)]
            yield f'<path d="{self._path(edge)}Z" style="fill:{fill};opacity:.16"/>'
            whiskers = [[(x, low), (x, high)] for x, low, high in mark.points]
            sides = "".join(map(self._path, whiskers))
            yield f'<path stroke="{fill}" stroke-opacity=".3" d="{sides}"/>'
        elif isinstance(mark, Bars):
            for a, b, height in mark.bars:
                y, size = min(self.y(0), self.y(height)), abs(self.y(0) - self.y(height))
                wide = max(0.5, 0.94 * (self.x(b) - self.x(a)))
                place = f'x="{self.x(a):.1f}" y="{y:.1f}" width="{wide:.1f}"'
                yield f'<rect {place} height="{size:.1f}" fill="{fill}"/>'
        else:
            if mark.interval is not None:
                low, high = mark.interval
                ends = self._path([(low, mark.y), (high, mark.y)])
                yield f'<path stroke="{fill}" stroke-width="2" d="{ends}"/>'
            yield _disc(mark, self.x(mark.x), self.y(mark.y))

    def _inside(self, points: Points) -> Points:
        low, high = sorted(self.panel.y)
        edge = 1e-6 * (high - low)
        return [(x, y) for x, y in points if low - edge <= y <= high + edge]

    def _path(self, points: Points) -> str:
        return "M" + "L".join(f"{self.x(x):.1f} {self.y(y):.1f}" for x, y in points)


def can_png() -> bool:
    """Whether matplotlib is installed, which draws PNG and is optional."""
    return importlib.util.find_spec("matplotlib") is not None


def png(panel: Panel, dpi: int = 200) -> bytes:
    """One panel as the content of a PNG file."""
    figure = importlib.import_module("matplotlib.figure").Figure((5.2, 3.9), layout="constrained")
    draw(panel, figure.subplots())
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=dpi)
    return content.getvalue()


def draw(panel: Panel, axes: Any) -> None:
    """One panel on matplotlib's axes, with a legend below them where marks have names."""
    for mark in panel.marks:
        _plot(axes, mark)
    # names are data: a dollar sign in one is no formula
    axes.set_title(panel.title, loc="left", fontsize=11, fontweight="bold", parse_math=False)
    axes.set_xlabel(panel.x_label, parse_math=False)
    axes.set_ylabel(panel.y_label, parse_math=False)
    axes.set(xlim=panel.x, ylim=panel.y)
    for axis, ticks in ((axes.xaxis, panel.x_ticks), (axes.yaxis, panel.y_ticks)):
        axis.set_ticks([value for value, _ in ticks], [words for _, words in ticks])
        for label in axis.get_ticklabels():
            label.set_parse_math(False)
    axes.grid(axis={"xy": "both"}.get(panel.grid, panel.grid), color="#e4e4e4")
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
    axes.tick_params(length=0, labelcolor="#555555")
    if any(not isinstance(mark, Band) and mark.name for mark in panel.marks):
        place = {"loc": "upper left", "bbox_to_anchor": (0, -0.16), "borderaxespad": 0}
        for text in axes.legend(**place, frameon=False, fontsize=9).get_texts():
            text.set_parse_math(False)


def _plot(axes: Any, mark: Mark) -> None:
    fill = _fill(mark.colour)
    if isinstance(mark, Line):
        x, y = zip(*mark.points, strict=True)
        dashes = [float(n) / mark.width for n in _dash(mark).split()]
        look: dict[str, Any] = {"linestyle": (0, dashes) if dashes else "-"}
        look |= {"linewidth": mark.width * 0.75, "label": mark.name or "_unnamed"}
        axes.plot(x, y, color=fill, **look)
        sizes = [(1.4 * radius) ** 2 * 3 for radius in mark.dots]
        axes.scatter(x[: len(sizes)], y[: len(sizes)], sizes, color=fill, zorder=3)
    elif isinstance(mark, Band):
        x, low, high = zip(*mark.points, strict=True)
        axes.fill_between(x, low, high, color=fill, alpha=0.16, linewidth=0)
        axes.vlines(x, low, high, color=fill, alpha=0.3, linewidth=0.75)
    elif isinstance(mark, Bars):
        left, right, tall = zip(*mark.bars, strict=True)
        widths = [0.94 * (b - a) for a, b in zip(left, right, strict=True)]
        axes.bar(left, tall, widths, align="edge", color=fill, label=mark.name or "_unnamed")
    else:
        if mark.interval is not None:
            axes.plot(mark.interval, (mark.y, mark.y), color=fill)
        inside = "white" if mark.hollow else fill
        axes.plot(mark.x, mark.y, "o", markerfacecolor=inside, markeredgecolor=fill)
