"""Dealing rows to parts, the rarest label first."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Items", "deal"]


@dataclass(frozen=True)
class Items:
    """What is dealt: rows, or groups of rows that stay together. Plain lists, for speed."""

    sizes: list[int]
    """Rows of each item."""
    labels: list[list[tuple[int, int]]]
    """(label, rows of the item that have it) of each item."""
    holders: list[list[int]]
    """Items that have each label."""
    totals: list[int]
    """Rows that have each label."""

    @classmethod
    def of(cls, items: Tensor, labels: Tensor, item_of_row: Tensor, n: int) -> Items:
        """From the (item, label) of every positive."""
        sizes = torch.bincount(item_of_row).tolist()
        pairs, counts = torch.unique(items * max(n, 1) + labels, return_counts=True)
        held: list[list[tuple[int, int]]] = [[] for _ in sizes]
        holders: list[list[int]] = [[] for _ in range(n)]
        for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
            item, label = divmod(pair, n)
            held[item].append((label, count))
            holders[label].append(item)
        return cls(sizes, held, holders, torch.bincount(labels, minlength=n).tolist())


def deal(items: Items, shares: list[float], capacity: list[int], order: list[int]) -> list[int]:
    """The part of each item. `order` is the random order in which equals are taken."""
    left = capacity.copy()
    where = [-1] * len(items.sizes)
    rank = [0] * len(order)
    for at, item in enumerate(order):
        rank[item] = at
    want = [
        wanted(total, len(holders), shares)
        for total, holders in zip(items.totals, items.holders, strict=True)
    ]
    free = [len(holders) for holders in items.holders]
    heap = [(count, label) for label, count in enumerate(free) if count]
    heapq.heapify(heap)
    while heap:
        count, label = heapq.heappop(heap)
        if count != free[label]:
            continue  # some of its rows have been dealt since; a newer entry says so
        mine = [item for item in items.holders[label] if where[item] < 0]
        mine.sort(key=lambda item: (-items.sizes[item], rank[item]))
        for other in _deal_one(items, mine, label, want, left, free, where):
            if free[other]:
                heapq.heappush(heap, (free[other], other))
    rest = sorted((i for i in order if where[i] < 0), key=lambda i: -items.sizes[i])
    for item in rest:
        where[item] = _best(left, left, items.sizes[item])
        left[where[item]] -= items.sizes[item]
    return where


def _deal_one(
    items: Items,
    mine: list[int],
    label: int,
    want: list[list[float]],
    left: list[int],
    free: list[int],
    where: list[int],
) -> set[int]:
    """Deal the free items of one label; the labels whose counts changed."""
    touched = set()
    wish = want[label]
    for item in mine:
        size = items.sizes[item]
        part = _best(wish, left, size)
        where[item] = part
        left[part] -= size
        for other, count in items.labels[item]:
            want[other][part] -= count
            free[other] -= 1
            touched.add(other)
    return touched


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
