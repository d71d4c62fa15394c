"""Rows that a program has in memory, or names a file of, as a data set: arrays, sparse matrices,
frames, lists of texts; new rows as those were that a model was trained on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from os import PathLike
from typing import Any

import numpy as np
import torch

from labelset.data.dataset import (
    Dataset,
    any_features,
    image_tensor,
    moments,
    numbered,
    part_numbers,
)
from labelset.data.description import Schema
from labelset.data.frames import first_rows, is_frame
from labelset.data.growing import no_labels
from labelset.data.guess import SAMPLE, guess
from labelset.data.reader import load, stream
from labelset.data.weights import weighted
from labelset.labels import Labels

ROWS = 1024
"""Rows of a file that are read together."""
USES = {
    "text_column": ("text", "label list"),
    "category_columns": ("category", "group", "0-1 label", "split", "constant"),
    "date_columns": ("date",),
}
"""What columns of words are read as, by what the guess takes them for; a text unless it says."""


def dataset_of(
    rows: Any,
    y: Any = None,
    *,
    names: Sequence[str] | None = None,
    split: Any = None,
    groups: Any = None,
    times: Any = None,
    sample_weight: Any = None,
    **keys: Any,
) -> Dataset:
    """A data set from inputs and labels, or from a file or frame that holds both.

    rows: an array, a scipy sparse matrix, a list of texts, a frame, whose columns of words become
    texts, categories or dates by what they hold, or, without y, a data set, or whatever `load`
    takes, with the `keys` of a description. y: a (rows, labels) array, frame or sparse matrix of 0,
    1 and NaN (unknown), `Labels`, or a list of the label names of each row. `split`, `groups` and
    `times` have an entry for each row; so does `sample_weight`, or one for each row and label.

    >>> dataset_of(["rain at sea", "sun"], [["rain", "sea"], ["sun"]]).names
    ['rain', 'sea', 'sun']
    """
    if y is None:
        made = rows if isinstance(rows, Dataset) and not keys else load(rows, **keys)
        made = made if names is None else replace(made, names=[str(name) for name in names])
        made = replace(made, **_roles(split, groups, times))
        return made if sample_weight is None else weighted(made, sample_weight)
    if keys or isinstance(rows, str | PathLike):
        what = f"{', '.join(keys)} say" if keys else "a file says"
        raise TypeError(f"y is given, and {what} where the labels are: leave one of them out")
    made, (labels, known) = inputs_of(rows), _labels(y)
    if len(made) != len(labels):
        raise ValueError(f"X has {len(made)} rows, y has {len(labels)}")
    called = known or [str(label) for label in range(labels.n)]
    made = replace(
        made,
        labels=labels,
        names=called if names is None else [str(name) for name in names],
        **_roles(split, groups, times),
    )
    return made if sample_weight is None else weighted(made, sample_weight)


def _roles(split: Any, groups: Any, times: Any) -> dict[str, Any]:
    """Those that are given."""
    roles = {
        "split": None if split is None else part_numbers(split),
        "groups": None if groups is None else torch.from_numpy(numbered(groups)),
        "times": None if times is None else moments(times),
    }
    return {name: each for name, each in roles.items() if each is not None}


def inputs_of(rows: Any) -> Dataset:
    """Inputs alone, as `dataset_of` takes them."""
    if isinstance(rows, Dataset):
        return rows
    texts = texts_in(rows)
    if texts is not None:
        return _unlabelled(len(texts), texts=texts)
    if is_frame(rows):
        return load(rows, labelled=False, **frame_keys(rows))
    if len(getattr(rows, "shape", ())) == 4:
        return _unlabelled(len(rows), images=image_tensor(rows))
    features = any_features(rows)
    return _unlabelled(len(features), features=features)


def new_rows(rows: Any, schema: Schema | None = None) -> Iterator[Dataset]:
    """The same, some rows at a time, as those were that a model was trained on; or of a file."""
    named = isinstance(rows, str | PathLike)
    if named or (is_frame(rows) and texts_in(rows) is None):
        yield from stream(rows, schema, rows=ROWS)
    else:
        yield inputs_of(rows)


def texts_in(rows: Any) -> list[str] | None:
    """The texts of a list, an array or a column of them; None where they are something else.

    >>> texts_in(["a text", "another"]), texts_in([[1.0], [2.0]]), texts_in("file.csv")
    (['a text', 'another'], None, None)
    """
    if isinstance(rows, str | bytes | PathLike | dict) or len(getattr(rows, "shape", (0,))) != 1:
        return None
    try:
        first = next(iter(rows), None)
    except TypeError:
        return None
    if not isinstance(first, str):
        return None
    texts = list(rows)
    strange = next((at for at, text in enumerate(texts) if not isinstance(text, str)), None)
    if strange is not None:
        raise ValueError(
            f"X is a list of texts, but row {strange} is {texts[strange]!r}; give '' where there "
            "is no text"
        )
    return [str(text) for text in texts]


def frame_keys(frame: Any) -> dict[str, list[str]]:
    """How to read the columns of a frame that are not numbers; empty where all are.

    Every column is an input: words that come back are categories, others texts.
    """
    import pyarrow as pa

    if {getattr(dtype, "kind", "words") for dtype in getattr(frame, "dtypes", ["?"])} <= {*"biuf"}:
        return {}  # also where Arrow has no such columns, as sparse ones of pandas
    reader = first_rows(frame, SAMPLE)
    plain = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null)
    fields = [f for f in reader.schema if not f.name.startswith("__index_level_")]
    words = [f.name for f in fields if not any(is_plain(f.type) for is_plain in plain)]
    if not words:
        return {}
    first = list(islice(_cells(reader, words), SAMPLE))
    kinds = {c.name: c.kind for c in guess(words, first, said={"labels": 0}, types={}).columns}
    keys = {key: [name for name in words if kinds[name] in uses] for key, uses in USES.items()}
    taken = {name for some in keys.values() for name in some}
    keys["text_column"] += [name for name in words if name not in taken]
    keys["feature_columns"] = [f.name for f in fields if f.name not in words]
    return {key: some for key, some in keys.items() if some}


def _cells(reader: Any, names: Sequence[str]) -> Iterator[list[str | None]]:
    for batch in reader:
        columns = (batch.column(name).to_pylist() for name in names)
        for row in zip(*columns, strict=True):
            yield [None if cell is None else str(cell) for cell in row]


def _labels(y: Any) -> tuple[Labels, list[str] | None]:
    """Labels and, where y says them, their names."""
    if isinstance(y, Labels):
        return y, None
    if hasattr(y, "tocsr"):
        return Labels.from_scipy(y), None
    columns = getattr(y, "columns", None)
    if columns is not None:
        missing = {"na_value": np.nan, "dtype": float} if hasattr(y, "convert_dtypes") else {}
        return Labels.from_dense(y.to_numpy(**missing)), [str(name) for name in columns]
    if isinstance(y, Sequence) and any(isinstance(n, str) for row in y[:ROWS] for n in _row(row)):
        names = sorted({name for row in y for name in _row(row)})
        number = {name: at for at, name in enumerate(names)}
        return Labels.from_lists([[number[n] for n in row] for row in y], n=len(names)), names
    return Labels.from_dense(y), None


def _row(row: Any) -> Sequence[Any]:
    if isinstance(row, str):
        raise ValueError(
            f"y must list the labels of each row, got the word {row!r}; give [{row!r}] where a "
            "row has one label"
        )
    return list(row) if isinstance(row, list | tuple | set | frozenset) else []


def _unlabelled(rows: int, **inputs: Any) -> Dataset:
    return Dataset(labels=no_labels(rows), names=[], **inputs)
