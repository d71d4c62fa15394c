"""npz files: features, labels, unknown entries, splits and names under their keys; scipy's too."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from labelset.data._column import Array
from labelset.data._csr_members import sparse_features, sparse_labels, turned
from labelset.data._description import Description
from labelset.data._filed import Filed, member_of
from labelset.data._growing import GrowingLabels
from labelset.data._inputs import array_features, array_images
from labelset.data._npy import array_labels, as_piece
from labelset.data._parts import part_numbers
from labelset.data._piece import Piece
from labelset.data._reading import reading
from labelset.data._sparse import SparseRows
from labelset.data._spool import spooled
from labelset.labels import Labels

__all__ = ["labels_in", "opened", "read", "words"]

LARGE = (
    *("X", "E", "X_indices", "X_data", "texts", "ids"),
    *("arr_0", "indices", "data", "row", "col"),
)
"""Keys whose arrays need not fit into memory; so do dense labels."""
ROWS = 1 << 14
"""Words that are taken out of an array together."""


class Arrays(dict[str, Any]):
    """What an npz file holds: arrays, or, where they are too large, where they lie."""

    def small(self, key: str) -> Array:
        """An array that must be in memory."""
        held = self[key]
        return held.whole() if isinstance(held, Filed) else cast(Array, held)


def read(paths: Sequence[Path], ask: Description, role: str) -> list[Piece]:
    """`X` dense (uint8 times `X_scale`) or `X_indptr`, `X_indices`, `X_shape`, `X_data`; `E` int8
    times `scale`; `Y` or `Y_...` labels, `U_...` unknown; `split`, `label_names`, `ids`, `card`."""
    return [_one(path, ask, role) for path in paths]


def _one(path: Path, ask: Description, role: str) -> Piece:
    with reading(path):
        held = opened(path, memory=ask.memory << 20, large=(*LARGE, ask.label_key))
        if "format" in held and "shape" in held:
            return _scipy(path, held, ask, role)
        if len(held) == 1 and "arr_0" in held:  # numpy.savez without a name
            return as_piece(path, held["arr_0"], ask, role)
        labels = None if role == "features" else labels_in(held, ask)
        features, images = (None, None) if role == "labels" else _inputs(held, ask.memory << 20)
        sizes = [len(x) for x in (features, images, labels) if x is not None]
        rows = sizes[0] if sizes else len(held.get("split", ()))
        if len(set(sizes)) > 1:
            raise ValueError(f"holds {' and '.join(map(str, sizes))} rows of inputs and labels")
        return Piece(
            path=path,
            rows=rows,
            features=features,
            images=images,
            labels=labels,
            names=words(held, "label_names"),
            texts=_lines(held, "texts", ask.memory << 20),
            split=part_numbers(held["split"]) if "split" in held else None,
            ids=_lines(held, "ids", ask.memory << 20),
            about=_card(held),
        )


def opened(
    path: Path,
    starts: tuple[str, ...] = ("",),
    memory: int = 1 << 62,
    large: Sequence[str] = (),
) -> Arrays:
    """The arrays of an npz file whose keys start so; pickles are refused. Those called as in
    `large` stay on disk where they have more than `memory` bytes."""
    if not zipfile.is_zipfile(path):  # numpy would take it for a pickle
        raise zipfile.BadZipFile("no zip archive of arrays")
    held = Arrays()
    with path.open("rb") as raw:
        file = np.load(raw, allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise ValueError("is not an npz file (a zip archive of arrays)")
        with file:
            sizes = {info.filename: info.file_size for info in cast(Any, file.zip).infolist()}
            for key in file.files:
                if not key.startswith(starts):
                    continue
                name, found = f"{key}.npy", None
                if key in large and sizes.get(name, 0) > memory:
                    found = member_of(path, cast(Any, file.zip), name)
                held[key] = _native(file[key]) if found is None else found
    return held


def _native(array: Array) -> Array:
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def labels_in(held: Arrays, ask: Description) -> Labels | None:
    """Dense under the key, or compressed sparse rows, with the unknown entries beside them."""
    key = ask.label_key
    if key in held:
        return array_labels(held[key], ask.unknown)
    if f"{key}_indptr" not in held:
        if key != "Y":
            raise ValueError(f"holds neither {key} nor {key}_indptr; it holds {', '.join(held)}")
        return None
    shape = held.get(f"{key}_shape", held.get("Y_shape"))
    width = ask.labels if shape is None else int(shape[1])
    if not isinstance(width, int):
        raise ValueError(f"does not say how many labels there are; add {key}_shape or give labels")
    unknown = (held["U_indptr"], held["U_indices"]) if "U_indptr" in held else None
    values = held.get(f"{key}_data")
    labels = sparse_labels(held[f"{key}_indptr"], held[f"{key}_indices"], width, values, unknown)
    if shape is not None and int(shape[0]) != len(labels):
        raise ValueError(f"{key}_shape says {int(shape[0])} rows, {key}_indptr {len(labels)}")
    return labels


def _inputs(held: Arrays, memory: int) -> tuple[Any, Any]:
    """(features, images), at most one of them."""
    if "X_indptr" in held:
        if "X_indices" not in held:
            raise ValueError("holds X_indptr without X_indices")
        columns, values = held["X_indices"], held.get("X_data")
        return sparse_features(held["X_indptr"], columns, _width(held), values, memory), None
    key, scale = ("X", "X_scale") if "X" in held else ("E", "scale")
    if key not in held:
        return None, None
    array, times = held[key], held.get(scale)
    return (
        (array_features(array, times), None)
        if array.ndim <= 2
        else (
            None,
            array_images(array, times),
        )
    )


def _width(held: Arrays) -> int:
    if "X_shape" in held:
        return int(held["X_shape"][1])
    raise ValueError("does not say how many features there are; add X_shape")


def _scipy(path: Path, held: Arrays, ask: Description, role: str) -> Piece:
    """What scipy.sparse.save_npz writes: csr, csc or coo."""
    kind = bytes(held["format"].item()).decode() if held["format"].dtype.kind == "S" else "?"
    rows, width = (int(size) for size in held["shape"])
    if kind not in ("csr", "csc", "coo"):
        raise ValueError(f"holds a scipy matrix in {kind} form; save it with .tocsr()")
    memory = ask.memory << 20
    if kind == "csr":
        if len(held["indptr"]) - 1 != rows:
            raise ValueError(f"says {rows} rows and holds {len(held['indptr']) - 1}")
        parts = (held["indptr"], held["indices"], width, held["data"])
        if role != "labels":
            return Piece(path=path, rows=rows, features=sparse_features(*parts, memory))
        y = sparse_labels(held["indptr"], held.small("indices"), width, held.small("data"))
        return Piece(path=path, rows=rows, labels=y)
    blocks = turned(held, kind, rows, width, memory)
    if role == "labels":
        found = GrowingLabels()
        for _, starts, at, values in blocks:
            found.append(Labels.from_csr(starts, at, width, values))
        return Piece(path=path, rows=rows, labels=found.done(width))
    made = (SparseRows.from_csr(s, at, width, v, first=first) for first, s, at, v in blocks)
    return Piece(path=path, rows=rows, features=spooled(made, memory))


def _lines(held: Arrays, key: str, memory: int) -> Any:
    """A word, or more, of each row."""
    array = held.get(key)
    if array is None or not array.ndim or not len(array):
        return words(held, key)
    if isinstance(array, Filed):
        some: Iterable[Array] = (block for _, block in array.blocks())
    else:
        some = (array[at : at + ROWS] for at in range(0, len(array), ROWS))
    return spooled(map(_words, some), memory)


def words(held: Arrays, key: str) -> list[str] | None:
    """An array of words as a list."""
    return _words(held.small(key)) if key in held else None


def _words(array: Array) -> list[str]:
    return [w.decode() if isinstance(w, bytes) else str(w) for w in array.tolist()]


def _card(held: Arrays) -> dict[str, Any]:
    if "card" not in held:
        return {}
    try:
        card = json.loads(str(held["card"]))
    except json.JSONDecodeError:
        return {"note": str(held["card"])}
    return cast(dict[str, Any], card) if isinstance(card, dict) else {"note": card}
