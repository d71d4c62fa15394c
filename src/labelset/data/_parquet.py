"""Parquet files, through pyarrow: the same columns as CSV, and columns of lists for labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from labelset.data._columns import Columns, truth
from labelset.data._description import Description
from labelset.data._gather import BLOCK, WEIGHT, gathered
from labelset.data._inputs import dense_features
from labelset.data._listing import split_names
from labelset.data._optional import optional
from labelset.data._parts import part_numbers
from labelset.data._piece import Piece
from labelset.data._reading import reading
from labelset.data._vocabulary import from_names, names_in
from labelset.labels import Labels

__all__ = ["blocks", "read"]

Array = np.ndarray[Any, Any]


def read(paths: Sequence[Path], ask: Description, role: str) -> list[Piece]:
    """One piece per file; labels in one column are numbered alike in all of them."""
    columns: list[list[str]] = []
    pieces = []
    for path in paths:
        with reading(path):
            columns.append(_opened(path).schema_arrow.names)
            if columns[-1] != columns[0]:
                raise ValueError(f"its columns are not those of {paths[0]}")
            pieces.append(gathered(blocks(path, ask, role), ask.memory << 20))
    listings = [piece.listing for piece in pieces if piece.listing is not None]
    if not listings:
        return pieces
    with reading(paths[0]):
        named, names = from_names(listings, names_in(ask.label_names))
    each = zip(pieces, named, strict=True)
    return [replace(piece, labels=y, names=names, listing=None) for piece, y in each]


def blocks(path: Path, ask: Description, role: str) -> Iterator[Piece]:
    """The rows, some at a time; labels in one column are listed, not numbered."""
    arrow = optional("pyarrow", "Parquet files", "parquet")
    with reading(path):
        try:
            file, first = _opened(path), 0
            names = file.schema_arrow.names
            columns = Columns.of(names, ask, role)
            size = max(1, min(BLOCK, WEIGHT // max(_width(file, columns), 1)))
            for batch in file.iter_batches(size):
                table = arrow.Table.from_batches([batch])
                yield _piece(path, table, columns, ask, first)
                first += table.num_rows
        except arrow.ArrowException as error:
            raise ValueError(f"damaged or not a .parquet file ({error})") from None


def _opened(path: Path) -> Any:
    parquet = optional("pyarrow.parquet", "Parquet files", "parquet")
    damage = optional("pyarrow", "Parquet files", "parquet").ArrowException
    with reading(path):
        try:
            return parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)
        except damage as error:
            raise ValueError(f"damaged or not a .parquet file ({error})") from None


def _width(file: Any, columns: Columns) -> int:
    """Bytes of a row / 4, as the file says: lists make a row wide."""
    about = file.metadata
    size: int = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
    return max(len(columns.features), int(size // max(about.num_rows, 1) // 4))


def _lists(cells: list[Any], delimiter: str) -> list[list[str] | None]:
    """A list of names or numbers per row, or words with a delimiter; null: nothing is known."""
    if cells and isinstance(next((c for c in cells if c is not None), None), list):
        return [None if cell is None else [str(name) for name in cell] for cell in cells]
    return [None if cell is None else split_names(str(cell), delimiter) for cell in cells]


def _piece(path: Path, table: Any, columns: Columns, ask: Description, first: int) -> Piece:
    labels = names = listed = None
    called = table.column_names
    if columns.labels:
        names = [called[at] for at in columns.labels]
        each = [_truths(table.column(at), ask.unknown, called[at], first) for at in columns.labels]
        labels = Labels.from_dense(np.stack(each, axis=1))
    if columns.label_list is not None:
        listed = _lists(table.column(columns.label_list).to_pylist(), ask.delimiter)
    features = [_numbers(table.column(at), called[at]) for at in columns.features]
    words = {
        what: [str(cell) for cell in table.column(at).to_pylist()]
        for what in ("text", "id", "split", "image")
        if (at := getattr(columns, what)) is not None
    }
    return Piece(
        path=path,
        rows=table.num_rows,
        features=dense_features(np.concatenate(features, axis=1), first) if features else None,
        labels=labels,
        names=names,
        texts=words.get("text"),
        ids=words.get("id"),
        split=part_numbers(words["split"], first=first) if "split" in words else None,
        files=words.get("image"),
        listed=listed,
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


def _truths(column: Any, unknown: int | None, name: str, first: int) -> Array:
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
        raise ValueError(f"row {first + row}: column {name!r}: {wanted}, got {plain[row]:g}")
    return plain.astype(np.float32)
