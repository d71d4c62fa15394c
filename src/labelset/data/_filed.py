"""Arrays of npy and npz files that are too large for memory, read block by block."""

from __future__ import annotations

import math
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from labelset.data._column import Array, Column, Handle, Spool
from labelset.data._stored import ENTRIES

__all__ = ["Filed", "array_in", "member_of"]

CHUNK = 1 << 20
HEAD = 30
"""Bytes of a zip member's own header, before its name."""


@dataclass(frozen=True, eq=False)
class Filed:
    """An array as it lies in a file."""

    column: Column
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


def array_in(path: Path, memory: int) -> Array | Filed:
    """The array of an npy file; in place where it has more than `memory` bytes."""
    with path.open("rb") as raw:
        head = _head(raw)
        if head is None or _bytes(head) <= memory:
            raw.seek(0)
            array = np.load(raw, allow_pickle=False)
            if not isinstance(array, np.ndarray):
                raise ValueError("is not an npy file (one array)")
            return array.astype(array.dtype.newbyteorder("="), copy=False)
        return _filed(path, head, raw.tell())


def member_of(path: Path, archive: zipfile.ZipFile, name: str) -> Filed | None:
    """An array of an npz file: in place where it is not compressed, else unpacked to disk; None
    where numpy alone can read it."""
    info = archive.getinfo(name)
    with archive.open(info) as member:
        head = _head(member)
        if head is None:
            return None
        before = member.tell()
        if info.compress_type == zipfile.ZIP_STORED:
            while member.read(CHUNK):  # to its end, where the checksum is compared
                pass
            return _filed(path, head, _begins(path, info) + before)
        spool = Spool(np.uint8, 0)
        while chunk := member.read(CHUNK):
            spool.append(np.frombuffer(chunk, dtype=np.uint8))
    unpacked = spool.done()
    if not isinstance(unpacked, Column) or unpacked.size < _bytes(head):
        raise ValueError(f"{name} is shorter than its head says")
    shape, fortran, dtype = head
    return Filed(Column(unpacked.handle, dtype, math.prod(shape)), shape, fortran)


Head = tuple[tuple[int, ...], bool, np.dtype[Any]]


def _head(file: IO[bytes]) -> Head | None:
    """Shape, order and type; None for objects, scalars and what only numpy knows."""
    try:
        version = npy.read_magic(file)
        readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        head: Head = readers[version](file)
    except (ValueError, KeyError):
        return None
    shape, _, dtype = head
    return None if dtype.hasobject or dtype.fields or not shape else head


def _bytes(head: Head) -> int:
    return math.prod(head[0]) * head[2].itemsize


def _filed(path: Path, head: Head, offset: int) -> Filed:
    shape, fortran, dtype = head
    if path.stat().st_size < offset + _bytes(head):
        raise ValueError(f"is shorter than its head says, which is {shape} of {dtype}")
    handle = Handle(path.open("rb", buffering=0))
    return Filed(Column(handle, dtype, math.prod(shape), offset), shape, fortran)


def _begins(path: Path, info: zipfile.ZipInfo) -> int:
    """The byte at which a member's content begins."""
    with path.open("rb") as raw:
        raw.seek(info.header_offset + HEAD - 4)
        name, extra = struct.unpack("<HH", raw.read(4))
    return info.header_offset + HEAD + int(name) + int(extra)
