"""Rows on disk, read by position; and blocks of rows as they come, kept there or in memory."""

from __future__ import annotations

import math
import os
import tempfile
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any, Generic, Self, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from labelset import csr
from labelset.data.growing import GrowingStarts
from labelset.data.reading import BadFile
from labelset.data.sparse import SparseRows

Array = np.ndarray[Any, Any]
MEMORY = 64 << 20
"""Bytes up to which rows stay in memory."""
OVERHEAD = 64
"""Bytes that a text needs besides its letters."""
LONG = 1 << 20
"""From here on the digits that float32 drops may be those that tell rows apart."""
BLOCK = 8192
"""Rows that are compared together."""


def has_long(t: Tensor) -> bool:
    """Whether float32 would round any large number."""
    if t.element_size() < 4 or t.dtype == torch.float32:
        return False
    parts = t.split(BLOCK)  # type: ignore[no-untyped-call]
    return any(
        bool(((b.abs() >= LONG) & (b != b.float())).any()) for b in map(Tensor.double, parts)
    )


def long_kept(t: Tensor) -> Tensor:
    """float64: large numbers in full, others as in float32. So a number is the same whatever
    numbers lie beside it, also where rows come block by block.

    >>> long_kept(torch.tensor([1.7e9 + 3, 0.1], dtype=torch.float64)).tolist()
    [1700000003.0, 0.10000000149011612]
    """
    kept = t.to(torch.float64, copy=True)
    for b in kept.split(BLOCK):  # type: ignore[no-untyped-call]
        b.copy_(torch.where(b.abs() >= LONG, b, b.float().double()))
    return kept


