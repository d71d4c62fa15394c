"""Where a search keeps its candidates: in a folder, to be judged and resumed, or in memory."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from labelset.files import write_bytes
from labelset.labels import Labels
from labelset.model import SavedModel
from labelset.runs.folder import is_whole, judge_and_save, with_sum, without_sum
from labelset.runs.plan import Task

RECORD = "search.json"

Entry = dict[str, Any]
"""What came of a family: `tasks` that have a model, those that `failed` and those `left_out`."""


def tasks_of(entries: Iterable[Entry]) -> list[Task]:
    """All that have a model."""
    return [Task(loss, head, 0) for entry in entries for loss, head in entry["tasks"]]


class Shelf(Protocol):
    """What a search asks of the place where it keeps candidates."""

    @property
    def cache(self) -> Path | None:
        """A folder for features that are costly to make."""

    def finished(self, family: str) -> Entry | None:
        """What came of a family that need not be searched again."""

    def finish(self, family: str, entry: Entry) -> None:
        """Note what came of a family."""

    def keep(self, task: Task, model: SavedModel, train: Labels) -> None:
        """Keep a candidate; `train`: the labels of the rows that it was fitted on."""

    def has(self, task: Task) -> bool:
        """Whether a candidate is kept."""

    def model(self, task: Task) -> SavedModel:
        """A candidate that is kept."""

    def unfinished(self, task: Task) -> Path | None:
        """A folder for what a long training has reached; it goes when the candidate is kept."""


@dataclass
class InMemory:
    """Candidates as they were fitted, judged by nobody yet."""

    cache: Path | None = None
    models: dict[Task, SavedModel] = field(default_factory=dict)

    def finished(self, family: str) -> Entry | None:
        """None: nothing is known of an earlier search."""
        return None

    def finish(self, family: str, entry: Entry) -> None:
        """Nothing has to be noted."""

    def keep(self, task: Task, model: SavedModel, train: Labels) -> None:
        """As it is."""
        self.models[task] = model

    def has(self, task: Task) -> bool:
        """Whether it is kept."""
        return task in self.models

    def model(self, task: Task) -> SavedModel:
        """As it was kept."""
        return self.models[task]

    def unfinished(self, task: Task) -> Path | None:
        """None: what is stopped is lost."""
        return None


@dataclass
class InFolder:
    """Each candidate judged and saved below `out`: what `--resume` need not repeat."""

    out: Path
    optimise: str

    @property
    def cache(self) -> Path:
        """Beside the models."""
        return self.out / "cache"

    @cached_property
    def record(self) -> dict[str, Entry]:
        """What came of each family, as far as it is known."""
        try:
            return without_sum(self.out / RECORD)
        except (OSError, ValueError):
            return {}

    def finished(self, family: str) -> Entry | None:
        """If all of its models are still whole."""
        entry = self.record.get(family)
        if entry is None or not all(self.has(Task(loss, head, 0)) for loss, head in entry["tasks"]):
            return None
        return entry

    def finish(self, family: str, entry: Entry) -> None:
        """To be found again after a stop."""
        self.record[family] = entry
        write_bytes(self.out / RECORD, with_sum(self.record))

    def keep(self, task: Task, model: SavedModel, train: Labels) -> None:
        """With all figures of it."""
        folder = self.out / task.folder
        folder.mkdir(parents=True, exist_ok=True)
        judge_and_save(model, train, folder, self.optimise)
        if (reached := self.unfinished(task)).is_dir():
            shutil.rmtree(reached)

    def has(self, task: Task) -> bool:
        """Whether its folder is whole."""
        return is_whole(self.out / task.folder)

    def model(self, task: Task) -> SavedModel:
        """Opened from its folder."""
        return SavedModel.open(self.out / task.folder)

    def unfinished(self, task: Task) -> Path:
        """Below the candidate's own."""
        return self.out / task.folder / "unfinished"
