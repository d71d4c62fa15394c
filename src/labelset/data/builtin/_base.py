"""The base of built-in data sets."""

from __future__ import annotations

from dataclasses import dataclass

from labelset.data.dataset import Dataset


@dataclass(frozen=True, kw_only=True)
class Builtin:
    """A data set that needs no file: its fields are the settings, `make` builds it."""

    def make(self) -> Dataset:
        """The data set."""
        raise NotImplementedError
