"""New rows to predict, in batches: what a file or stream holds never has to fit into memory."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np

from labelset.data import Dataset
from labelset.data._filed import Filed, array_in
from labelset.labels import Labels

__all__ = ["Reading", "batches"]

ROWS = 1024
BYTES = 1 << 20
"""At which a batch ends before that."""


class Reading(NamedTuple):
    """How the model's rows were read in training."""

    n: int
    """Labels of the model."""
    text_key: str | None = None
    """The column or key with the text; None where the model takes numbers."""
    columns: Sequence[str] | None = None
    """Names of the features, where they had any: a CSV file is then read by name."""


def batches(source: str | TextIO, kind: str, how: Reading, rows: int = ROWS) -> Iterator[Dataset]:
    """Data sets of up to `rows` rows without labels.

    kind: `npy` (a file of features), `jsonl` (an object per line: a text, or a list of
    numbers under `features`), `csv` (with a header; other columns are left alone).
    """
    if kind == "npy":
        yield from _mapped(str(source), how.n, rows)
        return
    if isinstance(source, str):
        if not Path(source).is_file():
            raise ValueError(f"{source}: no such file")
        with open(source, encoding="utf-8-sig", newline="") as file:
            yield from batches(file, kind, how, rows)
        return
    items = _objects(source) if kind == "jsonl" else _lines(source)
    yield from map(partial(_dataset, how=how), _blocks(items, how.text_key, rows))


def _blocks(
    items: Iterator[tuple[int, dict[str, Any]]], text: str | None, rows: int
) -> Iterator[list[tuple[int, dict[str, Any]]]]:
    """Up to `rows` of them, fewer where texts are long or features many."""
    block, size = list[tuple[int, dict[str, Any]]](), 0
    for number, item in items:
        block.append((number, item))
        features = item.get("features")
        count = len(features if isinstance(features, list) else item)
        size += 8 * count if text is None else len(str(item.get(text)))
        if len(block) == rows or size >= BYTES:
            yield block
            block, size = [], 0
    if block:
        yield block


def _lines(file: TextIO) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.DictReader(file)
    for item in reader:
        yield reader.line_num, item


def _mapped(path: str, n: int, rows: int) -> Iterator[Dataset]:
    if not Path(path).is_file():
        raise ValueError(f"{path}: no such file")
    try:
        held = array_in(Path(path), 0)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{path}: not an .npy file ({error})") from None
    if held.ndim != 2:
        raise ValueError(f"{path}: features must be 2-D (rows, features), got {held.shape}")
    for start in range(0, len(held), rows):
        end = min(start + rows, len(held))
        part = held.rows(start, end) if isinstance(held, Filed) else held[start:end]
        block = np.array(part, dtype=np.float32)
        yield Dataset.from_arrays(block, _nothing(len(block), n))


def _objects(file: TextIO) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"line {number}: not JSON ({error.msg})") from None
        if not isinstance(item, dict):
            raise ValueError(f"line {number}: expected an object, got {type(item).__name__}")
        if not item.get("header"):
            yield number, item


def _dataset(block: list[tuple[int, dict[str, Any]]], how: Reading) -> Dataset:
    labels = _nothing(len(block), how.n)
    if how.text_key is not None:
        texts = [_text(number, item, how.text_key) for number, item in block]
        return Dataset.from_arrays(None, labels, texts=texts)
    numbers = [_numbers(number, item, how.columns) for number, item in block]
    widths = {len(row) for row in numbers}
    if len(widths) > 1:
        raise ValueError(f"lines {block[0][0]} to {block[-1][0]}: rows of {widths} features")
    return Dataset.from_arrays(np.array(numbers, dtype=np.float32), labels)


def _text(number: int, item: dict[str, Any], key: str) -> str:
    if item.get(key) is None:
        there = ", ".join(map(str, item))
        raise ValueError(f"line {number}: no {key!r} among {there}; say which with --text KEY")
    return str(item[key])


def _numbers(number: int, item: dict[str, Any], columns: Sequence[str] | None) -> list[float]:
    held = item.get("features")
    if held is None:
        names = list(item) if columns is None else columns
        missing = [name for name in names if name not in item]
        if missing:
            raise ValueError(f"line {number}: no feature {missing[0]!r}")
        held = [item[name] for name in names]
    try:
        return [float("nan") if cell in ("", "?", None) else float(cell) for cell in held]
    except (ValueError, TypeError) as error:
        raise ValueError(f"line {number}: not all features are numbers ({error})") from None


def _nothing(rows: int, n: int) -> Labels:
    return Labels.from_lists([[]] * rows, n=n)
