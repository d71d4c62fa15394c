"""Compressed sparse rows whose parts may be arrays on disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from labelset.data._column import Array, Column, Spool
from labelset.data._filed import Filed
from labelset.data._growing import GrowingLabels
from labelset.data._sparse import SparseRows
from labelset.data._spool import spooled
from labelset.data._stored import ENTRIES, StoredSparse
from labelset.labels import Labels

__all__ = ["LABELS", "ranges", "sparse_features", "sparse_labels", "turned"]

LABELS = 1 << 15
"""Labels that are sorted together: each takes some 60 bytes meanwhile."""


def sparse_features(
    indptr: Array, indices: Array | Filed, width: int, values: Array | Filed | None, memory: int
) -> SparseRows | StoredSparse:
    """Rows that keep what is not 0, checked and sorted; block by block where they lie on disk."""
    if not isinstance(indices, Filed) and not isinstance(values, Filed):
        return SparseRows.from_csr(indptr, indices, width, values)
    _pointers(indptr, len(indices))
    if values is not None and len(values) != len(indices):
        raise ValueError(f"has {len(values)} values for {len(indices)} stored entries")
    blocks = (
        SparseRows.from_csr(
            indptr[start : end + 1] - indptr[start],
            _cut(indices, indptr[start], indptr[end]),
            width,
            None if values is None else _cut(values, indptr[start], indptr[end]),
            first=start,
        )
        for start, end in ranges(indptr)
    )
    held: SparseRows | StoredSparse = spooled(blocks, memory)
    return held


def _pointers(indptr: Array, stored: int) -> None:
    """Checked as a whole, before any of it is used."""
    if indptr.ndim != 1 or indptr.dtype.kind not in "iu":
        raise TypeError(f"indptr must be 1-D whole numbers, got {indptr.dtype} {indptr.shape}")
    if not len(indptr) or indptr[0] != 0 or indptr[-1] != stored:
        raise ValueError(f"indptr must run from 0 to {stored}, the stored entries")
    if (np.diff(indptr) < 0).any():
        raise ValueError("indptr must never fall")


def ranges(indptr: Array, entries: int = ENTRIES) -> Iterator[tuple[int, int]]:
    """(first row, end) of blocks with about so many stored entries."""
    start = 0
    while start < len(indptr) - 1:
        end = int(np.searchsorted(indptr, indptr[start] + entries, side="right")) - 1
        end = min(max(end, start + 1), start + entries, len(indptr) - 1)
        yield start, end
        start = end


def _cut(held: Array | Filed, start: int, end: int) -> Array:
    return held.rows(int(start), int(end)) if isinstance(held, Filed) else held[start:end]


def turned(
    held: Mapping[str, Any], kind: str, rows: int, width: int, memory: int
) -> Iterator[tuple[int, Array, Array, Array]]:
    """(first row, indptr, indices, values) of blocks of csr, from a csc or coo matrix.

    Its rows lie scattered, so the entries are sorted some at a time, and each block of rows is
    merged from all of these runs.
    """
    starts = _counted(held, kind, rows)
    cuts = list(ranges(starts))
    bounds = np.array([first for first, _ in cuts] + [rows])
    spools = [Spool(kept, memory) for kept in (np.int64, np.int64, np.float32)]
    offsets, done = [], 0
    for entries in _entries(held, kind):
        order = np.argsort(entries[0], kind="stable")
        for spool, part in zip(spools, entries, strict=True):
            spool.append(part[order])
        offsets.append(done + np.searchsorted(entries[0][order], bounds))
        done += len(order)
    kept = [_as_filed(spool.done()) for spool in spools]
    for at, (first, end) in enumerate(cuts):
        runs = [(run[at], run[at + 1]) for run in offsets]
        down, along, values = (np.concatenate([_cut(k, *run) for run in runs]) for k in kept)
        order = np.lexsort((along, down))
        yield first, starts[first : end + 1] - starts[first], along[order], values[order]


def _counted(held: Mapping[str, Any], kind: str, rows: int) -> Array:
    """(rows + 1,) where each row will begin."""
    counts = np.zeros(rows, dtype=np.int64)
    for down, _, _ in _entries(held, kind):
        if len(down) and not 0 <= down.min() <= down.max() < rows:
            raise ValueError(f"says {rows} rows and holds an entry in row {down.max()}")
        counts += np.bincount(down, minlength=rows)
    return np.concatenate([[0], np.cumsum(counts)])


def _as_filed(held: Array | Column) -> Array | Filed:
    return Filed(held, (held.size,), False) if isinstance(held, Column) else held


def _entries(held: Mapping[str, Any], kind: str) -> Iterator[tuple[Array, Array, Array]]:
    """(row, column, value) of the stored entries, some at a time."""
    count = len(held["data"])
    for start in range(0, max(count, 1), ENTRIES):
        end = min(start + ENTRIES, count)
        values = _cut(held["data"], start, end)
        if kind == "coo":
            yield _cut(held["row"], start, end), _cut(held["col"], start, end), values
        else:
            along = np.searchsorted(held["indptr"], np.arange(start, end), side="right") - 1
            yield _cut(held["indices"], start, end), along, values


def sparse_labels(
    indptr: Any, indices: Any, n: int, values: Any = None, unknown: tuple[Any, Any] | None = None
) -> Labels:
    """What `Labels.from_csr` gives, checked and sorted some rows at a time."""
    try:
        parts = [(indptr, indices)] if unknown is None else [(indptr, indices), unknown]
        for starts, columns in parts:
            _pointers(starts, len(columns))
        if len({len(starts) for starts, _ in parts}) > 1 or np.shape(values) not in (
            (),
            (len(indices),),
        ):
            raise ValueError("sizes differ")
        held, stored = GrowingLabels(), indptr if unknown is None else indptr + unknown[0]
        for start, end in ranges(stored, LABELS):
            block = [_rows(*part, start, end) for part in parts]
            some = None if values is None else values[indptr[start] : indptr[end]]
            held.append(Labels.from_csr(*block[0], n, some, *block[1:]))
        return held.done(n)
    except (AttributeError, TypeError, ValueError):  # a mistake, which is told of all rows
        return Labels.from_csr(indptr, indices, n, values, unknown)


def _rows(indptr: Array, indices: Array, start: int, end: int) -> tuple[Array, Array]:
    return indptr[start : end + 1] - indptr[start], indices[indptr[start] : indptr[end]]
