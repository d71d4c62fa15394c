"""Maps from scores to probabilities: `build(name, **hyperparameters)`, `names()`, and the base."""

from typing import Any

from labelset._fitted import NotFitted, described
from labelset.calibrate._base import ProbMap
from labelset.calibrate._diagram import diagram
from labelset.calibrate._quality import Quality
from labelset.catalog import Catalog

__all__ = [
    "NotFitted",
    "ProbMap",
    "Quality",
    "build",
    "catalog",
    "diagram",
    "from_json",
    "names",
]

catalog: Catalog[ProbMap] = Catalog(__name__, ProbMap, "map")  # type: ignore[type-abstract]


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
    return described(catalog, saved)
