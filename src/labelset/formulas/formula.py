"""Formulas: a function of a few numbers as a list of steps, its slopes derived and shared;
computed by numpy, in the precision of what it is given."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

LARGEST_POWER = 8  # whole powers up to this are products; others go through a logarithm


class Step(NamedTuple):
    """One operation on earlier steps; `value` is the number of a constant or of a power."""

    op: str
    args: tuple[int, ...] = ()
    value: float = 0.0


@dataclass
class Formula:
    """Steps, each a number computed from earlier ones; equal steps are one step.

    A step is known by its place in the list. Signs are pulled outwards as steps are added, so
    that sigmoid(v), sigmoid(-v) and their logarithms are seen to be functions of the same |v|.
    """

    steps: list[Step] = field(default_factory=list)
    places: dict[Step, int] = field(default_factory=dict)

    def put(self, op: str, *args: int, value: float = 0.0) -> int:
        """The place of a step, added where it is new."""
        step = Step(op, args, value)
        if step not in self.places:
            self.places[step] = len(self.steps)
            self.steps.append(step)
        return self.places[step]

    def input(self, number: int) -> int:
        """The input of that number."""
        return self.put("input", value=number)

    def constant(self, value: float) -> int:
        return self.put("constant", value=float(value))

    def known(self, x: int) -> float | None:
        """The value of a constant, None for anything else."""
        step = self.steps[x]
        return step.value if step.op == "constant" else None

    def peel(self, x: int) -> tuple[int, bool]:
        """What is left of x without its minus sign, and whether there was one."""
        step = self.steps[x]
        return (step.args[0], True) if step.op == "neg" else (x, False)

    # ---- arithmetic ---------------------------------------------------------------------------

    def neg(self, x: int) -> int:
        inner, negative = self.peel(x)
        value = self.known(x)
        if value is not None:
            return self.constant(-value)
        return inner if negative else self.put("neg", x)

    def add(self, x: int, y: int) -> int:
        a, b = self.known(x), self.known(y)
        if a is not None and b is not None:
            return self.constant(a + b)
        if a == 0 or b == 0:
            return y if a == 0 else x
        (u, minus_u), (w, minus_w) = self.peel(x), self.peel(y)
        if minus_u and minus_w:
            return self.neg(self.add(u, w))
        if minus_u or minus_w:
            return self.sub(y, u) if minus_u else self.sub(x, w)
        return self.put("add", *sorted((x, y))) if x != y else self.mul(self.constant(2.0), x)

    def sub(self, x: int, y: int) -> int:
        a, b = self.known(x), self.known(y)
        if a is not None and b is not None:
            return self.constant(a - b)
        if b == 0 or a == 0:
            return x if b == 0 else self.neg(y)
        (u, minus_u), (w, minus_w) = self.peel(x), self.peel(y)
        if minus_w:
            return self.add(x, w)
        if minus_u:
            return self.neg(self.add(u, y))
        if a is not None:  # c - x as -(x - c), so that x - c is shared
            return self.neg(self.put("sub", y, x))
        return self.put("sub", x, y) if x != y else self.constant(0.0)

    def mul(self, x: int, y: int) -> int:
        if self.known(y) is not None:
            x, y = y, x
        a, b = self.known(x), self.known(y)
        if a is not None and b is not None:
            return self.constant(a * b)
        (u, minus_u), (w, minus_w) = self.peel(x), self.peel(y)
        if a is None and (minus_u or minus_w):
            product = self.mul(u if minus_u else x, w if minus_w else y)
            return product if minus_u and minus_w else self.neg(product)
        if a is not None:
            return self._times(a, y)
        if (both := self._both(self.steps[x], self.steps[y])) is not None:
            return self.mul(*both)
        for one, other in ((x, y), (y, x)):  # constants go outwards, where they meet
            step = self.steps[one]
            if step.op == "mul" and (c := self.known(step.args[0])) is not None:
                return self._times(c, self.mul(step.args[1], other))
        return self.put("mul", *sorted((x, y)))

    def _both(self, one: Step, other: Step) -> tuple[int, ...] | None:
        """x and y of where(truth, x, y) and where(truth, y, x)."""
        choices = one.op == other.op == "where" and one.args[0] == other.args[0]
        return one.args[1:] if choices and one.args[1:] == other.args[:0:-1] else None

    def _times(self, a: float, y: int) -> int:
        """A constant times a step."""
        step, (w, minus) = self.steps[y], self.peel(y)
        if minus:
            return self._times(-a, w)
        if a in (0.0, 1.0):
            return y if a else self.constant(0.0)
        if a < 0:
            return self.neg(self._times(-a, y))
        if step.op == "mul" and (b := self.known(step.args[0])) is not None:
            return self._times(a * b, step.args[1])
        return self.put("mul", self.constant(a), y)

    def div(self, x: int, y: int) -> int:
        a, b = self.known(x), self.known(y)
        if b is not None and b != 0:
            return self.mul(self.constant(1.0 / b), x)
        if a == 0:
            return x
        (u, minus_u), (w, minus_w) = self.peel(x), self.peel(y)
        if minus_u or minus_w:
            ratio = self.div(u if minus_u else x, w if minus_w else y)
            return ratio if minus_u and minus_w else self.neg(ratio)
        return self.put("div", x, y)

    def power(self, x: int, exponent: float) -> int:
        if exponent == 0:
            return self.constant(1.0)
        if exponent == int(exponent) and 0 < exponent <= LARGEST_POWER:
            half = self.power(x, exponent // 2) if exponent > 1 else 0
            square = self.mul(half, half) if exponent > 1 else x
            return square if exponent == 1 or exponent % 2 == 0 else self.mul(square, x)
        return self.put("power", x, value=exponent)

    # ---- functions ----------------------------------------------------------------------------

    def exp(self, x: int) -> int:
        """exp(x); powers of a sigmoid are written as such."""
        scale, y = 1.0, x
        step = self.steps[x]
        if step.op == "mul" and (c := self.known(step.args[0])) is not None:
            scale, y = c, step.args[1]
        whole = scale == int(scale) and 0 < scale <= LARGEST_POWER
        if self.steps[y].op == "logsigmoid" and whole:
            return self.power(self.put("sigmoid", *self.steps[y].args), scale)
        return self.put("exp", x)

    def function(self, name: str, x: int) -> int:
        """exp, log, log1p, sigmoid, logsigmoid, sqrt, abs or tanh of a step."""
        return self.exp(x) if name == "exp" else self.put(name, x)

    def compare(self, name: str, x: int, y: int) -> int:
        """x `name` y, one of gt, ge, lt, le, eq: a truth value.

        A sigmoid against a constant is its argument against another one.
        """
        step, bound = self.steps[x], self.known(y)
        if step.op == "sigmoid" and bound is not None and 0 < bound < 1:
            x, y = step.args[0], self.constant(math.log(bound / (1 - bound)))
        return self.put(name, x, y)

    def where(self, truth: int, x: int, y: int) -> int:
        if x == y:
            return x
        (u, minus_u), (w, minus_w) = self.peel(x), self.peel(y)
        if minus_u and minus_w:
            return self.neg(self.where(truth, u, w))
        together = merge_branches(self, truth, x, y)
        return self.put("where", truth, x, y) if together is None else together

    def least(self, x: int, y: int) -> int:
        return self.put("min", *sorted((x, y)))

    def most(self, x: int, y: int) -> int:
        return self.put("max", *sorted((x, y)))

    # ---- slopes -------------------------------------------------------------------------------

    def slope(self, y: int, x: int) -> int:
        """The derivative of step y by the input x, as a step."""
        found: dict[int, int] = {x: self.constant(1.0)}

        def of(z: int) -> int:
            if z not in found:
                step = self.steps[z]
                slopes = [of(arg) for arg in step.args]
                flat = all(self.known(s) == 0 for s in slopes)
                found[z] = self.constant(0.0) if flat else self._chain(z, step, slopes)
            return found[z]

        return of(y)

    def _chain(self, z: int, step: Step, slopes: Sequence[int]) -> int:
        """The chain rule for one step, given the slopes of its arguments."""
        a = step.args
        if step.op == "where":
            return self.where(a[0], slopes[1], slopes[2])
        if step.op in ("min", "max"):
            first = self.compare("le" if step.op == "min" else "ge", *a)
            return self.where(first, *slopes)
        if step.op in ("add", "sub"):
            return (self.add if step.op == "add" else self.sub)(*slopes)
        if step.op == "mul":
            return self.add(self.mul(slopes[0], a[1]), self.mul(a[0], slopes[1]))
        if step.op == "div":
            top = self.sub(slopes[0], self.mul(z, slopes[1]))
            return self.div(top, a[1])
        if step.op in SLOPES:
            return self.mul(SLOPES[step.op](self, z, step), slopes[0])
        return self.constant(0.0)  # comparisons, and `stop`, which lets no slope through


def _power_slope(f: Formula, z: int, step: Step) -> int:
    return f.mul(f.constant(step.value), f.power(step.args[0], step.value - 1))


SLOPES: dict[str, Callable[[Formula, int, Step], int]] = {
    "neg": lambda f, z, s: f.constant(-1.0),
    "exp": lambda f, z, s: z,
    "log": lambda f, z, s: f.div(f.constant(1.0), s.args[0]),
    "log1p": lambda f, z, s: f.div(f.constant(1.0), f.add(f.constant(1.0), s.args[0])),
    "sqrt": lambda f, z, s: f.div(f.constant(0.5), z),
    "tanh": lambda f, z, s: f.sub(f.constant(1.0), f.mul(z, z)),
    "abs": lambda f, z, s: f.where(
        f.compare("ge", s.args[0], f.constant(0.0)), f.constant(1.0), f.constant(-1.0)
    ),
    "sigmoid": lambda f, z, s: f.mul(z, f.put("sigmoid", f.neg(s.args[0]))),
    "logsigmoid": lambda f, z, s: f.put("sigmoid", f.neg(s.args[0])),
    "power": _power_slope,
}


if TYPE_CHECKING:
    from labelset.formulas.formula import Formula

COSTLY = frozenset({"sigmoid", "logsigmoid", "exp", "log", "log1p", "power", "sqrt", "tanh"})
SWAPPED = ("add", "mul")
MOST_CHOICES = 3


def merge_branches(formula: Formula, truth: int, x: int, y: int) -> int | None:
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


# ---- by numpy -----------------------------------------------------------------------------------

OPERATIONS: dict[str, Callable[..., Any]] = {
    "neg": np.negative,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "where": np.where,
    "min": np.minimum,
    "max": np.maximum,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "exp": np.exp,
    "log": np.log,
    "log1p": np.log1p,
    "log1p_unit": np.log1p,
    "tanh": np.tanh,
    "decay": lambda x: np.exp(-np.abs(x)),
    "unit": lambda x: 1.0 / (1.0 + x),
    "reciprocal": lambda x: 1.0 / x,
}


def evaluate(formula: Formula, outputs: Sequence[int], inputs: Sequence[Any]) -> list[Any]:
    """The steps named in `outputs` for arrays (or numbers) as inputs.

    >>> f = Formula()
    >>> y = f.mul(f.input(0), f.add(f.input(0), f.input(1)))
    >>> evaluate(f, [y], [np.array([1.0, 2.0]), 3.0])
    [array([ 4., 10.])]
    """
    found: list[Any] = []
    with np.errstate(all="ignore"):  # infinities and NaN go through, as they do in torch
        for op, args, value in formula.steps:
            if op == "input":
                found.append(inputs[int(value)])
            elif op == "constant":
                found.append(value)
            elif op == "power":
                found.append(np.power(found[args[0]], value))
            else:
                found.append(OPERATIONS[op](*(found[arg] for arg in args)))
    return [found[y] for y in outputs]
