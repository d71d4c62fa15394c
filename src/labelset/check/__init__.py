"""One place for checks and their wording: what was expected, what came, what to do."""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from labelset.lazy import door

if TYPE_CHECKING:
    from labelset.check._tensors import (
        can_look,
        logits,
        per_label,
        same_place,
        scores,
        unit_interval,
    )
else:
    __getattr__, __dir__ = door(__name__)

__all__ = [
    "can_look",
    "fraction",
    "logits",
    "nearest",
    "number",
    "one_of",
    "per_label",
    "same_place",
    "scores",
    "unit_interval",
    "whole",
]


FEW = 16
"""Names listed where one of them was probably meant and there are many."""


def nearest(wrong: str, names: Iterable[str]) -> str:
    """The hint of an error about a name: the nearest right one, then all of them."""
    names = sorted(names)
    folded = {name.casefold(): name for name in names}
    close = difflib.get_close_matches(wrong.casefold(), folded, n=1, cutoff=0.5)
    hint = f"did you mean {folded[close[0]]!r}? " if close else ""
    some = names[:FEW] if close and len(names) > 2 * FEW else names
    more = f" and {len(names) - len(some):,} more" if len(some) < len(names) else ""
    return f"{hint}known: {', '.join(some) or 'none'}{more}"


def number(
    name: str,
    value: Any,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
    open_high: bool = False,
) -> float:
    """A finite real number between `low` and `high`; `open_*` leaves the end itself out."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {type(value).__name__} {value!r}")
    real = float(value)
    inside = (real > low if open_low else real >= low) and (
        real < high if open_high else real <= high
    )
    if not (math.isfinite(real) and inside):
        raise ValueError(
            f"{name} must be {_interval(low, high, open_low, open_high)}, got {value!r}"
        )
    return real


def _interval(low: float, high: float, open_low: bool, open_high: bool) -> str:
    left = "(" if open_low or math.isinf(low) else "["
    right = ")" if open_high or math.isinf(high) else "]"
    return f"a finite number in {left}{low:g}, {high:g}{right}"


def fraction(name: str, value: Any) -> float:
    """A number in [0, 1)."""
    return number(name, value, low=0.0, high=1.0, open_high=True)


def whole(name: str, value: Any, *, low: int = 0) -> int:
    """A whole number of at least `low`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be a whole number, got {type(value).__name__} {value!r}")
    if value < low:
        raise ValueError(f"{name} must be at least {low}, got {value}")
    return int(value)


def one_of(name: str, value: Any, choices: Sequence[str]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in choices:
        near = difflib.get_close_matches(str(value), choices, n=1, cutoff=0.6)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(
            f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}{hint}"
        )
    return value
