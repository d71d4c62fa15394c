"""Cell: one training of the study, and the plan of all of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from labelset_studies._candidate import Candidate
from labelset_studies._table import Table

SEARCHED = 100
"""The seed of trials, which no result is trained with."""


@dataclass(frozen=True)
class Budget:
    """How much is done: the `short` or the `long` version of every table, and for how long."""

    version: str = "short"
    seconds: float | None = None

    @property
    def queries(self) -> int:
        """Asked per length."""
        return 200 if self.version == "short" else 1000


@dataclass(frozen=True)
class Cell:
    """A candidate on a data set with a seed; a trial of its search where `trial` is a number."""

    table: str
    data: str
    missing: float
    candidate: Candidate
    seed: int
    epochs: int
    metrics: tuple[str, ...]
    trial: int | None = None

    @property
    def id(self) -> str:
        """The same for the same work: what is done is found again by it."""
        told = {
            **{name: getattr(self, name) for name in ("table", "data", "missing", "seed")},
            "epochs": self.epochs,
            "trial": self.trial,
            "metrics": self.metrics,
            "candidate": self.candidate.as_json(),
        }
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def where(self) -> tuple[str, str, float]:
        """What is compared together: table, data set and condition."""
        return self.table, self.data, self.missing

    def __str__(self) -> str:
        dropped = f" -{self.missing:g}" if self.missing else ""
        trial = "" if self.trial is None else f" try {self.trial + 1}"
        return f"{self.table} {self.data}{dropped}: {self.candidate.name}, seed {self.seed}{trial}"


def trial_cells(table: Table, data: Iterable[str], budget: Budget) -> Iterator[Cell]:
    """The search: every candidate with each of its settings, on validation rows. Long only."""
    if budget.version == "short":
        return
    for name in data:
        for missing in table.missing:
            for candidate in table.candidates:
                for at, setting in enumerate(table.settings_of(candidate)):
                    yield Cell(
                        table.name,
                        name,
                        missing,
                        candidate.trying(setting),
                        SEARCHED,
                        table.epochs["long"],
                        (table.choose,),
                        at,
                    )


def final_cells(
    table: Table, data: Iterable[str], budget: Budget, chosen: dict[tuple[str, float, str], int]
) -> Iterator[Cell]:
    """What is reported, seed by seed; `chosen`: the try that the search took."""
    names = list(data)
    for seed in range(table.seeds[budget.version]):
        for name in names:
            for missing in table.missing:
                for candidate in table.candidates:
                    settings = table.settings_of(candidate) or [{}]
                    at = chosen.get((name, missing, candidate.name), 0)
                    yield Cell(
                        table.name,
                        name,
                        missing,
                        candidate.trying(settings[at]),
                        seed,
                        table.epochs[budget.version],
                        tuple(table.metrics),
                    )
