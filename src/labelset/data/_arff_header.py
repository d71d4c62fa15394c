"""The head of an ARFF file: the relation's name and the attributes; and cells with quotes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Attribute", "attribute", "cells", "meka_labels", "unquoted"]

WORD = r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\""""
ATTRIBUTE = re.compile(rf"@attribute\s+({WORD}|[^\s{{]+)\s*(.*)", re.IGNORECASE | re.DOTALL)
CELL = re.compile(rf"\s*({WORD}|[^,'\"]*?)\s*(?:,|$)")
NUMERIC = ("numeric", "real", "integer")


@dataclass(frozen=True)
class Attribute:
    """One column: its name, its kind, and its values if it is nominal."""

    name: str
    kind: str
    values: tuple[str, ...] = ()

    @property
    def binary(self) -> bool:
        """Whether its values are the numbers 0 and 1."""
        return set(self.values) == {"0", "1"}


def attribute(line: str) -> Attribute:
    """From a line `@attribute NAME TYPE`.

    >>> attribute("@ATTRIBUTE 'with blank' {0, 1}")
    Attribute(name='with blank', kind='nominal', values=('0', '1'))
    """
    match = ATTRIBUTE.fullmatch(line)
    if match is None or not match[2]:
        raise ValueError("expected @attribute NAME TYPE")
    name, kind = unquoted(match[1]), match[2].strip()
    if kind.startswith("{"):
        if not kind.endswith("}"):
            raise ValueError(f"the values of attribute {name!r} do not end with }}")
        values = tuple(cells(kind[1:-1]))
        if len(set(values)) < len(values):
            raise ValueError(f"attribute {name!r} has a value twice")
        return Attribute(name, "nominal", values)
    word = kind.split()[0].lower()
    if word in NUMERIC:
        return Attribute(name, "numeric")
    if word in ("string", "date"):
        return Attribute(name, "string")
    raise ValueError(f"attribute {name!r} has type {kind!r}; known: numeric, nominal, string")


def cells(text: str) -> Iterator[str]:
    """The cells of a line, between commas, quotes taken off.

    >>> list(cells("1, 'a, b' ,?"))
    ['1', 'a, b', '?']
    """
    at = 0
    while True:
        match = CELL.match(text, at)
        if match is None:
            raise ValueError(f"cannot read {text[at : at + 30]!r}: a quote is not closed")
        yield unquoted(match[1])
        at = match.end()
        if at >= len(text) and not match[0].endswith(","):
            return


def unquoted(word: str) -> str:
    """Without quotes; a backslash guards a quote, a percent sign and itself."""
    if len(word) > 1 and word[0] in "'\"" and word[-1] == word[0]:
        return re.sub(r"\\(['\"%\\])", r"\1", word[1:-1])
    return word


def meka_labels(relation: str) -> tuple[int, str] | None:
    """MEKA keeps the number of labels in the relation's name: -C 14 first, -C -14 last.

    >>> meka_labels("'yeast: -C 14'"), meka_labels("'x: -C -3 -S 1'"), meka_labels("plain")
    ((14, 'start'), (3, 'end'), None)
    """
    match = re.search(r"-C\s+(-?\d+)\b", relation, re.IGNORECASE)
    if match is None or int(match[1]) == 0:
        return None
    count = int(match[1])
    return abs(count), "start" if count > 0 else "end"
