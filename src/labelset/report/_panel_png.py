"""A panel as PNG, drawn by matplotlib, which is optional."""

from __future__ import annotations

import importlib
import importlib.util
import io
from typing import Any

from labelset._svg import COLOURS, GREY
from labelset.report._panel import Band, Bars, Line, Panel, Span

__all__ = ["can_draw", "png"]

STYLES = ("-", "--", ":", "-.", (0, (6, 2)), (0, (2, 1)))


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def png(panel: Panel, dpi: int = 200) -> bytes:
    """The whole file."""
    figure = importlib.import_module("matplotlib.figure").Figure((5.2, 3.9), layout="constrained")
    axes = figure.subplots()
    for mark in panel.marks:
        _draw(axes, mark)
    _frame(axes, panel)
    held = io.BytesIO()
    figure.savefig(held, format="png", dpi=dpi)
    return held.getvalue()


def _frame(axes: Any, panel: Panel) -> None:
    # names are data: a dollar sign in one is no formula
    axes.set_title(panel.title, loc="left", fontsize=11, fontweight="bold", parse_math=False)
    axes.set_xlabel(panel.x_label, parse_math=False)
    axes.set_ylabel(panel.y_label, parse_math=False)
    axes.set(xlim=panel.x, ylim=panel.y)
    for axis, ticks in ((axes.xaxis, panel.x_ticks), (axes.yaxis, panel.y_ticks)):
        axis.set_ticks([value for value, _ in ticks], [words for _, words in ticks])
        for label in axis.get_ticklabels():
            label.set_parse_math(False)
    axes.grid(axis="y", color="#e4e4e4")
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
    axes.tick_params(length=0, labelcolor="#555555")
    named = [mark for mark in panel.marks if isinstance(mark, Line | Bars) and mark.name]
    if named:
        legend = axes.figure.legend(loc="outside lower left", frameon=False, fontsize=9)
        for text in legend.get_texts():
            text.set_parse_math(False)


def _draw(axes: Any, mark: Line | Band | Bars | Span) -> None:
    colour = GREY if mark.colour is None else COLOURS[mark.colour % len(COLOURS)]
    if isinstance(mark, Line):
        style = (0, (3, 3)) if mark.colour is None else STYLES[mark.colour % len(STYLES)]
        x, y = zip(*mark.points, strict=True)
        label = mark.name or "_unnamed"
        dot = "o" if mark.dotted else None
        axes.plot(x, y, color=colour, linestyle=style, marker=dot, markersize=4, label=label)
    elif isinstance(mark, Band):
        x, low, high = zip(*mark.points, strict=True)
        axes.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0)
    elif isinstance(mark, Bars):
        left, right, tall = zip(*mark.bars, strict=True)
        widths = [0.94 * (b - a) for a, b in zip(left, right, strict=True)]
        axes.bar(left, tall, widths, align="edge", color=colour, label=mark.name or "_unnamed")
    else:
        axes.plot([mark.low, mark.high], [mark.y, mark.y], color=colour)
        inside = colour if mark.sure else "white"
        axes.plot(mark.middle, mark.y, "o", markerfacecolor=inside, markeredgecolor=colour)
