"""Losses: `build(name, **hyperparameters)`, `names()`, and the bases for a loss of your own."""

from typing import Any

from labelset.catalog import Catalog
from labelset.losses._base import Loss, NoLink
from labelset.losses._separable import Separable
from labelset.losses._target import Target

__all__ = ["Loss", "NoLink", "Separable", "Target", "build", "catalog", "names"]

catalog: Catalog[Loss] = Catalog(__name__, Loss, "loss")  # type: ignore[type-abstract]


def build(name: str, **hyperparameters: Any) -> Loss:
    """The loss of that name; hyperparameters not given keep their defaults.

    >>> build("focal", gamma=1).gamma
    1
    """
    return catalog.build(name, **hyperparameters)


def names() -> list[str]:
    """The names that `build` knows.

    >>> "spa" in names()
    True
    """
    return catalog.names()
