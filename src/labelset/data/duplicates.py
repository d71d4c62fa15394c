"""Rows that are alike to the last bit, and rows with the same input."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from labelset.data.dataset import Dataset
from labelset.data.growing import Growing
from labelset.data.sparse import SparseRows
from labelset.data.store import Array, blocks

SIZE = 16
"""Bytes kept of each row: that many never agree by chance."""
ROWS = 1 << 14
"""Row numbers that are objects together."""


def first_alike(rows: Iterable[bytes | memoryview]) -> Array:
    """(rows,) int64: the first row with the same bytes, from 16 bytes of each row.

    >>> first_alike([b"one", b"two", b"one"])
    array([0, 1, 0])
    """
    digests, some = Growing(np.uint8), bytearray()
    for row in rows:
        some += hashlib.blake2b(row, digest_size=SIZE).digest()
        if len(some) >= 1 << 16:
            digests.append(np.frombuffer(some, dtype=np.uint8))
            some = bytearray()
    digests.append(np.frombuffer(some, dtype=np.uint8))
    halves = digests.done().view(np.uint64).reshape(-1, 2)
    order = np.lexsort((halves[:, 1], halves[:, 0]))  # stable: the first of equals comes first
    out = np.arange(len(order))
    if not len(order):
        return out
    new = np.ones(len(order), dtype=bool)
    new[1:] = False
    for half in halves.T:
        ordered = half[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    at = np.flatnonzero(new)
    out[order] = np.repeat(order[at], np.diff(at, append=len(order)))
    return out


def joined(first: Array, second: Array) -> Array:
    """(rows,) groups of rows that are together in either, or by way of others.

    >>> joined(np.array([0, 0, 1, 2]), np.array([0, 1, 1, 2]))
    array([0, 0, 0, 1])
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    first, second = (np.unique(each, return_inverse=True)[1] for each in (first, second))
    columns = second + int(first.max(initial=-1)) + 1
    size = int(columns.max(initial=-1)) + 1
    edges = (np.ones(len(first)), (first, columns))
    found: Array = connected_components(coo_array(edges, shape=(size, size)))[1]
    return found[first].astype(np.int64)


def runs(flat: Array, lengths: Array) -> Iterator[memoryview]:
    """The bytes of as many numbers as each length says.

    >>> [run.nbytes for run in runs(np.zeros(3, dtype=np.int32), np.array([2, 0, 1]))]
    [8, 0, 4]
    """
    raw, at = memoryview(cast(Any, np.ascontiguousarray(flat).view(np.uint8))), 0
    for start in range(0, len(lengths), ROWS):
        for size in (lengths[start : start + ROWS] * flat.itemsize).tolist():
            yield raw[at : at + size]
            at += size


def input_groups(dataset: Dataset) -> Tensor | None:
    """(rows,) int64: the first row with the same input; None where there is no input to compare.

    >>> data = Dataset.from_arrays([[1.0], [2.0], [1.0]], [[1], [0], [1]])
    >>> input_groups(data)
    tensor([0, 1, 0])
    """
    inputs = (dataset.features, dataset.texts, dataset.images)
    streams = [_bytes(part) for part in inputs if part is not None]
    if not streams:
        return None
    return torch.from_numpy(first_alike(map(b"".join, zip(*streams, strict=True))))


def _bytes(values: Any) -> Iterator[bytes]:
    """The bytes of each row, with their length before them so that joined ones stay apart."""
    for block in blocks(values):  # so that no second copy of the data is made
        if isinstance(block, list):
            each: Iterable[bytes] = (text.encode("utf-8", "surrogatepass") for text in block)
        else:
            each = _sparse(block) if isinstance(block, SparseRows) else _dense(block)
        for row in each:
            yield len(row).to_bytes(8, "little") + row


def _dense(block: Tensor) -> Iterator[bytes]:
    for row in _plain(block.reshape(len(block), -1)).numpy():
        yield row.tobytes()


def _sparse(x: SparseRows) -> Iterator[bytes]:
    starts, indices = x.indptr.tolist(), x.indices.numpy()
    values = _plain(x.filled()).numpy()
    for start, end in pairwise(starts):
        yield indices[start:end].tobytes() + values[start:end].tobytes()


def _plain(block: Tensor) -> Tensor:
    """One NaN and one zero, whatever bits they came with."""
    if not block.is_floating_point():
        return block.contiguous()
    return torch.where(block.isnan(), torch.nan, block + 0.0)
