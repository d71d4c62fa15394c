"""Dealing rows to parts, the rarest label first."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from labelset.data.store import Array

FEW = 64
"""Up to so many items a loop sorts faster than numpy."""
ROWS = 1 << 14
"""Item numbers that are objects together."""


def plain(numbers: Array) -> array[int]:
    """The same numbers, quick to read and change one by one; an object each would fill memory."""
    out = array({1: "b", 4: "i", 8: "q"}[numbers.itemsize])
    out.frombytes(memoryview(cast(Any, np.ascontiguousarray(numbers).view(np.uint8))))
    return out


@dataclass(frozen=True)
class Items:
    """What is dealt: rows, or groups of rows that stay together."""

    sizes: array[int]
    """Rows of each item."""
    starts: array[int]
    """Where the labels of each item begin, and the end."""
    labels: array[int]
    counts: array[int]
    """Rows of the item that have the label."""
    firsts: array[int]
    """Where the holders of each label begin, and the end."""
    holders: array[int]
    """Items that have the label, ascending."""
    totals: list[int]
    """Rows that have each label."""

    @classmethod
    def of(cls, item: Array, lengths: Array, labels: Array, n: int) -> Items:
        """From the item of each row, how many labels are on in it, and which."""
        n, sizes = max(n, 1), np.bincount(item)
        pairs, counts = _counted(item, lengths, labels, n)
        starts = _starts(np.bincount(pairs // n, minlength=len(sizes)))
        held = (pairs % n).astype(np.int32)
        del pairs
        return cls(
            sizes=plain(sizes),
            starts=plain(starts),
            labels=plain(held),
            counts=plain(counts),
            firsts=plain(_starts(np.bincount(held, minlength=n))),
            holders=plain(_turned(starts, held)),
            totals=np.bincount(labels, minlength=n).tolist(),
        )

    @property
    def n(self) -> int:
        return len(self.totals)

    def holding(self, label: int) -> Array:
        """Items that have a label, ascending."""
        every = np.frombuffer(self.holders, dtype=np.int32)
        return every[self.firsts[label] : self.firsts[label + 1]]


def _counted(item: Array, lengths: Array, labels: Array, n: int) -> tuple[Array, Array]:
    """item * n + label of each pair that occurs, ascending, and in how many rows."""
    pairs = np.repeat(item, lengths)
    pairs *= n
    pairs += labels
    pairs.sort()
    new = np.flatnonzero(np.diff(pairs, prepend=-1))
    return pairs[new], np.diff(new, append=len(pairs)).astype(np.int32)


def _starts(counts: Array) -> Array:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


def _turned(starts: Array, labels: Array) -> Array:
    """The item of each entry, in the order of the labels."""
    items = np.repeat(np.arange(len(starts) - 1, dtype=np.int32), np.diff(starts))
    return items[np.argsort(labels, kind="stable")]


def deal(items: Items, shares: list[float], capacity: list[int], order: Array) -> array[int]:
    """The part of each item. `order` is the random order in which equals are taken."""
    left = capacity.copy()
    where = array("b", b"\xff") * len(items.sizes)  # -1: still free
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    rank = plain(ranks)
    free = [items.firsts[label + 1] - items.firsts[label] for label in range(items.n)]
    want = [wanted(total, count, shares) for total, count in zip(items.totals, free, strict=True)]
    heap = [(count, label) for label, count in enumerate(free) if count]
    heapq.heapify(heap)
    while heap:
        count, label = heapq.heappop(heap)
        if count != free[label]:
            continue  # some of its rows have been dealt since; a newer entry says so
        touched = set[int]()
        for mine in _mine(items, label, where, rank):
            _deal_some(items, mine, want[label], want, left, free, where, touched)
        for other in touched:
            if free[other]:
                heapq.heappush(heap, (free[other], other))
    _deal_rest(items, left, where, order)
    return where


def _mine(items: Items, label: int, where: array[int], rank: array[int]) -> Iterator[list[int]]:
    """The free items of a label, some at a time: the largest first, equals by rank."""
    first, end = items.firsts[label], items.firsts[label + 1]
    sizes = items.sizes
    if end - first <= FEW:
        few = [item for item in items.holders[first:end] if where[item] < 0]
        few.sort(key=lambda item: (-sizes[item], rank[item]))
        yield few
        return
    mine = items.holding(label)
    mine = mine[np.frombuffer(where, dtype=np.int8)[mine] < 0]
    by_rank = np.frombuffer(rank, dtype=np.int64)[mine]
    mine = mine[np.lexsort((by_rank, -np.frombuffer(sizes, dtype=np.int64)[mine]))]
    for start in range(0, len(mine), ROWS):
        yield mine[start : start + ROWS].tolist()


def _deal_some(
    items: Items,
    mine: list[int],
    wish: list[float],
    want: list[list[float]],
    left: list[int],
    free: list[int],
    where: array[int],
    touched: set[int],
) -> None:
    """Deal items of one label, whose wish this is; `touched`: labels whose counts changed."""
    starts, labels, counts, sizes = items.starts, items.labels, items.counts, items.sizes
    for item in mine:
        size = sizes[item]
        where[item] = part = _best(wish, left, size)
        left[part] -= size
        for at in range(starts[item], starts[item + 1]):
            other = labels[at]
            want[other][part] -= counts[at]
            free[other] -= 1
            touched.add(other)


def _deal_rest(items: Items, left: list[int], where: array[int], order: Array) -> None:
    """Items without a label: the largest first."""
    rest = order[np.frombuffer(where, dtype=np.int8)[order] < 0]
    sizes = np.frombuffer(items.sizes, dtype=np.int64)[rest]
    rest = rest[np.argsort(-sizes, kind="stable")]
    for start in range(0, len(rest), ROWS):
        for item in rest[start : start + ROWS].tolist():
            where[item] = _best(left, left, items.sizes[item])
            left[where[item]] -= items.sizes[item]


def _best(wish: list[float] | list[int], left: list[int], size: int) -> int:
    """The part that wants it most and has room; of equals, the one with most room."""
    best, found = -1, (0.0, 0.0)
    for part, room in enumerate(left):
        if room >= size and (best < 0 or (wish[part], room) > found):
            best, found = part, (wish[part], room)
    return best if best >= 0 else left.index(max(left))


def wanted(total: int, holders: int, shares: list[float]) -> list[float]:
    """Rows of a label that each part wants: its share, and at least one if there are enough.

    >>> wanted(10, 10, [0.7, 0.1, 0.2]), wanted(3, 3, [0.7, 0.1, 0.2])
    ([7.0, 1.0, 2.0], [1.0, 1.0, 1.0])
    """
    want = [share * total for share in shares]
    real = [part for part, share in enumerate(shares) if share > 0]
    if holders < len(real):
        return want
    small: set[int] = set()
    while any(want[part] < 1 - 1e-9 for part in real if part not in small):
        small |= {part for part in real if want[part] < 1 - 1e-9}
        rest = sum(shares[part] for part in real if part not in small) or 1.0
        over = total - len(small)
        want = [1.0 if part in small else s * over / rest for part, s in enumerate(shares)]
    return want
