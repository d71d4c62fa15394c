"""Labels as a file lists them, by name or by number, row by row or alone in it -> `Labels`."""

from __future__ import annotations

import difflib
import math
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from labelset import check
from labelset.data.growing import BLOCK, Growing, GrowingLabels, ranges
from labelset.data.kinds import (
    ANGLES,
    DELIMITERS,
    WEAK_DELIMITERS,
    angle_items,
    list_items,
    object_name,
    short,
)
from labelset.data.reading import kind_of, reading, rows_of
from labelset.data.store import Array
from labelset.labels import Labels

LIST = re.compile(r"""\s*\[\s*["'{]""")
"""How a cell starts that is a list, as no name does."""
MOST = 2**31
"""Label numbers lie below this."""

TRUTH = {
    **dict.fromkeys(("0", "0.0", "false", "no", "n", "off"), 0.0),
    **dict.fromkeys(("1", "1.0", "true", "yes", "y", "on"), 1.0),
    **dict.fromkeys(("", "?", "nan", "na", "n/a", "null", "none"), float("nan")),
}


def split_names(cell: str, delimiter: str) -> list[Any] | None:
    """The labels of one cell; `?` alone means that nothing is known.

    >>> split_names(" red | blue ", "|"), split_names("", "|"), split_names("?", "|")
    ([' red ', ' blue '], [''], None)
    >>> split_names('["red", "a|b"]', "|"), split_names("['red', 'blue']", ";")
    (['red', 'a|b'], ['red', 'blue'])
    """
    if cell.strip() == "?":
        return None
    listed = angle_items(cell) if delimiter == ANGLES else list_items(cell)
    if listed is not None:
        return [str(item) for item in listed]
    return cell.split() if delimiter.isspace() and delimiter != "\t" else cell.split(delimiter)


class Codes(dict[str | int, int]):
    """Names and numbers -> 0, 1, ... as they are first met; names without their blanks, and -1
    where nothing is left of one."""

    def __init__(self) -> None:
        super().__init__()
        self.labels = list[str | int]()
        """What each code stands for."""

    def __missing__(self, label: str | int) -> int:
        plain = label.strip() if isinstance(label, str) else label
        if plain != label:
            self[label] = code = self[plain]
        elif label == "":
            self[label] = code = -1
        else:
            self[label] = code = len(self.labels)
            self.labels.append(label)
        return code


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
    """What the rows of one file list, as codes; what these mean is decided when all are read.

    >>> listing = Listing()
    >>> listing.add([["red", 5], None, "red | blue"])
    >>> listing.on[1].done(), listing.codes.labels, listing.named
    (array([0, 1, 0, 2], dtype=int32), ['red', 5, 'blue'], True)
    """

    def __init__(self, delimiter: str = "|") -> None:
        self.delimiter = delimiter
        self.codes = Codes()
        self.on = Growing(np.int32), Growing(np.int32)
        """How many labels each row lists, and their codes, one row after the other."""
        self.free = Growing(np.int32), Growing(np.int32)
        """The same of labels that are not known."""
        self.blank = Growing(np.int64)
        """Rows of which nothing is known."""
        self.lines = Lines()
        self.cells = False
        """Whether any row is a text with names."""

    @property
    def named(self) -> bool:
        """Whether any row lists a name."""
        return self.cells or any(isinstance(label, str) for label in self.codes.labels)

    def add(
        self,
        rows: Sequence[Any],
        unknown: Sequence[Any] | None = None,
        lines: Sequence[int] | None = None,
    ) -> None:
        """Rows that follow: lists, texts with names, or None where nothing is known."""
        first = self.lines.rows
        self.lines.add(range(first + 1, first + len(rows) + 1) if lines is None else lines)
        self._append("labels", rows, first)
        self._append("unknown", [[]] * len(rows) if unknown is None else unknown, first)

    def _append(self, what: str, rows: Sequence[Any], first: int) -> None:
        lists: Sequence[list[Any]] = rows
        if set(map(type, rows)) - {list}:
            lists = [self._list(what, row, at) for at, row in enumerate(rows, first)]
        flat = list(chain.from_iterable(lists))
        if set(map(type, flat)) - {str, int}:
            flat = [
                self._label(what, label, at) for at, row in enumerate(lists, first) for label in row
            ]
        each: Array = np.fromiter(map(len, lists), np.int32, len(lists))
        codes = np.fromiter(map(self.codes.__getitem__, flat), np.int32, len(flat))
        if len(codes) and codes.min() < 0:
            rows_of = np.repeat(np.arange(len(each)), each)[codes >= 0]
            each, codes = np.bincount(rows_of, minlength=len(each)), codes[codes >= 0]
        lengths, kept = self.on if what == "labels" else self.free
        lengths.append(each)
        kept.append(codes)

    def _list(self, what: str, row: Any, at: int) -> list[Any]:
        listed = row
        if isinstance(row, str):
            listed, self.cells = split_names(row, self.delimiter), True
            if LIST.match(row) and list_items(row) is None:
                raise ValueError(
                    f"line {self.lines.of_row(at)}: `{what}` starts like a list, which is not "
                    f"closed or not JSON: {short(row)}; mend it, or write the names alone"
                )
        if listed is None:
            if what == "labels":
                self.blank.append([at])
            return []
        if not isinstance(listed, list):
            line, kind = self.lines.of_row(at), type(row).__name__
            raise ValueError(
                f"line {line}: `{what}` must be a list of label numbers, or of names, got {kind} "
                f"{str(row)[:40]}"
            )
        return listed

    def _label(self, what: str, label: Any, at: int) -> str | int:
        plain = object_name(label)
        if isinstance(plain, bool) or not isinstance(plain, (str, int)):
            line, kind = self.lines.of_row(at), type(plain).__name__
            got = f"{kind} {str(plain)[:40]}"
            raise ValueError(f"line {line}: `{what}` must list label numbers, or names, got {got}")
        return plain

    def blocks(self, n: int) -> Iterator[tuple[int, list[tuple[Array, Array]], Array]]:
        """(first row, lengths and codes of what is listed and of what is not known, blank rows) of
        rows that together have about as many entries as are in memory together."""
        blank = self.blank.done()
        starts = np.zeros(self.lines.rows + 1, dtype=np.int64)
        for lengths, _ in (self.on, self.free):
            starts[1:] += lengths.done()
        starts[1 + blank] += max(n, 0)
        done = [0, 0]
        for first, end in ranges(np.cumsum(starts, out=starts), BLOCK):
            parts = []
            for at, (lengths, codes) in enumerate((self.on, self.free)):
                each = lengths.done()[first:end]
                size = int(each.sum(dtype=np.int64))
                parts.append((each, codes.done()[done[at] : done[at] + size]))
                done[at] += size
            some = blank[np.searchsorted(blank, first) : np.searchsorted(blank, end)]
            yield first, parts, some - first

    def first_with(self, wrong: Array) -> tuple[int, str | int]:
        """The line of the first label whose code is wrong, and the label."""
        places = []
        for lengths, codes in (self.on, self.free):
            bad = wrong[codes.done()]
            if bad.any():
                ends = np.cumsum(lengths.done(), dtype=np.int64)
                row = int(np.searchsorted(ends, bad.argmax(), side="right"))
                places.append((row, int(codes.done()[bad.argmax()])))
        row, code = min(places)
        return self.lines.of_row(row), self.codes.labels[code]


