"""Figures of a study: a metric along what varies, by data set."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from labelset._svg import Panel, chart
from labelset.study._read import Results
from labelset.study._table import Table

__all__ = ["figure"]

Points = dict[str, dict[float, float]]
"""Line -> x -> y."""
MOST = 4  # panels side by side


def figure(results: Results, table: Table) -> list[str]:
    """The table's figure as SVG, row by row of panels; none where no line has two points."""
    along = table.figure["x"]
    panels = list[Panel]()
    for data in results.sets(table):
        for metric in table.figure.get("metrics", [""]):
            points = (
                _queries(results, table, data)
                if along == "queries"
                else _varied(results, table, data, metric)
            )
            lines = {name: line for name, line in points.items() if len(line) > 1}
            if lines:
                panels.append(_panel(f"{data} {metric.partition(' ')[2]}".strip(), lines, table))
    return [
        chart(panels[at : at + MOST], table.title, familiar=next(iter(panels[0].lines)))
        for at in range(0, len(panels), MOST)
    ]


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


def _panel(title: str, lines: Points, table: Table) -> Panel:
    xs = [x for line in lines.values() for x in line]
    top = max(y for line in lines.values() for y in line.values())
    axis = str(table.figure.get("axis", table.figure["x"]))
    drawn = {name: _through(line) for name, line in lines.items()}
    log2 = bool(table.figure.get("log2"))
    return Panel(title, _rounded(top), drawn, low=min(xs), high=max(xs), axis=axis, log2=log2)


def _rounded(top: float) -> float:
    """A little above the highest point, at two digits."""
    if top <= 0:
        return 1.0
    unit = 10.0 ** (math.floor(math.log10(top)) - 1)
    return math.ceil(top * 1.02 / unit) * unit


def _through(points: dict[float, float]) -> Callable[[Tensor], Tensor]:
    """Straight lines from point to point; beyond the last ones there is nothing to draw."""
    xs = torch.tensor(sorted(points), dtype=torch.float64)
    ys = torch.tensor([points[x] for x in sorted(points)], dtype=torch.float64)

    def line(v: Tensor) -> Tensor:
        at = torch.searchsorted(xs, v.contiguous()).clamp(1, len(xs) - 1)
        share = (v - xs[at - 1]) / (xs[at] - xs[at - 1])
        y = ys[at - 1] + share * (ys[at] - ys[at - 1])
        return torch.where((v >= xs[0] - 1e-9) & (v <= xs[-1] + 1e-9), y, torch.inf)

    return line
