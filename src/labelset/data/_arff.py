"""ARFF files (Weka, Mulan, MEKA): features and labels from attributes.

A numeric or {0, 1} attribute is one feature; a nominal one with values a, b, c is two, "name=b" and
"name=c" (a sparse row leaves the first value out, so it is the one without a column). Strings are
left out unless they are the text or the row's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelset.data._arff_header import Attribute, meka_labels
from labelset.data._arff_rows import Table, head, parsed
from labelset.data._columns import Columns, truth
from labelset.data._description import Description
from labelset.data._gather import gathered
from labelset.data._parts import part_numbers
from labelset.data._piece import Piece
from labelset.data._reading import reading
from labelset.data._sparse import SparseRows
from labelset.labels import Labels

__all__ = ["blocks", "read"]

Array = np.ndarray[Any, Any]


def read(
    paths: Sequence[Path], ask: Description, role: str, names: list[str] | None = None
) -> list[Piece]:
    """`names`: which attributes are labels, from Mulan's XML."""
    first = head(paths[0])
    pieces = []
    for path in paths:
        with reading(path):
            if head(path).attributes != first.attributes:
                raise ValueError(f"its attributes are not those of {paths[0]}")
            pieces.append(gathered(blocks(path, ask, role, names), ask.memory << 20))
    return pieces


def blocks(
    path: Path, ask: Description, role: str, names: list[str] | None = None
) -> Iterator[Piece]:
    """The rows, some at a time."""
    with reading(path):
        before = head(path)
        ask, notes = _located(before.relation, ask, names)
        columns = Columns.of([a.name for a in before.attributes], ask, role, names)
        words = {at for at, a in enumerate(before.attributes) if a.kind == "string"}
        used = [at for at in columns.features if at not in words]
        lost = [before.attributes[at].name for at in columns.features if at in words]
        columns = replace(columns, features=used, left_out=columns.left_out + lost)
        for table in parsed(path):
            yield _piece(path, table, columns, ask, notes + columns.note())


def _piece(
    path: Path, table: Table, columns: Columns, ask: Description, notes: tuple[str, ...]
) -> Piece:
    text, ids, split = (
        None if at is None else _strings(table, at)
        for at in (columns.text, columns.id, columns.split)
    )
    return Piece(
        path=path,
        rows=len(table.lines),
        features=_features(table, columns.features) if columns.features else None,
        labels=_labels(table, columns.labels, ask.unknown) if columns.labels else None,
        names=[table.attributes[at].name for at in columns.labels] or None,
        texts=text,
        ids=ids,
        split=None if split is None else part_numbers(split, table.lines),
        notes=notes,
    )


def _located(
    relation: str, ask: Description, names: list[str] | None
) -> tuple[Description, tuple[str, ...]]:
    """Where the labels are if only the relation's name says so."""
    meka = meka_labels(relation)
    told = names is not None or ask.label_columns is not None or isinstance(ask.labels, str)
    if meka is None or told:
        return ask, ()
    count, where = meka
    if ask.labels is None:
        found = replace(ask, labels=count, labels_at=where)
        return found, (f"labels: the {count} attributes at the {where}, as the relation says",)
    if ask.labels_at is None and abs(int(ask.labels)) == count:
        return replace(ask, labels_at=where), (f"labels lie at the {where}, as the relation says",)
    return ask, ()


def _strings(table: Table, at: int) -> list[str]:
    if at in table.strings:
        return table.strings[at]
    about = table.attributes[at]
    if table.sparse:
        raise ValueError(f"attribute {about.name!r} of sparse rows cannot be read as words")
    codes = table.dense()[:, at]
    if about.kind == "numeric" or about.binary:
        return [f"{code:g}" for code in codes]
    return ["?" if np.isnan(code) else about.values[int(code)] for code in codes]


