"""study: do what is not done yet of all tables, and judge every claim by what there is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from labelset.files import folder_lock
from labelset_studies._about import read_about, tell_files, tell_rows, write_about
from labelset_studies._cell import Budget, Cell, final_cells, trial_cells
from labelset_studies._data import available
from labelset_studies._estimate import estimate
from labelset_studies._files import write_files
from labelset_studies._read import Results, read_results
from labelset_studies._special import direction
from labelset_studies._store import Done, Store
from labelset_studies._table import Table
from labelset_studies._texts import FEATURES
from labelset_studies._told import Told, asked
from labelset_studies._work import Workshop, do_cells

Tell = Callable[[Cell, Done, int, int], None]
"""Gets a cell, what it left, how many are done, and of how many."""


def plan(
    tables: Sequence[Table], folder: Path | None, budget: Budget, told: Told | None = None
) -> dict[str, list[str]]:
    """Table -> the data sets that it is made of: those that are there, and those told of.

    The built-in ones, which are there without a folder, are not set beside others told of.
    """
    sets = {}
    for table in tables:
        named = table.data.get(budget.version, [])
        known = told.sets(table) if told else set[str]()
        there = [] if folder is None and known else available(named, folder)[0]
        order = dict.fromkeys([*named, *there, *sorted(known)])
        sets[table.name] = [name for name in order if name in there or name in known]
    return sets


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

    Cells are kept in `out` as they are done: calling this again goes on where it ended. Where only
    the CSVs of a finished run are there, what they hold whole is not done again. With
    `budget.seconds` no cell is begun once they are over, and what there is is judged.
    """
    budget = Budget() if budget is None else budget
    began = time.perf_counter()
    about = out / "about.json"
    held = read_about(about).get("budget", budget.version)
    if held != budget.version:
        raise ValueError(f"{out}: holds the {held} version; use another folder for this one")
    out.mkdir(parents=True, exist_ok=True)
    with folder_lock(out):
        store = Store(out)
        workshop = Workshop(folder, device, budget.queries, out / FEATURES)
        work = _Work(store, workshop, jobs, budget, began, tell)
        claims = {table.name: table.claim for table in tables}
        told = Told.read(out, tables, budget)
        sets = plan(tables, folder, budget, told)
        trials = [c for t in tables for c in trial_cells(t, sets[t.name], budget)]
        told = _without_begun(told, (*trials, *_last(tables, sets, budget, {})), store)
        try:
            work.do([cell for cell in trials if cell not in told], claims)
            chosen = {t.name: _chosen(t, trials, store) for t in tables}
            last = _last(tables, sets, budget, chosen)
            work.do([cell for cell in last if cell not in told], claims)
        finally:
            store.close()
            spent = time.perf_counter() - began
            write_about(about, budget, jobs, device, spent, work.did, work.left)
        kept = write_files(tables, trials, last, store, told)
        tell_rows(about, {c.data for c in last if c in told or c.id in store.done}, folder)
        tell_files(about, kept, {t.name: asked(t, budget.version) for t in tables})
    return read_results(out, tables)


def _last(
    tables: Sequence[Table],
    sets: dict[str, list[str]],
    budget: Budget,
    chosen: dict[str, dict[tuple[str, float, str], int]],
) -> list[Cell]:
    """What is reported, early seeds first: what is done early can be compared early."""
    cells = [
        cell
        for t in tables
        for cell in final_cells(t, sets[t.name], budget, chosen.get(t.name, {}))
    ]
    return sorted(cells, key=lambda cell: cell.seed)


def _without_begun(told: Told, cells: Iterable[Cell], store: Store) -> Told:
    """Only what the finished cells, which know more, do not hold at all."""
    begun = {cell.where for cell in cells if cell.id in store.done}
    return replace(told, groups=told.groups - begun)


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
