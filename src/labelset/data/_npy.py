"""npy files: one array, which is features, images or labels as its key says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from labelset.data._column import Array
from labelset.data._description import Description
from labelset.data._filed import Filed, array_in
from labelset.data._growing import GrowingLabels
from labelset.data._inputs import array_features, array_images
from labelset.data._parts import part_numbers
from labelset.data._piece import Piece
from labelset.data._reading import reading
from labelset.labels import Labels

__all__ = ["array_labels", "as_piece", "read"]


def read(paths: Sequence[Path], ask: Description, role: str) -> list[Piece]:
    """(rows, d) features; (rows, h, w) or (rows, c, h, w) images; labels or a split if asked."""
    return [_one(path, ask, role) for path in paths]


def _one(path: Path, ask: Description, role: str) -> Piece:
    with reading(path):
        return as_piece(path, array_in(path, ask.memory << 20), ask, role)


def as_piece(path: Path, array: Array | Filed, ask: Description, role: str) -> Piece:
    """The array read as what it is asked for; NaN and `unknown` are unknown labels."""
    rows = len(array) if array.ndim else 0
    if role == "split":
        whole = array.whole() if isinstance(array, Filed) else array
        return Piece(path=path, rows=rows, split=part_numbers(whole))
    if role == "labels":
        return Piece(path=path, rows=rows, labels=array_labels(array, ask.unknown))
    if array.ndim > 2:
        return Piece(path=path, rows=rows, images=array_images(array))
    return Piece(path=path, rows=rows, features=array_features(array))


def array_labels(array: Array | Filed, unknown: int | None) -> Labels:
    """From a dense matrix, wherever it is."""
    if isinstance(array, np.ndarray):
        return Labels.from_dense(array, unknown=unknown)
    held = GrowingLabels()
    for start, block in array.blocks():
        try:
            some = Labels.from_dense(block, unknown=unknown)
        except ValueError as error:
            raise ValueError(f"{error} (counted from row {start})" if start else error) from None
        held.append(some)
    return held.done(some.n)
