"""npz files: features, labels, unknown entries, splits and names under their keys; scipy's too."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from torch import Tensor

from labelset.data._description import Description
from labelset.data._inputs import dense_features, image_tensor
from labelset.data._npy import as_piece
from labelset.data._parts import part_numbers
from labelset.data._piece import Piece
from labelset.data._reading import reading
from labelset.data._sparse import SparseRows
from labelset.labels import Labels

__all__ = ["labels_in", "opened", "read", "words"]

Arrays = dict[str, np.ndarray[Any, Any]]


def read(paths: Sequence[Path], ask: Description, role: str) -> list[Piece]:
    """`X` dense (uint8 times `X_scale`) or `X_indptr`, `X_indices`, `X_shape`, `X_data`; `E` int8
    times `scale`; `Y` or `Y_...` labels, `U_...` unknown; `split`, `label_names`, `ids`, `card`."""
    return [_one(path, ask, role) for path in paths]


def _one(path: Path, ask: Description, role: str) -> Piece:
    with reading(path):
        held = opened(path)
        if "format" in held and "shape" in held:
            return _scipy(path, held, role)
        if len(held) == 1 and "arr_0" in held:  # numpy.savez without a name
            return as_piece(path, held["arr_0"], ask, role)
        labels = None if role == "features" else labels_in(held, ask)
        features, images = (None, None) if role == "labels" else _inputs(held)
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
            texts=words(held, "texts"),
            split=part_numbers(held["split"]) if "split" in held else None,
            ids=words(held, "ids"),
            about=_card(held),
        )


def opened(path: Path, starts: tuple[str, ...] = ("",)) -> Arrays:
    """The arrays of an npz file whose keys start so; pickles are refused."""
    if not zipfile.is_zipfile(path):  # numpy would take it for a pickle
        raise zipfile.BadZipFile("no zip archive of arrays")
    with path.open("rb") as raw:
        file = np.load(raw, allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise ValueError("is not an npz file (a zip archive of arrays)")
        with file:
            held = {key: file[key] for key in file.files if key.startswith(starts)}
    return {key: a.astype(a.dtype.newbyteorder("="), copy=False) for key, a in held.items()}


def labels_in(held: Arrays, ask: Description) -> Labels | None:
    """Dense under the key, or compressed sparse rows, with the unknown entries beside them."""
    key = ask.label_key
    if key in held:
        return Labels.from_dense(held[key], unknown=ask.unknown)
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
    labels = Labels.from_csr(
        held[f"{key}_indptr"], held[f"{key}_indices"], width, values, unknown=unknown
    )
    if shape is not None and int(shape[0]) != len(labels):
        raise ValueError(f"{key}_shape says {int(shape[0])} rows, {key}_indptr {len(labels)}")
    return labels


def _inputs(held: Arrays) -> tuple[Tensor | SparseRows | None, Tensor | None]:
    """(features, images), at most one of them."""
    if "X_indptr" in held:
        if "X_indices" not in held:
            raise ValueError("holds X_indptr without X_indices")
        starts, columns = held["X_indptr"], held["X_indices"]
        return SparseRows.from_csr(starts, columns, _width(held), held.get("X_data")), None
    key, scale = ("X", "X_scale") if "X" in held else ("E", "scale")
    if key not in held:
        return None, None
    array = held[key]
    if scale in held:
        array = array.astype(np.float32) * np.float32(held[scale])
    return (dense_features(array), None) if array.ndim <= 2 else (None, image_tensor(array))


def _width(held: Arrays) -> int:
    if "X_shape" in held:
        return int(held["X_shape"][1])
    raise ValueError("does not say how many features there are; add X_shape")


def _scipy(path: Path, held: Arrays, role: str) -> Piece:
    """What scipy.sparse.save_npz writes: csr, csc or coo."""
    kind = bytes(held["format"].item()).decode() if held["format"].dtype.kind == "S" else "?"
    rows, width = (int(size) for size in held["shape"])
    if kind == "csr":
        starts, columns, values = held["indptr"], held["indices"], held["data"]
    elif kind in ("csc", "coo"):
        if kind == "coo":
            down, along = held["row"], held["col"]
        else:
            along = np.repeat(np.arange(width), np.diff(held["indptr"]))
            down = held["indices"]
        order = np.lexsort((along, down))
        starts = np.concatenate([[0], np.cumsum(np.bincount(down, minlength=rows))])
        columns, values = along[order], held["data"][order]
    else:
        raise ValueError(f"holds a scipy matrix in {kind} form; save it with .tocsr()")
    if len(starts) - 1 != rows:
        raise ValueError(f"says {rows} rows and holds {len(starts) - 1}")
    if role == "labels":
        return Piece(path=path, rows=rows, labels=Labels.from_csr(starts, columns, width, values))
    features = SparseRows.from_csr(starts, columns, width, values)
    return Piece(path=path, rows=rows, features=features)


def words(held: Arrays, key: str) -> list[str] | None:
    """An array of words as a list."""
    if key not in held:
        return None
    plain = held[key].tolist()
    return [w.decode() if isinstance(w, bytes) else str(w) for w in plain]


def _card(held: Arrays) -> dict[str, Any]:
    if "card" not in held:
        return {}
    try:
        card = json.loads(str(held["card"]))
    except json.JSONDecodeError:
        return {"note": str(held["card"])}
    return cast(dict[str, Any], card) if isinstance(card, dict) else {"note": card}
