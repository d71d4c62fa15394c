"""Which steps the C loops run for a formula: fewer and larger ones than it is written in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from labelset.kernels._formula import Formula, Step
from labelset.kernels._native_logistic import logistic
from labelset.kernels._trace import NotTraceable

__all__ = ["CODES", "LOGISTIC", "Line", "Writer"]

# the numbers of the steps in `play` of _native_program.h; a, b, c, d are registers, k, l constants
SERIES = {
    0: ("add", "sub", "mul", "div", "min", "max", "min k", "max k", "a k + l", "a k", "k / a"),
    11: ("a b + c", "a b - c", "c - a b", "a k + b l", "a b k", "a b c", "a b + k"),
    20: ("gt ?", "ge ?", "eq ?", "gt k ?", "ge k ?", "lt k ?", "le k ?", "eq k ?", "where"),
    29: ("gt", "ge", "eq", "fill"),
    40: ("exp", "log", "log1p", "sqrt", "tanh", "abs", "decay", "unit", "log1p_unit"),
    50: ("power", "odd power", "even power"),
}
CODES = {name: first + k for first, names in SERIES.items() for k, name in enumerate(names)}
LOGISTIC = 64  # plus the bits of the results that are wanted
SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}


class Line(NamedTuple):
    """One step to run: its results and arguments are places of the formula."""

    code: int
    outs: tuple[int, ...]
    args: tuple[int, ...]
    numbers: tuple[float, ...] = ()


Choice = tuple[str, tuple[int, ...], tuple[float, ...]]
"""The name of a step in CODES, the places of its arguments, its constants."""


class Writer:
    """Chooses the steps: a product and a sum become one, and so does all that a sigmoid takes."""

    def __init__(self, formula: Formula, outputs: Sequence[int]) -> None:
        self.steps, needed, self.logistic = logistic(formula.steps, outputs)
        self.lines = list[Line]()
        self.done, self.pinned = set[int](), dict[int, float]()
        self.uses = Counter(arg for z in needed for arg in self.steps[z].args)
        self.uses.update(outputs)

    def number(self, x: int) -> float | None:
        """The value of a constant, None for anything else."""
        step = self.steps[x]
        return step.value if step.op == "constant" else None

    def write(self, z: int) -> None:
        """Writes a step, and first those that it needs."""
        if z in self.done:
            return
        self.done.add(z)
        step = self.steps[z]
        if step.op == "constant":
            self.pinned[z] = step.value
        elif z in self.logistic:
            self._write_logistic(*self.logistic[z][:1])
        elif step.op != "input":
            name, args, numbers = self._chosen(z, step)
            for x in args:
                self.write(x)
            self.lines.append(Line(CODES[name], (z,), args, numbers))

    def _write_logistic(self, x: int) -> None:
        """All that is wanted of one sigmoid at once."""
        self.write(x)
        outs = {bit: z for z, (y, bit) in self.logistic.items() if y == x}
        self.done.update(outs.values())
        spare = next(iter(outs.values()))
        wanted = sum(1 << bit for bit in outs)
        places = tuple(outs.get(bit, spare) for bit in range(4))
        self.lines.append(Line(LOGISTIC + wanted, places, (x,)))

    # ---- which step to run --------------------------------------------------------------------

    def _chosen(self, z: int, step: Step) -> Choice:
        a, op = step.args, step.op
        if op == "neg":
            return self._negated(a[0])
        if op in ("add", "sub"):
            return self._sum(a[0], a[1], 1.0 if op == "add" else -1.0)
        if op == "mul":
            return self._product(*a)
        if op == "reciprocal":
            return "k / a", a, (1.0,)
        if op == "div":
            k = self.number(a[0])
            return ("div", a, ()) if k is None else ("k / a", a[1:], (k,))
        if op == "where":
            return self._where(*a)
        if op in SWAPPED:
            return (op, a, ()) if op in CODES else (SWAPPED[op], a[::-1], ())
        if op in ("min", "max"):
            return self._extreme(op, *a)
        if op == "power":
            return self._power(a, step.value)
        if op not in CODES:
            raise NotTraceable(f"the C loops know no step called {op}")
        return op, a, ()

    def _alone(self, x: int, op: str) -> tuple[int, ...] | None:
        """The arguments of a step of that kind that nothing else uses, so that it can be part
        of the step that does."""
        step = self.steps[x]
        alone = step.op == op and self.uses[x] == 1 and x not in self.logistic
        return step.args if alone and x not in self.done else None

    def _factors(self, x: int) -> tuple[float, int] | None:
        """k and y of a product k y that nothing else uses."""
        args = self._alone(x, "mul")
        k = None if args is None else self.number(args[0])
        return (k, args[1]) if args is not None and k is not None else None

    def _negated(self, x: int) -> Choice:
        if (inner := self._alone(x, "sub")) is not None:
            return self._sum(inner[1], inner[0], -1.0)
        inner = self._alone(x, "add")
        if inner is not None and all(self.number(y) is None for y in inner):
            first, second = (self._factors(y) or (1.0, y) for y in inner)
            return "a k + b l", (first[1], second[1]), (-first[0], -second[0])
        return self._scaled(x, -1.0)

    def _scaled(self, x: int, k: float) -> Choice:
        inner = self._alone(x, "mul")
        if inner is None:
            return "a k", (x,), (k,)
        other = self.number(inner[0])
        return ("a b k", inner, (k,)) if other is None else ("a k", inner[1:], (k * other,))

    def _sum(self, x: int, y: int, sign: float) -> Choice:
        """x + sign y"""
        if (k := self.number(y)) is not None:
            return self._shifted(x, 1.0, sign * k)
        if (k := self.number(x)) is not None:
            return self._shifted(y, sign, k)
        first, second = self._factors(x), self._factors(y)
        if first or second:
            (k, x), (other, y) = first or (1.0, x), second or (1.0, y)
            return "a k + b l", (x, y), (k, sign * other)
        if (inner := self._alone(x, "mul")) is not None:
            return ("a b + c" if sign > 0 else "a b - c"), (*inner, y), ()
        if (inner := self._alone(y, "mul")) is not None:
            return ("a b + c" if sign > 0 else "c - a b"), (*inner, x), ()
        return ("add" if sign > 0 else "sub"), (x, y), ()

    def _shifted(self, x: int, sign: float, shift: float) -> Choice:
        """sign x + shift"""
        if (factors := self._factors(x)) is not None:
            return "a k + l", factors[1:], (sign * factors[0], shift)
        if sign > 0 and (inner := self._alone(x, "mul")) is not None:
            return "a b + k", inner, (shift,)
        return "a k + l", (x,), (sign, shift)

    def _product(self, x: int, y: int) -> Choice:
        k = self.number(x)
        if k is not None:
            return self._scaled(y, k)
        for one, other in ((x, y), (y, x)):
            inner = self._alone(one, "mul") if x != y else None
            if inner is not None and (k := self.number(inner[0])) is not None:
                return "a b k", (other, inner[1]), (k,)
            if inner is not None:
                return "a b c", (*inner, other), ()
        return "mul", (x, y), ()

    def _where(self, truth: int, x: int, y: int) -> Choice:
        step = self.steps[truth]
        if step.op not in SWAPPED:
            return "where", (truth, truth, x, y), ()
        op, (u, w) = step.op, step.args
        if self.number(u) is not None:
            op, u, w = SWAPPED[op], w, u
        k = self.number(w)
        if k is not None:
            return f"{op} k ?", (u, u, x, y), (k,)
        if op not in CODES:
            op, u, w = SWAPPED[op], w, u
        return f"{op} ?", (u, w, x, y), ()

    def _extreme(self, op: str, x: int, y: int) -> Choice:
        if self.number(x) is not None:
            x, y = y, x
        k = self.number(y)
        return (op, (x, y), ()) if k is None else (f"{op} k", (x,), (k,))

    def _power(self, args: tuple[int, ...], exponent: float) -> Choice:
        if exponent == 0.5:
            return "sqrt", args, ()
        short = float(np.float32(exponent))
        parts = short, exponent - short  # constants are float32, and an exponent needs more
        if exponent != int(exponent):
            return "power", args, parts
        return ("odd power" if int(exponent) % 2 else "even power"), args, parts
