"""What results show of themselves: a table, a picture, and both in a notebook.

A result of the package is `Shown`: it gives `records()`, its lines, and `panels()`, its charts,
where there is something to see. `to_frame()`, `plot()`, `svg()` and what a notebook shows follow,
the same for all. pandas and matplotlib are imported where they are used, and are optional:
`pip install 'labelset[notebook]'`. A notebook needs neither.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labelset.charts import Panel


ROWS, NAMES = 20, 8
"""Lines of a table, and names in a cell, that a notebook shows."""
STYLE = "text-align:right;padding:.2em .7em;border:0;border-bottom:1px solid #8884"
HEAD = f"{STYLE};font-weight:600;vertical-align:bottom"


class Shown:
    """A result that shows itself.

    >>> class Squares(Shown):
    ...     def records(self):
    ...         return [{"x": x, "square": x * x} for x in (1, 2)]
    >>> Squares().to_frame()
       x  square
    0  1       1
    1  2       4
    """

    def records(self) -> list[dict[str, Any]]:
        """Its lines, plain values by the names of columns."""
        raise NotImplementedError

    def panels(self) -> list[Panel]:
        """Its charts; none where there is nothing to see."""
        return []

    def headline(self) -> str:
        """A sentence above the table."""
        return ""

    def to_frame(self) -> Any:
        """The records as a pandas frame."""
        return _optional("pandas", "a frame").DataFrame(self.records())

    def plot(self, axes: Any = None) -> Any:
        """Draw its charts with matplotlib, and return the axes: one, or an array of several.

        `axes` are those to draw on, as many as there are charts; None: a new figure.
        """
        panels = self.panels()
        if not panels:
            raise ValueError(f"there is nothing to draw of this {type(self).__name__}")
        if axes is None:
            pyplot = _optional("matplotlib.pyplot", "a plot")
            size = (5.2 * len(panels), 3.9)
            axes = pyplot.subplots(1, len(panels), figsize=size, layout="constrained")[1]
        each = list(axes.flat) if hasattr(axes, "flat") else axes
        each = list(each) if isinstance(each, Sequence) else [each]
        if len(each) != len(panels):
            raise ValueError(f"axes must be {len(panels)}, one per chart, got {len(each)}")
        from labelset.charts import draw

        for panel, own in zip(panels, each, strict=True):
            draw(panel, own)
        return axes

    def svg(self) -> str:
        """Its charts as a self-contained SVG, which needs no matplotlib."""
        panels = self.panels()
        if not panels:
            raise ValueError(f"there is nothing to draw of this {type(self).__name__}")
        from labelset.charts import svg

        return svg(panels, self.headline() or type(self).__name__)

    def _repr_html_(self) -> str:
        """What a notebook shows: the headline, the table, the charts."""
        head = self.headline()
        parts = [f"<p>{escape(head)}</p>"] if head else []
        parts.append(table(self.records()))
        parts += [self.svg()] if self.panels() else []
        return "\n".join(parts)


def table(records: Sequence[Mapping[str, Any]]) -> str:
    """An HTML table of the first lines; names and texts are data, never markup."""
    if not records:
        return "<p>no lines</p>"
    names = list(dict.fromkeys(name for record in records for name in record))
    head = "".join(f'<th style="{HEAD}">{escape(name)}</th>' for name in names)
    body = []
    for record in records[:ROWS]:
        cells = (record.get(name) for name in names)
        body.append("".join(_cell(value) for value in cells))
    lines = "".join(f"<tr>{cells}</tr>" for cells in body)
    left = len(records) - ROWS
    more = f"<p>... and {left:,} more: to_frame() has all</p>" if left > 0 else ""
    table = '<table style="border-collapse:collapse">'
    return f"{table}<thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>{more}"


def _cell(value: Any) -> str:
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    style = STYLE if numeric else STYLE.replace("right", "left", 1)
    return f'<td style="{style}">{escape(_words(value))}</td>'


def _words(value: Any) -> str:
    """A value as people read it.

    >>> [_words(v) for v in (0.123456, 1234567, float("nan"), True, ["a", "b"], 2e-9)]
    ['0.123', '1,234,567', '', 'yes', 'a, b', '2e-09']
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.3f}" if 1e-3 <= abs(value) < 1e4 or not value else f"{value:.3g}"
    if isinstance(value, list | tuple):
        more = f" and {len(value) - NAMES} more" if len(value) > NAMES else ""
        return ", ".join(map(str, value[:NAMES])) + more
    text = str(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def _optional(module: str, what: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        name = module.split(".")[0]
        raise ImportError(
            f"{what} needs {name}: pip install 'labelset[notebook]'; records() and svg() need "
            "nothing"
        ) from None
