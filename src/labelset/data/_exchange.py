"""After the dealing: exchange rows so that no part lacks a label that it could have."""

from __future__ import annotations

from labelset.data._deal import Items

__all__ = ["exchange"]

ROUNDS = 4
TRIES = 400
"""Partners looked at for one exchange; most of the time one of the first few will do."""


def exchange(items: Items, where: list[int], parts: list[int], order: list[int]) -> None:
    """Change `where` in place: an item with a label that a part lacks comes in, another of the
    same size goes out, and no part loses the last item of a label that it must have."""
    state = _State(items, where, parts, order)
    for _ in range(ROUNDS):
        lacking = state.lacking()
        if not sum(state.bring(label, part) for label, part in lacking):
            return


class _State:
    """Which items each part has, and how many of them have each label."""

    def __init__(self, items: Items, where: list[int], parts: list[int], order: list[int]) -> None:
        self.items, self.where, self.parts = items, where, parts
        self.members: list[list[int]] = [[] for _ in range(max(parts, default=-1) + 1)]
        self.seat = [0] * len(where)
        for item in order:
            if where[item] < len(self.members):
                self.seat[item] = len(self.members[where[item]])
                self.members[where[item]].append(item)
        self.counts = [[0] * len(self.members) for _ in items.holders]
        for label, holders in enumerate(items.holders):
            for item in holders:
                self.counts[label][where[item]] += 1
        self.needed = [len(holders) >= len(parts) for holders in items.holders]

    def lacking(self) -> list[tuple[int, int]]:
        """(label, part) pairs to mend, rarest labels first."""
        labels = [label for label, needed in enumerate(self.needed) if needed]
        labels.sort(key=lambda label: len(self.items.holders[label]))
        return [
            (label, part) for label in labels for part in self.parts if not self.counts[label][part]
        ]

    def bring(self, label: int, part: int) -> bool:
        """Bring an item with `label` into `part`, if that can be done without harm."""
        count = self.counts[label]
        if count[part]:
            return False
        giving = [item for item in self.items.holders[label] if count[self.where[item]] > 1]
        giving.sort(key=lambda item: -count[self.where[item]])
        for item in giving[:TRIES]:
            if self._harmless(item, set()):
                brought = {other for other, _ in self.items.labels[item]}
                for partner in self.members[part][:TRIES]:
                    same = self.items.sizes[partner] == self.items.sizes[item]
                    if same and self._harmless(partner, brought):
                        self._swap(item, partner)
                        return True
        return False

    def _harmless(self, item: int, brought: set[int]) -> bool:
        """Whether its part can do without it, given the labels that come in for it."""
        part = self.where[item]
        return not any(
            self.needed[label] and self.counts[label][part] == 1 and label not in brought
            for label, _ in self.items.labels[item]
        )

    def _swap(self, one: int, two: int) -> None:
        parts, seats = (self.where[one], self.where[two]), (self.seat[one], self.seat[two])
        for item, part in ((one, parts[0]), (two, parts[1])):
            for label, _ in self.items.labels[item]:
                self.counts[label][part] -= 1
        for item, part, seat in ((one, parts[1], seats[1]), (two, parts[0], seats[0])):
            for label, _ in self.items.labels[item]:
                self.counts[label][part] += 1
            self.where[item], self.seat[item] = part, seat
            self.members[part][seat] = item
