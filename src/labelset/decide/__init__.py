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
    "TUNED",
    "NotFitted",
    "Rule",
    "Thresholds",
    "aligned",
    "build",
    "catalog",
    "from_json",
    "names",
    "tuned_for",
]

catalog: Catalog[Rule] = Catalog(__name__, "Rule", "rule")
TUNED: dict[str, tuple[str, dict[str, Any]]] = {
    "f1-micro": ("global", {"metric": "f1-micro"}),
    # a threshold of few positives alone is noise: drawn towards the common one it was better on
    # unseen halves of 7 data sets of 8, by .002 to .02
    "f1-macro": ("per-class", {"metric": "f1-macro", "shrink": 5.0}),
    "f1-samples": ("global", {"metric": "f1-samples"}),
}
"""For each F1 the rule, with its settings, that makes it largest on rows not seen."""


def build(name: str, **settings: Any) -> Rule:
    """The rule of that name; settings not given keep their defaults.

    >>> build("fixed", threshold=0.3)([[0.2, 0.3, 0.4]]).dense()
    tensor([[0., 1., 1.]])
    """
    return catalog.build(name, **settings)


def tuned_for(metric: str, name: str | None = None, /, **settings: Any) -> Rule:
    """The rule that makes a metric large on rows not seen, or the one of that name.

    Settings not given follow the metric; of one that no rule is tuned for, such as a ranking's,
    every label counts as much.

    >>> tuned_for("f1-macro")
    PerClass(metric='f1-macro', beta=1.0, shrink=5.0)
    >>> tuned_for("f1-samples", "global")
    Global(metric='f1-samples', beta=1.0)
    """
    usual, due = TUNED.get(settings.get("metric", metric), TUNED["f1-macro"])
    if name is not None and name != usual:
        due = next((dict(own) for rule, own in TUNED.values() if rule == name), {})
        if metric in getattr(catalog.get(name), "metrics", ()):
            due["metric"] = metric
    return build(name or usual, **due | settings)


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
