"""Rows with the same input: features, text and picture alike to the last bit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from labelset.data._alike import first_alike
from labelset.data._dataset import Dataset
from labelset.data._sparse import SparseRows
from labelset.data._stored import blocks

__all__ = ["input_groups"]


def input_groups(dataset: Dataset) -> Tensor | None:
    """(rows,) int64: the first row with the same input; None where there is no input to compare.

    >>> data = Dataset.from_arrays([[1.0], [2.0], [1.0]], [[1], [0], [1]])
    >>> input_groups(data)
    tensor([0, 1, 0])
    """
    held = (dataset.features, dataset.texts, dataset.images)
    streams = [_bytes(part) for part in held if part is not None]
    if not streams:
        return None
    return torch.from_numpy(first_alike(map(b"".join, zip(*streams, strict=True))))


def _bytes(held: Any) -> Iterator[bytes]:
    """The bytes of each row, with their length before them so that joined ones stay apart."""
    for block in blocks(held):  # so that no second copy of the data is made
        if isinstance(block, list):
            each: Iterable[bytes] = (text.encode("utf-8", "surrogatepass") for text in block)
        else:
            each = _sparse(block) if isinstance(block, SparseRows) else _dense(block)
        for row in each:
            yield len(row).to_bytes(8, "little") + row


def _dense(block: Tensor) -> Iterator[bytes]:
    for row in _plain(block.reshape(len(block), -1)).numpy():
        yield row.tobytes()


def _sparse(held: SparseRows) -> Iterator[bytes]:
    starts, indices = held.indptr.tolist(), held.indices.numpy()
    values = _plain(held.filled()).numpy()
    for start, end in pairwise(starts):
        yield indices[start:end].tobytes() + values[start:end].tobytes()


def _plain(block: Tensor) -> Tensor:
    """One NaN and one zero, whatever bits they came with."""
    if not block.is_floating_point():
        return block.contiguous()
    return torch.where(block.isnan(), torch.nan, block + 0.0)
