"""Numbers in a file: what is too much for memory is written once and read by position."""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from dataclasses import dataclass
from typing import IO, Any, cast

import numpy as np

from labelset.data._reading import BadFile

__all__ = ["Array", "Column", "Handle", "Spool"]

Array = np.ndarray[Any, Any]


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
class Column:
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

    def done(self) -> Array | Column:
        """All of them: an array, or a column of the file."""
        if self._handle is None:
            return np.concatenate([np.empty(0, self.dtype), *self._held])
        self._write()
        return Column(self._handle, self.dtype, self.size)

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
