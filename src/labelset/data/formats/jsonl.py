"""One JSON object per line: texts or features, labels by number or by name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from labelset.data.columns import Piece, gathered, is_full
from labelset.data.dataset import dense_features, part_numbers
from labelset.data.description import Description
from labelset.data.label_column import Listing, from_names, from_numbers, hint, largest, names_in
from labelset.data.reading import files_of, reading, rows_of
from labelset.labels import Labels

ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|u[\da-fA-F]{4}|.)"
)
"""In JSON: a character in two halves, one written by its number, or any other escape."""


@dataclass
class Objects:
    """Some lines of a file, taken apart; a list is empty where no line has such a key."""

    names: list[str] | None = None
    card: dict[str, Any] = field(default_factory=dict)
    first: dict[str, Any] | None = None
    """What each key held in the first row of the file."""
    at: int = 0
    """The line of that row."""
    there: list[str] = field(default_factory=list)
    """All keys of that row."""
    lines: list[int] = field(default_factory=list)
    labels: list[Any] = field(default_factory=list)
    unknown: list[Any] = field(default_factory=list)
    split: list[Any] = field(default_factory=list)
    text: list[Any] = field(default_factory=list)
    id: list[Any] = field(default_factory=list)
    features: list[Any] = field(default_factory=list)
    columns: list[str] | None = None
    """The keys of the features, where each has its own."""
    image: list[Any] = field(default_factory=list)


def read(paths: Sequence[Path], ask: Description, role: str) -> list[Piece]:
    """Keys `text`, `labels`, `unknown`, `split`, `id`, `features`, or those that `ask` names."""
    pieces = []
    for path in paths:
        with reading(path):
            held = gathered(blocks(path, ask, role), ask.memory << 20, ask.delimiter)
            pieces.append(held)
    names = names_in(ask.label_names) or pieces[0].names
    wanted = role != "features" or not isinstance(ask.labels, str)
    every: Sequence[Labels | None] = [None] * len(pieces)
    if pieces[0].listing is not None and wanted:
        with reading(paths[0]):
            every, names = _labels([p.listing or Listing() for p in pieces], names, ask)
    each = zip(pieces, every, strict=True)
    return [replace(piece, labels=y, names=names, listing=None) for piece, y in each]


def blocks(path: Path, ask: Description, role: str) -> Iterator[Piece]:
    """The rows, some at a time; labels are listed, not numbered."""
    for file in files_of(path):
        with reading(file):
            for held in _objects(file, ask):
                yield _piece(path, held)


def listed(path: Path, ask: Description) -> Piece:
    """Only the labels, as they are listed, and the parts."""
    return gathered(_only_listed(path, ask), 0)


def _only_listed(path: Path, ask: Description) -> Iterator[Piece]:
    for held in _objects(path, ask):
        if not held.labels:
            raise ValueError(f"line {held.at}: no `labels`")
        yield _listed(path, held)


def _keys(ask: Description) -> dict[str, str]:
    """What is read, and the key it has."""
    schema = ask.schema
    keys = {"text": ask.text_column or "text", "id": ask.id_column or "id", "features": "features"}
    if schema is None:
        keys |= {"labels": ask.label_column or "labels", "split": ask.split_column or "split"}
    elif not schema.texts:
        del keys["text"]
    elif ask.text_column is None:
        keys["text"] = schema.texts[0]
    return keys | ({"image": ask.image_column} if ask.image_column else {})


def _columns(item: dict[str, Any], ask: Description) -> list[str] | None:
    """The keys of the features, where these are not a list under one key."""
    schema = ask.schema
    if ask.feature_columns is not None or schema is None:
        return ask.feature_columns
    return schema.columns if "features" not in item or schema.columns == ["features"] else None


def _objects(path: Path, ask: Description) -> Iterator[Objects]:
    """Lines, checked to have the keys that the first one has."""
    out, letters = Objects(), 0
    keys = _keys(ask)
    for number, size, item in _parsed(path):
        if out.first is None:
            if item.get("header") is True:
                out.names = [str(name) for name in item.get("label_names") or []] or None
                out.card = item["card"] if isinstance(item.get("card"), dict) else {}
                continue
            out.there, out.columns = list(item), _columns(item, ask)
            if out.columns is not None:
                keys.pop("features")
            out.first, out.at = {w: item[key] for w, key in keys.items() if key in item}, number
        if out.columns is not None:
            out.features.append(_numbers(item, out.columns, number))
        _add(out, item, number, keys)
        letters += size
        if is_full(len(out.lines), letters):
            _required(out, ask)
            yield out
            known = {
                w: getattr(out, w) for w in ("names", "card", "first", "at", "there", "columns")
            }
            out, letters = Objects(**known), 0
    if out.lines:
        _required(out, ask)
        yield out


def _add(out: Objects, item: dict[str, Any], number: int, keys: dict[str, str]) -> None:
    assert out.first is not None
    for what, key in keys.items():
        if key in item and what in out.first:
            getattr(out, what).append(item[key])
        elif key in item or what in out.first:
            have, lack = ("has", "lacks") if key in item else ("lacks", "has")
            raise ValueError(f"line {number}: {have} `{key}`, line {out.at} {lack} it")
    out.unknown.append(item.get("unknown", []))
    out.lines.append(number)


def _numbers(item: dict[str, Any], columns: list[str], number: int) -> list[float]:
    """The features of one row; null is missing."""
    for name in columns:
        if name not in item:
            raise ValueError(f"line {number}: no key is called {name!r}: {hint(name, item)}")
        if item[name] is not None and not isinstance(item[name], (int, float)):
            got = json.dumps(item[name], ensure_ascii=False)[:40]
            raise ValueError(f"line {number}: `{name}` must be a number or null, got {got}")
    return [float("nan") if item[name] is None else item[name] for name in columns]


def _required(out: Objects, ask: Description) -> None:
    asked = [("text", ask.text_column), ("image", ask.image_column)]
    if ask.schema is None:
        asked += [("labels", ask.label_column), ("id", ask.id_column), ("split", ask.split_column)]
    elif ask.schema.texts:
        asked += [("text", ask.schema.texts[0])]
    for what, key in asked:
        if key is not None and not getattr(out, what):
            there = hint(key, out.there)
            raise ValueError(f"line {out.lines[0]}: no key is called {key!r}: {there}")


def _parsed(path: Path) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """(line, its length, what it holds)."""
    for number, line in rows_of(path):
        if "\\ud" in line or "\\uD" in line:
            line = ESCAPE.sub(_paired, line)
        try:
            item = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"line {number}: not JSON ({error.msg})") from None
        except RecursionError:
            deep = "lists or objects lie too deep in one another"
            raise ValueError(f"line {number}: not JSON that can be read: {deep}") from None
        if not isinstance(item, dict):
            raise ValueError(f"line {number}: expected an object, got {type(item).__name__}")
        yield number, len(line), item


def _paired(escape: re.Match[str]) -> str:
    """Half a character cannot be written as UTF-8: it becomes the mark of what cannot be read."""
    whole = escape[0]
    return (
        "\\ufffd" if len(whole) == 6 and whole[2] in "dD" and whole[3] not in "01234567" else whole
    )


def _labels(
    listings: Sequence[Listing], names: list[str] | None, ask: Description
) -> tuple[Sequence[Labels], list[str] | None]:
    """By name where any row lists names, else by number."""
    if any(listing.named for listing in listings):
        return from_names(listings, names)
    count = len(names) if names else ask.labels if isinstance(ask.labels, int) else None
    count = largest(listings) + 1 if count is None else count
    return [from_numbers(listing, count) for listing in listings], names


def _vectors(held: Objects) -> Tensor | None:
    """`features`, where these are lists of numbers and not something else of that name."""
    if held.columns is not None:
        return dense_features(held.features)
    first = (held.first or {}).get("features")
    if not isinstance(first, list):
        return None
    for line, row in zip(held.lines, held.features, strict=True):
        numbers = isinstance(row, list) and all(isinstance(x, (int, float)) for x in row)
        if not numbers or len(row) != len(first):
            raise ValueError(f"line {line}: `features` must be {len(first)} numbers")
    return dense_features(held.features)


def _piece(path: Path, held: Objects) -> Piece:
    for line, text in zip(held.lines, held.text, strict=False):
        if not isinstance(text, str):
            raise ValueError(f"line {line}: the text must be a string, got {type(text).__name__}")
    return replace(
        _listed(path, held),
        texts=held.text or None,
        features=_vectors(held),
        columns=held.columns,
        ids=[str(name) for name in held.id] or None,
        files=[str(name) for name in held.image] or None,
        about=held.card,
    )


def _listed(path: Path, held: Objects) -> Piece:
    return Piece(
        path=path,
        rows=len(held.lines),
        names=held.names,
        split=part_numbers(held.split, held.lines) if held.split else None,
        listed=held.labels or None,
        unknown=held.unknown if held.labels else None,
        lines=held.lines if held.labels else None,
    )
