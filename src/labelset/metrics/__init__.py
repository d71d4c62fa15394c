"""Metrics: `build(name, **hyperparameters)`, `names()`, reliability curves, and the base."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from labelset.catalog import Catalog
from labelset.lazy import door

if TYPE_CHECKING:
    from labelset.metrics._base import (
        Kept,
        Metric,
        Result,
        RowMean,
        State,
        Stream,
        confusion_counts,
        known_counts,
        ratio,
    )
    from labelset.metrics._confusion import confusion
    from labelset.metrics._order import (
        PositiveRanks,
        positive_ranks,
        weighted_auroc,
        weighted_precision,
    )
    from labelset.metrics._reliability import Binned, EntryMean, Reliability, diagram, reliability
else:
    __getattr__, __dir__ = door(__name__)


__all__ = [
    "Binned",
    "EntryMean",
    "Kept",
    "Metric",
    "PositiveRanks",
    "Reliability",
    "Result",
    "RowMean",
    "State",
    "Stream",
    "build",
    "catalog",
    "confusion",
    "confusion_counts",
    "diagram",
    "known_counts",
    "names",
    "positive_ranks",
    "ratio",
    "reliability",
    "weighted_auroc",
    "weighted_precision",
]

catalog: Catalog[Metric] = Catalog(__name__, "Metric", "metric")


def build(name: str, **hyperparameters: Any) -> Metric:
    """The metric of that name; `precision@5` is short for `precision@k` with k=5.

    >>> build("precision@5").k
    5
    """
    short = re.fullmatch(r"(.+@)(\d+)", name) if isinstance(name, str) else None
    if short and f"{short[1]}k" in catalog:
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
