"""Rules: probabilities to label sets. `build(name, **settings)`, `names()`, `from_json`."""

from typing import Any

from labelset._fitted import NotFitted
from labelset.catalog import Catalog
from labelset.decide._base import Rule

__all__ = ["NotFitted", "Rule", "build", "catalog", "from_json", "names"]

catalog: Catalog[Rule] = Catalog(__name__, Rule, "rule")  # type: ignore[type-abstract]


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
    """The rule that `as_json` described, with all that it had learnt.

    >>> from_json(build("top-k", k=3).as_json())
    TopK(k=3)
    """
    if not isinstance(saved, dict) or not {"name", "settings", "learnt"} <= set(saved):
        raise ValueError(
            "a saved rule is a dict with name, settings and learnt, as as_json() gives it; got "
            f"{sorted(saved) if isinstance(saved, dict) else type(saved).__name__}"
        )
    kind = catalog.get(saved["name"])
    try:
        rule = kind.from_json(saved)
    except (AttributeError, KeyError, RuntimeError, TypeError) as error:
        raise ValueError(f"the saved rule {saved['name']!r} is damaged: {error!r}") from None
    whole = set(rule.learnt) in (set(), set(kind.learns))
    if not whole or not all(bool(t.isfinite().all()) for t in rule.learnt.values()):
        raise ValueError(
            f"the saved rule {saved['name']!r} should have learnt {' and '.join(kind.learns)}, "
            f"finite numbers; it holds {saved['learnt']}"
        )
    return rule
