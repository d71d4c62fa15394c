"""Labels as the rows of a file list them, by name or by number, without an object per row."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from labelset.data._column import Array
from labelset.data._growing import Growing

__all__ = ["MOST", "Listing", "split_names"]

MOST = 2**31
"""Whole numbers below this stand for themselves."""


def split_names(cell: str, delimiter: str) -> list[str] | None:
    """The labels of one cell; `?` alone means that nothing is known.

    >>> split_names(" red | blue ", "|"), split_names("", "|"), split_names("?", "|")
    (['red', 'blue'], [], None)
    """
    if cell.strip() == "?":
        return None
    words = cell.split() if delimiter.isspace() and delimiter != "\t" else cell.split(delimiter)
    return [word.strip() for word in words if word.strip()]


class Codes(dict[Any, int]):
    """Words -> -1, -2, ... as they are first met."""

    def __missing__(self, word: Any) -> int:
        self[word] = code = -1 - len(self)
        return code


class Ragged:
    """Lists of codes, one per row, one list after the other."""

    def __init__(self) -> None:
        self.lengths, self.codes = Growing(np.int32), Growing(np.int32)

    def of_row(self, row: int) -> list[int]:
        """The codes of one row; it looks through all rows, for an error's sake."""
        lengths = self.lengths.done()
        start = int(lengths[:row].sum(dtype=np.int64))
        codes: list[int] = self.codes.done()[start : start + int(lengths[row])].tolist()
        return codes

    def row_of(self, entry: int) -> int:
        """The row of a stored code, likewise."""
        ends = np.cumsum(self.lengths.done(), dtype=np.int64)
        return int(np.searchsorted(ends, entry, side="right"))


class Lines:
    """The line of each row: kept only where it is not the one after the row before."""

    def __init__(self) -> None:
        self.rows = 0
        self._next = -1
        self._row, self._line = Growing(np.int64), Growing(np.int64)

    def add(self, lines: Sequence[int]) -> None:
        """Lines of the rows that follow."""
        each = np.asarray(lines, dtype=np.int64)
        jump = np.flatnonzero(np.diff(each, prepend=self._next - 1) != 1)
        self._row.append(jump + self.rows)
        self._line.append(each[jump])
        self.rows += len(each)
        self._next = int(each[-1]) + 1 if len(each) else self._next

    def of_row(self, row: int) -> int:
        """
        >>> lines = Lines()
        >>> lines.add([2, 3, 7, 8])
        >>> [lines.of_row(row) for row in range(4)]
        [2, 3, 7, 8]
        """
        rows = self._row.done()
        at = int(np.searchsorted(rows, row, side="right")) - 1
        return int(self._line.done()[at] + row - rows[at])


class Listing:
    """What the rows of one file list, as codes: a whole number in 0..2**31 - 1 is its own, all
    else has -1, -2, ... in order of appearance. What a code means is decided when all are read.

    >>> listing = Listing()
    >>> listing.add([["red", 5], None, "red | blue"])
    >>> listing.on.codes.done(), listing.meaning(-2), listing.named
    (array([-1,  5, -1, -2], dtype=int32), 'blue', True)
    """

    def __init__(self, delimiter: str = "|") -> None:
        self.delimiter = delimiter
        self.words = Codes()
        self.odd: dict[Any, Any] = {}
        """What is neither a word nor a small whole number, by its kind and how it is written."""
        self.on, self.free = Ragged(), Ragged()
        self.blank = Growing(np.int64)
        """Rows of which nothing is known."""
        self.lines = Lines()
        self.unlisted: dict[str, int] = {}
        """The first row whose "labels", or "unknown", are not a list."""
        self.named = False
        """Whether any row names a label that is on."""

    @property
    def rows(self) -> int:
        return self.lines.rows

    def add(
        self,
        rows: Sequence[Any],
        unknown: Sequence[Any] | None = None,
        lines: Sequence[int] | None = None,
    ) -> None:
        """Rows that follow: lists, cells of words, or None where nothing is known."""
        first = self.rows
        self._append(self.on, "labels", rows)
        self._append(self.free, "unknown", [[]] * len(rows) if unknown is None else unknown)
        self.lines.add(range(first + 1, first + len(rows) + 1) if lines is None else lines)

    def meaning(self, code: int) -> Any:
        """What the file says, for an error's sake: it looks through all words."""
        if code >= 0:
            return code
        word = next(word for word, number in self.words.items() if number == code)
        return self.odd.get(word, word) if isinstance(word, tuple) else word

    def names(self) -> list[str]:
        """What the words would be called, -1 first."""
        return [str(self.odd[w]) if isinstance(w, tuple) else w for w in self.words]

    def numbers(self) -> Array:
        """Whole numbers that occur, ascending."""
        held = (ragged.codes.done() for ragged in (self.on, self.free))
        return np.unique(np.concatenate([np.unique(codes[codes >= 0]) for codes in held]))

    def _append(self, ragged: Ragged, what: str, rows: Sequence[Any]) -> None:
        lists: Sequence[list[Any]] = rows
        if set(map(type, rows)) - {list}:
            lists = [self._list(what, self.rows + at, row) for at, row in enumerate(rows)]
        ragged.lengths.append(np.fromiter(map(len, lists), np.int32, len(lists)))
        ragged.codes.append(self._codes(what, list(chain.from_iterable(lists))))

    def _list(self, what: str, at: int, row: Any) -> list[Any]:
        if isinstance(row, list):
            return row
        self.unlisted.setdefault(what, at)
        cell = isinstance(row, str)
        words = split_names(row, self.delimiter) if cell else None
        if what == "labels":
            self.named = self.named or cell
            if row is None or (cell and words is None):
                self.blank.append([at])
        return words or []

    def _codes(self, what: str, flat: list[Any]) -> Array:
        kinds = set(map(type, flat))
        self.named = self.named or (what == "labels" and str in kinds)
        if kinds == {int}:
            try:
                numbers = np.array(flat, dtype=np.int64)
            except OverflowError:
                numbers = np.array([-1])
            if numbers.min() >= 0 and numbers.max() < MOST:
                return numbers
        one = self.words.__getitem__ if kinds <= {str} else self._code
        return np.fromiter(map(one, flat), np.int32, len(flat))

    def _code(self, label: Any) -> int:
        if isinstance(label, str):
            return self.words[label]
        if type(label) is int and 0 <= label < MOST:
            return label
        key = (type(label).__name__, repr(label))
        self.odd.setdefault(key, label)
        return self.words[key]
