"""New rows to predict, in batches: what a file or stream holds never has to fit into memory."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from labelset.data import Dataset
from labelset.labels import Labels

__all__ = ["batches"]

ROWS = 1024


def batches(
    source: str | TextIO, kind: str, n: int, text_key: str = "text", rows: int = ROWS
) -> Iterator[Dataset]:
    """Data sets of up to `rows` rows without labels, for a model of n labels.

    kind: `npy` (a file of features, mapped), `jsonl` (an object per line: a text under `text_key`,
    or a list of numbers under `features`), `csv` (a header; the column `text_key`, or else all
    columns as features in the order of training).
    """
    if kind == "npy":
        yield from _mapped(str(source), n, rows)
        return
    if isinstance(source, str):
        if not Path(source).is_file():
            raise ValueError(f"{source}: no such file")
        with open(source, encoding="utf-8-sig", newline="") as file:
            yield from batches(file, kind, n, text_key, rows)
        return
    items = _objects(source) if kind == "jsonl" else csv.DictReader(source)
    for number, block in enumerate(_blocks(items, rows)):
        yield _dataset(block, n, text_key, number * rows)


def _mapped(path: str, n: int, rows: int) -> Iterator[Dataset]:
    try:
        held = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{path}: not an .npy file ({error})") from None
    if held.ndim != 2:
        raise ValueError(f"{path}: features must be 2-D (rows, features), got {held.shape}")
    for start in range(0, len(held), rows):
        block = np.array(held[start : start + rows], dtype=np.float32)
        yield Dataset.from_arrays(block, _nothing(len(block), n))


def _objects(file: TextIO) -> Iterator[dict[str, Any]]:
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
            yield item


def _blocks(items: Iterable[dict[str, Any]], rows: int) -> Iterator[list[dict[str, Any]]]:
    several = iter(items)
    while block := list(islice(several, rows)):
        yield block


def _dataset(block: list[dict[str, Any]], n: int, text_key: str, first: int) -> Dataset:
    labels = _nothing(len(block), n)
    if text_key in block[0]:
        return Dataset.from_arrays(None, labels, texts=[str(item[text_key]) for item in block])
    try:
        if "features" in block[0]:
            held = [item["features"] for item in block]
        else:
            held = [list(item.values()) for item in block]
        return Dataset.from_arrays(np.array(held, dtype=np.float32), labels)
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"rows {first + 1} to {first + len(block)}: no {text_key!r}, and not all features are "
            f"numbers ({error})"
        ) from None


def _nothing(rows: int, n: int) -> Labels:
    return Labels.from_lists([[]] * rows, n=n)
