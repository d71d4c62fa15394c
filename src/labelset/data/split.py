"""Splitting rows into parts or folds that all see every label: iterative stratification, fast.

The rarest label that still has free rows is dealt first: each of its rows goes to the part that
still wants it most (Sechidis, Tsoumakas and Vlahavas, 2011). Two things are added. The parts have
exact sizes, which are never overrun. And a part wants at least one row of each label that has as
many rows as there are parts; where the dealing still left one out, rows are exchanged afterwards.
"""

from __future__ import annotations

import heapq
import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from labelset import check
from labelset.data.dataset import PARTS, Dataset, numbered
from labelset.data.duplicates import input_groups, joined
from labelset.data.store import Array
from labelset.labels import Labels

MOST = 127
"""Parts, whose numbers are int8."""
FEW = 64
"""Up to so many items a loop sorts faster than numpy."""
ROWS = 1 << 14
"""Item numbers that are objects together."""
ROUNDS = 4
TRIES = 400
"""Partners looked at for one exchange; most of the time one of the first few will do."""


def stratified_split(
    labels: Any,
    parts: Sequence[float] = (0.7, 0.1, 0.2),
    seed: int = 0,
    groups: Any = None,
) -> Tensor:
    """(rows,) int8: the part of each row, 0 for the first, so that all parts have alike labels.

    Part j gets its share `parts[j]` of the rows, to a row, and of each label's positives, as near
    as can be; a label on in at least as many rows as there are parts is on in every part, where
    sizes and other labels allow it. Rows with the same entry of `groups` stay together (sizes are
    then right to a group). Soft labels count as on, unknown ones do not.

    >>> y = Labels.from_lists([[0], [0], [0], [1], [1], [1], [], [], []], n=2)
    >>> part = stratified_split(y, parts=(1 / 3, 1 / 3, 1 / 3), seed=0)
    >>> [y[part == j].dense().sum(0).tolist() for j in range(3)]
    [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
    """
    y = Labels.from_dense(labels)
    shares = _shares(parts)
    items, item_of_row = _items(y, groups)
    capacity = _sizes(len(y), shares)
    generator = torch.Generator().manual_seed(check.whole("seed", seed))
    order = torch.randperm(len(items.sizes), generator=generator).numpy()
    where = deal(items, shares, capacity, order)
    exchange(items, where, [j for j, size in enumerate(capacity) if size], order)
    return torch.from_numpy(np.frombuffer(where, dtype=np.int8)[item_of_row])


def ensure_split(
    dataset: Dataset, parts: tuple[float, float, float] = (0.7, 0.1, 0.2), seed: int = 0
) -> Dataset:
    """The data set with train, valid and test rows, whatever it came with.

    Without a split it gets a stratified one, or, of rows with times, one that goes forward in
    time; with train and test rows only, valid ones are taken from train; a split that has both is
    kept. Rows with the same input stay together, and so do those of one group.

    >>> data = Dataset.from_arrays([[float(i)] for i in range(20)], [[1]] * 20)
    >>> ensure_split(data).sizes()
    (14, 2, 4)
    """
    if dataset.times is not None:
        return _forward(dataset, parts)
    groups = together(dataset)
    _refuse_parted(dataset)
    if dataset.split is None:
        split = stratified_split(dataset.labels, parts, seed, groups)
        return _noted(dataset, split, f"split by labels, {parts}, seed {seed}")
    train, valid, _ = dataset.sizes()
    if valid or not train or not parts[1]:
        return dataset
    share = parts[1] / (parts[0] + parts[1])
    rows = (dataset.split == 0).nonzero().flatten()
    inner = stratified_split(
        dataset.labels[rows], (1 - share, share), seed, None if groups is None else groups[rows]
    )
    split = dataset.split.clone()
    split[rows] = inner
    return _noted(dataset, split, f"valid rows taken from train, {share:.2g} of it, seed {seed}")


def together(dataset: Dataset) -> Tensor | None:
    """(rows,) int64: equal for rows that have the same input or the same group, or are together by
    way of others; None where nothing says so.

    >>> data = Dataset.from_arrays([[1.0], [2.0], [1.0]], [[1]] * 3, groups=["a", "b", "c"])
    >>> together(data)
    tensor([0, 1, 0])
    """
    inputs = input_groups(dataset)
    if inputs is None or dataset.groups is None:
        return dataset.groups if inputs is None else inputs
    return torch.from_numpy(joined(inputs.numpy(), dataset.groups.numpy()))


