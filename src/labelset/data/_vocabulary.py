"""Labels given by name: which names there are, and which number each has."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from labelset import check
from labelset.data._column import Array
from labelset.data._label_rows import label_rows
from labelset.data._listing import Listing
from labelset.data._reading import reading, rows_of
from labelset.labels import Labels

__all__ = ["from_names", "hint", "names_in"]


def from_names(
    listings: Sequence[Listing], names: list[str] | None
) -> tuple[list[Labels], list[str]]:
    """Labels of each file, numbered alike, and the names: those given, or all that occur, sorted.

    >>> one, two = Listing(), Listing()
    >>> one.add([["b", "a"], []])
    >>> two.add([["c"]])
    >>> parts, names = from_names([one, two], None)
    >>> names, parts[1].dense()
    (['a', 'b', 'c'], tensor([[0., 0., 1.]]))
    """
    if names is None:
        found: set[str] = set()
        for listing in listings:
            found.update(listing.names(), map(str, listing.numbers().tolist()))
        names = _sorted(found)
    number = {name: at for at, name in enumerate(names)}
    return [_labels(listing, number) for listing in listings], names


def _labels(listing: Listing, number: dict[str, int]) -> Labels:
    """By name, wherever the listing has a number instead."""
    get, plain = number.get, listing.numbers()
    words = np.array([get(name, -1) for name in reversed(listing.names())], dtype=np.int64)
    figures = np.array([get(str(i), -1) for i in plain.tolist()], dtype=np.int64)
    every = np.concatenate([words, figures])

    def numbers(codes: Array) -> Array:
        at = codes.astype(np.int64) + len(words)
        if len(plain):
            at = np.where(codes < 0, at, len(words) + np.searchsorted(plain, codes))
        return every[at]

    if len(every) and every.min() < 0:
        _refuse_foreign(listing, number, numbers)
    return label_rows(listing, len(number), numbers)


def _refuse_foreign(
    listing: Listing, number: dict[str, int], numbers: Callable[[Array], Array]
) -> None:
    """The first row with a label that has no number is named, and the first such label in it."""
    rows = []
    for ragged in (listing.on, listing.free):
        bad = numbers(ragged.codes.done()) < 0
        rows += [ragged.row_of(int(bad.argmax()))] if bad.any() else []
    row = min(rows)
    codes = [*listing.on.of_row(row), *listing.free.of_row(row)]
    name = next(n for n in map(str, map(listing.meaning, codes)) if n not in number)
    line = listing.lines.of_row(row)
    raise ValueError(f"line {line}: label {name!r} is not among the names: {hint(name, number)}")


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
