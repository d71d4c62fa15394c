"""CSV files: label columns or one column with all labels; features, texts or picture names."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from torch import Tensor

from labelset.data._columns import TRUTH, Columns, truth
from labelset.data._description import Description
from labelset.data._gather import gathered, is_full
from labelset.data._inputs import dense_features
from labelset.data._listing import Listing
from labelset.data._parts import part_numbers
from labelset.data._piece import Piece
from labelset.data._reading import as_number, kind_of, lines, reading
from labelset.data._vocabulary import from_names, names_in
from labelset.labels import Labels

__all__ = ["blocks", "first_rows", "read"]

MISSING = {cell for cell, value in TRUTH.items() if value != value}


@dataclass
class Table:
    """Some rows while they are read."""

    names: list[str]
    columns: Columns
    numbers: array[float] = field(default_factory=lambda: array("d"))
    on: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))
    lengths: list[int] = field(default_factory=list)
    """Labels of each row, where they have columns."""
    lines: list[int] = field(default_factory=list)
    """Line of each row."""
    lists: list[str] = field(default_factory=list)
    """Cells with all labels of a row."""
    words: dict[str, list[str]] = field(default_factory=dict)
    letters: int = 0
    """Of the texts."""


def read(paths: Sequence[Path], ask: Description, role: str) -> list[Piece]:
    """One piece per file; labels in one column are numbered alike in all of them."""
    pieces = []
    for path in paths:
        with reading(path):
            held = gathered(blocks(path, ask, role), ask.memory << 20, ask.delimiter)
            pieces.append(held)
            if _used(pieces[-1]) != _used(pieces[0]):
                raise ValueError(f"its columns are not those of {paths[0]}")
    listings = [piece.listing for piece in pieces if piece.listing is not None]
    if not listings:
        return pieces
    with reading(paths[0]):
        named, names = from_names(listings, names_in(ask.label_names))
    return [
        replace(piece, labels=y, names=names, listing=None, notes=(*piece.notes, *_doubt(listing)))
        for piece, y, listing in zip(pieces, named, listings, strict=True)
    ]


def _used(piece: Piece) -> list[list[str] | None]:
    return [piece.about["feature_names"], piece.names]


def blocks(path: Path, ask: Description, role: str) -> Iterator[Piece]:
    """The rows, some at a time; labels in one column are listed, not numbered."""
    with reading(path):
        separator = ask.separator or ("\t" if kind_of(path) == "tsv" else ",")
        reader = csv.reader(lines(path), delimiter=separator, strict=True)
        try:
            first = next((row for row in reader if row), None)
            if first is None:
                raise ValueError("is empty")
            names = [cell.strip() for cell in first]
            if not ask.header:
                names = [str(at) for at in range(len(first))]
            table = Table(names, Columns.of(names, ask, role))
            if not ask.header:
                _add(table, first, reader.line_num, ask)
            for row in reader:
                if row:
                    _add(table, row, reader.line_num, ask)
                    if is_full(len(table.lines), len(table.numbers) + table.letters):
                        yield _piece(path, table)
                        table = Table(names, table.columns)
        except csv.Error as error:
            hint = "; give texts this long as jsonl" if "field limit" in str(error) else ""
            raise ValueError(f"line {reader.line_num}: {error}{hint}") from None
        if table.lines:
            yield _piece(path, table)


def first_rows(path: Path, separator: str | None) -> tuple[list[str], list[str]]:
    """The names of the columns and the first row below them."""
    separator = separator or ("\t" if kind_of(path) == "tsv" else ",")
    rows = (row for row in csv.reader(lines(path), delimiter=separator) if row)
    return [cell.strip() for cell in next(rows, [])], next(rows, [])


def _add(table: Table, row: list[str], line: int, ask: Description) -> None:
    columns = table.columns
    if len(row) != len(table.names):
        raise ValueError(f"line {line}: expected {len(table.names)} cells, got {len(row)}")
    cells = [row[at] for at in columns.features]
    try:
        if "_" in "".join(cells):
            raise ValueError
        table.numbers.extend(list(map(float, cells)))
    except ValueError:  # something is missing or no number: look at each
        table.numbers.extend([_number(table, row, at, line) for at in columns.features])
    table.lines.append(line)
    _add_labels(table, [row[at] for at in columns.labels], line, ask.unknown)
    if columns.label_list is not None:
        table.lists.append(row[columns.label_list])
    for what in ("text", "id", "split", "image"):
        at = getattr(columns, what)
        if at is not None:
            table.words.setdefault(what, []).append(row[at])
    if columns.text is not None:
        table.letters += len(row[columns.text])


def _number(table: Table, row: list[str], at: int, line: int) -> float:
    cell = row[at].strip()
    if cell.lower() in MISSING:
        return float("nan")
    try:
        return as_number(cell)
    except ValueError:
        name = table.names[at]
        raise ValueError(
            f"line {line}: column {name!r} must hold numbers, got {cell[:40]!r}; if it is no "
            "feature, list it in ignore_columns or say what it is (label_columns, text_column, ...)"
        ) from None


def _add_labels(table: Table, cells: list[str], line: int, unknown: int | None) -> None:
    count = 0
    for at, cell in enumerate(cells):
        if cell == "0":
            continue
        try:
            value = 1.0 if cell == "1" else truth(cell, unknown)
        except ValueError as error:
            name = table.names[table.columns.labels[at]]
            raise ValueError(f"line {line}: column {name!r}: {error}") from None
        if value != 0:
            table.on.append(at)
            table.values.append(value)
            count += 1
    table.lengths.append(count)


def _piece(path: Path, table: Table) -> Piece:
    columns, words = table.columns, table.words
    labels = names = None
    if columns.labels:
        starts = np.concatenate([[0], np.cumsum(table.lengths)])
        indices, values = np.asarray(table.on), np.asarray(table.values)
        labels = Labels.from_csr(starts, indices, len(columns.labels), values)
        names = [table.names[at] for at in columns.labels]
    listed = columns.label_list is not None
    return Piece(
        path=path,
        rows=len(table.lines),
        features=_features(table) if columns.features else None,
        labels=labels,
        names=names,
        texts=words.get("text"),
        ids=words.get("id"),
        split=part_numbers(words["split"], table.lines) if "split" in words else None,
        files=[name.strip() for name in words["image"]] if "image" in words else None,
        listed=table.lists if listed else None,
        lines=table.lines if listed else None,
        notes=columns.note(),
        about={"feature_names": [table.names[at] for at in columns.features]},
    )


def _doubt(listing: Listing) -> tuple[str, ...]:
    """A note where no cell with labels was split, though many hold another usual separator."""
    codes = listing.on.codes.done()
    if not len(codes) or listing.on.lengths.done().max() > 1:
        return ()
    often = np.bincount(-1 - codes).tolist()
    for mark in ";,|":
        cells = zip(listing.names(), often, strict=True)
        if sum(count for name, count in cells if mark in name) * 4 > len(codes):
            return (f"no row has more than one label, but many hold {mark!r}: delimiter={mark}?",)
    return ()


def _features(table: Table) -> Tensor:
    numbers = np.asarray(table.numbers)
    with np.errstate(over="ignore"):
        bad = np.isinf(numbers.astype(np.float32))
    if bad.any():
        row, column = divmod(int(bad.argmax()), len(table.columns.features))
        name = table.names[table.columns.features[column]]
        raise ValueError(
            f"line {table.lines[row]}: column {name!r} must be finite in float32 (empty: missing)"
        )
    return dense_features(numbers.reshape(len(table.lines), -1))
