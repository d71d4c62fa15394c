"""Which combination is best overall: mean ranks over data sets."""

from __future__ import annotations

import math

from labelset.study._read import Results
from labelset.study._special import direction
from labelset.study._table import Table

__all__ = ["ranking", "ranks"]

SHOWN = 6


def ranking(results: Results, table: Table) -> list[str]:
    """Markdown: for each metric that the table ranks by, the best combinations."""
    lines: list[str] = []
    for metric in table.rank:
        found = ranks(results, table, metric)
        if found:
            lines += [f"Best by `{metric}`, of {len(found)} combinations:", ""]
            lines += ["| loss and head | stage | mean rank | mean value |", "|---|---|---|---|"]
            lines += [
                f"| {name} | {stage} | {rank:.1f} | {value:.3f} |"
                for name, stage, rank, value in found[:SHOWN]
            ]
            lines += [""]
    return lines


def ranks(results: Results, table: Table, metric: str) -> list[tuple[str, str, float, float]]:
    """Candidate, stage, mean rank (1 is best; equals share theirs) and mean value, best first.

    Combinations that lack a data set are left out.
    """
    sets = results.sets(table)
    stages = [given.partition(" ")[0] for given in table.metrics if given.endswith(f" {metric}")]
    values = {
        (one.name, stage): [results.mean(table, d, one.name, f"{stage} {metric}") for d in sets]
        for one in table.candidates
        for stage in stages
    }
    values = {key: row for key, row in values.items() if row and not any(map(math.isnan, row))}
    sign = -1.0 if stages and direction(f"{stages[0]} {metric}") else 1.0
    total = dict.fromkeys(values, 0.0)
    for i in range(len(sets)):
        for key, row in values.items():
            before = sum(sign * other[i] < sign * row[i] for other in values.values())
            equal = sum(other[i] == row[i] for other in values.values())
            total[key] += before + (equal + 1) / 2
    found = [(*key, total[key] / len(sets), sum(values[key]) / len(sets)) for key in values]
    return sorted(found, key=lambda one: one[2])