def _labels(table: Table, columns: list[int], unknown: int | None) -> Labels:
    if not table.sparse:
        block = table.dense()[:, columns]
        for label, at in enumerate(columns):
            if _in_words(table.attributes[at]):
                block[:, label] = _truths(table.attributes[at], block[:, label])
        return Labels.from_dense(_checked(table, block, lambda at: at // len(columns), unknown))
    number = np.full(len(table.attributes), -1)
    number[columns] = np.arange(len(columns))
    rows, places, codes = (part[number[np.asarray(table.places)] >= 0] for part in _entries(table))
    for at in columns:
        about = table.attributes[at]
        if about.values and truth(about.values[0]) != 0:
            left_out = about.values[0]
            raise ValueError(f"label {about.name!r}: sparse rows leave out {left_out!r}, not 0")
        if _in_words(about):
            codes[places == at] = _truths(about, codes[places == at])
    known = _checked(table, codes, lambda at: int(rows[at]), unknown)
    return Labels.from_csr(_starts(rows, len(table.lines)), number[places], len(columns), known)


def _in_words(about: Attribute) -> bool:
    return about.kind == "nominal" and not about.binary


def _truths(about: Attribute, codes: Array) -> Array:
    """Places of yes, no and the like -> 1 and 0; NaN stays."""
    meaning = np.array([truth(value) for value in about.values], dtype=np.float32)
    known = ~np.isnan(codes)
    return np.where(known, meaning[np.where(known, codes, 0).astype(np.int64)], np.nan)


def _checked(
    table: Table, values: Array, row_of: Callable[[int], int], unknown: int | None
) -> Array:
    """Values in [0, 1], NaN where unknown; the line of the first bad one is named."""
    if unknown is not None:
        values = np.where(values == unknown, np.nan, values)
    bad = ~(((values >= 0) & (values <= 1)) | np.isnan(values))
    if bad.any():
        at = int(bad.argmax())
        line, got = table.lines[row_of(at)], values.reshape(-1)[at]
        raise ValueError(f"line {line}: a label must be 0 or 1 (?: unknown), got {got:g}")
    return values


def _features(table: Table, columns: list[int]) -> Tensor | SparseRows:
    widths = [_width(table.attributes[at]) for at in columns]
    first = dict(zip(columns, np.concatenate([[0], np.cumsum(widths)]), strict=False))
    total = sum(widths)
    if not table.sparse:
        codes = table.dense()
        if total == len(columns) and not any(_in_words(table.attributes[at]) for at in columns):
            return torch.from_numpy(codes[:, columns])
        blocks = [_block(table.attributes[at], codes[:, at]) for at in columns]
        return torch.from_numpy(np.concatenate(blocks, axis=1, dtype=np.float32))
    for at in columns:
        if table.attributes[at].values == ("1", "0"):
            name = table.attributes[at].name
            raise ValueError(f"attribute {name!r}: sparse rows leave out 1; declare it as {{0,1}}")
    rows, places, codes = _entries(table)
    wide = np.array([_in_words(a) for a in table.attributes])
    start = np.full(len(table.attributes), -1)
    start[columns] = [first[at] for at in columns]
    if np.isnan(codes[wide[places]]).any():
        raise ValueError("? in a nominal attribute of sparse rows; only numeric ones may miss")
    keep = (start[places] >= 0) & ~(wide[places] & (codes == 0))
    rows, places, codes = rows[keep], places[keep], codes[keep]
    shift = np.where(wide[places], codes - 1, 0).astype(np.int64)
    values = np.where(wide[places], 1, codes)
    return SparseRows.from_csr(
        _starts(rows, len(table.lines)), start[places] + shift, total, values
    )


def _width(about: Attribute) -> int:
    return max(len(about.values) - 1, 0) if _in_words(about) else 1


def _block(about: Attribute, codes: Array) -> Array:
    """(rows, width): the column itself, or one column per value after the first."""
    if not _in_words(about):
        return codes[:, None]
    each: Array = (codes[:, None] == np.arange(1, len(about.values))).astype(np.float32)
    each[np.isnan(codes)] = np.nan
    return each


def _entries(table: Table) -> tuple[Array, Array, Array]:
    """(row, attribute, code) of everything that sparse rows hold."""
    rows = np.repeat(np.arange(len(table.lines)), np.array(table.lengths, dtype=np.int64))
    return rows, np.asarray(table.places), np.asarray(table.codes, dtype=np.float32)


def _starts(rows: Array, count: int) -> Array:
    return np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))])
