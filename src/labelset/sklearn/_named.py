"""Maps and rules as parameters: by name with settings, or as objects, which stay as they are."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from labelset import calibrate, decide
from labelset.calibrate import ProbMap
from labelset.decide import Rule

__all__ = ["built_map", "built_rule"]


def built_map(given: Any, settings: Mapping[str, Any] | None = None) -> ProbMap:
    """A map to fit, from its name or from one.

    >>> built_map("platt", {"per": "pool"})
    Platt(loss=None, per='pool', strength=10.0)
    """
    if isinstance(given, ProbMap):
        _refuse_settings("map", settings)
        return copy.deepcopy(given)
    return calibrate.build(given, **(settings or {}))


def built_rule(given: Any, settings: Mapping[str, Any] | None = None) -> Rule:
    """A rule to fit, from its name or from one.

    >>> built_rule("top-k", {"k": 2})
    TopK(k=2)
    """
    if isinstance(given, Rule):
        _refuse_settings("rule", settings)
        return copy.deepcopy(given)
    return decide.build(given, **(settings or {}))


def _refuse_settings(what: str, settings: Mapping[str, Any] | None) -> None:
    """Or a search over them would try the same thing again and again."""
    if settings:
        raise TypeError(
            f"settings ({', '.join(settings)}) go with the name of a {what}, and a {what} that is "
            "built was given; set them when building it, or give its name"
        )
