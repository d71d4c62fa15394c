"""Parquet files, through pyarrow: the same columns as CSV, and columns of lists for labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from labelset.data._columns import Columns, truth
from labelset.data._csv import split_names
from labelset.data._description import Description
from labelset.data._inputs import dense_features
from labelset.data._optional import optional
from labelset.data._parts import part_numbers
from labelset.data._piece import Piece
from labelset.data._reading import reading
from labelset.data._vocabulary import from_names, names_in
from labelset.labels import Labels

__all__ = ["read"]

Array = np.ndarray[Any, Any]


def read(paths: Sequence[Path], ask: Description, role: str) -> list[Piece]:
    """One piece per file; labels in one column are numbered alike in all of them."""
    tables = [_opened(path) for path in paths]
    columns = []
    for path, table in zip(paths, tables, strict=True):
        with reading(path):
            if not table.num_rows:
                raise ValueError("holds no rows")
            if table.column_names != tables[0].column_names:
                raise ValueError(f"its columns are not those of {paths[0]}")
            columns.append(Columns.of(table.column_names, ask, role))
    place = columns[0].label_list
    named: Sequence[Labels | None] = [None] * len(tables)
    names = None
    if place is not None:
        with reading(paths[0]):
            rows = [_lists(t.column(place).to_pylist(), ask.delimiter) for t in tables]
            named, names = from_names(rows, names_in(ask.label_names))
    out = []
    for path, table, chosen, labels in zip(paths, tables, columns, named, strict=True):
        with reading(path):
            out.append(_piece(path, table, chosen, ask.unknown, labels, names))
    return out


def _opened(path: Path) -> Any:
    parquet = optional("pyarrow.parquet", "Parquet files", "parquet")
    damage = optional("pyarrow", "Parquet files", "parquet").ArrowException
    with reading(path):
        try:
            return parquet.read_table(path)
        except damage as error:
            raise ValueError(f"damaged or not a .parquet file ({error})") from None


def _lists(cells: list[Any], delimiter: str) -> list[list[str] | None]:
    """A list of names or numbers per row, or words with a delimiter; null: nothing is known."""
    if cells and isinstance(next((c for c in cells if c is not None), None), list):
        return [None if cell is None else [str(name) for name in cell] for cell in cells]
    return [None if cell is None else split_names(str(cell), delimiter) for cell in cells]


def _piece(
    path: Path,
    table: Any,
    columns: Columns,
    unknown: int | None,
    labels: Labels | None,
    names: list[str] | None,
) -> Piece:
    if columns.labels:
        names = [table.column_names[at] for at in columns.labels]
        each = [_truths(table.column(at), unknown, table.column_names[at]) for at in columns.labels]
        labels = Labels.from_dense(np.stack(each, axis=1))
    features = [_numbers(table.column(at), table.column_names[at]) for at in columns.features]
    words = {
        what: [str(cell) for cell in table.column(at).to_pylist()]
        for what in ("text", "id", "split", "image")
        if (at := getattr(columns, what)) is not None
    }
    return Piece(
        path=path,
        rows=table.num_rows,
        features=dense_features(np.concatenate(features, axis=1)) if features else None,
        labels=labels,
        names=names,
        texts=words.get("text"),
        ids=words.get("id"),
        split=part_numbers(words["split"]) if "split" in words else None,
        files=[Path(name) for name in words["image"]] if "image" in words else None,
        notes=columns.note(),
    )


def _numbers(column: Any, name: str) -> Array:
    """(rows, 1), or (rows, d) of a column of equally long lists; null is NaN."""
    first = next((cell for cell in column.slice(0, 1).to_pylist()), None)
    if isinstance(first, list):
        rows = [np.array(cell, dtype=np.float32) for cell in column.to_pylist()]
        if any(row.shape != rows[0].shape or row.ndim != 1 for row in rows):
            raise ValueError(f"column {name!r} holds lists of different lengths")
        return np.stack(rows)
    values = column.to_numpy()
    if values.dtype.kind not in "biuf":
        raise ValueError(
            f"column {name!r} must hold numbers, got {column.type}; if it is no feature, list it "
            "in ignore_columns or say what it is (label_columns, text_column, ...)"
        )
    return np.asarray(values, dtype=np.float64)[:, None]


def _truths(column: Any, unknown: int | None, name: str) -> Array:
    """(rows,) float32: 0 to 1, NaN where unknown."""
    values = column.to_numpy()
    if values.dtype.kind in "biuf":
        plain = np.asarray(values, dtype=np.float64)
        if unknown is not None:
            plain = np.where(plain == unknown, np.nan, plain)
    else:
        cells = ["?" if cell is None else str(cell) for cell in values.tolist()]
        try:
            plain = np.array([truth(cell, unknown) for cell in cells])
        except ValueError as error:
            raise ValueError(f"column {name!r}: {error}") from None
    bad = ~(((plain >= 0) & (plain <= 1)) | np.isnan(plain))
    if bad.any():
        row = int(bad.argmax())
        wanted = "a label must be 0 or 1 (null: unknown)"
        raise ValueError(f"row {row}: column {name!r}: {wanted}, got {plain[row]:g}")
    return plain.astype(np.float32)
