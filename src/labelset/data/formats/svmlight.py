"""svmlight files with several labels per row, and the extreme-classification repository's.

Each line is `1,3 5:0.2 7:1`: labels, then feature:value pairs. A first line of three whole numbers
says how many rows, features and labels there are. Everything after a `#` is a comment. Kept our
own: scikit-learn's reader neither streams nor names the line of a mistake.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from labelset.data.columns import Piece, gathered, is_full
from labelset.data.description import Description
from labelset.data.growing import Growing, GrowingStarts, sparse_labels
from labelset.data.label_column import names_in
from labelset.data.reading import lines, reading
from labelset.data.sparse import SparseRows
from labelset.data.store import Array, StoredSparse
from labelset.labels import Labels

OTHERS = "".join(chr(i) for i in range(128) if chr(i) not in ": _")
SHAPE = str.maketrans("", "", OTHERS)
"""Deletes all but what gives a line its shape, so that one comparison checks the whole line."""


@dataclass
class SvmlightRows:
    """Numbers as they stand in some lines of a file."""

    header: tuple[int, int, int] | None = None
    features: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))
    labels: array[int] = field(default_factory=lambda: array("q"))
    pairs: list[int] = field(default_factory=list)
    """Features of each row."""
    on: list[int] = field(default_factory=list)
    """Labels of each row."""
    lines: list[int] = field(default_factory=list)
    """Line of each row."""

    def add(self, tokens: list[str]) -> None:
        """One row: labels, unless the first token is a pair already, then pairs."""
        labels = tokens.pop(0).split(",") if tokens and ":" not in tokens[0] else []
        text = " ".join(tokens)
        parts = text.replace(":", " ").split()
        if text.translate(SHAPE) != (": " * len(tokens))[:-1] or len(parts) != 2 * len(tokens):
            odd = (t for t in tokens if t.count(":") != 1 or "_" in t or not t.isascii())
            bad = next(odd, None) or next(t for t in tokens if not all(t.split(":")))
            raise ValueError(f"expected feature:value, got {bad!r}")
        sizes = self.header or (0, 2**31 - 1, 2**31 - 1)
        self.features.extend(_numbers(parts[::2], "feature", sizes[1]))
        self.labels.extend(_numbers(labels, "label", sizes[2]))
        self.values.extend(_each(float, parts[1::2], "value"))
        self.pairs.append(len(tokens))
        self.on.append(len(labels))

    def of(self, what: str) -> tuple[array[int], list[int]]:
        """The numbers of "feature" or "label", and how many each row has."""
        return (self.features, self.pairs) if what == "feature" else (self.labels, self.on)

    def line_of(self, bad: Array, lengths: list[int]) -> int:
        """Of the first bad entry."""
        return self.lines[int(np.searchsorted(np.cumsum(lengths), bad.argmax(), side="right"))]

    def refuse_infinite(self) -> None:
        with np.errstate(over="ignore"):
            bad = np.isinf(np.asarray(self.values).astype(np.float32))
        if bad.any():
            line, got = self.line_of(bad, self.pairs), self.values[int(bad.argmax())]
            raise ValueError(f"line {line}: values must be finite in float32, got {got:g}")


def parsed(path: Path) -> Iterator[SvmlightRows]:
    """The rows, some at a time; the line of the first mistake is named."""
    rows, count = SvmlightRows(), 0
    with reading(path):
        for number, tokens in _statements(path):
            if not number:
                rows.header = (int(tokens[0]), int(tokens[1]), int(tokens[2]))
                continue
            try:
                rows.add(tokens)
            except (ValueError, OverflowError) as error:
                raise ValueError(f"line {number}: {error}") from None
            rows.lines.append(number)
            count += 1
            if is_full(len(rows.on), len(rows.features)):
                rows.refuse_infinite()
                yield rows
                rows = SvmlightRows(rows.header)
        if rows.header and rows.header[0] != count:
            raise ValueError(f"its first line says {rows.header[0]} rows, {count} follow")
        if not count:
            raise ValueError("holds no rows")
        if rows.on:
            rows.refuse_infinite()
            yield rows


def _statements(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(line, words) of each row; what the first line says of sizes comes as line 0.

    Empty lines are no rows, unless the first line counts them in.
    """
    seen, wanted, last = 0, None, None
    for number, tokens in _lines(path):
        if not seen and wanted is None and len(tokens) == 3 and "".join(tokens).isdecimal():
            wanted = int(tokens[0])
            yield 0, tokens
            continue
        seen += 1
        if not tokens:
            if last is None:
                last = 0 if wanted is None else _counted(path, wanted)
            if seen > last:
                continue
        yield number, tokens


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(lines(path), 1):
        text = line.partition("#")[0]
        if text == line or text.strip():  # else a comment on its own
            yield number, text.split()