def largest(listings: Sequence[Listing]) -> int:
    """The largest label number that occurs, or -1."""
    numbers = (x for listing in listings for x in listing.codes.labels if isinstance(x, int))
    return max(numbers, default=-1)


def from_numbers(listing: Listing, n: int) -> Labels:
    """Labels by number; a name, a number outside or one that appears twice is an error.

    >>> listing = Listing()
    >>> listing.add([[0, 2], []], [[], [1]])
    >>> from_numbers(listing, n=3).dense()
    tensor([[1., 0., 1.],
            [0., nan, 0.]])
    """
    top = min(n, MOST)
    known = listing.codes.labels
    number = np.array(
        [x if isinstance(x, int) and 0 <= x < top else -1 for x in known], dtype=np.int64
    )
    if (number < 0).any():
        line, label = listing.first_with(number < 0)
        if isinstance(label, str):
            raise TypeError(f"line {line}: `labels` must list label numbers, got str {label!r}")
        raise ValueError(f"line {line}: label numbers must lie in 0..{top - 1}, got {label}")
    if len(blank := listing.blank.done()):
        line = listing.lines.of_row(int(blank[0]))
        raise ValueError(f"line {line}: `labels` must be a list of label numbers, got null")
    return _labels(listing, number, n, once=True)


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
        names = _sorted({str(label) for listing in listings for label in listing.codes.labels})
    numbers = {name: at for at, name in enumerate(names)}
    parts = []
    for listing in listings:
        each = [numbers.get(str(label), -1) for label in listing.codes.labels]
        number = np.array(each, dtype=np.int64)
        if (number < 0).any():
            line, label = listing.first_with(number < 0)
            said = f"label {str(label)!r} is not among the names: {hint(str(label), numbers)}"
            raise ValueError(f"line {line}: {said}")
        parts.append(_labels(listing, number, len(numbers)))
    return parts, names


