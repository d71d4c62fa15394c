"""Rows that are alike, to the last byte."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, cast

import numpy as np

from labelset.data._column import Array
from labelset.data._growing import Growing

__all__ = ["first_alike", "runs"]

SIZE = 16
"""Bytes kept of each row: that many never agree by chance."""
ROWS = 1 << 14
"""Row numbers that are objects together."""


def first_alike(rows: Iterable[bytes | memoryview]) -> Array:
    """(rows,) int64: the first row with the same bytes, from 16 bytes of each row.

    >>> first_alike([b"one", b"two", b"one"])
    array([0, 1, 0])
    """
    held, some = Growing(np.uint8), bytearray()
    for row in rows:
        some += hashlib.blake2b(row, digest_size=SIZE).digest()
        if len(some) >= 1 << 16:
            held.append(np.frombuffer(some, dtype=np.uint8))
            some = bytearray()
    held.append(np.frombuffer(some, dtype=np.uint8))
    halves = held.done().view(np.uint64).reshape(-1, 2)
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
