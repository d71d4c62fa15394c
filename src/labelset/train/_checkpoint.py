"""Training on disk: each checkpoint whole or not at all, the one before kept until it is."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from labelset._atomic import sweep, write_with
from labelset.train._state_file import Unreadable, read_state, write_state

__all__ = ["BadCheckpoint", "Checkpoint"]

EVERY = 2.0
"""Seconds between two checkpoints, unless the caller says or writing takes long."""
SHARE = 20
"""Where the caller does not say, training goes on for so many times as long as writing takes."""
log = logging.getLogger("labelset")


class BadCheckpoint(ValueError):
    """A checkpoint that is damaged, or of another training."""


class Checkpoint:
    """The files of one training, named by steps done; `about` says which training that is."""

    def __init__(self, folder: str | Path, about: Mapping[str, Any], every: float | None) -> None:
        self.folder, self.about, self.every = Path(folder), dict(about), every
        self.latest: Path | None = None
        """The last good one."""
        self._wait = EVERY if every is None else every
        self._last = time.perf_counter()

    def due(self) -> bool:
        """Whether the last one is long enough ago."""
        return time.perf_counter() - self._last >= self._wait

    def save(self, steps: int, state: Callable[[], Mapping[str, Any]]) -> None:
        """Write the state after so many steps; then all but the one before are removed."""
        began = time.perf_counter()
        held = {"about": self.about, "state": dict(state())}
        path = self.folder / f"checkpoint-{steps:09}.safetensors"
        self.folder.mkdir(parents=True, exist_ok=True)
        write_with(path, lambda file: write_state(file, held))
        for old in self._files():
            if old not in (path, self.latest):
                old.unlink()
        self.latest, self._last = path, time.perf_counter()
        if self.every is None:
            self._wait = max(EVERY, SHARE * (self._last - began))

    def begin(self, resume: bool) -> dict[str, Any] | None:
        """The state to go on from; without `resume` none, and old files are removed."""
        sweep(self.folder)
        if resume:
            return self.load()
        for old in self._files():
            old.unlink()
        return None

    def load(self) -> dict[str, Any] | None:
        """The last good state, or None where nothing was saved; damaged files are left there."""
        damaged: list[str] = []
        for path in self._files():
            try:
                held = read_state(path)
                state: dict[str, Any] = self._own(path, held["about"], held["state"])
            except Unreadable as error:
                damaged.append(f"{path}: {error}")
                continue
            for line in damaged:
                log.warning("%s; going on from the one before, %s", line, path.name)
            self.latest = path
            return state
        if damaged:
            raise BadCheckpoint(
                f"{'; '.join(damaged)}; no checkpoint is left to go on from: delete "
                f"{self.folder} to train from the start, or train in another folder"
            )
        return None

    def _files(self) -> list[Path]:
        """The newest first."""
        return sorted(self.folder.glob("checkpoint*"), reverse=True)

    def _own(self, path: Path, about: Mapping[str, Any], state: Any) -> Any:
        for key, mine in self.about.items():
            if about.get(key) != mine:
                what = _difference(key, about.get(key), mine)
                raise BadCheckpoint(f"{path}: {what}; train without resuming, or in another folder")
        return state


def _difference(key: str, theirs: Any, mine: Any) -> str:
    if isinstance(theirs, Mapping) and isinstance(mine, Mapping):
        for name in mine:
            if theirs.get(name) != mine[name]:
                return f"has {key} {name} = {theirs.get(name)!r}, not {mine[name]!r}"
    return f"is of another training: its {key} is not the same"
