"""Metrics: `build(name, **hyperparameters)`, `names()`, reliability curves, and the base."""

import re
from typing import Any

from labelset.catalog import Catalog
from labelset.metrics._base import Metric, Result
from labelset.metrics._reliability import Reliability, reliability
from labelset.metrics._stream import Stream

__all__ = [
    "Metric",
    "Reliability",
    "Result",
    "Stream",
    "build",
    "catalog",
    "names",
    "reliability",
]

catalog: Catalog[Metric] = Catalog(__name__, Metric, "metric")  # type: ignore[type-abstract]


def build(name: str, **hyperparameters: Any) -> Metric:
    """The metric of that name; `precision@5` is short for `precision@k` with k=5.

    >>> build("precision@5").k
    5
    """
    short = re.fullmatch(r"(.+@)(\d+)", name) if isinstance(name, str) else None
    if short and f"{short[1]}k" in catalog.classes:
        if "k" in hyperparameters:
            raise TypeError(f"{name!r} states k already; leave out k={hyperparameters['k']!r}")
        name, hyperparameters = f"{short[1]}k", {"k": int(short[2]), **hyperparameters}
    return catalog.build(name, **hyperparameters)


def names() -> list[str]:
    """The names that `build` knows.

    >>> "map@class" in names()
    True
    """
    return catalog.names()
