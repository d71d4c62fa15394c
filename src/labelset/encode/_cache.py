"""Features that are computed once: kept by content, in a folder of the caller's."""

from __future__ import annotations

import copy
import json
import zipfile
from pathlib import Path

import numpy as np
import torch

import labelset
from labelset import csr
from labelset.data import Dataset, SparseRows, StoredRows, StoredSparse, digest
from labelset.data.formats.npz import BlockedArray, opened, write_npz
from labelset.data.store import MEMORY, Array, Filed, blocks
from labelset.encode._base import Encoder, Inputs
from labelset.files import write_with
from labelset.terminal import phase

FORMAT = 2
"""To be raised when what a file holds, or how it is laid out, changes."""


def encoded(
    encoder: Encoder, dataset: Dataset, folder: str | Path | None = None
) -> tuple[Encoder, Inputs]:
    """A fitted copy of the encoder, and what it prepares of all rows.

    It learns from the training rows, unless it is fitted already. With a `folder`, what is costly
    is looked up there by the content of the rows, their split, the encoder and the version of
    labelset, and kept there.

    >>> data = Dataset.from_arrays([[1.0], [3.0], [9.0]], [[1], [0], [1]], split=[0, 0, 2])
    >>> from labelset.encode import build
    >>> encoded(build("features"), data)[1].flatten()
    tensor([-1.,  1.,  7.])
    """
    path = None if folder is None or not encoder.costly else Path(folder) / _file(encoder, dataset)
    encoder = copy.deepcopy(encoder)
    if path is not None and path.is_file():
        try:
            return _read(path, copy.deepcopy(encoder))
        except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile):
            pass  # a damaged file is computed again
    if not encoder.fitted:
        phase(f"encoding {len(dataset):,} rows")
        encoder.fit(dataset.part("train"))
    inputs = encoder.prepared(dataset)
    if path is not None:
        _write(path, encoder, inputs)
    return encoder, inputs


def _file(encoder: Encoder, dataset: Dataset) -> str:
    rows = {what: getattr(dataset, what) for what in ("features", "texts", "images", "split")}
    about = json.dumps([FORMAT, labelset.__version__, encoder.as_json()], sort_keys=True)
    key = digest(**rows, about=about, **encoder.state())
    return f"{encoder.name}-{key[:32]}.npz"


def _write(path: Path, encoder: Encoder, inputs: Inputs) -> None:
    arrays: dict[str, Array | BlockedArray] = {
        f"state.{name}": t.cpu().numpy() for name, t in encoder.state().items()
    }
    arrays["facts"] = np.array(json.dumps(encoder.facts))
    if isinstance(inputs, (SparseRows, StoredSparse)):
        lengths = inputs.lengths() if isinstance(inputs, StoredSparse) else inputs.indptr.diff()
        starts = csr.cumulate(lengths)
        stored = (int(starts[-1]),)
        arrays["indptr"], arrays["width"] = starts.numpy(), np.array(inputs.width)
        indices = (block.indices.numpy() for block in blocks(inputs))
        arrays["indices"] = BlockedArray(stored, np.int32, indices)
        values = (block.filled().numpy() for block in blocks(inputs))
        arrays["values"] = BlockedArray(stored, np.float32, values)
    else:
        dense = (block.numpy() for block in blocks(inputs))
        arrays["dense"] = BlockedArray(tuple(inputs.shape), np.float32, dense)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_with(path, lambda file: write_npz(file, arrays))


def _read(path: Path, encoder: Encoder) -> tuple[Encoder, Inputs]:
    held = opened(path, memory=MEMORY, large=("dense", "indices", "values"))
    state = {
        key.removeprefix("state."): torch.from_numpy(array)
        for key, array in held.items()
        if key.startswith("state.")
    }
    encoder.restore(json.loads(str(held["facts"])), state)
    if "dense" in held:
        dense = held["dense"]
        if not isinstance(dense, Filed):
            return encoder, torch.from_numpy(dense)
        rows = StoredRows(column=dense.column, inner=dense.shape[1:], dtype=torch.float32)
        return encoder, rows
    starts, indices, width, values = (held[k] for k in ("indptr", "indices", "width", "values"))
    if isinstance(indices, Filed) and isinstance(values, Filed):
        sparse = StoredSparse(
            indptr=starts, indices=indices.column, width=int(width), values=values.column
        )
        return encoder, sparse
    parts = (torch.from_numpy(array) for array in (starts, indices, values))
    starts, indices, values = parts
    return encoder, SparseRows(starts, indices, int(width), values)
