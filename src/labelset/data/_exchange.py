"""After the dealing: exchange rows so that no part lacks a label that it could have."""

from __future__ import annotations

from array import array

import numpy as np

from labelset.data._deal import Items, plain
from labelset.data.store import Array

ROUNDS = 4
TRIES = 400
"""Partners looked at for one exchange; most of the time one of the first few will do."""


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
