"""One JSON object per line, as a table: texts or features, labels by number or by name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from labelset.data.columns import Columns, is_full
from labelset.data.description import Description
from labelset.data.formats.arrow import Array, Batch, Batches, blocks, read
from labelset.data.label_column import hint
from labelset.data.reading import rows_of

__all__ = ["batches", "blocks", "read"]

ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|u[\da-fA-F]{4}|.)"
)
"""In JSON: a character in two halves, one written by its number, or any other escape."""
KEYS = ("text", "labels", "split", "id", "features")
"""That are read where nobody names others."""
NOTHING = list[Any]()


def batches(path: Path, ask: Description, role: str) -> Batches:
    """The rows; each must have the keys that are used of the first."""
    table: _Table | None = None
    header, first = dict[str, Any](), 0
    for number, size, item in _parsed(path):
        if table is None:
            if item.get("header") is True and not {*KEYS} & {*item}:
                header = item
                continue
            table = _Table(item, number, ask, role, header)
        table.add(item, number, size)
        if is_full(len(table.lines), table.letters):
            yield table.batch(first), table.columns
            first += table.clear()
    if table is not None and table.lines:
        yield table.batch(first), table.columns


class _Table:
    """The keys of the first row as columns."""

    def __init__(
        self, item: dict[str, Any], line: int, ask: Description, role: str, header: dict[str, Any]
    ) -> None:
        self.names = [key for key in item if key != "unknown"]
        self.keys, self.line, self.header = item.keys(), line, header
        try:
            self.columns = Columns.of(self.names, _asked(item, ask), role)
        except ValueError as error:
            raise ValueError(f"line {line}: {error}".replace("no column", "no key")) from None
        c = self.columns
        roles = (c.label_list, c.id, c.split, c.group, c.time, c.weight, c.image)
        single = [at for at in roles if at is not None]
        self.used = {self.names[at]: at for at in (*c.texts, *c.labels, *single)}
        self.late = {*KEYS} - {*self.names}
        self.features = {self.names[at]: at for at in c.features}
        self.cells: dict[str, list[Any]] = {name: [] for name in self.used | self.features}
        self.unknown, self.lines, self.letters = list[Any](), list[int](), 0

    def add(self, item: dict[str, Any], line: int, size: int) -> None:
        if item.keys() != self.keys:
            self._check(item, line)
        for name, cells in self.cells.items():
            cells.append(item[name])
        self.unknown.append(item.get("unknown", NOTHING))
        self.lines.append(line)
        self.letters += size

    def _check(self, item: dict[str, Any], line: int) -> None:
        lacks = next((key for key in self.used if key not in item), None)
        more = next((key for key in self.late if key in item), None)
        if lacks or more:
            have, lack = ("lacks", "has") if lacks else ("has", "lacks")
            raise ValueError(f"line {line}: {have} `{lacks or more}`, line {self.line} {lack} it")
        for name in self.features:
            if name not in item:
                raise ValueError(f"line {line}: no key is called {name!r}: {hint(name, item)}")

    def batch(self, first: int) -> Batch:
        held, lines, c = dict[int, Any](), self.lines, self.columns
        for name, cells in self.cells.items():
            at = (self.used | self.features)[name]
            numbers = at in c.features and at not in (*c.categories, *c.dates)
            held[at] = _numbers(cells, name, lines) if numbers else cells
        return Batch(
            self.names,
            len(lines),
            first,
            held,
            None,
            lines,
            "null",
            "key",
            self.unknown,
            self.header,
        )

    def clear(self) -> int:
        """How many rows there were."""
        rows, self.unknown, self.lines, self.letters = len(self.lines), [], [], 0
        self.cells = {name: [] for name in self.cells}
        return rows


def _asked(item: dict[str, Any], ask: Description) -> Description:
    """With the keys that are read where nobody names others."""
    vector = "features" in item and ask.feature_columns is None
    keys: dict[str, Any] = {"ignore_columns": [*(ask.ignore_columns or [])]}
    if "id" in item and ask.id_column is None:
        keys["id_column"] = "id"
    if ask.schema is None:
        if "text" in item and ask.text_column is None:
            keys["text_column"] = ["text"]
        if "split" in item and ask.split_column is None:
            keys["split_column"] = "split"
        if ask.label_column is None and ask.label_columns is None:
            there = "labels" in item
            keys["label_column" if there else "label_columns"] = "labels" if there else []
        vector = vector and isinstance(item["features"], list)
        keys["labels"] = None
    else:
        keys["ignore_columns"] += [key for key in KEYS if key in item]
    return replace(ask, **keys | ({"feature_columns": ["features"]} if vector else {}))


def _numbers(cells: list[Any], name: str, lines: list[int]) -> Array:
    """(rows,), or (rows, d) of lists; null is missing."""
    vector = isinstance(cells[0], list)
    kinds = {type(x) for cell in cells for x in cell} if vector else {*map(type, cells)}
    try:
        if not kinds - {int, float, bool, type(None)}:
            return np.array(cells, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        pass  # the first bad row is named below
    for line, cell in zip(lines, cells, strict=True):
        numbers = cell if vector else [cell]
        good = isinstance(numbers, list) and all(map(_number, numbers))
        if not good or (vector and len(cell) != len(cells[0])):
            got = json.dumps(cell, ensure_ascii=False)[:40]
            wanted = f"{len(cells[0])} numbers" if vector else "a number or null"
            raise ValueError(f"line {line}: `{name}` must be {wanted}, got {got}")
    raise ValueError(f"line {lines[0]}: `{name}` must be numbers")


def _number(x: Any) -> bool:
    return x is None or isinstance(x, float) or (isinstance(x, int) and abs(x) < 10**308)


def _parsed(path: Path) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """(line, its length, what it holds)."""
    pairs: Any = _once
    for number, line in rows_of(path):
        if "\\ud" in line or "\\uD" in line:
            line = ESCAPE.sub(_paired, line)
        try:
            item = json.loads(line, object_pairs_hook=pairs)
        except json.JSONDecodeError as error:
            raise ValueError(f"line {number}: not JSON ({error.msg})") from None
        except RecursionError:
            deep = "lists or objects lie too deep in one another"
            raise ValueError(f"line {number}: not JSON that can be read: {deep}") from None
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
        if not isinstance(item, dict):
            raise ValueError(f"line {number}: expected an object, got {type(item).__name__}")
        yield number, len(line), item
        pairs = None  # a key that is there twice is there twice in the first row


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    item = dict(pairs)
    if len(item) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key {next(n for n in names if names.count(n) > 1)!r} appears twice")
    return item


def _paired(escape: re.Match[str]) -> str:
    """Half a character cannot be written as UTF-8: it becomes the mark of what cannot be read."""
    whole = escape[0]
    return (
        "\\ufffd" if len(whole) == 6 and whole[2] in "dD" and whole[3] not in "01234567" else whole
    )
