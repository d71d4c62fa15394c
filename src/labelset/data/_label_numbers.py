"""Labels that rows list by number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from labelset.data._column import Array
from labelset.data._label_rows import Block, blocks, label_rows, places
from labelset.data._listing import MOST, Listing
from labelset.labels import Labels

__all__ = ["from_numbers", "largest"]


def largest(listings: Sequence[Listing]) -> int:
    """The largest label number that occurs, -1 where none does."""
    found = [i for each in listings for i in each.odd.values() if isinstance(i, int)]
    for codes in (ragged.codes.done() for each in listings for ragged in (each.on, each.free)):
        most = int(codes.max(initial=-1))
        found += [most] if most >= 0 else []
    return max(found, default=-1)


def from_numbers(listing: Listing, n: int) -> Labels:
    """Labels in 0..n - 1; the line of the first bad one is named.

    >>> listing = Listing()
    >>> listing.add([[2, 0], []], unknown=[[], [1]])
    >>> from_numbers(listing, 3).dense()
    tensor([[1., 0., 1.],
            [0., nan, 0.]])
    """
    for block in blocks(listing, n):
        bad = _bad_rows(block, listing.unlisted, n)
        if bad:
            _refuse(listing, min(bad), n)
    return label_rows(listing, n, lambda codes: codes)


def _bad_rows(block: Block, unlisted: dict[str, int], n: int) -> list[int]:
    """Of each thing that may be wrong, the first row in which it is."""
    found = [at for at in unlisted.values() if block.first <= at < block.first + block.rows]
    every = []
    for lengths, codes in (block.on, block.free):
        wrong = (codes < 0) | (codes >= min(n, MOST))
        every.append(places(lengths, np.where(wrong, 0, codes), n))
        if wrong.any():
            ends = np.cumsum(lengths)
            found.append(block.first + int(np.searchsorted(ends, wrong.argmax(), side="right")))
    return found + _twice(np.concatenate(every), block.first, n)


def _twice(places: Array, first: int, n: int) -> list[int]:
    gaps = np.diff(places)
    if (gaps > 0).all():
        return []
    places = np.sort(places)
    same = places[1:][np.diff(places) == 0]
    return [first + int(same[0]) // max(n, 1)] if len(same) else []


def _refuse(listing: Listing, row: int, n: int) -> None:
    line = listing.lines.of_row(row)
    for what in ("labels", "unknown"):
        if listing.unlisted.get(what) == row:
            raise ValueError(f"line {line}: `{what}` must be a list of label numbers")
    codes = [*listing.on.of_row(row), *listing.free.of_row(row)]
    _check(line, [listing.meaning(code) for code in codes], n)


def _check(line: int, numbers: list[Any], n: int) -> None:
    for i in numbers:
        if isinstance(i, bool) or not isinstance(i, int):
            kind = type(i).__name__
            raise TypeError(f"line {line}: `labels` must list label numbers, got {kind} {i!r}")
        if not 0 <= i < min(n, MOST):
            most = min(n, MOST) - 1
            raise ValueError(f"line {line}: label numbers must lie in 0..{most}, got {i}")
    twice = next(i for i in numbers if numbers.count(i) > 1)
    raise ValueError(f"line {line}: label {twice} appears twice")
