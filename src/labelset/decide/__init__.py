"""Rules: probabilities to label sets. `build(name, **settings)`, `names()`, `from_json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labelset.catalog import Catalog
from labelset.lazy import door

if TYPE_CHECKING:
    from labelset.decide._base import NEVER, Rule, Thresholds, aligned
    from labelset.learned import NotFitted
else:
    __getattr__, __dir__ = door(__name__)


__all__ = [
    "NEVER",
    "NotFitted",
    "Rule",
    "Thresholds",
    "aligned",
    "build",
    "catalog",
    "from_json",
    "names",
]

catalog: Catalog[Rule] = Catalog(__name__, "Rule", "rule")


def build(name: str, **settings: Any) -> Rule:
    """The rule of that name; settings not given keep their defaults.

    >>> build("fixed", threshold=0.3)([[0.2, 0.3, 0.4]]).dense()
    tensor([[0., 1., 1.]])
    """
    return catalog.build(name, **settings)


def names() -> list[str]:
    """The names that `build` knows.

    >>> names()
    ['averaging', 'budget', 'expected-f1', 'fixed', 'global', 'per-class', 'top-k']
    """
    return catalog.names()


def from_json(saved: dict[str, Any]) -> Rule:
    """The rule that `as_json` described; ValueError where it can have described none.

    >>> from_json(build("top-k", k=3).as_json())
    TopK(k=3)
    """
    from labelset.learned import described

    return described(catalog, saved)
