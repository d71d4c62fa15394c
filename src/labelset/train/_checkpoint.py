"""Training on disk after each epoch: there whole or not at all, and read without running code."""

from __future__ import annotations

import pickle
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from labelset._atomic import write_with

__all__ = ["BadCheckpoint", "Checkpoint"]

FILE, KEY, FORMAT = "checkpoint.pt", "labelset.checkpoint", 1
DAMAGE = (
    *(RuntimeError, OSError, EOFError, ValueError, KeyError),
    *(zipfile.BadZipFile, pickle.UnpicklingError),
)


class BadCheckpoint(ValueError):
    """A checkpoint that is damaged, or of another training."""


class Checkpoint:
    """The file of one training; `about` says which training that is."""

    def __init__(self, folder: str | Path, about: Mapping[str, Any], every: float) -> None:
        self.path, self.about, self.every = Path(folder) / FILE, dict(about), every
        self._last = time.perf_counter()

    def save(self, state: Mapping[str, Any], now: bool) -> None:
        """Write the state, unless the last time is less than `every` seconds ago and not `now`."""
        if not now and time.perf_counter() - self._last < self.every:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        held = {KEY: FORMAT, "about": self.about, "state": dict(state)}
        write_with(self.path, lambda file: torch.save(held, file))
        self._last = time.perf_counter()

    def begin(self, resume: bool) -> dict[str, Any] | None:
        """The state to go on from; without `resume` none, and the old file is removed."""
        if resume:
            return self.load()
        self.path.unlink(missing_ok=True)
        return None

    def load(self) -> dict[str, Any] | None:
        """The state, or None where nothing was saved."""
        if not self.path.exists():
            return None
        try:
            with zipfile.ZipFile(self.path) as archive:
                broken = archive.testzip()  # torch does not look at the checksums of tensors
            held = None if broken else torch.load(self.path, map_location="cpu", weights_only=True)
        except DAMAGE:
            broken = "all"
        if broken:
            raise self._bad("is damaged or no checkpoint")
        if not isinstance(held, dict) or held.get(KEY) != FORMAT:
            raise self._bad("is no checkpoint of this labelset")
        for key, mine in self.about.items():
            if held["about"].get(key) != mine:
                raise self._bad(_difference(key, held["about"].get(key), mine))
        state: dict[str, Any] = held["state"]
        return state

    def _bad(self, what: str) -> BadCheckpoint:
        return BadCheckpoint(f"{self.path}: {what}; train without resuming, or in another folder")


def _difference(key: str, theirs: Any, mine: Any) -> str:
    if isinstance(theirs, Mapping) and isinstance(mine, Mapping):
        for name in mine:
            if theirs.get(name) != mine[name]:
                return f"has {key} {name} = {theirs.get(name)!r}, not {mine[name]!r}"
    return f"is of another training: its {key} is not the same"