def _counted(path: Path, wanted: int) -> int:
    """How many rows, from the first on, there are with empty lines among them: as many as wanted
    if only empty lines follow these, else none."""
    for at, (_, tokens) in enumerate(_lines(path)):  # line 0 says the sizes
        if tokens and at > wanted:
            return 0
    return min(wanted, at)


def _numbers(words: list[str], what: str, most: int) -> list[int]:
    """Distinct whole numbers from 0 to `most` (itself only where counting starts at 1)."""
    numbers: list[int] = _each(int, words, f"{what} number")
    if numbers and min(numbers) < 0:
        raise ValueError(f"{what} numbers must not be negative, got {min(numbers)}")
    if numbers and max(numbers) > most:
        raise ValueError(f"{what} numbers must be at most {most}, got {max(numbers)}")
    if len(set(numbers)) < len(numbers):
        twice = next(i for i in numbers if numbers.count(i) > 1)
        raise ValueError(f"{what} {twice} appears twice")
    return numbers


def _each(kind: Any, words: list[str], what: str) -> list[Any]:
    out = list[Any]()
    try:
        out.extend(map(kind, words))
    except ValueError:
        raise ValueError(f"expected a {what}, got {words[len(out)]!r}") from None
    return out


WIDEST = 2**31 - 1
"""Features while nobody knows how many there are."""


