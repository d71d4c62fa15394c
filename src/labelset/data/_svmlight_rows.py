"""The lines of an svmlight file, as numbers."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from labelset.data._reading import lines, reading

__all__ = ["Rows", "parsed"]

OTHERS = "".join(chr(i) for i in range(128) if chr(i) not in ": _")
SHAPE = str.maketrans("", "", OTHERS)
"""Deletes all but what gives a line its shape, so that one comparison checks the whole line."""


@dataclass
class Rows:
    """Numbers as they stand in one file."""

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
    blank: set[int] = field(default_factory=set)
    """Rows that are an empty line."""


def parsed(path: Path) -> Rows:
    """The whole file; the line of the first mistake is named."""
    rows = Rows()
    with reading(path):
        for number, line in enumerate(lines(path), 1):
            text = line.partition("#")[0]
            if text != line and not text.strip():
                continue  # a comment on its own
            tokens = text.split()
            if rows.header is None and not rows.on and _is_header(tokens):
                rows.header = (int(tokens[0]), int(tokens[1]), int(tokens[2]))
                continue
            try:
                _add(rows, tokens)
                rows.lines.append(number)
            except (ValueError, OverflowError) as error:
                raise ValueError(f"line {number}: {error}") from None
        _settle_blanks(rows)
        if not rows.on:
            raise ValueError("holds no rows")
        _refuse_infinite(rows)
    return rows


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
    if not tokens:
        rows.blank.add(len(rows.on))
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


def _settle_blanks(rows: Rows) -> None:
    """Empty lines are no rows, unless the first line counts them in."""
    wanted = rows.header[0] if rows.header else len(rows.on) - len(rows.blank)
    last = len(rows.on)
    while last > wanted and last - 1 in rows.blank:
        last -= 1
    counted = rows.blank if last > wanted else set[int]()
    keep = [i for i in range(last) if i not in counted]
    if len(keep) != wanted:
        raise ValueError(f"its first line says {wanted} rows, {len(keep)} follow")
    rows.on, rows.pairs = [rows.on[i] for i in keep], [rows.pairs[i] for i in keep]
    rows.lines = [rows.lines[i] for i in keep]
