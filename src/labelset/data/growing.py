"""Numbers and labels that come block by block, kept as plain numbers while they come."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import torch

from labelset import check, csr
from labelset.labels import Labels

Array = np.ndarray[Any, Any]
BLOCK = 1 << 15
"""Labels that are sorted together: each takes some 60 bytes meanwhile."""


class Growing:
    """Numbers in one piece of memory, which grows where it lies: blocks that are joined in the end
    would need room for all numbers twice.

    >>> held = Growing(np.int32)
    >>> for block in ([1, 2], [3]):
    ...     held.append(block)
    >>> len(held), held.done()
    (3, array([1, 2, 3], dtype=int32))
    """

    def __init__(self, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)
        self._bytes = array("B")

    def __len__(self) -> int:
        return len(self._bytes) // int(self.dtype.itemsize)

    def append(self, block: Any) -> None:
        """Keep a copy of these numbers."""
        flat = np.ascontiguousarray(block, dtype=self.dtype).reshape(-1)
        self._bytes.frombytes(memoryview(cast(Any, flat.view(np.uint8))))

    def done(self) -> Array:
        """All of them, not copied; nothing can be appended while somebody holds this."""
        return (
            np.frombuffer(self._bytes, dtype=self.dtype) if len(self) else np.empty(0, self.dtype)
        )


class GrowingStarts:
    """Where rows begin that lie one after the other, and the end of the last.

    >>> held = GrowingStarts()
    >>> for lengths in ([2, 0], [3]):
    ...     held.append(lengths)
    >>> held.done()
    array([0, 2, 2, 5])
    """

    def __init__(self) -> None:
        self._starts, self._end = Growing(np.int64), 0
        self._starts.append([0])

    def __len__(self) -> int:
        return len(self._starts) - 1

    def append(self, lengths: Any) -> None:
        """Entries of each row that follows."""
        ends = np.cumsum(lengths, dtype=np.int64) + self._end
        self._starts.append(ends)
        self._end = int(ends[-1]) if len(ends) else self._end

    def done(self) -> Array:
        """(rows + 1,) int64, not copied."""
        return self._starts.done()


class GrowingLabels:
    """The rows of `Labels`, one block below the other; what `Labels.stack` would give.

    >>> held = GrowingLabels()
    >>> held.append(Labels.from_lists([[0], [0, 1]], n=2))
    >>> held.append(Labels.from_dense([[0.5, 0.0]]))
    >>> held.done(2).dense()
    tensor([[1.0000, 0.0000],
            [1.0000, 1.0000],
            [0.5000, 0.0000]])
    """

    def __init__(self) -> None:
        self._starts, self._indices = GrowingStarts(), Growing(np.int32)
        self._values: Growing | None = None

    def append(self, block: Labels) -> None:
        """Rows that follow."""
        values = None if block.values is None else block.values.numpy()
        self.add(block.indptr.diff().numpy(), block.indices.numpy(), values)

    def add(self, lengths: Array, indices: Array, values: Array | None = None) -> None:
        """The same from arrays: entries of each row, their labels, and values unless all are 1."""
        if values is not None and self._values is None:
            self._values = Growing(np.float32)
            self._values.append(np.ones(len(self._indices), dtype=np.float32))
        if self._values is not None:
            self._values.append(np.ones(len(indices)) if values is None else values)
        self._starts.append(lengths)
        self._indices.append(indices)

    def done(self, n: int) -> Labels:
        """All rows; `n`: how many labels there are."""
        n = csr.fits(check.whole("n", n))
        values = None if self._values is None else torch.from_numpy(self._values.done())
        starts, indices = (torch.from_numpy(held.done()) for held in (self._starts, self._indices))
        return Labels(starts, indices, n, values)


def no_labels(rows: int) -> Labels:
    """Rows of which no label is asked for."""
    return Labels(torch.zeros(rows + 1, dtype=torch.int64), torch.empty(0, dtype=torch.int32), 0)


def ranges(indptr: Array, entries: int) -> Iterator[tuple[int, int]]:
    """(first row, end) of blocks with about so many stored entries."""
    start = 0
    while start < len(indptr) - 1:
        end = int(np.searchsorted(indptr, indptr[start] + entries, side="right")) - 1
        end = min(max(end, start + 1), start + entries, len(indptr) - 1)
        yield start, end
        start = end


def check_pointers(indptr: Array, stored: int) -> None:
    """Checked as a whole, before any of it is used."""
    if indptr.ndim != 1 or indptr.dtype.kind not in "iu":
        raise TypeError(f"indptr must be 1-D whole numbers, got {indptr.dtype} {indptr.shape}")
    if not len(indptr) or indptr[0] != 0 or indptr[-1] != stored:
        raise ValueError(f"indptr must run from 0 to {stored}, the stored entries")
    if (np.diff(indptr) < 0).any():
        raise ValueError("indptr must never fall")


def sparse_labels(
    indptr: Any, indices: Any, n: int, values: Any = None, unknown: tuple[Any, Any] | None = None
) -> Labels:
    """What `Labels.from_csr` gives, checked and sorted some rows at a time."""
    try:
        parts = [(indptr, indices)] if unknown is None else [(indptr, indices), unknown]
        for starts, columns in parts:
            check_pointers(starts, len(columns))
        if len({len(starts) for starts, _ in parts}) > 1 or np.shape(values) not in (
            (),
            (len(indices),),
        ):
            raise ValueError("sizes differ")
        held, stored = GrowingLabels(), indptr if unknown is None else indptr + unknown[0]
        for start, end in ranges(stored, BLOCK):
            block = [_cut(*part, start, end) for part in parts]
            some = None if values is None else values[indptr[start] : indptr[end]]
            held.append(Labels.from_csr(*block[0], n, some, *block[1:]))
        return held.done(n)
    except (AttributeError, TypeError, ValueError):  # a mistake, which is told of all rows
        return Labels.from_csr(indptr, indices, n, values, unknown)


def _cut(indptr: Array, indices: Array, start: int, end: int) -> tuple[Array, Array]:
    return indptr[start : end + 1] - indptr[start], indices[indptr[start] : indptr[end]]
