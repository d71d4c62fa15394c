"""Which combination is best overall: mean ranks over data sets."""

from __future__ import annotations

import math
from typing import NamedTuple

from labelset_studies._read import Results
from labelset_studies._special import direction
from labelset_studies._table import Table

SHOWN = 6


class Ranked(NamedTuple):
    """A combination and where it stands."""

    candidate: str
    stage: str
    rank: float
    """Mean over data sets; 1 is best, equals share theirs."""
    value: float
    """Mean over data sets."""


def ranking(results: Results, table: Table) -> list[str]:
    """Markdown: for each metric that the table ranks by, the best combinations."""
    lines: list[str] = []
    for metric in table.rank:
        found = ranks(results, table, metric)
        if found:
            over = f"{len(found)} combinations over {len(results.sets(table))} data sets"
            lines += [f"Best by `{metric}`, of {over}:", ""]
            lines += ["| loss and head | stage | mean rank | mean value |", "|---|---|---|---|"]
            lines += [
                f"| {one.candidate} | {one.stage} | {one.rank:.1f} | {one.value:.3f} |"
                for one in found[:SHOWN]
            ]
            lines += [""]
    return lines


def stages(table: Table, metric: str) -> list[str]:
    """Stages at which the table has a metric, in its order."""
    return [given.partition(" ")[0] for given in table.metrics if given.endswith(f" {metric}")]


def ranks(results: Results, table: Table, metric: str) -> list[Ranked]:
    """All combinations of candidate and stage, best first.

    Combinations that lack a data set are left out.
    """
    sets, every = results.sets(table), stages(table, metric)
    values = {
        (one.name, stage): [results.mean(table, d, one.name, f"{stage} {metric}") for d in sets]
        for one in table.candidates
        for stage in every
    }
    values = {key: row for key, row in values.items() if row and not any(map(math.isnan, row))}
    sign = -1.0 if every and direction(f"{every[0]} {metric}") else 1.0
    total = dict.fromkeys(values, 0.0)
    for i in range(len(sets)):
        for key, row in values.items():
            before = sum(sign * other[i] < sign * row[i] for other in values.values())
            equal = sum(other[i] == row[i] for other in values.values())
            total[key] += before + (equal + 1) / 2
    found = [Ranked(*key, total[key] / len(sets), sum(values[key]) / len(sets)) for key in values]
    return sorted(found, key=lambda one: one.rank)
