"""Features that are computed once: kept by content, in a folder of the caller's."""

from __future__ import annotations

import copy
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelset._atomic import write_with
from labelset.data import Dataset, SparseRows
from labelset.data._fingerprint import digest
from labelset.encode._base import Encoder, Inputs

__all__ = ["encoded"]

FORMAT = 1
Arrays = dict[str, np.ndarray[Any, Any]]


def encoded(
    encoder: Encoder, dataset: Dataset, folder: str | Path | None = None
) -> tuple[Encoder, Inputs]:
    """A fitted copy of the encoder, and what it prepares of all rows.

    It learns from the training rows, unless it is fitted already. With a `folder`, what is costly
    is looked up there by the content of the rows, their split and the encoder, and kept there.

    >>> data = Dataset.from_arrays([[1.0], [3.0], [9.0]], [[1], [0], [1]], split=[0, 0, 2])
    >>> from labelset.encode import build
    >>> encoded(build("features"), data)[1].flatten()
    tensor([-1.,  1.,  7.])
    """
    path = None if folder is None or not encoder.costly else Path(folder) / _file(encoder, dataset)
    encoder = copy.deepcopy(encoder)
    if path is not None and path.is_file():
        try:
            return _read(path, encoder)
        except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile):
            pass  # a damaged file is made anew
    if not encoder.fitted:
        encoder.fit(dataset.part("train"))
    inputs = encoder.prepare(dataset)
    if path is not None:
        _write(path, encoder, inputs)
    return encoder, inputs


def _file(encoder: Encoder, dataset: Dataset) -> str:
    rows = {what: getattr(dataset, what) for what in ("features", "texts", "images", "split")}
    about = json.dumps([FORMAT, encoder.as_json()], sort_keys=True)
    key = digest(**rows, about=about, **encoder.state())
    return f"{encoder.name}-{key[:32]}.npz"


def _write(path: Path, encoder: Encoder, inputs: Inputs) -> None:
    arrays: Arrays = {f"state.{name}": t.cpu().numpy() for name, t in encoder.state().items()}
    arrays["facts"] = np.array(json.dumps(encoder.facts))
    if isinstance(inputs, SparseRows):
        held = {"indptr": inputs.indptr, "indices": inputs.indices, "values": inputs.filled()}
        arrays |= {name: t.numpy() for name, t in held.items()}
        arrays["width"] = np.array(inputs.width)
    else:
        arrays["dense"] = inputs.numpy()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_with(path, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]


def _read(path: Path, encoder: Encoder) -> tuple[Encoder, Inputs]:
    with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
        held: dict[str, Any] = {name: file[name] for name in file.files}
    tensors: dict[str, Tensor] = {
        name: torch.from_numpy(array) for name, array in held.items() if array.dtype.kind != "U"
    }
    state = {k.removeprefix("state."): t for k, t in tensors.items() if k.startswith("state.")}
    encoder.restore(json.loads(str(held["facts"])), state)
    if "dense" in tensors:
        return encoder, tensors["dense"]
    parts = (tensors["indptr"], tensors["indices"], int(held["width"]), tensors["values"])
    return encoder, SparseRows(*parts)