class Handle:
    """An open file, which is closed (and, if temporary, gone) when nobody holds it any more."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.lock = threading.Lock()
        weakref.finalize(self, file.close)

    def some(self, into: memoryview, place: int) -> int:
        """Read bytes from `place` on; how many there were."""
        if hasattr(os, "preadv"):  # which moves no position that forked processes share
            return os.preadv(self.file.fileno(), [into], place)
        with self.lock:
            self.file.seek(place)
            return self.file.readinto(into)  # type: ignore[attr-defined, no-any-return]


@dataclass(frozen=True, eq=False)
class DiskColumn:
    """Numbers one after the other in a file, of which only those asked for are in memory.

    They are read, not mapped: pages of a mapped file would count as memory of the process.
    """

    handle: Handle
    dtype: np.dtype[Any]
    size: int
    """How many numbers there are."""
    offset: int = 0
    """Bytes before the first."""

    def read(self, starts: Array, lengths: Array) -> Array:
        """The numbers from each start on, one run after the other; runs that touch are one."""
        held = lengths > 0
        starts, lengths = starts[held], lengths[held]
        out = np.empty(int(lengths.sum()), dtype=self.dtype)
        if not len(starts):
            return out
        apart = starts[1:] != (starts + lengths)[:-1]
        first = np.concatenate([[0], np.flatnonzero(apart) + 1])
        places = self.offset + starts[first] * self.dtype.itemsize
        sizes = np.add.reduceat(lengths, first) * self.dtype.itemsize
        into, at = memoryview(cast(Any, out.view(np.uint8))), 0
        for place, size in zip(places.tolist(), sizes.tolist(), strict=True):
            self._fill(into[at : at + size], place)
            at += size
        return out

    def _fill(self, into: memoryview, place: int) -> None:
        while len(into):
            got = self.handle.some(into, place)
            if not got:
                name = self.handle.file.name
                raise BadFile(f"{name}: is shorter than when it was opened; read it again")
            into, place = into[got:], place + got


class Spool:
    """Numbers as they come: in memory up to `memory` bytes, from then on in a temporary file.

    The file has no name (or goes with the process), so that it is gone when nobody reads it.

    >>> spool = Spool(np.float32, memory=8)
    >>> for block in ([1, 2], [3]):
    ...     spool.append(np.array(block))
    >>> spool.done().read(np.array([1]), np.array([2]))
    array([2., 3.], dtype=float32)
    """

    def __init__(self, dtype: Any, memory: int) -> None:
        self.dtype, self.memory = np.dtype(dtype), memory
        self.size = 0
        self._held: list[Array] = []
        self._handle: Handle | None = None

    def append(self, block: Array) -> None:
        """Keep a copy of these numbers."""
        flat = np.array(block, dtype=self.dtype, order="C").reshape(-1)
        self.size += flat.size
        self._held.append(flat)
        if self._handle is not None or self.size * self.dtype.itemsize > self.memory:
            self._write()

    def done(self) -> Array | DiskColumn:
        """All of them: an array, or a column of the file."""
        if self._handle is None:
            return np.concatenate([np.empty(0, self.dtype), *self._held])
        self._write()
        return DiskColumn(self._handle, self.dtype, self.size)

    def _write(self) -> None:
        try:
            if self._handle is None:
                made: Any = tempfile.TemporaryFile(prefix="labelset-")  # noqa: SIM115
                self._handle = Handle(made)
            for block in self._held:
                self._handle.file.write(memoryview(cast(Any, block)).cast("B"))
            self._handle.file.flush()
        except OSError as error:
            raise BadFile(
                f"{tempfile.gettempdir()}: cannot keep the rows there ({error.strerror}); let "
                "TMPDIR name a folder with more room, or give more `memory`"
            ) from None
        self._held.clear()


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
            rows = csr.row_numbers(index, len(self), torch.device("cpu")).numpy()
        return rows if self.numbers is None else self.numbers[rows]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class StoredRows(Stored[Tensor]):
    """(rows, ...) numbers: what a tensor would hold.

    >>> from labelset.data.store import spooled
    >>> x = spooled([torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[5.0, 6.0]])], memory=0)
    >>> x, x[[2, 0]]
    (StoredRows(3 x 2), tensor([[5., 6.], [1., 2.]]))
    """

    column: DiskColumn
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
    indices: DiskColumn
    width: int
    values: DiskColumn | None = None
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
        return SparseRows(csr.cumulate(torch.from_numpy(lengths)), indices, self.width, values)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class StoredTexts(Stored[list[str]], Sequence[str]):
    """One text per row: what a list would hold."""

    indptr: Array
    """(rows of the file + 1,) int64: the byte at which each begins."""
    letters: DiskColumn

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


@dataclass(frozen=True, eq=False)
class Filed:
    """An array as it lies in a file."""

    column: DiskColumn
    shape: tuple[int, ...]
    fortran: bool
    """Whether the first index runs fastest, so that a row lies scattered."""

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.column.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def rows(self, start: int, end: int) -> Array:
        """Rows in memory, in the machine's own byte order."""
        inner = math.prod(self.shape[1:])
        if self.fortran:
            starts = np.arange(inner) * len(self) + start
            flat = self.column.read(starts, np.full(inner, end - start))
            block = flat.reshape(*reversed(self.shape[1:]), end - start).T
        else:
            flat = self.column.read(np.array([start * inner]), np.array([(end - start) * inner]))
            block = flat.reshape(end - start, *self.shape[1:])
        return block.astype(block.dtype.newbyteorder("="), copy=False)

    def blocks(self, entries: int = ENTRIES) -> Iterator[tuple[int, Array]]:
        """(first row, rows) one after the other."""
        size = max(1, entries * 4 // max(math.prod(self.shape[1:]) * self.dtype.itemsize, 1))
        for start in range(0, len(self), size):
            yield start, self.rows(start, min(start + size, len(self)))

    def whole(self) -> Array:
        """All of it, in memory."""
        return self.rows(0, len(self))


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
    return spooled((block for part in held for block in _blocks_of(part)), memory)


def on_disk(*held: Any) -> bool:
    """Whether any of these is."""
    return any(isinstance(part, Stored) for part in held)


def _blocks_of(held: Any) -> Iterable[Any]:
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
        if isinstance(flat, DiskColumn):
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
        if isinstance(indices, DiskColumn) and isinstance(values, DiskColumn):
            kept = None if self.ones else values
            return StoredSparse(indptr=indptr, indices=indices, width=self.width, values=kept)
        assert not isinstance(indices, DiskColumn)  # both have four bytes an entry
        assert not isinstance(values, DiskColumn)
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
        if not isinstance(letters, DiskColumn):
            return self.held if letters is None else [""] * len(self.starts)
        return StoredTexts(indptr=self.starts.done(), letters=letters)
