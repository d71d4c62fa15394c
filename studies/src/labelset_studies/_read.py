"""What a study left as CSV, read back: a page is made of nothing else."""

from __future__ import annotations

import csv
import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from labelset_studies._difference import Difference
from labelset_studies._table import Table
from labelset_studies._verdict import Comparison, Sentence, called, claim_verdict, sentence_verdict

Key = tuple[str, str, str, str]
"""Table, data set with its condition, candidate, stage and metric."""
Cellmeans = dict[Key, list[float]]


@dataclass(frozen=True, eq=False)
class Results:
    """Values by seed, comparisons, and what they were made with."""

    tables: list[Table]
    values: Cellmeans
    failed: list[str]
    searched: dict[str, int]
    """Table -> trials of its search."""
    comparisons: list[Comparison]
    about: dict[str, Any]

    def sets(self, table: Table) -> list[str]:
        """Data sets of a table, in the order they were done."""
        return list(dict.fromkeys(key[1] for key in self.values if key[0] == table.name))

    def mean(self, table: Table, data: str, candidate: str, metric: str) -> float:
        """Over seeds; NaN where there is none."""
        held = self.values.get((table.name, data, candidate, metric), [])
        return statistics.fmean(held) if held else math.nan

    def sentences(self, table: Table) -> list[Sentence]:
        """What the table says of each expectation."""
        found = []
        for expect in table.expect:
            own = [c for c in self.comparisons if (c.table, c.says) == (table.name, expect.says)]
            if own:
                found.append(sentence_verdict(expect, own))
        return found

    def seeds(self, table: Table, data: str, metric: str) -> tuple[int, int]:
        """Behind the means of a metric on a data set: of the candidate with fewest, with most."""
        counts = [
            len(self.values.get((table.name, data, one.name, metric), ()))
            for one in table.candidates
        ]
        having = [count for count in counts if count]
        return min(having, default=0), max(having, default=0)

    def verdicts(self) -> dict[int, str]:
        """Claim -> reproduced, not reproduced or inconclusive."""
        said: dict[int, list[Sentence]] = {}
        for table in self.tables:
            if self.sets(table):
                said.setdefault(table.claim, []).extend(self.sentences(table))
        return {claim: claim_verdict(found) for claim, found in sorted(said.items())}


def read_results(folder: Path, tables: Sequence[Table]) -> Results:
    """results.csv, comparisons.csv and about.json of a study's folder."""
    for name in ("results.csv", "comparisons.csv", "about.json"):
        if not (folder / name).is_file():
            raise ValueError(f"{folder}: holds no {name}; is it the folder of a finished study?")
    values: Cellmeans = {}
    failed, searched = list[str](), dict[str, int]()
    for row in rows_of(folder / "results.csv"):
        where = called(row["data"], float(row["missing"]))
        if row["trial"]:
            searched[row["table"]] = max(searched.get(row["table"], 0), int(row["trial"]))
        elif row["stage"] == "failed":
            failed.append(f"{row['table']}, {where}, {row['candidate']}: {row['metric']}")
        else:
            key = (row["table"], where, row["candidate"], f"{row['stage']} {row['metric']}")
            values.setdefault(key, []).append(float(row["value"]))
    comparisons = read_comparisons(folder / "comparisons.csv")
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    return Results(list(tables), values, failed, searched, comparisons, about)


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def read_comparisons(path: Path) -> list[Comparison]:
    """comparisons.csv."""
    return [_comparison(row) for row in rows_of(path)]


def _comparison(row: dict[str, str]) -> Comparison:
    gap = Difference(*(float(row[f.name]) for f in fields(Difference)))
    held: dict[str, Any] = {f.name: row[f.name] for f in fields(Comparison) if f.name != "found"}
    held |= {"claim": int(row["claim"]), "missing": float(row["missing"]), "found": gap}
    return Comparison(**held)
