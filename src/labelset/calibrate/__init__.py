"""Maps from scores to probabilities: `build(name, **hyperparameters)`, `names()`, and the base."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labelset.catalog import Catalog
from labelset.lazy import door

if TYPE_CHECKING:
    from labelset.calibrate._base import (
        FAR,
        REACH,
        ProbMap,
        Quality,
        crossing,
        finite_range,
        linked,
        telling_log_odds,
    )
    from labelset.learned import NotFitted
    from labelset.metrics import diagram
else:
    __getattr__, __dir__ = door(__name__)


__all__ = [
    "FAR",
    "REACH",
    "NotFitted",
    "ProbMap",
    "Quality",
    "build",
    "catalog",
    "crossing",
    "diagram",
    "finite_range",
    "from_json",
    "linked",
    "names",
    "telling_log_odds",
]

catalog: Catalog[ProbMap] = Catalog(__name__, "ProbMap", "map")


def build(name: str, **hyperparameters: Any) -> ProbMap:
    """The map of that name; hyperparameters not given keep their defaults.

    >>> build("platt", per="label").fit([[-1.0], [0.0], [1.0]], [[0], [1], [1]])
    Platt(loss=None, per='label', strength=10.0)
    """
    return catalog.build(name, **hyperparameters)


def names() -> list[str]:
    """The names that `build` knows.

    >>> names()
    ['histogram', 'isotonic', 'link', 'phi', 'platt', 'temperature', 'vector']
    """
    return catalog.names()


def from_json(saved: dict[str, Any]) -> ProbMap:
    """The map that `as_json` described; ValueError where it can have described none.

    >>> from_json(build("link", loss="spa").as_json())([[0.0]])
    tensor([[0.0538]], dtype=torch.float64)
    """
    from labelset.learned import described

    return described(catalog, saved)
