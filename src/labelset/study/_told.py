"""What the CSVs of an earlier run tell: where they are whole, nothing is trained again.

The resamples of a run are too large to be passed on with it, so that its intervals cannot be
computed anew. They need not be while a table asks for the same: new data sets are added beside it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from labelset.study._cell import Budget, Cell, final_cells
from labelset.study._read import read_comparisons, rows_of
from labelset.study._table import Table
from labelset.study._verdict import Comparison

__all__ = ["Told", "Where", "asked"]

Where = tuple[str, str, float]
"""Table, data set and condition."""
Named = tuple[Where, str, int, str]
"""Where, candidate, seed, and the try of a search or nothing."""


def asked(table: Table) -> str:
    """A digest of all that a table asks for, but for its data sets and how it is presented."""
    told = {
        "candidates": [one.as_json() for one in table.candidates],
        "expect": [asdict(one) for one in table.expect],
        **{name: getattr(table, name) for name in ("metrics", "seeds", "epochs", "missing")},
        **{name: getattr(table, name) for name in ("tries", "choose")},
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class Told:
    """Rows and comparisons of what an earlier run finished."""

    groups: set[Where] = field(default_factory=set)
    rows: dict[Named, list[dict[str, str]]] = field(default_factory=dict)
    comparisons: dict[tuple[Where, str], list[Comparison]] = field(default_factory=dict)
    """By where, and what the sentence says."""

    @classmethod
    def read(cls, folder: Path, tables: Sequence[Table], budget: Budget) -> Told:
        """What the folder's CSVs hold whole, of tables that still ask for the same."""
        paths = [folder / name for name in ("about.json", "results.csv", "comparisons.csv")]
        if not all(path.is_file() for path in paths):
            return cls()
        about = json.loads(paths[0].read_text(encoding="utf-8"))
        known = about.get("tables", {}) if about.get("budget") == budget.version else {}
        same = {table.name for table in tables if known.get(table.name) == asked(table)}
        rows: dict[Named, list[dict[str, str]]] = {}
        for row in rows_of(paths[1]):
            if row["table"] in same and row["seconds"] and row["stage"] != "failed":
                where = (row["table"], row["data"], float(row["missing"]))
                name = (where, row["candidate"], int(row["seed"]), row["trial"])
                rows.setdefault(name, []).append(row)
        groups, gaps = set[Where](), set[Where]()
        for table in tables:
            for cell in final_cells(table, table.data.get(budget.version, []), budget, {}):
                here = (cell.where, cell.candidate.name, cell.seed, "") in rows
                (groups if here else gaps).add(cell.where)
        comparisons: dict[tuple[Where, str], list[Comparison]] = {}
        for one in read_comparisons(paths[2]):
            comparisons.setdefault(((one.table, one.data, one.missing), one.says), []).append(one)
        return cls(groups - gaps, rows, comparisons)

    def sets(self, table: Table) -> set[str]:
        """Data sets of which a table's results are held."""
        return {data for name, data, _ in self.groups if name == table.name}

    def __contains__(self, cell: Cell) -> bool:
        return cell.where in self.groups

    def rows_of(self, cell: Cell) -> list[dict[str, str]]:
        """Its rows of results.csv."""
        trial = "" if cell.trial is None else str(cell.trial + 1)
        return self.rows.get((cell.where, cell.candidate.name, cell.seed, trial), [])
