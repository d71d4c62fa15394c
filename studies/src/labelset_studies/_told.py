"""What the CSVs of an earlier run tell: where they are whole, nothing is trained again.

The resamples of a run are too large to be passed on with it, so that its intervals cannot be
computed anew. They need not be while a table asks for the same: new data sets are added beside it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from labelset_studies._about import read_about
from labelset_studies._cell import Budget, Cell, final_cells
from labelset_studies._read import read_comparisons, rows_of
from labelset_studies._table import Table
from labelset_studies._verdict import Comparison

Where = tuple[str, str, float]
"""Table, data set and condition."""
Named = tuple[Where, str, int, str]
"""Where, candidate, seed, and the try of a search or nothing."""
Row = dict[str, str]


def asked(table: Table, version: str) -> str:
    """A digest of what a version of a table asks for, but for its data sets and its looks."""
    expect = [asdict(one) for one in table.expect]
    told = {
        "version": [version, table.seeds[version], table.epochs[version]],
        "candidates": [one.as_json() for one in table.candidates],
        "expect": [{k: v for k, v in one.items() if k not in ("main", "extra")} for one in expect],
        **{name: getattr(table, name) for name in ("metrics", "missing", "tries", "choose")},
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class Told:
    """Rows and comparisons of what an earlier run finished, and those of tables not asked for."""

    groups: set[Where] = field(default_factory=set)
    rows: dict[Named, list[Row]] = field(default_factory=dict)
    comparisons: dict[tuple[Where, str], list[Comparison]] = field(default_factory=dict)
    """By where, and what the sentence says."""
    names: set[Named] = field(default_factory=set)
    """All trainings that the folder's results.csv has, whole or not."""
    other_rows: list[Row] = field(default_factory=list)
    other_comparisons: list[Comparison] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Path, tables: Sequence[Table], budget: Budget) -> Told:
        """What the folder's CSVs hold whole, of tables that still ask for the same."""
        results, compared = folder / "results.csv", folder / "comparisons.csv"
        if not (results.is_file() and compared.is_file()):
            return cls()
        known = read_about(folder / "about.json").get("tables", {})
        same = {t.name for t in tables if known.get(t.name) == asked(t, budget.version)}
        claims = {table.name: table.claim for table in tables}
        rows: dict[Named, list[Row]] = {}
        names, other_rows = set[Named](), list[Row]()
        for name, row in _readable(results):
            names.add(name)
            if row["table"] not in claims:
                other_rows.append(row)
            elif row["table"] in same and row["stage"] != "failed":
                rows.setdefault(name, []).append({**row, "claim": str(claims[row["table"]])})
        comparisons: dict[tuple[Where, str], list[Comparison]] = {}
        other_comparisons = []
        for one in read_comparisons(compared):
            if one.table in claims:
                found = comparisons.setdefault(((one.table, one.data, one.missing), one.says), [])
                found.append(replace(one, claim=claims[one.table]))
            else:
                other_comparisons.append(one)
        judged = {where for where, _ in comparisons}
        groups = {
            where
            for table in tables
            if table.name in same
            for where in _whole(table, rows, budget)
            if where in judged or not table.expect
        }
        return cls(groups, rows, comparisons, names, other_rows, other_comparisons)

    def sets(self, table: Table) -> set[str]:
        """Data sets of which a table's results are held."""
        return {data for name, data, _ in self.groups if name == table.name}

    def __contains__(self, cell: Cell) -> bool:
        return cell.where in self.groups

    def rows_of(self, cell: Cell) -> list[Row]:
        """Its rows of results.csv."""
        trial = "" if cell.trial is None else str(cell.trial + 1)
        return self.rows.get((cell.where, cell.candidate.name, cell.seed, trial), [])


def named(row: Mapping[str, Any]) -> Named:
    """Which training a row of results.csv is of."""
    where = (row["table"], row["data"], float(row["missing"]))
    return where, row["candidate"], int(row["seed"]), str(row["trial"])


def _readable(path: Path) -> Iterator[tuple[Named, Row]]:
    """Rows with their names; a line that a kill or a full disk has cut is left out."""
    for row in rows_of(path):
        try:
            name = named(row)
            float(row["seconds"])
        except (TypeError, ValueError):
            continue
        if None not in row and None not in row.values():
            yield name, row


def _whole(table: Table, rows: dict[Named, list[Row]], budget: Budget) -> set[Where]:
    """Where every candidate has every seed, with the same metrics."""
    data = dict.fromkeys(table.data.get(budget.version, []))
    data |= dict.fromkeys(where[1] for where, *_ in rows if where[0] == table.name)
    groups, gaps = set[Where](), set[Where]()
    first: dict[tuple[Where, str], set[tuple[str, str]]] = {}
    for cell in final_cells(table, data, budget, {}):
        own = rows.get((cell.where, cell.candidate.name, cell.seed, ""), [])
        metrics = {(row["stage"], row["metric"]) for row in own}
        same = first.setdefault((cell.where, cell.candidate.name), metrics) == metrics
        (groups if metrics and same else gaps).add(cell.where)
    return groups - gaps
