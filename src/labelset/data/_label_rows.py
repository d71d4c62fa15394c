"""Listed labels -> `Labels`: numbered, sorted, each once in a row; some rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from labelset.data._column import Array
from labelset.data._csr_members import LABELS, ranges
from labelset.data._growing import GrowingLabels
from labelset.data._listing import Listing, Ragged
from labelset.labels import Labels

__all__ = ["Block", "blocks", "label_rows", "places"]


@dataclass(frozen=True)
class Block:
    """Some rows of a listing."""

    first: int
    rows: int
    on: tuple[Array, Array]
    """(rows,) codes of each row, and the codes."""
    free: tuple[Array, Array]
    """The same of labels that are not known."""
    blank: Array
    """Rows, counted from the first, of which nothing is known."""


def blocks(listing: Listing, n: int) -> Iterator[Block]:
    """Rows that together have about as many entries as are in memory together."""
    blank = listing.blank.done()
    starts = np.zeros(listing.rows + 1, dtype=np.int64)
    for ragged in (listing.on, listing.free):
        starts[1:] += ragged.lengths.done()
    starts[1 + blank] += max(n, 0)
    each = list(ranges(np.cumsum(starts, out=starts), LABELS))
    del starts
    on, free = _cut(listing.on, each), _cut(listing.free, each)
    for (first, end), here, there in zip(each, on, free, strict=True):
        some = blank[np.searchsorted(blank, first) : np.searchsorted(blank, end)]
        yield Block(first, end - first, here, there, some - first)


def _cut(ragged: Ragged, each: list[tuple[int, int]]) -> Iterator[tuple[Array, Array]]:
    lengths, codes, at = ragged.lengths.done(), ragged.codes.done(), 0
    for first, end in each:
        size = int(lengths[first:end].sum(dtype=np.int64))
        yield lengths[first:end], codes[at : at + size]
        at += size


def label_rows(listing: Listing, n: int, number: Callable[[Array], Array]) -> Labels:
    """`number`: codes -> numbers in 0..n - 1."""
    held = GrowingLabels()
    for block in blocks(listing, n):
        on, free = (
            _once(places(lengths, number(codes), n)) for lengths, codes in (block.on, block.free)
        )
        if len(block.blank):
            every = block.blank[:, None] * n + np.arange(n)
            free = np.union1d(free, every.reshape(-1))
        values = None
        if len(free):
            _refuse_both(on, free, n, block.first)
            values = np.concatenate([np.ones(len(on)), np.full(len(free), np.nan)])
            on = np.concatenate([on, free])
            order = np.argsort(on)
            on, values = on[order], values[order]
        lengths = np.bincount(on // max(n, 1), minlength=block.rows)
        held.add(lengths, on % max(n, 1), values)
    return held.done(n)


def places(lengths: Array, numbers: Array, n: int) -> Array:
    """row * n + number of each entry."""
    rows = np.repeat(np.arange(len(lengths)), lengths)
    rows *= max(n, 1)
    rows += numbers
    return rows


def _once(places: Array) -> Array:
    """Ascending, none twice; most files list them so."""
    return places if (np.diff(places) > 0).all() else np.unique(places)


def _refuse_both(on: Array, free: Array, n: int, first: int) -> None:
    both = np.intersect1d(on, free, assume_unique=True)
    if len(both):
        row, label = divmod(int(both[0]), n)
        raise ValueError(
            f"label {label} appears twice in row {first + row}; "
            "list each label once, as on or as unknown"
        )
