"""One JSON object per line: texts or features, labels by number or by name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from labelset.data._csv import split_names
from labelset.data._description import Description
from labelset.data._inputs import dense_features
from labelset.data._parts import part_numbers
from labelset.data._piece import Piece
from labelset.data._reading import reading, rows_of
from labelset.data._vocabulary import from_names, names_in
from labelset.labels import Labels

__all__ = ["Objects", "largest", "numbered", "objects", "read"]


@dataclass
class Objects:
    """The lines of one file, taken apart; a list is empty where no line has such a key."""

    names: list[str] | None = None
    card: dict[str, Any] = field(default_factory=dict)
    lines: list[int] = field(default_factory=list)
    labels: list[Any] = field(default_factory=list)
    unknown: list[Any] = field(default_factory=list)
    split: list[Any] = field(default_factory=list)
    text: list[Any] = field(default_factory=list)
    id: list[Any] = field(default_factory=list)
    features: list[Any] = field(default_factory=list)
    image: list[Any] = field(default_factory=list)


def read(paths: Sequence[Path], ask: Description, role: str) -> list[Piece]:
    """Keys `text`, `labels`, `unknown`, `split`, `id`, `features`, or those that `ask` names."""
    files = []
    for path in paths:
        with reading(path):
            files.append(objects(path, ask))
    names = names_in(ask.label_names) or files[0].names
    wanted = role != "features" or not isinstance(ask.labels, str)
    every: Sequence[Labels | None] = [None] * len(files)
    if files[0].labels and wanted:
        with reading(paths[0]):
            every, names = _labels(files, names, ask)
    out = []
    for path, held, labels in zip(paths, files, every, strict=True):
        with reading(path):
            out.append(_piece(path, held, labels, names))
    return out


def objects(path: Path, ask: Description) -> Objects:
    """Every line, checked to have the keys that the first one has."""
    out = Objects()
    keys = {
        "labels": ask.label_column or "labels",
        "text": ask.text_column or "text",
        "id": ask.id_column or "id",
        "split": ask.split_column or "split",
        "features": "features",
        **({"image": ask.image_column} if ask.image_column else {}),
    }
    for number, item in _parsed(path):
        if not out.lines and item.get("header") is True:
            out.names = [str(name) for name in item.get("label_names") or []] or None
            out.card = item["card"] if isinstance(item.get("card"), dict) else {}
            continue
        for what, key in keys.items():
            into = getattr(out, what)
            if key in item and len(into) == len(out.lines):
                into.append(item[key])
            elif key in item or into:
                have, lack = ("has", "lacks") if key in item else ("lacks", "has")
                first = out.lines[0]
                raise ValueError(f"line {number}: {have} `{key}`, line {first} {lack} it")
        out.unknown.append(item.get("unknown", []))
        out.lines.append(number)
    if not out.lines:
        raise ValueError("holds no rows")
    _required(out, ask)
    return out


def _required(out: Objects, ask: Description) -> None:
    for what, asked in (
        *(("labels", ask.label_column), ("text", ask.text_column), ("id", ask.id_column)),
        *(("split", ask.split_column), ("image", ask.image_column)),
    ):
        if asked is not None and not getattr(out, what):
            raise ValueError(f"line {out.lines[0]}: no `{asked}`")


def _parsed(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in rows_of(path):
        try:
            item = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"line {number}: not JSON ({error.msg})") from None
        except RecursionError:
            raise ValueError(f"line {number}: not JSON (too deep)") from None
        if not isinstance(item, dict):
            raise ValueError(f"line {number}: expected an object, got {type(item).__name__}")
        yield number, item


def _labels(
    files: Sequence[Objects], names: list[str] | None, ask: Description
) -> tuple[Sequence[Labels], list[str] | None]:
    """By name where any row lists names, else by number."""
    texts = any(isinstance(row, str) for held in files for row in held.labels)
    words = texts or any(
        isinstance(label, str) for f in files for row in f.labels for label in _list(row)
    )
    if words:
        on = [[_names(row, ask) for row in held.labels] for held in files]
        unknown = [[_names(row, ask) for row in held.unknown] for held in files]
        return from_names(on, names, unknown, [held.lines for held in files])
    count = len(names) if names else ask.labels if isinstance(ask.labels, int) else None
    count = largest(files) + 1 if count is None else count
    return [numbered(held, count) for held in files], names


def largest(files: Sequence[Objects]) -> int:
    """The largest label number that occurs, -1 where none does."""
    rows = (row for f in files for row in (*f.labels, *f.unknown))
    return max((i for row in rows for i in _list(row) if isinstance(i, int)), default=-1)


def numbered(held: Objects, n: int) -> Labels:
    """Labels listed by number; the line of the first bad one is named."""
    for line, row, unknown in zip(held.lines, held.labels, held.unknown, strict=True):
        for what, listed in (("labels", row), ("unknown", unknown)):
            if not isinstance(listed, list):
                raise ValueError(f"line {line}: `{what}` must be a list of label numbers")
        _check(line, [*row, *unknown], n)
    return Labels.from_lists(held.labels, n, held.unknown if any(held.unknown) else None)


def _check(line: int, numbers: list[Any], n: int) -> None:
    for i in numbers:
        if isinstance(i, bool) or not isinstance(i, int):
            kind = type(i).__name__
            raise TypeError(f"line {line}: `labels` must list label numbers, got {kind} {i!r}")
        if not 0 <= i < min(n, 2**31):
            most = min(n, 2**31) - 1
            raise ValueError(f"line {line}: label numbers must lie in 0..{most}, got {i}")
    if len(set(numbers)) < len(numbers):
        twice = next(i for i in numbers if numbers.count(i) > 1)
        raise ValueError(f"line {line}: label {twice} appears twice")


def _names(row: Any, ask: Description) -> list[str] | None:
    if row is None:
        return None
    return split_names(row, ask.delimiter) if isinstance(row, str) else [str(w) for w in _list(row)]


def _list(row: Any) -> list[Any]:
    return row if isinstance(row, list) else []


def _vectors(held: Objects) -> Tensor | None:
    """`features`, where these are lists of numbers and not something else of that name."""
    rows = held.features
    if not rows or not isinstance(rows[0], list):
        return None
    for line, row in zip(held.lines, rows, strict=True):
        numbers = isinstance(row, list) and all(isinstance(x, (int, float)) for x in row)
        if not numbers or len(row) != len(rows[0]):
            raise ValueError(f"line {line}: `features` must be {len(rows[0])} numbers")
    return dense_features(rows)


def _piece(path: Path, held: Objects, labels: Labels | None, names: list[str] | None) -> Piece:
    for line, text in zip(held.lines, held.text, strict=False):
        if not isinstance(text, str):
            raise ValueError(f"line {line}: the text must be a string, got {type(text).__name__}")
    return Piece(
        path=path,
        rows=len(held.lines),
        labels=labels,
        names=names,
        texts=held.text or None,
        features=_vectors(held),
        ids=[str(name) for name in held.id] or None,
        split=part_numbers(held.split, held.lines) if held.split else None,
        files=[Path(str(name)) for name in held.image] or None,
        about=held.card,
    )
