"""results.csv and comparisons.csv, written anew: what was done now beside what was told."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from labelset.files import write_bytes
from labelset_studies._cell import Cell
from labelset_studies._difference import Difference
from labelset_studies._store import COLUMNS, RESULTS, Done, Store, csv_bytes
from labelset_studies._table import Table
from labelset_studies._told import Told, Where, named
from labelset_studies._verdict import Comparison, compared


def write_files(
    tables: Sequence[Table],
    trials: Sequence[Cell],
    last: Sequence[Cell],
    store: Store,
    told: Told,
) -> int:
    """Both files, in the order of the plan; tables that were not asked for keep what they had.

    Returns how many trainings are in them. Where one that was told of is in them no more, the old
    ones stay as `*.before.csv`.
    """
    claims = {table.name: table.claim for table in tables}
    rows: list[dict[str, Any]] = [*told.other_rows]
    for cell in (*trials, *last):
        rows += told.rows_of(cell) if cell in told else store.rows_of(cell, claims[cell.table])
    results, judged = store.folder / RESULTS, store.folder / "comparisons.csv"
    names = {named(row) for row in rows}
    if not told.names <= names:
        for path in (results, judged):
            shutil.copyfile(path, path.with_suffix(".before.csv"))
    write_bytes(results, csv_bytes(COLUMNS, rows))
    _write(judged, [*told.other_comparisons, *_comparisons(tables, last, store, told)])
    return len(names)


def _comparisons(
    tables: Sequence[Table], cells: Sequence[Cell], store: Store, told: Told
) -> Iterator[Comparison]:
    """All that the sentences of the tables compare, from finished cells, or as it was told."""
    groups: dict[Where, dict[str, dict[int, Done]]] = {}
    for cell in cells:
        if cell in told:
            groups.setdefault(cell.where, {})
        elif cell.id in store.done:
            group = groups.setdefault(cell.where, {})
            group.setdefault(cell.candidate.name, {})[cell.seed] = store.done[cell.id]
    for table in tables:
        for expect in table.expect:
            for where, group in groups.items():
                if where[0] != table.name:
                    continue
                if where in told.groups:
                    yield from told.comparisons.get((where, expect.says), [])
                else:
                    yield from compared(table.claim, table.name, expect, where[1:], group)


def _write(path: Path, found: list[Comparison]) -> None:
    rows = []
    for one in found:
        held = asdict(one)
        rows.append(held | {key: f"{value:.6g}" for key, value in held.pop("found").items()})
    columns = [f.name for f in (*fields(Comparison), *fields(Difference)) if f.name != "found"]
    write_bytes(path, csv_bytes(columns, rows))
