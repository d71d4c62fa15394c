"""Means of a study as a table, and how many seeds they are of."""

from __future__ import annotations

import math

from labelset_studies._read import Results
from labelset_studies._special import direction
from labelset_studies._table import Table

SMALL = 0.05  # values below which a table shows one digit more


def numbers(results: Results, table: Table, metric: str) -> list[str]:
    """Candidates by data sets, means over seeds, the best of each set in bold."""
    sets, higher = results.sets(table), direction(metric)
    means = {
        one.name: [results.mean(table, data, one.name, metric) for data in sets]
        for one in table.candidates
    }
    means = {name: row for name, row in means.items() if not all(map(math.isnan, row))}
    if not means:
        return []
    best = [
        (max if higher else min)(
            (row[i] for row in means.values() if row[i] == row[i]), default=0.0
        )
        for i in range(len(sets))
    ]
    arrow = "higher is better" if higher else "lower is better"
    lines = [
        f"`{metric}`, {arrow}; {seeds_told(results, table, metric)}:",
        "",
        f"| | {' | '.join(sets)} |",
        "|---" * (len(sets) + 1) + "|",
    ]
    for name, row in means.items():
        cells = [_number(value, value == top) for value, top in zip(row, best, strict=True)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return [*lines, ""]


def seeds_told(results: Results, table: Table, metric: str) -> str:
    """How many seeds the means of a table are of; by data set where that differs."""
    counts = {data: results.seeds(table, data, metric) for data in results.sets(table)}
    if len(set(counts.values())) == 1:
        return f"means over {_range(*next(iter(counts.values())))} seeds"
    by_set = ", ".join(f"{data} {_range(*held)}" for data, held in counts.items() if held[1])
    return f"means over seeds ({by_set})"


def _range(low: int, high: int) -> str:
    return f"{low}" if low == high else f"{low} to {high}"


def _number(value: float, best: bool) -> str:
    if math.isnan(value):
        return "-"
    text = (
        f"{value:,.0f}"
        if abs(value) >= 100
        else f"{value:.4f}"
        if abs(value) < SMALL
        else f"{value:.3f}"
    )
    return f"**{text}**" if best else text
