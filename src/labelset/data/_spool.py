"""Blocks of rows -> all rows: in memory where they are few, else on disk."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelset.data._column import Column, Spool
from labelset.data._growing import GrowingStarts
from labelset.data._sparse import SparseRows
from labelset.data._stored import Stored, StoredRows, StoredSparse, StoredTexts, blocks

__all__ = ["MEMORY", "appender", "on_disk", "spooled", "stacked"]

MEMORY = 64 << 20
"""Bytes up to which rows stay in memory."""
OVERHEAD = 64
"""Bytes that a text needs besides its letters."""


def spooled(parts: Iterable[Any], memory: int = MEMORY) -> Any:
    """Tensors, sparse rows or lists of texts below each other; on disk past `memory` bytes.

    >>> spooled([["one"], ["two", "three"]])
    ['one', 'two', 'three']
    >>> spooled([["one"], ["two", "three"]], memory=0)[1:]
    ['two', 'three']
    """
    spool: Any = None
    for part in parts:
        spool = spool or appender(part, memory)
        spool.append(part)
    if spool is None:
        raise ValueError("there are no rows")
    return spool.done()


def appender(first: Any, memory: int) -> Any:
    """What blocks like this one can be appended to; `done` then gives all of them."""
    if isinstance(first, SparseRows):
        return _Sparse(first, memory)
    return _Dense(first, memory) if isinstance(first, Tensor) else _Texts(memory)


def stacked(parts: Iterable[Any]) -> Any:
    """Rows from several places below each other; on disk where any of them is."""
    held = list(parts)
    memory = 0 if any(isinstance(part, Stored) for part in held) else 1 << 62
    return spooled((block for part in held for block in _pieces(part)), memory)


def on_disk(*held: Any) -> bool:
    """Whether any of these is."""
    return any(isinstance(part, Stored) for part in held)


def _pieces(held: Any) -> Iterable[Any]:
    """At least one, so that the shape of what is empty is known."""
    return blocks(held) if len(held) else [held[:0]]


class _Dense:
    def __init__(self, first: Tensor, memory: int) -> None:
        self.inner, self.dtype = tuple(first.shape[1:]), first.dtype
        self.rows = 0
        self.flat = Spool(first.numpy().dtype, memory)

    def append(self, block: Tensor) -> None:
        if tuple(block.shape[1:]) != self.inner:
            raise ValueError(f"rows of {tuple(block.shape[1:])} numbers after {self.inner}")
        if block.dtype == torch.float64 and self.dtype == torch.float32:
            self._widen()
        self.rows += len(block)
        self.flat.append(block.numpy())

    def _widen(self) -> None:
        """From float32 to float64, a block having numbers that need it."""
        held, self.dtype = self.done(), torch.float64
        self.flat = Spool(np.float64, self.flat.memory)
        for block in blocks(held):
            self.flat.append(block.numpy())

    def done(self) -> Tensor | StoredRows:
        flat = self.flat.done()
        if isinstance(flat, Column):
            return StoredRows(column=flat, inner=self.inner, dtype=self.dtype)
        return torch.from_numpy(flat.reshape(self.rows, *self.inner))


class _Sparse:
    def __init__(self, first: SparseRows, memory: int) -> None:
        self.width, self.ones = first.width, True
        self.starts = GrowingStarts()
        self.indices, self.values = Spool(np.int32, memory), Spool(np.float32, memory)

    def append(self, block: SparseRows) -> None:
        self.ones = self.ones and block.values is None
        self.starts.append(block.indptr.diff().numpy())
        self.indices.append(block.indices.numpy())
        self.values.append(block.filled().numpy())

    def done(self) -> SparseRows | StoredSparse:
        indptr = self.starts.done()
        indices, values = self.indices.done(), self.values.done()
        if isinstance(indices, Column) and isinstance(values, Column):
            kept = None if self.ones else values
            return StoredSparse(indptr=indptr, indices=indices, width=self.width, values=kept)
        assert not isinstance(indices, Column)  # both have four bytes an entry
        assert not isinstance(values, Column)
        stored = None if self.ones else torch.from_numpy(values)
        return SparseRows(torch.from_numpy(indptr), torch.from_numpy(indices), self.width, stored)


class _Texts:
    def __init__(self, memory: int) -> None:
        self.memory, self.weight = memory, 0
        self.held: list[str] = []
        self.letters: Spool | None = None
        self.starts = GrowingStarts()

    def append(self, block: list[str]) -> None:
        self.held.extend(block)
        self.weight += sum(map(len, block)) + OVERHEAD * len(block)
        if self.weight > self.memory:
            self.letters = self.letters or Spool(np.uint8, 0)
            coded = [text.encode("utf-8", "surrogatepass") for text in self.held]
            self.letters.append(np.frombuffer(b"".join(coded), dtype=np.uint8))
            self.starts.append([len(text) for text in coded])
            self.held.clear()

    def done(self) -> list[str] | StoredTexts:
        letters = None if self.letters is None else self.letters.done()
        if not isinstance(letters, Column):
            return self.held if letters is None else [""] * len(self.starts)
        return StoredTexts(indptr=self.starts.done(), letters=letters)