@dataclass
class Seen:
    """What must be known of a whole file before its numbers mean anything."""

    header: tuple[int, int, int] | None = None
    ends: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The lowest and highest number of "feature" and "label", where there are any."""
    labels: Growing = field(default_factory=lambda: Growing(np.int32))
    starts: GrowingStarts = field(default_factory=GrowingStarts)
    """Where the labels of each row begin."""

    def look(self, rows: SvmlightRows) -> None:
        self.header = rows.header
        for what in ("feature", "label"):
            held, _ = rows.of(what)
            if len(held):
                numbers = np.asarray(held)
                low, high = self.ends.get(what, (held[0], held[0]))
                self.ends[what] = min(low, int(numbers.min())), max(high, int(numbers.max()))


@dataclass(frozen=True)
class Numbering:
    """Where counting starts, how many there are, and sentences that say why."""

    base: int
    width: int
    label_base: int
    count: int
    notes: tuple[str, str]

    @classmethod
    def of(cls, every: Sequence[Seen], ask: Description) -> Numbering:
        """As all files together show."""
        headers = [seen.header for seen in every if seen.header]
        names = names_in(ask.label_names)
        given = len(names) if names else ask.labels if isinstance(ask.labels, int) else None
        width = max((h[1] for h in headers), default=ask.n_features)
        width = width if ask.schema is None or ask.n_features is None else ask.n_features
        count = max((h[2] for h in headers), default=given)
        ends = [[s.ends[what] for s in every if what in s.ends] for what in ("feature", "label")]
        base, width, said = _from(ends[0], ("features", "base", ask.base), width, headers)
        first, count, also = _from(
            ends[1], ("labels", "label_base", ask.label_base), count, headers
        )
        return cls(base, width, first, count, (said, also))

    def refuse_outside(self, path: Path, seen: Seen) -> None:
        """Numbers lie in the range; else the file is read again for the first line that has one
        out."""
        sides = (("feature", self.base, self.width), ("label", self.label_base, self.count))
        for what, base, count in sides:
            low, high = seen.ends.get(what, (base, base - 1))
            if low >= base and high < count + base:
                continue
            for rows in parsed(path):
                held, lengths = rows.of(what)
                numbers = np.asarray(held)
                bad = (numbers < base) | (numbers >= base + count)
                if bad.any():
                    raise ValueError(
                        f"line {rows.line_of(bad, lengths)}: {what} numbers must lie in "
                        f"{base}..{count - 1 + base} ({count} of them, counted from {base}), got "
                        f"{numbers[bad.argmax()]}"
                    )


def _from(
    ends: list[tuple[int, int]], key: tuple[str, str, int | None], count: int | None, headers: Any
) -> tuple[int, int, str]:
    """Number of the first one, how many there are, and a sentence that says so."""
    what, flag, forced = key
    low = min((low for low, _ in ends), default=0)
    high = max((high for _, high in ends), default=-1)
    if forced is not None:
        base, why = forced, "as told"
    elif low == 0 or not ends:
        base, why = 0, "0 occurs" if ends else "there are none"
    elif count is not None and high >= count:
        base, why = 1, f"the largest is {high}, there are {count}"
    elif headers:
        base, why = 0, f"as in files with a first line of sizes; {flag} = 1 forces 1"
    else:
        base, why = 1, f"0 does not occur; {flag} = 0 forces 0"
    total = max(high + 1 - base, 0) if count is None else count
    return base, total, f"{what} count from {base}: {why}"


def read(paths: Sequence[Path], ask: Description, role: str) -> list[Piece]:
    """Features and labels; both are numbered from 0 or 1, which all files together show."""
    every, pieces = [Seen() for _ in paths], []
    for path, seen in zip(paths, every, strict=True):
        with reading(path):
            pieces.append(gathered(_unnumbered(path, seen), ask.memory << 20))
    how = Numbering.of(every, ask)
    out = []
    for path, seen, piece in zip(paths, every, pieces, strict=True):
        with reading(path):
            how.refuse_outside(path, seen)
        x = piece.features
        if isinstance(x, StoredSparse):
            x = replace(x, width=how.width, base=how.base)
        elif isinstance(x, SparseRows):
            x = replace(x, width=how.width, indices=x.indices - how.base)
        numbers = seen.labels.done()
        numbers -= how.label_base
        out.append(
            _told(
                replace(piece, features=x),
                sparse_labels(seen.starts.done(), numbers, how.count),
                how,
                ask,
                role,
            )
        )
    return out


def blocks(path: Path, ask: Description, role: str) -> Iterator[Piece]:
    """The rows, some at a time; the file is read twice, first for where its numbers start."""
    seen = Seen()
    for rows in parsed(path):
        seen.look(rows)
    how = Numbering.of([seen], ask)
    with reading(path):
        how.refuse_outside(path, seen)
        for rows in parsed(path):
            labels = np.asarray(rows.labels) - how.label_base
            y = Labels.from_csr(_starts(rows.on), labels, how.count)
            yield _told(_features(path, rows, how.base, how.width), y, how, ask, role)


def _unnumbered(path: Path, seen: Seen) -> Iterator[Piece]:
    for rows in parsed(path):
        seen.look(rows)
        seen.labels.append(rows.labels)
        seen.starts.append(rows.on)
        yield _features(path, rows, 0, WIDEST)


def _features(path: Path, rows: SvmlightRows, base: int, width: int) -> Piece:
    columns, values = np.asarray(rows.features) - base, np.asarray(rows.values)
    x = SparseRows.from_csr(_starts(rows.pairs), columns, width, values)
    return Piece(path=path, rows=len(rows.on), features=x)


def _told(piece: Piece, y: Labels, how: Numbering, ask: Description, role: str) -> Piece:
    labels = None if role == "features" and isinstance(ask.labels, str) else y
    return replace(piece, labels=labels, facts={"base": how.base}, notes=how.notes)


def _starts(lengths: Any) -> Array:
    return np.concatenate([[0], np.cumsum(np.asarray(lengths, dtype=np.int64))])