def _labels(listing: Listing, number: Array, n: int, once: bool = False) -> Labels:
    """`number`: of each code, in 0..n - 1; `once`: a row may not list a label twice."""
    grown, width = GrowingLabels(), max(n, 1)
    for first, parts, blank in listing.blocks(n):
        count = len(parts[0][0])
        on, free = (
            np.repeat(np.arange(count), lengths) * n + number[codes] for lengths, codes in parts
        )
        if once:
            _refuse_twice(listing, first, np.concatenate([on, free]), width)
        on, free = np.unique(on), np.unique(free)
        both = np.intersect1d(on, free, assume_unique=True)
        if len(both):
            row, label = divmod(int(both[0]), width)
            raise ValueError(f"label {label} is both on and unknown in row {first + row}")
        free = np.union1d(free, (blank[:, None] * n + np.arange(n)).reshape(-1))
        values = None
        if len(free):
            values = np.repeat([1.0, np.nan], [len(on), len(free)])
            on = np.concatenate([on, free])
            order = np.argsort(on)
            on, values = on[order], values[order]
        grown.add(np.bincount(on // width, minlength=count), on % width, values)
    return grown.done(n)


def _refuse_twice(listing: Listing, first: int, places: Array, width: int) -> None:
    if (np.diff(places) > 0).all():
        return
    places = np.sort(places)
    same = places[1:][np.diff(places) == 0]
    if len(same):
        row, label = divmod(int(same[0]), width)
        line = listing.lines.of_row(first + row)
        raise ValueError(f"line {line}: label {label} appears twice")


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


def punctuated(names: Sequence[str], most_per_row: int) -> str | None:
    """A warning where every row has at most one label and label names hold a usual separator, or
    one of blanks and slashes between what are labels themselves.

    >>> punctuated(["red;blue", "green"], 1)
    "no row has more than one label, but 'red;blue' holds ';': if that separates labels, \
say --data 'delimiter=;'"
    >>> punctuated(["new york", "red blue", "red", "blue"], 1).split(":")[0]
    "no row has more than one label, but 'red blue' holds ' '"
    """
    if most_per_row > 1:
        return None
    known = {*names}
    for mark in (*DELIMITERS, *WEAK_DELIMITERS):
        weak = mark in WEAK_DELIMITERS
        for name in names:
            if mark in name.strip(mark) and (not weak or {*name.split(mark)} <= known):
                said = shlex.quote(f"delimiter={mark}")
                return (
                    f"no row has more than one label, but {short(name)} holds {mark!r}: if that "
                    f"separates labels, say --data {said}"
                )
    return None


def alike(names: Sequence[str]) -> str | None:
    """A warning where names differ only in case, blanks, quotes, or how a number is written.

    >>> alike(["1.0", "1", "two"])
    "labels '1.0' and '1' may be one: if they are, write it in one way"
    """
    seen: dict[str, str] = {}
    for name in names:
        word = " ".join(re.sub(r"[\s\"'_-]+", " ", name).casefold().split())
        number = TRUTH.get(word, math.nan)
        word = word if math.isnan(number) else f"{number:g}"
        word = word[:-2] if re.fullmatch(r"\d+\.0", word) else word
        if seen.setdefault(word, name) != name:
            pair = f"{short(seen[word])} and {short(name)}"
            return f"labels {pair} may be one: if they are, write it in one way"
    return None


class LabelFile(NamedTuple):
    """What a file says: the labels, their names, and which split each row belongs to."""

    labels: Labels
    names: list[str] | None
    split: list[int] | None


def read_labels(path: str | Path, n: int | None = None) -> LabelFile:
    """Labels alone, by number, from .npz, .npy or .jsonl; `n` is how many there are, where the
    file does not say."""
    from labelset.data import formats
    from labelset.data.dataset import unique_names
    from labelset.data.description import Description

    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    kind = kind_of(path)
    if kind not in ("npz", "npy", "jsonl"):
        raise ValueError(f"{path}: cannot read .{kind} files; give one of .npz, .npy, .jsonl")
    role = "numbers" if kind == "jsonl" else "labels"
    (piece,) = formats.reader_of(kind)([path], Description(labels=n), role)
    with reading(path):
        if piece.labels is None:
            wanted = "line 1: no `labels`" if kind == "jsonl" else None
            raise ValueError(wanted or "holds neither Y nor Y_indptr, Y_indices, Y_shape")
        for what, values, count in (
            ("label_names", piece.names, piece.labels.n),
            ("split", piece.split, len(piece.labels)),
        ):
            if values is not None and len(values) != count:
                raise ValueError(f"has {len(values)} entries in {what} for {count}")
        unique_names(piece.names or [])
    split = None if piece.split is None else piece.split.tolist()
    return LabelFile(piece.labels, piece.names, split)
