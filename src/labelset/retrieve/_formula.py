"""What a query says, as a small tree: names, not, and, or."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = ["And", "Formula", "Name", "Not", "Or", "is_bare", "names_of"]

PLAIN = "_-.:/+#\u200c\u200d"  # besides letters, marks and digits: the joiners of some scripts too


def is_bare(character: str) -> bool:
    """Whether a name may hold this character without quotes."""
    return character in PLAIN or unicodedata.category(character)[0] in "LMN"


@dataclass(frozen=True)
class Name:
    """One label is on."""

    text: str
    at: int | None = field(default=None, compare=False, repr=False)
    """Where it stands in the query."""

    def __str__(self) -> str:
        if self.text and all(map(is_bare, self.text)):
            return self.text
        return '"' + self.text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@dataclass(frozen=True)
class Not:
    """The part does not hold."""

    part: Formula

    def __str__(self) -> str:
        return f"!{_bracketed(self.part)}"


@dataclass(frozen=True)
class And:
    """Every part holds."""

    parts: tuple[Formula, ...]

    def __str__(self) -> str:
        return " & ".join(map(_bracketed, self.parts))


@dataclass(frozen=True)
class Or:
    """At least one part holds."""

    parts: tuple[Formula, ...]

    def __str__(self) -> str:
        return " | ".join(map(_bracketed, self.parts))


Formula: TypeAlias = Name | Not | And | Or


def _bracketed(part: Formula) -> str:
    return f"({part})" if isinstance(part, And | Or) else str(part)


def names_of(formula: Formula) -> list[Name]:
    """The distinct names, in the order in which they first appear."""
    found: dict[str, Name] = {}
    for name in _walk(formula):
        found.setdefault(name.text, name)
    return list(found.values())


def _walk(formula: Formula) -> Iterator[Name]:
    left = [formula]
    while left:
        top = left.pop()
        if isinstance(top, Name):
            yield top
        elif isinstance(top, Not):
            left.append(top.part)
        elif isinstance(top, And | Or):
            left.extend(reversed(top.parts))
        else:
            raise TypeError(
                f"a query must be a string, or made of Name, Not, And and Or, got "
                f"{type(top).__name__} {top!r:.80}"
            )
