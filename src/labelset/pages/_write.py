"""Which files the docs are made of, and whether those on disk are still what the code says."""

from __future__ import annotations

import re

from labelset.losses import Separable, build, catalog, names
from labelset.pages._page import index, page, stem
from labelset.pages._picture import curves, overview

__all__ = ["files", "same_but_rounding"]

NUMBER = re.compile(r"-?\d+\.?\d*")


def files() -> dict[str, str]:
    """Path below the docs folder -> content, for all that is made from the code."""
    made = {"losses/README.md": index(), "losses.svg": overview()}
    for name in names():
        made[f"losses/{stem(name)}.md"] = page(name)
        if isinstance(build(name, **catalog.get(name).examples[0]), Separable):
            made[f"losses/{stem(name)}.svg"] = curves(name)
    return made


def same_but_rounding(a: str, b: str) -> bool:
    """Equal texts, numbers allowed to differ in their last digit (processors round differently)."""
    if NUMBER.sub("#", a) != NUMBER.sub("#", b):
        return False
    pairs = zip(NUMBER.findall(a), NUMBER.findall(b), strict=True)
    return all(x == y or _last_digit(x, y) for x, y in pairs)


def _last_digit(x: str, y: str) -> bool:
    digits = len(x.partition(".")[2])
    return digits == len(y.partition(".")[2]) and abs(float(x) - float(y)) < 1.5 * 10**-digits
