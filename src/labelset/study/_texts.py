"""Features of texts that have no embeddings beside them: computed once for a study."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from labelset import encode
from labelset._atomic import write_with
from labelset.data import Dataset, SparseRows
from labelset.encode._directions import directions

__all__ = ["FEATURES", "with_features"]

FEATURES = "features"
"""The folder of a study's folder in which they are kept; it may be deleted."""
WIDTH = 256


def with_features(name: str, dataset: Dataset, kept: Path | None) -> Dataset:
    """TF-IDF of the texts in `WIDTH` dimensions, or fewer for few texts, by the training rows.

    `kept`: the folder to take them from, or to write them to where they are not there yet.
    """
    path = None if kept is None else kept / f"{name}.npy"
    if path is not None and path.is_file():
        return replace(dataset, features=torch.from_numpy(np.load(path)).float(), texts=None)
    found = _features(dataset)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_with(path, lambda file: np.save(file, found.numpy()))
    return replace(dataset, features=found.float(), texts=None)


def _features(dataset: Dataset) -> Tensor:
    """(rows, width) in half precision, as they are kept, so that all runs see the same."""
    train = dataset.part("train")
    words = encode.build("tfidf").fit(train)
    every, rows = words(dataset), words(train)
    assert isinstance(every, SparseRows)
    assert isinstance(rows, SparseRows)
    features: Tensor = every @ directions(rows, min(WIDTH, *rows.shape), seed=0)
    return features.half()