def _refuse_parted(dataset: Dataset) -> None:
    """A group on two sides of a split would flatter whatever is judged."""
    if dataset.split is None or dataset.groups is None:
        return
    group, part = dataset.groups.numpy(), dataset.split.numpy()
    pairs = np.unique(group * len(PARTS) + part)
    parted = int((np.bincount(pairs // len(PARTS)) > 1).sum())
    if parted:
        raise ValueError(
            f"{parted} groups have rows in more than one part of the split that the data have: "
            "leave the split out, or the groups (--group, group_column)"
        )


def split_by_time(times: Any, parts: Sequence[float], groups: Any = None) -> Tensor:
    """(rows,) int8: the part of each row, the oldest rows in the first and the newest in the last.

    Rows of one time are in one part, so that shares are right to those; a group is as old as its
    newest row.

    >>> split_by_time([2019, 2020, 2020, 2021, 2021], parts=(0.6, 0.4))
    tensor([0, 0, 0, 1, 1], dtype=torch.int8)
    """
    shares, when = _shares(parts), np.asarray(times, dtype=np.float64)
    if groups is not None:
        group = numbered(groups)
        newest = np.full(int(group.max(initial=-1)) + 1, -np.inf)
        np.maximum.at(newest, group, when)
        when = newest[group]
    moments, at, counts = np.unique(when, return_inverse=True, return_counts=True)
    wanted = [part for part, share in enumerate(shares) if share > 0]
    if len(moments) < len(wanted):
        raise ValueError(
            f"{len(wanted)} parts in the order of time need as many different times, got "
            f"{len(moments)}; give finer ones, or leave them out"
        )
    before, part, first = np.cumsum(counts), np.zeros(len(moments), dtype=np.int8), 0
    for number, (earlier, later) in enumerate(pairwise(wanted), start=1):
        due = sum(shares[: earlier + 1]) * len(when)
        last = len(moments) - (len(wanted) - number)  # a time is left for each part that follows
        first += int(np.abs(before[first:last] - due).argmin()) + 1
        part[first:] = later
    return torch.from_numpy(part[at])


def _forward(dataset: Dataset, parts: tuple[float, float, float]) -> Dataset:
    """Train on the past, choose by what came then, judge by the newest rows.

    No folds: a member that has seen the rows before and after those that it is chosen by would
    look better than it will be.
    """
    if dataset.split is not None:
        raise ValueError(
            "the data have a split, and times would make another one: leave the split out, or the "
            "times (--time, time_column)"
        )
    train, valid, test = parts
    if not valid:
        train, valid = 0.8 * train, 0.2 * train
    assert dataset.times is not None
    shares = (train, valid, test)
    split = split_by_time(dataset.times.numpy(), shares, dataset.groups)
    sizes = ", ".join(f"{int((split == j).sum())} {part}" for j, part in enumerate(PARTS))
    return _noted(dataset, split, f"split in the order of time: {sizes} rows")


def _noted(dataset: Dataset, split: Tensor, note: str) -> Dataset:
    card = dataset.card | {"notes": [*dataset.card.get("notes", []), note]}
    return replace(dataset, split=split, card=card)


def _shares(parts: Sequence[float]) -> list[float]:
    shares = [check.number("every share in parts", share, low=0.0) for share in parts]
    if not 1 <= len(shares) <= MOST:
        raise ValueError(f"parts must be 1 to {MOST} shares, got {len(shares)}")
    if not math.isclose(sum(shares), 1, abs_tol=1e-6):
        raise ValueError(f"parts must add up to 1, got {sum(shares):g} from {tuple(parts)}")
    return shares


def _sizes(rows: int, shares: list[float]) -> list[int]:
    """Whole sizes that add up to `rows`; a share above 0 gets a row while there are enough."""
    exact = [share * rows for share in shares]
    sizes = [int(size + 1e-9) for size in exact]
    by_rest = sorted(range(len(shares)), key=lambda j: (sizes[j] - exact[j], -shares[j]))
    for j in by_rest[: rows - sum(sizes)]:
        sizes[j] += 1
    if rows >= len([share for share in shares if share]):
        for j, share in enumerate(shares):
            if share and not sizes[j]:
                sizes[sizes.index(max(sizes))] -= 1
                sizes[j] += 1
    return sizes


def _items(y: Labels, groups: Any) -> tuple[Items, Array]:
    """What is dealt: rows, or groups of rows; and the item of each row."""
    item = np.arange(len(y))
    if groups is not None:
        item = numbered(groups)
        if len(item) != len(y):
            raise ValueError(f"groups has {len(item)} entries for {len(y)} rows")
    on = y.indices if y.values is None else y.indices[~y.values.isnan()]
    return Items.of(item, y.counts().numpy(), on.numpy(), y.n), item


# ---- folds ---------------------------------------------------------------------------------------


def deal_folds(labels: Any, folds: int, groups: Any = None, seed: int = 0) -> Tensor:
    """(rows,) int64: the fold of each row, from 0, so that all folds have alike labels.

    Folds have equal sizes, to a row, and equal shares of each label's positives, as near as can
    be; a label with fewer positives than folds is spread one per fold. Rows with the same entry of
    `groups` (numbers or strings) stay together. Soft labels count as on, unknown ones do not.

    >>> y = Labels.from_lists([[0], [0], [0], [1], [1], [], []], n=2)
    >>> fold = deal_folds(y, folds=3)
    >>> fold.bincount().tolist(), fold[:3].sort().values.tolist()
    ([3, 2, 2], [0, 1, 2])
    """
    y = Labels.from_dense(labels)
    if check.whole("folds", folds, low=2) > MOST:
        raise ValueError(f"folds must be at most {MOST}, got {folds}")
    group = np.arange(len(y)) if groups is None else numbered(groups)
    together = int(group.max(initial=-1)) + 1
    if together < folds:
        what = "rows" if groups is None else "groups"
        raise ValueError(f"{folds} folds need as many {what}, got {together}; ask for fewer folds")
    fold = stratified_split(y, [1 / folds] * folds, seed, group).long().numpy()
    _fill_empty(fold, group, folds)
    return torch.from_numpy(fold)


def _fill_empty(fold: Array, group: Array, folds: int) -> None:
    """Few and large groups can leave a fold empty: it gets the smallest group of another, which is
    the one with most groups."""
    for empty in np.flatnonzero(np.bincount(fold, minlength=folds) == 0):
        first = np.unique(group, return_index=True)[1]
        most = np.bincount(fold[first]).argmax()
        sizes = np.bincount(group[fold == most])
        smallest = np.where(sizes > 0, sizes, len(group) + 1).argmin()
        fold[group == smallest] = empty


# ---- dealing items, the rarest label first -------------------------------------------------------


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


# ---- exchanging items, so that no part lacks a label that it could have --------------------------


def exchange(items: Items, where: array[int], parts: list[int], order: Array) -> None:
    """Change `where` in place: an item with a label that a part lacks comes in, another of the
    same size goes out, and no part loses the last item of a label that it must have."""
    state = _State(items, where, parts, order)
    for _ in range(ROUNDS):
        lacking = state.lacking()
        if not sum(state.bring(label, part) for label, part in lacking):
            return


class _State:
    """Which items each part has, and how many of them have each label."""

    def __init__(self, items: Items, where: array[int], parts: list[int], order: Array) -> None:
        self.items, self.where, self.parts = items, where, parts
        self.held = [items.firsts[j + 1] - items.firsts[j] for j in range(items.n)]
        part_of = np.frombuffer(where, dtype=np.int8)
        count = max(parts, default=-1) + 1
        members = [order[part_of[order] == part] for part in range(count)]
        seat = np.zeros(len(order), dtype=np.int64)
        for mine in members:
            seat[mine] = np.arange(len(mine))
        self.members, self.seat = [plain(mine) for mine in members], plain(seat)
        self.counts = [
            np.bincount(part_of[items.holding(label)], minlength=count).tolist()
            for label in range(items.n)
        ]
        self.needed = [held >= len(parts) for held in self.held]

    def lacking(self) -> list[tuple[int, int]]:
        """(label, part) pairs to mend, rarest labels first."""
        labels = [label for label, needed in enumerate(self.needed) if needed]
        labels.sort(key=lambda label: self.held[label])
        return [
            (label, part) for label in labels for part in self.parts if not self.counts[label][part]
        ]

    def bring(self, label: int, part: int) -> bool:
        """Bring an item with `label` into `part`, if that can be done without harm."""
        count = self.counts[label]
        if count[part]:
            return False
        for item in self._giving(label):
            if self._harmless(item, set()):
                brought = set(self._labels(item))
                for partner in self.members[part][:TRIES]:
                    same = self.items.sizes[partner] == self.items.sizes[item]
                    if same and self._harmless(partner, brought):
                        self._swap(item, partner)
                        return True
        return False

    def _giving(self, label: int) -> list[int]:
        """Items with the label, from parts that have most of them first, and more than one."""
        held = self.items.holding(label)
        many = np.array(self.counts[label])[np.frombuffer(self.where, dtype=np.int8)[held]]
        held, many = held[many > 1], many[many > 1]
        found: list[int] = held[np.argsort(-many, kind="stable")[:TRIES]].tolist()
        return found

    def _labels(self, item: int) -> array[int]:
        return self.items.labels[self.items.starts[item] : self.items.starts[item + 1]]

    def _harmless(self, item: int, brought: set[int]) -> bool:
        """Whether its part can do without it, given the labels that come in for it."""
        part = self.where[item]
        return not any(
            self.needed[label] and self.counts[label][part] == 1 and label not in brought
            for label in self._labels(item)
        )

    def _swap(self, one: int, two: int) -> None:
        parts, seats = (self.where[one], self.where[two]), (self.seat[one], self.seat[two])
        for item, part in ((one, parts[0]), (two, parts[1])):
            for label in self._labels(item):
                self.counts[label][part] -= 1
        for item, part, seat in ((one, parts[1], seats[1]), (two, parts[0], seats[0])):
            for label in self._labels(item):
                self.counts[label][part] += 1
            self.where[item], self.seat[item] = part, seat
            self.members[part][seat] = item
