"""Data sets that need no file: one per module, under its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labelset.catalog import Catalog

if TYPE_CHECKING:
    from labelset.data.dataset import Dataset


__all__ = ["Builtin", "build", "catalog", "names"]


@dataclass(frozen=True, kw_only=True)
class Builtin:
    """A data set that needs no file: its fields are the settings, `make` builds it."""

    def make(self) -> Dataset:
        """The data set."""
        raise NotImplementedError


catalog: Catalog[Builtin] = Catalog(__name__, "Builtin", "built-in data set")


def names() -> list[str]:
    """Every built-in data set.

    >>> names()
    ['digits', 'icons', 'yeast']
    """
    return catalog.names()


def build(name: str, **settings: Any) -> Builtin:
    """The built-in data set of that name with these settings; call its `make()`."""
    return catalog.build(name, **settings)
