"""One function of a choice in place of a choice between two values of that function."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labelset.kernels._formula import Formula

__all__ = ["united"]

COSTLY = frozenset({"sigmoid", "logsigmoid", "exp", "log", "log1p", "power", "sqrt", "tanh"})
SWAPPED = ("add", "mul")
MOST_CHOICES = 3


def united(formula: Formula, truth: int, x: int, y: int) -> int | None:
    """f(where(truth, a, b)) for where(truth, f(a), f(b)); None where x and y are unlike.

    A label that is on is often judged by the same function as one that is off, of another
    argument; computed once, it costs half. Constants that differ become choices as well.
    """
    merge = _Merge(formula, truth)
    merge.explore(x, y)
    if not merge.shared or len(merge.pairs) > 1 or len(merge.constants) > MOST_CHOICES:
        return None
    return merge.build(x, y)


class _Merge:
    """A walk down two formulas at once, as far as they are alike."""

    def __init__(self, formula: Formula, truth: int) -> None:
        self.formula, self.truth = formula, truth
        self.shared = False
        self.pairs: set[tuple[int, int]] = set()
        self.constants: set[tuple[int, int]] = set()

    def explore(self, x: int, y: int) -> None:
        """Notes where they part, and whether a costly function lies above."""
        kind, below = self._alike(x, y)
        if kind == "leaf":
            known = self.formula.known(x) is not None and self.formula.known(y) is not None
            (self.constants if known else self.pairs).add(self._upright(x, y)[0])
        self.shared |= kind in COSTLY
        for a, b in below:
            self.explore(a, b)

    def build(self, x: int, y: int) -> int:
        """The united formula."""
        f, (kind, below) = self.formula, self._alike(x, y)
        if kind == "same":
            return x
        if kind == "leaf":
            (a, b), turned = self._upright(x, y)
            choice = f.put("where", self.truth, a, b)
            return f.neg(choice) if turned else choice
        parts = [self.build(a, b) for a, b in below]
        if kind in ("neg", "add", "sub", "mul", "div", "exp"):
            united: int = getattr(f, kind)(*parts)
            return united
        return f.put(kind, *parts, value=f.steps[x].value)

    def _alike(self, x: int, y: int) -> tuple[str, list[tuple[int, int]]]:
        """The operation both have at the top, and its arguments side by side."""
        f = self.formula
        if x == y:
            return "same", []
        one, other = f.steps[x], f.steps[y]
        if one.op != other.op:
            return self._scaled(x, y)
        if one.value != other.value or not one.args or one.op == "where":
            return "leaf", []
        second = other.args
        if one.op in SWAPPED and self._crossed(one.args, second):
            second = second[::-1]
        return one.op, list(zip(one.args, second, strict=True))

    def _crossed(self, one: tuple[int, ...], other: tuple[int, ...]) -> bool:
        ops = [self.formula.steps[place].op for place in (*one, *other)]
        return ops[0] != ops[2] and (ops[0] == ops[3] or ops[1] == ops[2])

    def _scaled(self, x: int, y: int) -> tuple[str, list[tuple[int, int]]]:
        """x against c y' as 1 x against c y', where x and y' are alike."""
        f = self.formula
        for a, b, turned in ((x, y, False), (y, x, True)):
            step = f.steps[b]
            if step.op == "mul" and f.known(step.args[0]) is not None:
                factor, rest = step.args
                if f.steps[rest].op == f.steps[a].op and f.steps[a].op in COSTLY:
                    pairs = [(f.constant(1.0), factor), (a, rest)]
                    return "mul", [p[::-1] for p in pairs] if turned else pairs
        return "leaf", []

    def _upright(self, x: int, y: int) -> tuple[tuple[int, int], bool]:
        """The pair, or the pair of the opposite signs where that was met before."""
        opposite = self.formula.neg(x), self.formula.neg(y)
        if (x, y) not in self.pairs | self.constants and opposite in self.pairs | self.constants:
            return opposite, True
        return (x, y), False
