"""Frames of pandas and polars, Arrow tables and readers, Hugging Face data sets: what a program has
in memory, read like a file. They hand over Arrow batches, whose columns are not copied."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labelset.data.columns import BLOCK, Piece
from labelset.data.description import Description
from labelset.data.reading import reading


def is_frame(source: Any) -> bool:
    """Whether its rows can be had as Arrow batches."""
    return hasattr(source, "__arrow_c_stream__") or _is_hugging_face(source)


def read_frame(source: Any, ask: Description) -> Piece:
    """All rows; labels in one column are numbered."""
    from labelset.data.formats import arrow

    (piece,) = arrow.numbered([(_name(source), frame_blocks(source, ask))], ask)
    return piece


def frame_blocks(source: Any, ask: Description) -> Iterator[Piece]:
    """The rows, some at a time."""
    import pyarrow as pa

    from labelset.data.formats import arrow

    with reading(_name(source)):
        try:
            words = dict[str, list[str]]()
            if ask.category_columns or ask.schema is not None:
                words = arrow.categories_of(_batches(source, ask), ask)
            for batch, columns in _batches(source, ask):
                yield arrow.piece_of(_name(source), batch, columns, ask, words)
        except pa.ArrowException as error:
            raise ValueError(
                f"cannot be read as columns of one type each ({error}); convert the column, or "
                "leave it out of the frame"
            ) from None


def first_rows(source: Any, rows: int) -> Any:
    """A reader of batches, for a look at the first rows; it may give more."""
    import pyarrow as pa

    if isinstance(source, pa.RecordBatchReader):
        raise ValueError("a reader goes by only once; give a table: read_all()")
    if _is_hugging_face(source):
        return source.with_format("arrow")[:rows].to_reader()
    return pa.RecordBatchReader.from_stream(source)


def _batches(source: Any, ask: Description) -> Iterator[Any]:
    import pyarrow as pa

    from labelset.data.formats import arrow

    if _is_hugging_face(source):
        tables = source.with_format("arrow").iter(batch_size=BLOCK)
        names = list(source.column_names)
        batches = (batch for table in tables for batch in table.to_batches())
    else:
        if isinstance(source, pa.RecordBatchReader) and ask.category_columns and not ask.schema:
            raise ValueError("a reader goes by only once; give categories as a table: read_all()")
        batches = pa.RecordBatchReader.from_stream(source)
        names = batches.schema.names
    kept = [name for name in names if not re.fullmatch(r"__index_level_\d+__", name)]
    some = (batch.select(kept) for batch in batches)  # without the index of pandas
    return arrow.batches_of(kept, some, ask, "data")


def _is_hugging_face(source: Any) -> bool:
    return hasattr(source, "with_format") and isinstance(
        getattr(source, "column_names", None), list
    )


def _name(source: Any) -> Path:
    """What to call it in an error."""
    return Path(type(source).__name__)
