"""Rows to learn from: in an order of their own, and as often as they weigh."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import _check_sample_weight
from torch import Tensor

from labelset.data import Dataset, SparseRows, ensure_split
from labelset.data.weights import MOST
from labelset.labels import Labels
from labelset.sklearn.targets import Array


def rows_to_learn_from(
    inputs: Dataset, labels: Labels, weight: Array | None, held_out: float, seed: int
) -> Dataset:
    """A data set with train rows and, `held_out` being above 0, valid ones.

    Rows are put in an order that depends on what they hold, not on how they came: the same rows
    teach the same. Those of weight 0 are left out; whole weights repeat their rows; other weights
    go with the labels.
    """
    times = None if weight is None else copies(weight)
    if weight is not None and times is None:
        share = weight / weight[weight > 0].mean()
        labels = replace(labels, weights=torch.from_numpy(share))
        times = (weight > 0).astype(np.int64)
    data = replace(inputs, labels=labels, names=[str(label) for label in range(labels.n)])
    order = _by_content(data)
    data = data.rows(order if times is None else np.repeat(order, times[order]))
    if held_out:
        return ensure_split(data, (1 - held_out, held_out, 0.0), seed)
    return replace(data, split=torch.zeros(len(data), dtype=torch.int8))


def checked_weight(sample_weight: Any, X: Any) -> Array:
    """(rows,) float64 weights, 1 each where None is given; none negative, not all 0."""
    weight: Array = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if bool((weight < 0).any()):
        at = int(np.flatnonzero(weight < 0)[0])
        raise ValueError(f"sample_weight must not be negative, got {weight[at]:g} in row {at}")
    if not weight.any():
        raise ValueError("sample_weight is 0 for every row, which leaves none to learn from")
    return weight


def copies(weight: Array) -> Array | None:
    """How often each row counts, where weights are whole numbers and not too large; else None.

    >>> copies(np.array([2.0, 0.0, 1.0])), copies(np.array([0.5, 1.0]))
    (array([2, 0, 1]), None)
    """
    whole = bool((weight == np.rint(weight)).all()) and weight.sum() <= MOST * len(weight)
    return weight.astype(np.int64) if whole else None


def _by_content(data: Dataset) -> Array:
    """Row numbers, sorted by a hash of each row's inputs and labels."""
    x, texts = data.features, data.texts
    streams = [] if x is None else [_stored(x) if isinstance(x, SparseRows) else _dense(x)]
    streams += [] if texts is None else [(text.encode() for text in texts)]
    rows = zip(*streams, _stored(data.labels), strict=True)
    keys = [hashlib.blake2b(b"|".join(row), digest_size=16).digest() for row in rows]
    return np.argsort(np.array(keys, dtype="S16"), kind="stable")


def _dense(x: Any) -> Iterator[bytes]:
    for row in (x + 0.0).numpy():  # -0.0 and 0.0 are the same
        yield row.tobytes()


def _stored(rows: SparseRows | Labels) -> Iterator[bytes]:
    values: Tensor | None = rows.values
    ends, indices = rows.indptr.tolist(), rows.indices.numpy()
    held = None if values is None else values.numpy()
    for start, end in pairwise(ends):
        value = b"" if held is None else held[start:end].tobytes()
        yield indices[start:end].tobytes() + value
