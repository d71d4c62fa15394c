"""A query as a decision diagram: its probability is then sums of products, each world once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TypeVar

from labelset.retrieve._formula import And, Formula, Name, Not, names_of
from labelset.retrieve._query import QueryError

__all__ = ["FALSE", "TRUE", "Diagram"]

FALSE, TRUE = 0, 1
MOST = 20_000  # nodes, and a tenth of the joins on the way; a few dozen are usual
V = TypeVar("V")


class Diagram:
    """A reduced, ordered decision diagram over the names in the order of the query.

    A node (name, low, high) means: if the name is on go to `high`, else to `low`; nodes 0 and 1 are
    false and true. Equal functions are the same node, so a query that can never hold is node 0,
    and repeated names count once.
    """

    def __init__(self, formula: Formula) -> None:
        self.names = names_of(formula)
        self._place = {name.text: i for i, name in enumerate(self.names)}
        end = len(self.names)
        self._nodes = [(end, FALSE, FALSE), (end, TRUE, TRUE)]
        self._known: dict[tuple[int, int, int], int] = {}
        self._joined: dict[tuple[bool, int, int], int] = {}
        try:
            self.root = self._build(formula, True)
        except RecursionError:
            raise QueryError("the query is too deep; ask in several queries") from None

    def _build(self, formula: Formula, holds: bool) -> int:
        """The node of the formula, or of its negation: de Morgan takes `!` down to the names."""
        if isinstance(formula, Name):
            ends = (FALSE, TRUE) if holds else (TRUE, FALSE)
            return self._node(self._place[formula.text], *ends)
        if isinstance(formula, Not):
            return self._build(formula.part, not holds)
        every = isinstance(formula, And) == holds
        # from the last part to the first, so that each name meets only later ones, and no deeper
        parts = (self._build(part, holds) for part in reversed(formula.parts))
        return reduce(lambda rest, part: self._join(every, part, rest), parts, int(every))

    def _node(self, name: int, low: int, high: int) -> int:
        if low == high:
            return low
        key = (name, low, high)
        if key not in self._known:
            self._known[key] = len(self._nodes)
            self._nodes.append(key)
        return self._known[key]

    def _join(self, every: bool, f: int, g: int) -> int:
        """f and g (`every`), or f or g."""
        neutral, decisive = (TRUE, FALSE) if every else (FALSE, TRUE)
        if decisive in (f, g):
            return decisive
        if f in (neutral, g):
            return g
        if g == neutral:
            return f
        key = (every, min(f, g), max(f, g))
        if key not in self._joined:
            name = min(self._nodes[f][0], self._nodes[g][0])
            (low_f, high_f), (low_g, high_g) = self._split(f, name), self._split(g, name)
            low, high = self._join(every, low_f, low_g), self._join(every, high_f, high_g)
            self._joined[key] = self._node(name, low, high)
            if len(self._nodes) > MOST or len(self._joined) > 10 * MOST:
                raise QueryError(
                    f"the query is too entangled (over {MOST:,} cases): put names that belong "
                    "together next to each other, or ask in several queries"
                )
        return self._joined[key]

    def _split(self, f: int, name: int) -> tuple[int, int]:
        top, low, high = self._nodes[f]
        return (low, high) if top == name else (f, f)

    @property
    def certain(self) -> bool | None:
        """False if the query can never hold, True if it always does, else None."""
        return bool(self.root) if self.root in (FALSE, TRUE) else None

    def steps(self) -> list[tuple[int, tuple[int, int, int]]]:
        """The nodes that the root needs, children first."""
        needed, left = set[int](), [self.root]
        while left:
            node = left.pop()
            if node > TRUE and node not in needed:
                needed.add(node)
                left.extend(self._nodes[node][1:])
        return [(node, self._nodes[node]) for node in sorted(needed)]

    def weigh(
        self,
        on: Sequence[V],
        off: Sequence[V],
        times: Callable[[V, V], V],
        plus: Callable[[V, V], V],
        end: int = TRUE,
    ) -> V:
        """on * high + off * low from the leaves up: what the ways to `end` weigh together.

        With `on` = p and `off` = 1 - p this is the probability that the query holds, and for
        `end=FALSE` that it does not, labels being independent. All terms are positive, so nothing
        cancels. For a conjunction it is the product (23).
        """
        weight: dict[int, V] = {}
        for node, (name, low, high) in self.steps():
            terms = [
                side if child == end else times(side, weight[child])
                for side, child in ((on[name], high), (off[name], low))
                if child == end or child > TRUE
            ]
            weight[node] = reduce(plus, terms)
        return weight[self.root]
