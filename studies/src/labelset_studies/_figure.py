"""Figures of a study: a metric along what varies, by data set."""

from __future__ import annotations

import math

from labelset.charts import Line, Panel, round_ticks, svg
from labelset_studies._read import Results
from labelset_studies._table import Table

Points = dict[str, dict[float, float]]
"""Line -> x -> y."""
MOST = 4  # panels side by side


def figure(results: Results, table: Table) -> list[str]:
    """The table's figure as SVG, row by row of panels; none where no line has two points."""
    along = table.figure["x"]
    panels = list[Panel]()
    names = dict[str, int]()
    for data in results.sets(table):
        for metric in table.figure.get("metrics", [""]):
            points = (
                _queries(results, table, data)
                if along == "queries"
                else _varied(results, table, data, metric)
            )
            lines = {name: line for name, line in points.items() if len(line) > 1}
            if lines:
                for name in lines:
                    names.setdefault(name, len(names))
                title = f"{data} {metric.partition(' ')[2]}".strip()
                panels.append(_panel(title, lines, table, names))
    return [svg(panels[at : at + MOST], table.title) for at in range(0, len(panels), MOST)]


def _varied(results: Results, table: Table, data: str, metric: str) -> Points:
    """Candidates of a sweep: lines are called by what else varies, or by the candidate."""
    points: Points = {}
    given, scale = table.figure["x"], table.figure.get("log2", False)
    names = [given] if isinstance(given, str) else list(given)
    for one in table.candidates:
        at = dict(one.at)
        y = results.mean(table, data, one.name, metric)
        along = next((name for name in names if name in at), None)
        if along is not None and not math.isnan(y):
            short = table.figure.get("names", {})
            rest = [f"{short.get(key, key)}={value:g}" for key, value in one.at if key != along]
            base = one.name.partition(f", {one.at[0][0]}=")[0]
            x = math.log2(at[along]) if scale else float(at[along])
            points.setdefault(", ".join(rest) or base, {})[x] = y
    return points


def _queries(results: Results, table: Table, data: str) -> Points:
    """Retrieval against the length of the query, for the lines that the table names."""
    points: Points = {}
    for name in table.figure["lines"]:
        candidate, _, stage = name.rpartition(" ")
        for length in range(1, 6):
            y = results.mean(table, data, candidate, f"{stage} queries@{length}")
            if not math.isnan(y):
                points.setdefault(name, {})[float(length)] = y
    return points


def _panel(title: str, lines: Points, table: Table, names: dict[str, int]) -> Panel:
    """The first of all lines is grey, a name has its colour in every panel."""
    xs = sorted({x for line in lines.values() for x in line})
    drawn = []
    for name, points in lines.items():
        colour, width = (names[name] - 1, 2.0) if names[name] else (None, 5.0)
        drawn.append(Line(sorted(points.items()), colour, name, width))
    y_ticks = round_ticks(0.0, max(y for line in lines.values() for y in line.values()))
    x_ticks = round_ticks(xs[0], xs[-1], inside=True)
    if table.figure.get(
        "log2"
    ):  # the axis goes by logarithms, its marks are the numbers themselves
        x_ticks = [(x, f"{2**x:.4g}") for x in xs[:: -(-len(xs) // 6)]]
    label = str(table.figure.get("axis", table.figure["x"]))
    ends = (xs[0], xs[-1]), (0.0, y_ticks[-1][0])
    return Panel(title, label, "", drawn, *ends, x_ticks, y_ticks)
