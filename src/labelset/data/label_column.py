"""Labels as the rows of a file list them, by name or by number -> `Labels`."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from labelset import check
from labelset.data.growing import BLOCK, Growing, GrowingLabels, ranges
from labelset.data.kinds import ANGLES, angle_items, list_items, object_name
from labelset.data.reading import reading, rows_of
from labelset.data.store import Array
from labelset.labels import Labels

MOST = 2**31
"""Whole numbers below this stand for themselves."""


def split_names(cell: str, delimiter: str) -> list[str] | None:
    """The labels of one cell; `?` alone means that nothing is known.

    >>> split_names(" red | blue ", "|"), split_names("", "|"), split_names("?", "|")
    (['red', 'blue'], [], None)
    >>> split_names('["red", "a|b"]', "|"), split_names("['red', 'blue']", ";")
    (['red', 'a|b'], ['red', 'blue'])
    """
    if cell.strip() == "?":
        return None
    listed = angle_items(cell) if delimiter == ANGLES else list_items(cell)
    if listed is not None:
        return [str(item) for item in listed]
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
        if dict in kinds:
            flat = [object_name(label) for label in flat]
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


@dataclass(frozen=True)
class Block:
    """Some rows of a listing."""

    first: int
    rows: int
    on: tuple[Array, Array]
    """(rows,) codes of each row, and the codes."""
    free: tuple[Array, Array]
    """The same of labels that are not known."""
    blank: Array
    """Rows, counted from the first, of which nothing is known."""


def blocks(listing: Listing, n: int) -> Iterator[Block]:
    """Rows that together have about as many entries as are in memory together."""
    blank = listing.blank.done()
    starts = np.zeros(listing.rows + 1, dtype=np.int64)
    for ragged in (listing.on, listing.free):
        starts[1:] += ragged.lengths.done()
    starts[1 + blank] += max(n, 0)
    each = list(ranges(np.cumsum(starts, out=starts), BLOCK))
    del starts
    on, free = _cut(listing.on, each), _cut(listing.free, each)
    for (first, end), here, there in zip(each, on, free, strict=True):
        some = blank[np.searchsorted(blank, first) : np.searchsorted(blank, end)]
        yield Block(first, end - first, here, there, some - first)


def _cut(ragged: Ragged, each: list[tuple[int, int]]) -> Iterator[tuple[Array, Array]]:
    lengths, codes, at = ragged.lengths.done(), ragged.codes.done(), 0
    for first, end in each:
        size = int(lengths[first:end].sum(dtype=np.int64))
        yield lengths[first:end], codes[at : at + size]
        at += size


def label_rows(listing: Listing, n: int, number: Callable[[Array], Array]) -> Labels:
    """`number`: codes -> numbers in 0..n - 1."""
    held = GrowingLabels()
    for block in blocks(listing, n):
        on, free = (
            _once(places(lengths, number(codes), n)) for lengths, codes in (block.on, block.free)
        )
        if len(block.blank):
            every = block.blank[:, None] * n + np.arange(n)
            free = np.union1d(free, every.reshape(-1))
        values = None
        if len(free):
            _refuse_both(on, free, n, block.first)
            values = np.concatenate([np.ones(len(on)), np.full(len(free), np.nan)])
            on = np.concatenate([on, free])
            order = np.argsort(on)
            on, values = on[order], values[order]
        lengths = np.bincount(on // max(n, 1), minlength=block.rows)
        held.add(lengths, on % max(n, 1), values)
    return held.done(n)


def places(lengths: Array, numbers: Array, n: int) -> Array:
    """row * n + number of each entry."""
    rows = np.repeat(np.arange(len(lengths)), lengths)
    rows *= max(n, 1)
    rows += numbers
    return rows


def _once(places: Array) -> Array:
    """Ascending, none twice; most files list them so."""
    return places if (np.diff(places) > 0).all() else np.unique(places)


def _refuse_both(on: Array, free: Array, n: int, first: int) -> None:
    both = np.intersect1d(on, free, assume_unique=True)
    if len(both):
        row, label = divmod(int(both[0]), n)
        raise ValueError(
            f"label {label} appears twice in row {first + row}; "
            "list each label once, as on or as unknown"
        )


def largest(listings: Sequence[Listing]) -> int:
    """The largest label number that occurs, -1 where none does."""
    found = [i for each in listings for i in each.odd.values() if isinstance(i, int)]
    for codes in (ragged.codes.done() for each in listings for ragged in (each.on, each.free)):
        most = int(codes.max(initial=-1))
        found += [most] if most >= 0 else []
    return max(found, default=-1)


def from_numbers(listing: Listing, n: int) -> Labels:
    """Labels in 0..n - 1; the line of the first bad one is named.

    >>> listing = Listing()
    >>> listing.add([[2, 0], []], unknown=[[], [1]])
    >>> from_numbers(listing, 3).dense()
    tensor([[1., 0., 1.],
            [0., nan, 0.]])
    """
    for block in blocks(listing, n):
        bad = _bad_rows(block, listing.unlisted, n)
        if bad:
            _refuse(listing, min(bad), n)
    return label_rows(listing, n, lambda codes: codes)


def _bad_rows(block: Block, unlisted: dict[str, int], n: int) -> list[int]:
    """Of each thing that may be wrong, the first row in which it is."""
    found = [at for at in unlisted.values() if block.first <= at < block.first + block.rows]
    every = []
    for lengths, codes in (block.on, block.free):
        wrong = (codes < 0) | (codes >= min(n, MOST))
        every.append(places(lengths, np.where(wrong, 0, codes), n))
        if wrong.any():
            ends = np.cumsum(lengths)
            found.append(block.first + int(np.searchsorted(ends, wrong.argmax(), side="right")))
    return found + _twice(np.concatenate(every), block.first, n)


def _twice(places: Array, first: int, n: int) -> list[int]:
    gaps = np.diff(places)
    if (gaps > 0).all():
        return []
    places = np.sort(places)
    same = places[1:][np.diff(places) == 0]
    return [first + int(same[0]) // max(n, 1)] if len(same) else []


def _refuse(listing: Listing, row: int, n: int) -> None:
    line = listing.lines.of_row(row)
    for what in ("labels", "unknown"):
        if listing.unlisted.get(what) == row:
            raise ValueError(f"line {line}: `{what}` must be a list of label numbers")
    codes = [*listing.on.of_row(row), *listing.free.of_row(row)]
    _check(line, [listing.meaning(code) for code in codes], n)


def _check(line: int, numbers: list[Any], n: int) -> None:
    for i in numbers:
        if isinstance(i, bool) or not isinstance(i, int):
            kind = type(i).__name__
            raise TypeError(f"line {line}: `labels` must list label numbers, got {kind} {i!r}")
        if not 0 <= i < min(n, MOST):
            most = min(n, MOST) - 1
            raise ValueError(f"line {line}: label numbers must lie in 0..{most}, got {i}")
    twice = next(i for i in numbers if numbers.count(i) > 1)
    raise ValueError(f"line {line}: label {twice} appears twice")


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
