"""The lines of an svmlight file, as numbers."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from labelset.data._gather import is_full
from labelset.data._reading import lines, reading

__all__ = ["Rows", "parsed"]

OTHERS = "".join(chr(i) for i in range(128) if chr(i) not in ": _")
SHAPE = str.maketrans("", "", OTHERS)
"""Deletes all but what gives a line its shape, so that one comparison checks the whole line."""


@dataclass
class Rows:
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


def parsed(path: Path) -> Iterator[Rows]:
    """The rows, some at a time; the line of the first mistake is named."""
    rows, count = Rows(), 0
    with reading(path):
        for number, tokens in _statements(path):
            if not number:
                rows.header = (int(tokens[0]), int(tokens[1]), int(tokens[2]))
                continue
            try:
                _add(rows, tokens)
            except (ValueError, OverflowError) as error:
                raise ValueError(f"line {number}: {error}") from None
            rows.lines.append(number)
            count += 1
            if is_full(len(rows.on), len(rows.features)):
                _refuse_infinite(rows)
                yield rows
                rows = Rows(rows.header)
        if rows.header and rows.header[0] != count:
            raise ValueError(f"its first line says {rows.header[0]} rows, {count} follow")
        if not count:
            raise ValueError("holds no rows")
        if rows.on:
            _refuse_infinite(rows)
            yield rows


def _statements(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(line, words) of each row; what the first line says of sizes comes as line 0.

    Empty lines are no rows, unless the first line counts them in.
    """
    seen, wanted, last = 0, None, None
    for number, tokens in _lines(path):
        if not seen and wanted is None and _is_header(tokens):
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


def _refuse_infinite(rows: Rows) -> None:
    with np.errstate(over="ignore"):
        bad = np.isinf(np.asarray(rows.values).astype(np.float32))
    if bad.any():
        at = int(bad.argmax())
        row = int(np.searchsorted(np.cumsum(rows.pairs), at, side="right"))
        raise ValueError(
            f"line {rows.lines[row]}: values must be finite in float32, got {rows.values[at]:g}"
        )


def _is_header(tokens: list[str]) -> bool:
    return len(tokens) == 3 and all(t.isascii() and t.isdigit() for t in tokens)


def _add(rows: Rows, tokens: list[str]) -> None:
    """One row: labels, unless the first token is a pair already, then pairs."""
    labels = tokens.pop(0).split(",") if tokens and ":" not in tokens[0] else []
    text = " ".join(tokens)
    if text.translate(SHAPE) != (": " * len(tokens))[:-1]:
        bad = next(t for t in tokens if t.count(":") != 1 or "_" in t or not t.isascii())
        raise ValueError(f"expected feature:value, got {bad!r}")
    parts = text.replace(":", " ").split()
    if len(parts) != 2 * len(tokens):
        bad = next(t for t in tokens if not all(t.split(":")))
        raise ValueError(f"expected feature:value, got {bad!r}")
    sizes = rows.header or (0, 2**31 - 1, 2**31 - 1)
    rows.features.extend(_numbers(parts[::2], "feature", sizes[1]))
    rows.labels.extend(_numbers(labels, "label", sizes[2]))
    rows.values.extend(_each(float, parts[1::2], "value"))
    rows.pairs.append(len(tokens))
    rows.on.append(len(labels))


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
    try:
        return list(map(kind, words))
    except ValueError:
        raise ValueError(f"expected a {what}, got {_first_bad(kind, words)!r}") from None


def _first_bad(kind: Any, words: list[str]) -> str:
    for word in words:
        try:
            kind(word)
        except ValueError:
            return word
    return ""
