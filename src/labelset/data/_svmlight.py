"""svmlight files with several labels per row, and the extreme-classification repository's.

Each line is `1,3 5:0.2 7:1`: labels, then feature:value pairs. A first line of three whole numbers
says how many rows, features and labels there are. Everything after a `#` is a comment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from labelset.data._column import Array
from labelset.data._csr_members import sparse_labels
from labelset.data._description import Description
from labelset.data._gather import gathered
from labelset.data._growing import Growing, GrowingStarts
from labelset.data._piece import Piece
from labelset.data._reading import reading
from labelset.data._sparse import SparseRows
from labelset.data._stored import StoredSparse
from labelset.data._svmlight_rows import Rows, parsed
from labelset.data._vocabulary import names_in
from labelset.labels import Labels

__all__ = ["blocks", "read"]

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

    def look(self, rows: Rows) -> None:
        self.header = rows.header
        for what, held in (("feature", rows.features), ("label", rows.labels)):
            if len(held):
                numbers = np.asarray(held)
                low, high = self.ends.get(what, (held[0], held[0]))
                self.ends[what] = min(low, int(numbers.min())), max(high, int(numbers.max()))

    def keep(self, rows: Rows) -> None:
        self.labels.append(rows.labels)
        self.starts.append(rows.on)


@dataclass(frozen=True)
class Numbering:
    """Where counting starts, how many there are, and sentences that say why."""

    base: int
    width: int
    label_base: int
    count: int
    notes: tuple[str, str]


def read(paths: Sequence[Path], ask: Description, role: str) -> list[Piece]:
    """Features and labels; both are numbered from 0 or 1, which all files together show."""
    every, pieces = [Seen() for _ in paths], []
    for path, seen in zip(paths, every, strict=True):
        with reading(path):
            pieces.append(gathered(_unnumbered(path, seen), ask.memory << 20))
    how = _numbering(every, ask)
    out = []
    for path, seen, piece in zip(paths, every, pieces, strict=True):
        with reading(path):
            _refuse_outside(path, seen, how)
        x = piece.features
        if isinstance(x, StoredSparse):
            x = replace(x, width=how.width, base=how.base)
        elif isinstance(x, SparseRows):
            x = replace(x, width=how.width, indices=x.indices - how.base)
        numbers = seen.labels.done()
        numbers -= how.label_base
        y = sparse_labels(seen.starts.done(), numbers, how.count)
        out.append(replace(piece, features=x, labels=_kept(y, ask, role), notes=how.notes))
    return out


def blocks(path: Path, ask: Description, role: str) -> Iterator[Piece]:
    """The rows, some at a time; the file is read twice, first for where its numbers start."""
    seen = Seen()
    for rows in parsed(path):
        seen.look(rows)
    how = _numbering([seen], ask)
    with reading(path):
        _refuse_outside(path, seen, how)
        for rows in parsed(path):
            y = Labels.from_csr(
                _starts(rows.on), np.asarray(rows.labels) - how.label_base, how.count
            )
            x = _features(rows, how.base, how.width)
            yield Piece(
                path=path,
                rows=len(y),
                features=x,
                labels=_kept(y, ask, role),
                notes=how.notes,
            )


def _unnumbered(path: Path, seen: Seen) -> Iterator[Piece]:
    for rows in parsed(path):
        seen.look(rows)
        seen.keep(rows)
        yield Piece(path=path, rows=len(rows.on), features=_features(rows, 0, WIDEST))


def _features(rows: Rows, base: int, width: int) -> SparseRows:
    columns = np.asarray(rows.features) - base
    return SparseRows.from_csr(_starts(rows.pairs), columns, width, np.asarray(rows.values))


def _kept(labels: Labels, ask: Description, role: str) -> Labels | None:
    return None if role == "features" and isinstance(ask.labels, str) else labels


def _numbering(every: Sequence[Seen], ask: Description) -> Numbering:
    headers = [seen.header for seen in every if seen.header]
    names = names_in(ask.label_names)
    given = len(names) if names else ask.labels if isinstance(ask.labels, int) else None
    width = max((h[1] for h in headers), default=ask.n_features)
    count = max((h[2] for h in headers), default=given)
    ends = [[s.ends[what] for s in every if what in s.ends] for what in ("feature", "label")]
    base, width, said = _from(ends[0], ("features", "base", ask.base), width, headers)
    first, count, also = _from(ends[1], ("labels", "label_base", ask.label_base), count, headers)
    return Numbering(base, width, first, count, (said, also))


def _from(
    ends: list[tuple[int, int]],
    key: tuple[str, str, int | None],
    count: int | None,
    headers: Any,
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


def _refuse_outside(path: Path, seen: Seen, how: Numbering) -> None:
    """Numbers lie in the range; else the file is read again for the first line that has one out."""
    for what, base, count in (
        ("feature", how.base, how.width),
        ("label", how.label_base, how.count),
    ):
        if what not in seen.ends:
            continue
        low, high = seen.ends[what]
        if low < base or high >= count + base:
            line, got = _first_outside(path, what, base, count)
            raise ValueError(
                f"line {line}: {what} numbers must lie in {base}..{count - 1 + base} "
                f"({count} of them, counted from {base}), got {got}"
            )


def _first_outside(path: Path, what: str, base: int, count: int) -> tuple[int, int]:
    for rows in parsed(path):
        held, lengths = (rows.features, rows.pairs) if what == "feature" else (rows.labels, rows.on)
        shifted = np.asarray(held) - base
        bad = (shifted < 0) | (shifted >= count)
        if bad.any():
            at = int(bad.argmax())
            row = int(np.searchsorted(np.cumsum(lengths), at, side="right"))
            return rows.lines[row], held[at]
    raise RuntimeError(f"{path} has changed while it was read")


def _starts(lengths: Any) -> Array:
    return np.concatenate([[0], np.cumsum(np.asarray(lengths, dtype=np.int64))])
