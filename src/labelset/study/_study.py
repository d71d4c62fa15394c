"""study: do what is not done yet of all tables, and judge every claim by what there is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from labelset._atomic import write_bytes
from labelset.study._about import tell_rows, write_about
from labelset.study._cell import Budget, Cell, final_cells, trial_cells
from labelset.study._data import available
from labelset.study._difference import Difference
from labelset.study._estimate import estimate
from labelset.study._read import Results, read_results
from labelset.study._special import direction
from labelset.study._store import Done, Store, csv_bytes
from labelset.study._table import Table
from labelset.study._texts import FEATURES
from labelset.study._verdict import Comparison, compared
from labelset.study._work import Workshop, do_cells
from labelset.train._lock import alone

__all__ = ["estimated", "study"]

Tell = Callable[[Cell, Done, int, int], None]
"""Gets a cell, what it left, how many are done, and of how many."""


def plan(tables: Sequence[Table], folder: Path | None, budget: Budget) -> dict[str, list[str]]:
    """Table -> the data sets that it is made of."""
    return {t.name: available(t.data.get(budget.version, []), folder)[0] for t in tables}


def estimated(
    tables: Sequence[Table], folder: Path | None, budget: Budget, device: str
) -> dict[str, tuple[int, float]]:
    """Data set -> trainings of the study and their seconds, by rules of thumb."""
    sets = plan(tables, folder, budget)
    cells = [c for t in tables for c in trial_cells(t, sets[t.name], budget)]
    cells += [c for t in tables for c in final_cells(t, sets[t.name], budget, {})]
    return estimate(cells, Workshop(folder, device))


def study(
    tables: Sequence[Table],
    out: Path,
    folder: Path | None = None,
    budget: Budget | None = None,
    jobs: int = 1,
    device: str = "cpu",
    tell: Tell | None = None,
) -> Results:
    """Do every cell that is not done, and judge all claims.

    Cells are kept in `out` as they are done: calling this again goes on where it ended. With
    `budget.seconds` no cell is begun once they are over, and what there is is judged.
    """
    budget = Budget() if budget is None else budget
    began, sets = time.perf_counter(), plan(tables, folder, budget)
    out.mkdir(parents=True, exist_ok=True)
    with alone(out):
        store = Store(out)
        workshop = Workshop(folder, device, budget.queries, out / FEATURES)
        work = _Work(store, workshop, jobs, budget, began, tell)
        claims = {table.name: table.claim for table in tables}
        try:
            trials = [c for t in tables for c in trial_cells(t, sets[t.name], budget)]
            work.do(trials, claims)
            chosen = {t.name: _chosen(t, trials, store) for t in tables}
            last = [
                cell
                for t in tables
                for cell in final_cells(t, sets[t.name], budget, chosen[t.name])
            ]
            last.sort(key=lambda cell: cell.seed)  # what is done early can be compared early
            work.do(last, claims)
        finally:
            store.close()
            spent = time.perf_counter() - began
            write_about(out / "about.json", budget, jobs, device, spent, work.did, work.left)
        store.write_results([(cell, claims[cell.table]) for cell in (*trials, *last)])
        _write(out / "comparisons.csv", comparisons(tables, last, store))
        tell_rows(out / "about.json", {c.data for c in last if c.id in store.done}, folder)
    return read_results(out, tables)


@dataclass(eq=False)
class _Work:
    """Doing what is left of a list of cells."""

    store: Store
    workshop: Workshop
    jobs: int
    budget: Budget
    began: float
    tell: Tell | None
    did: int = 0
    left: int = 0

    def do(self, cells: list[Cell], claims: dict[str, int]) -> None:
        """Those that are not done; what failed in an earlier sitting is tried once more."""
        left = [cell for cell in cells if self.store.is_left(cell)]
        done = len(cells) - len(left)
        self.left += len(left)
        for cell, what in do_cells(left, self.workshop, self.jobs, self._goes_on):
            self.store.add(cell, what, claims[cell.table])
            self.did, self.left, done = self.did + 1, self.left - 1, done + 1
            if self.tell is not None:
                self.tell(cell, what, done, len(cells))

    def _goes_on(self) -> bool:
        limit = self.budget.seconds
        return limit is None or time.perf_counter() - self.began < limit


def _chosen(
    table: Table, trials: Iterable[Cell], store: Store
) -> dict[tuple[str, float, str], int]:
    """The best try of each candidate on each data set, by validation rows; the first of equals."""
    best: dict[tuple[str, float, str], tuple[float, int]] = {}
    for cell in trials:
        done = store.done.get(cell.id)
        if cell.table != table.name or done is None or table.choose not in done.values:
            continue
        value = done.values[table.choose] * (1 if direction(table.choose) else -1)
        key = (cell.data, cell.missing, cell.candidate.name)
        assert cell.trial is not None
        if math.isfinite(value) and value > best.get(key, (-math.inf, 0))[0]:
            best[key] = (value, cell.trial)
    return {key: at for key, (_, at) in best.items()}


def comparisons(tables: Sequence[Table], cells: Iterable[Cell], store: Store) -> list[Comparison]:
    """All that the sentences of the tables compare, from finished cells."""
    groups: dict[tuple[str, str, float], dict[str, dict[int, Done]]] = {}
    for cell in cells:
        if cell.id in store.done:
            group = groups.setdefault(cell.where, {})
            group.setdefault(cell.candidate.name, {})[cell.seed] = store.done[cell.id]
    return [
        one
        for table in tables
        for expect in table.expect
        for where, group in groups.items()
        if where[0] == table.name
        for one in compared(table.claim, table.name, expect, where[1:], group)
    ]


def _write(path: Path, found: list[Comparison]) -> None:
    rows = []
    for one in found:
        held = asdict(one)
        rows.append(held | {key: f"{value:.6g}" for key, value in held.pop("found").items()})
    columns = [f.name for f in (*fields(Comparison), *fields(Difference)) if f.name != "found"]
    write_bytes(path, csv_bytes(columns, rows))
