"""Rows that lie on disk: `stored[rows]` reads just these, as a tensor, sparse rows or texts."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from labelset import _csr
from labelset.data._column import Array, Column
from labelset.data._long import long_kept
from labelset.data._sparse import SparseRows

__all__ = ["Stored", "StoredRows", "StoredSparse", "StoredTexts", "blocks", "per_row"]

Block = TypeVar("Block")
KINDS: Any = {torch.uint8: np.uint8, torch.float32: np.float32, torch.float64: np.float64}
ENTRIES = 1 << 18
"""Numbers, or letters, that are in memory together."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Stored(ABC, Generic[Block]):
    """Some rows of a file, or all of them; choosing among them reads nothing."""

    numbers: Array | None = None
    """(rows,) int64: which rows of the file these are; None: all."""

    @abstractmethod
    def _rows(self) -> int:
        """Rows of the file."""

    @abstractmethod
    def _read(self, rows: Array) -> Block:
        """The rows of these numbers in the file."""

    def __len__(self) -> int:
        return self._rows() if self.numbers is None else len(self.numbers)

    def __getitem__(self, index: Any) -> Any:
        """In memory: an int, a slice, a list or tensor of ints, or a bool mask says which."""
        return self._read(self._chosen(index))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} rows)"

    def chosen(self, index: Any) -> Self:
        """The same rows, still on disk."""
        return replace(self, numbers=self._chosen(index))

    def _chosen(self, index: Any) -> Array:
        if isinstance(index, slice):
            rows = np.arange(*index.indices(len(self)))
        else:
            rows = _csr.row_numbers(index, len(self), torch.device("cpu")).numpy()
        return rows if self.numbers is None else self.numbers[rows]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class StoredRows(Stored[Tensor]):
    """(rows, ...) numbers: what a tensor would hold.

    >>> from labelset.data._spool import spooled
    >>> x = spooled([torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[5.0, 6.0]])], memory=0)
    >>> x, x[[2, 0]]
    (StoredRows(3 x 2), tensor([[5., 6.], [1., 2.]]))
    """

    column: Column
    inner: tuple[int, ...]
    """The shape of one row."""
    dtype: torch.dtype
    given: bool = False
    """Whether they lie there as they were given, and are rounded on reading as features are."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self), *self.inner)

    @property
    def ndim(self) -> int:
        return 1 + len(self.inner)

    def __repr__(self) -> str:
        return f"StoredRows({' x '.join(map(str, self.shape))})"

    def __getitem__(self, index: Any) -> Tensor:
        rows = self._read(self._chosen(index))
        return rows[0] if isinstance(index, int) else rows

    def _rows(self) -> int:
        return self.column.size // max(math.prod(self.inner), 1)

    def _read(self, rows: Array) -> Tensor:
        width = math.prod(self.inner)
        flat = self.column.read(rows * width, np.full(len(rows), width))
        if flat.dtype.itemsize > 8:  # long doubles, which are rounded twice in memory as well
            flat = flat.astype(np.float64)
        kind = KINDS[self.dtype]
        read = torch.from_numpy(flat.astype(kind, copy=False).reshape(len(rows), *self.inner))
        return long_kept(read) if self.given and self.dtype == torch.float64 else read


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class StoredSparse(Stored[SparseRows]):
    """(rows, width) numbers of which few are not 0: what `SparseRows` would hold."""

    indptr: Array
    """(rows of the file + 1,) int64: where each row begins."""
    indices: Column
    width: int
    values: Column | None = None
    """None when every stored entry is 1."""
    base: int = 0
    """What the file calls the first column."""

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self.width

    def lengths(self) -> Tensor:
        """(rows,) int64: entries of each."""
        every = np.diff(self.indptr)
        return torch.from_numpy(every if self.numbers is None else every[self.numbers])

    def _rows(self) -> int:
        return len(self.indptr) - 1

    def _read(self, rows: Array) -> SparseRows:
        starts, lengths = self.indptr[rows], self.indptr[rows + 1] - self.indptr[rows]
        indices = torch.from_numpy(self.indices.read(starts, lengths)) - self.base
        values = None
        if self.values is not None:
            values = torch.from_numpy(self.values.read(starts, lengths))
        return SparseRows(_csr.cumulate(torch.from_numpy(lengths)), indices, self.width, values)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class StoredTexts(Stored[list[str]], Sequence[str]):
    """One text per row: what a list would hold."""

    indptr: Array
    """(rows of the file + 1,) int64: the byte at which each begins."""
    letters: Column

    def __getitem__(self, index: Any) -> Any:
        texts = self._read(self._chosen(index))
        return texts[0] if isinstance(index, int) else texts

    def __iter__(self) -> Iterator[str]:
        for block in blocks(self):
            yield from block

    def lengths(self) -> Array:
        """(rows,) int64: bytes of each."""
        every = np.diff(self.indptr)
        return every if self.numbers is None else every[self.numbers]

    def _rows(self) -> int:
        return len(self.indptr) - 1

    def _read(self, rows: Array) -> list[str]:
        starts, lengths = self.indptr[rows], self.indptr[rows + 1] - self.indptr[rows]
        raw, ends = self.letters.read(starts, lengths).tobytes(), np.cumsum(lengths)
        pairs = zip((ends - lengths).tolist(), ends.tolist(), strict=True)
        return [raw[start:end].decode("utf-8", "surrogatepass") for start, end in pairs]


def blocks(held: Any, entries: int = ENTRIES, rows: int = 1 << 30) -> Iterator[Any]:
    """Of a tensor, sparse rows or texts, wherever they are: so many rows at a time, in memory,
    that they hold about `entries` numbers and are at most `rows`."""
    size = max(1, min(rows, entries // max(per_row(held), 1)))
    for start in range(0, len(held), size):
        yield held[start : start + size]


def per_row(held: Any) -> int:
    """Entries of a row, on average."""
    if isinstance(held, (Tensor, StoredRows)):
        return math.prod(held.shape[1:])
    if isinstance(held, SparseRows):
        return len(held.indices) // max(len(held), 1)
    if isinstance(held, (StoredSparse, StoredTexts)):
        return int(held.lengths().sum()) // max(len(held), 1)
    return sum(map(len, held)) // max(len(held), 1)
