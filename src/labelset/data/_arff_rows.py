"""The rows of an ARFF file, dense or sparse, as numbers."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from labelset.data._arff_header import Attribute, attribute, cells
from labelset.data._gather import is_full
from labelset.data._reading import as_number, lines, reading

__all__ = ["Table", "head", "parsed"]


@dataclass
class Table:
    """Rows of an ARFF file as numbers: a nominal cell is the place of its value, ? is NaN."""

    relation: str = ""
    attributes: list[Attribute] = field(default_factory=list)
    sparse: bool | None = None
    lines: list[int] = field(default_factory=list)
    """Line of each row."""
    codes: array[float] = field(default_factory=lambda: array("f"))
    places: array[int] = field(default_factory=lambda: array("q"))
    """Sparse rows only: the attribute of each code."""
    lengths: list[int] = field(default_factory=list)
    """Sparse rows only: codes of each row."""
    strings: dict[int, list[str]] = field(default_factory=dict)
    letters: int = 0
    """Of the strings."""

    def dense(self) -> np.ndarray[Any, Any]:
        """(rows, attributes) float32."""
        return np.asarray(self.codes, dtype=np.float32).reshape(len(self.lines), -1)


def head(path: Path) -> Table:
    """What stands before the rows."""
    table = Table()
    with reading(path):
        _head(table, _statements(path))
    return table


def parsed(path: Path) -> Iterator[Table]:
    """The rows, some at a time."""
    table = Table()
    with reading(path):
        source = _statements(path)
        _head(table, source)
        plain = all(a.kind == "numeric" or a.values == ("0", "1") for a in table.attributes)
        for number, line in source:
            try:
                _row(table, line, plain)
            except (ValueError, OverflowError) as error:
                raise ValueError(f"line {number}: {error}") from None
            table.lines.append(number)
            if is_full(len(table.lines), len(table.codes) + table.letters):
                _refuse_bad(table)
                yield table
                table = Table(table.relation, table.attributes, table.sparse)
        if table.lines:
            _refuse_bad(table)
            yield table


def _statements(path: Path) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(lines(path), 1):
        text = line.strip()
        if text and not text.startswith("%"):
            yield number, text


def _head(table: Table, source: Iterator[tuple[int, str]]) -> None:
    """Everything up to @data."""
    number = 0
    for number, line in source:
        word = line.split()[0].lower()
        if word == "@data":
            if not table.attributes:
                raise ValueError(f"line {number}: @data comes before any @attribute")
            return
        if word == "@relation":
            table.relation = line[len("@relation") :].strip()
        elif word == "@attribute":
            try:
                table.attributes.append(attribute(line))
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None
        else:
            start = line[:30]
            raise ValueError(
                f"line {number}: expected @relation, @attribute or @data, got {start!r}"
            )
    raise ValueError(f"line {number}: the file ends before @data" if number else "is empty")


def _row(table: Table, line: str, plain: bool) -> None:
    sparse = line.startswith("{")
    if table.sparse is None:
        table.sparse = sparse
    if sparse != table.sparse:
        raise ValueError("sparse and dense rows in one file")
    if sparse:
        _sparse_row(table, line, plain)
    else:
        _dense_row(table, line, plain)


def _dense_row(table: Table, line: str, plain: bool) -> None:
    quoted = "'" in line or '"' in line
    row = list(cells(line)) if quoted else line.split(",")
    if len(row) != len(table.attributes):
        raise ValueError(f"expected {len(table.attributes)} cells, got {len(row)}")
    if plain and "_" not in line:
        try:
            table.codes.extend(list(map(float, row)))
            return
        except ValueError:
            pass  # a ? or a bad cell: look at each
    for at, (about, cell) in enumerate(zip(table.attributes, row, strict=True)):
        if about.kind == "string":
            table.strings.setdefault(at, []).append(cell.strip())
            table.letters += len(cell)
            table.codes.append(0.0)
        else:
            table.codes.append(_code(about, cell.strip()))


def _sparse_row(table: Table, line: str, plain: bool) -> None:
    if not line.endswith("}"):
        raise ValueError("a sparse row does not end with }")
    body, count = line[1:-1].strip(), 0
    if plain and _plain_pairs(table, body):
        return
    for pair in cells_of_pairs(body):
        place, _, cell = pair.partition(" ")
        if not (place.isascii() and place.isdigit() and int(place) < len(table.attributes)):
            most = len(table.attributes) - 1
            raise ValueError(f"expected an attribute number in 0..{most}, got {place!r}")
        about = table.attributes[int(place)]
        if about.kind == "string":
            raise ValueError(f"string attribute {about.name!r} in a sparse row")
        table.places.append(int(place))
        quoted = cell[:1] in ("'", '"')
        table.codes.append(_code(about, next(cells(cell)) if quoted else cell))
        count += 1
    used = table.places[len(table.places) - count :]
    if len(set(used)) < count:
        raise ValueError("an attribute appears twice")
    table.lengths.append(count)


def _plain_pairs(table: Table, body: str) -> bool:
    """Add a row of nothing but pairs of numbers; whether it was one: else each is to be seen."""
    if "_" in body:
        return False
    try:
        places, codes = zip(*map(str.split, body.split(",")), strict=True)
        numbers, values = list(map(int, places)), list(map(float, codes))
    except ValueError:
        return False
    digits = "".join(places)
    known = digits.isascii() and digits.isdigit() and max(numbers) < len(table.attributes)
    if not known or len(set(numbers)) < len(numbers):
        return False
    table.places.extend(numbers)
    table.codes.extend(values)
    table.lengths.append(len(numbers))
    return True


def cells_of_pairs(body: str) -> list[str]:
    """`3 1, 7 'a, b'` -> `3 1` and `7 'a, b'`."""
    if not body:
        return []
    if "'" not in body and '"' not in body:
        return [" ".join(pair.split()) for pair in body.split(",")]
    out, start, quote = [], 0, ""
    for at, letter in enumerate(body):
        if quote:
            quote = "" if letter == quote and body[at - 1] != "\\" else quote
        elif letter in "'\"":
            quote = letter
        elif letter == ",":
            out.append(body[start:at].strip())
            start = at + 1
    return [*out, body[start:].strip()]


def _code(about: Attribute, cell: str) -> float:
    if cell == "?":
        return float("nan")
    if about.kind == "numeric" or (about.binary and cell in ("0", "1")):
        try:
            return as_number(cell)
        except ValueError:
            raise ValueError(f"attribute {about.name!r}: expected a number, got {cell!r}") from None
    if cell in about.values:
        return float(about.values.index(cell))
    known = ", ".join(about.values[:10])
    raise ValueError(f"attribute {about.name!r}: expected one of {known}, got {cell!r}")


def _refuse_bad(table: Table) -> None:
    """No infinite number, and nothing but 0 and 1 where only these are declared."""
    binary = np.array([a.binary for a in table.attributes])
    if table.sparse:
        places, codes = np.asarray(table.places), np.asarray(table.codes)
        two = binary[places]
    else:
        codes, two = table.dense(), binary
    bad = np.isinf(codes) | (two & (codes != 0) & (codes != 1) & ~np.isnan(codes))
    if not bad.any():
        return
    at = int(bad.argmax())
    if table.sparse:
        row, place = int(np.searchsorted(np.cumsum(table.lengths), at, side="right")), places[at]
    else:
        row, place = divmod(at, len(table.attributes))
    about = table.attributes[int(place)]
    wanted = "0 or 1" if about.binary else "finite in float32"
    got = codes.reshape(-1)[at]
    raise ValueError(
        f"line {table.lines[row]}: attribute {about.name!r} must be {wanted}, got {got:g}"
    )
