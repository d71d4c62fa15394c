"""npy files: one array, which is features, images or labels as its key says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from labelset.data._description import Description
from labelset.data._inputs import dense_features, image_tensor
from labelset.data._parts import part_numbers
from labelset.data._piece import Piece
from labelset.data._reading import reading
from labelset.labels import Labels

__all__ = ["as_piece", "read"]


def read(paths: Sequence[Path], ask: Description, role: str) -> list[Piece]:
    """(rows, d) features; (rows, h, w) or (rows, c, h, w) images; labels or a split if asked."""
    return [_one(path, ask, role) for path in paths]


def _one(path: Path, ask: Description, role: str) -> Piece:
    with reading(path):
        with path.open("rb") as raw:
            array = np.load(raw, allow_pickle=False)
        if not isinstance(array, np.ndarray):
            raise ValueError("is not an npy file (one array)")
        return as_piece(path, array, ask, role)


def as_piece(path: Path, array: np.ndarray[Any, Any], ask: Description, role: str) -> Piece:
    """The array read as what it is asked for; NaN and `unknown` are unknown labels."""
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    rows = len(array) if array.ndim else 0
    if role == "split":
        return Piece(path=path, rows=rows, split=part_numbers(array))
    if role == "labels":
        return Piece(path=path, rows=rows, labels=Labels.from_dense(array, unknown=ask.unknown))
    if array.ndim > 2:
        return Piece(path=path, rows=rows, images=image_tensor(array))
    return Piece(path=path, rows=rows, features=dense_features(array))
