"""Features of texts that have no embeddings beside them: computed once for a study."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from labelset import encode
from labelset.data import Dataset, SparseRows, digest
from labelset.encode import Encoder, directions
from labelset.files import write_bytes

FEATURES = "features"
"""The folder of a study's folder in which they are kept; it may be deleted."""
WIDTH = 256
SEED = 0
FORMAT = 1
"""To be raised when the same texts come to have other features."""
CHECK = 32
"""Bytes of the checksum at the end of a file."""


def with_features(name: str, dataset: Dataset, kept: Path | None) -> Dataset:
    """TF-IDF of the texts in `WIDTH` dimensions, or fewer for few texts, by the training rows.

    `kept`: the folder to take them from, or to write them to where they are not there yet. The
    file's name has a hash of the texts, their split and the settings; a damaged one is made anew.
    """
    words = encode.build("tfidf")
    path = None if kept is None else kept / _file(name, dataset, words)
    found = None if path is None else _read(path)
    if found is None:
        found = _features(dataset, words)
        if path is not None:
            _write(path, found)
    return replace(dataset, features=found.float(), texts=None)


def _file(name: str, dataset: Dataset, words: Encoder) -> str:
    about = json.dumps([FORMAT, words.as_json(), WIDTH, SEED], sort_keys=True)
    key = digest(texts=dataset.texts, split=dataset.split, about=about)
    return f"{name}-{key[:32]}.npy"


def _read(path: Path) -> Tensor | None:
    """None where the file is not there, or is not as it was written."""
    if not path.is_file():
        return None
    raw = path.read_bytes()
    array, check = raw[:-CHECK], raw[-CHECK:]
    if sha256(array).digest() != check:
        return None
    return torch.from_numpy(np.load(BytesIO(array), allow_pickle=False))


def _write(path: Path, features: Tensor) -> None:
    """An npy file; numpy passes over the checksum after the numbers."""
    array = BytesIO()
    np.save(array, features.numpy())
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, array.getvalue() + sha256(array.getvalue()).digest())


def _features(dataset: Dataset, words: Encoder) -> Tensor:
    """(rows, width) in half precision, as they are kept, so that all runs see the same."""
    train = dataset.part("train")
    words.fit(train)
    every, rows = words(dataset), words(train)
    assert isinstance(every, SparseRows)
    assert isinstance(rows, SparseRows)
    features: Tensor = every @ directions(rows, min(WIDTH, *rows.shape), seed=SEED)
    return features.half()
