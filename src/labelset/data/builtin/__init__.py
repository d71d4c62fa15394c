"""Data sets that need no file: one per module, under its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labelset.catalog import Catalog
from labelset.lazy import door

if TYPE_CHECKING:
    from labelset.data.builtin._base import Builtin
else:
    __getattr__, __dir__ = door(__name__)


__all__ = ["Builtin", "build", "catalog", "names"]

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
