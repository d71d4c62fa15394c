"""Labels given by name: which names there are, and which number each has."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path

from labelset import check
from labelset.data._reading import reading, rows_of
from labelset.labels import Labels

__all__ = ["from_names", "hint", "names_in"]

Row = Sequence[str] | None
"""The names that are on in a row; None: nothing is known of it."""


def from_names(
    files: Sequence[Sequence[Row]],
    names: list[str] | None,
    unknown: Sequence[Sequence[Row]] | None = None,
    lines: Sequence[Sequence[int]] | None = None,
) -> tuple[list[Labels], list[str]]:
    """Labels of each file, numbered alike, and the names: those given, or all that occur, sorted.

    >>> parts, names = from_names([[["b", "a"], []], [["c"]]], None)
    >>> names, parts[1].dense()
    (['a', 'b', 'c'], tensor([[0., 0., 1.]]))
    """
    free = unknown if unknown is not None else [[()] * len(rows) for rows in files]
    if names is None:
        every = (row for rows in (*files, *free) for row in rows)
        names = _sorted({name for row in every for name in row or ()})
    number = {name: at for at, name in enumerate(names)}
    where = lines if lines is not None else [range(1, len(rows) + 1) for rows in files]
    each = zip(files, free, where, strict=True)
    return [_labels(on, open_ones, number, at) for on, open_ones, at in each], names


def _labels(
    rows: Sequence[Row], unknown: Sequence[Row], number: dict[str, int], lines: Sequence[int]
) -> Labels:
    on, free = list[list[int]](), list[list[int]]()
    for line, row, open_ones in zip(lines, rows, unknown, strict=True):
        for name in (*(row or ()), *(open_ones or ())):
            if name not in number:
                near = hint(name, number)
                raise ValueError(f"line {line}: label {name!r} is not among the names: {near}")
        on.append(sorted({number[name] for name in row or ()}))
        listed = sorted({number[name] for name in open_ones or ()})
        free.append(list(range(len(number))) if row is None else listed)
    return Labels.from_lists(on, len(number), free if any(free) else None)


def _sorted(names: Iterable[str]) -> list[str]:
    """By number where all are whole numbers, else by the alphabet."""
    words = sorted(names)
    return sorted(words, key=int) if all(w.isascii() and w.isdigit() for w in words) else words


def hint(wrong: str, names: Iterable[str]) -> str:
    """The nearest right name, and all of them where they are few."""
    names = list(names)
    if len(names) <= 20:
        return check.nearest(wrong, names)
    close = difflib.get_close_matches(wrong, names, n=3, cutoff=0.5)
    near = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
    return f"{near}there are {len(names)}"


def names_in(given: str | list[str] | None) -> list[str] | None:
    """Label names from a list, or from a file with one on each line."""
    if not isinstance(given, str):
        return given
    path = Path(given)
    with reading(path):
        names = [line for _, line in rows_of(path)]
        if not names:
            raise ValueError("holds no names")
    return names
