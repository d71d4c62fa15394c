"""Data sets that need no file: one per module, under its name."""

from typing import Any

from labelset.catalog import Catalog
from labelset.data.builtin._base import Builtin

__all__ = ["Builtin", "build", "catalog", "names"]

catalog: Catalog[Builtin] = Catalog("labelset.data.builtin", Builtin, "built-in data set")


def names() -> list[str]:
    """Every built-in data set.

    >>> names()
    ['digits', 'icons', 'yeast']
    """
    return catalog.names()


def build(name: str, **settings: Any) -> Builtin:
    """The built-in data set of that name with these settings; call its `make()`."""
    return catalog.build(name, **settings)
