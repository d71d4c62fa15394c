"""Formulas as programs for the C loops: their steps in order, in as few registers as they need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from labelset.formulas.formula import Formula, Step
from labelset.formulas.tracer import NotTraceable

MOST_REGISTERS = 64
OUTPUTS = 4


class Code(NamedTuple):
    """A program as `play` of machine.h reads it."""

    steps: npt.NDArray[np.int32]
    """How many steps, registers, inputs and pins; the registers of four outputs; the pins, each a
    register and the constant that it holds; the steps, each a code, a result, four arguments
    and two constants."""
    constants: npt.NDArray[np.float32]


def inputs(formula: Formula) -> int:
    """How many inputs a formula reads: the scores, and its per-label parameters."""
    return 1 + max((int(s.value) for s in formula.steps if s.op == "input"), default=0)


def encoded(formula: Formula, outputs: Sequence[int]) -> Code:
    """The program that computes `outputs` (at most four of them) of a lowered formula."""
    writer = Writer(formula, outputs)
    for y in outputs:
        writer.write(y)
    lines, results = list(writer.lines), list[int]()
    for k, y in enumerate(outputs):  # each in a register of its own, which may be written over
        step, own = formula.steps[y], -1 - k
        if step.op == "constant":
            lines.append(Instruction(CODES["fill"], (own,), (), (step.value,)))
        elif step.op == "input":
            lines.append(Instruction(CODES["a k"], (own,), (y,), (1.0,)))
        results.append(own if step.op in ("constant", "input") else y)
    places = {z: int(s.value) for z, s in enumerate(formula.steps) if s.op == "input"}
    return _Assembly(inputs(formula), places, writer.pinned).code(lines, results)


class _Assembly:
    """Registers are given out at a step and taken back after the last step that reads them."""

    def __init__(self, inputs: int, places: dict[int, int], pinned: dict[int, float]) -> None:
        self.inputs, self.free, self.at = inputs, list[int](), dict(places)
        self.constants = [0.0]
        self.pins: list[int] = []
        self.registers = inputs
        for place, value in pinned.items():
            self.at[place] = self._register()
            self.pins += [self.at[place], self._constant(value)]
        self.kept = set(self.at)

    def code(self, lines: Sequence[Instruction], outputs: Sequence[int]) -> Code:
        last = {arg: k for k, line in enumerate(lines) for arg in line.args}
        last |= {z: len(lines) for z in outputs} | {z: len(lines) for z in self.kept}
        rows = [self._row(k, line, last) for k, line in enumerate(lines)]
        if self.registers > MOST_REGISTERS:
            raise NotTraceable(f"the C loops have no room for {self.registers} numbers at a time")
        ends = [self.at[z] for z in outputs]
        ends += [0] * (OUTPUTS - len(ends))
        head = [len(rows), self.registers, self.inputs, len(self.pins) // 2, *ends]
        flat = [*head, *self.pins, *(x for row in rows for x in row)]
        return Code(np.array(flat, np.int32), np.array(self.constants, np.float32))

    def _row(self, k: int, line: Instruction, last: dict[int, int]) -> list[int]:
        args = [self.at[x] for x in line.args]
        ended = [self.at[x] for x in set(line.args) if last[x] == k]
        several = len(line.outs) > 1  # one of them must not be written over what another reads
        self.free += [] if several else ended
        for z in dict.fromkeys(line.outs):
            self.at[z] = self._register()
        self.free += ended if several else []
        first, *others = (self.at[z] for z in line.outs)
        numbers = [self._constant(x) for x in line.numbers]
        if others:  # a sigmoid's further results
            return [line.code, first, *args, *others, 0, 0]
        return [
            line.code,
            first,
            *args,
            *[0] * (4 - len(args)),
            *numbers,
            *[0] * (2 - len(numbers)),
        ]

    def _register(self) -> int:
        if self.free:
            return self.free.pop()
        self.registers += 1
        return self.registers - 1

    def _constant(self, value: float) -> int:
        if value not in self.constants:
            self.constants.append(value)
        return self.constants.index(value)


try:
    from labelset.kernels._native_loops import LOGISTIC, STEPS
except ImportError:  # nothing runs a program
    LOGISTIC, STEPS = 0, ()
CODES = {name: number for number, name in enumerate(STEPS)}
"""The steps of machine.h; a, b, c, d in their names are registers, k, l constants. After them comes
`LOGISTIC`, plus the bits of the results of a sigmoid that are wanted."""
SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}


class Instruction(NamedTuple):
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
        self.lines = list[Instruction]()
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
            self.lines.append(Instruction(CODES[name], (z,), args, numbers))

    def _write_logistic(self, x: int) -> None:
        """All that is wanted of one sigmoid at once."""
        self.write(x)
        outs = {bit: z for z, (y, bit) in self.logistic.items() if y == x}
        self.done.update(outs.values())
        spare = next(iter(outs.values()))
        wanted = sum(1 << bit for bit in outs)
        places = tuple(outs.get(bit, spare) for bit in range(4))
        self.lines.append(Instruction(LOGISTIC + wanted, places, (x,)))

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


class Logistic(NamedTuple):
    """A formula in which the slope of a sigmoid is the product of the two sigmoids."""

    steps: list[Step]
    needed: list[int]
    """The steps that its outputs are computed from."""
    results: dict[int, tuple[int, int]]
    """Place of a step -> x and what of x it is: sigmoid(x) (0), sigmoid(-x) (1), softplus(x) (2) or
    logsigmoid(x) (3)."""


def logistic(steps: Sequence[Step], outputs: Sequence[int]) -> Logistic:
    """Finds the steps that the results of a sigmoid were lowered to.

    e = exp(-|x|), near = 1 / (1 + e), far = e near: sigmoid(x) and sigmoid(-x) are these two in
    some order, and near far is their product. Where any other result of x is needed, that product
    is written as such; else e would be computed twice, here and inside the results.
    """
    mended = list(steps)
    results, products = _found(mended, _needed(mended, outputs))
    for x, product in products.items():
        at = {which: z for z, (y, which) in results.items() if y == x}
        if not at:
            continue
        for which in {0, 1} - at.keys():
            at[which] = len(mended)
            mended.append(Step("sigmoid", (x,)))
            results[at[which]] = x, which
        mended[product] = Step("mul", (at[0], at[1]))
    return Logistic(mended, _needed(mended, outputs), results)


def _needed(steps: Sequence[Step], outputs: Sequence[int]) -> list[int]:
    found, waiting = set[int](), list(outputs)
    while waiting:
        z = waiting.pop()
        if z not in found:
            found.add(z)
            waiting += steps[z].args
    return sorted(found)


def _found(
    steps: Sequence[Step], needed: Sequence[int]
) -> tuple[dict[int, tuple[int, int]], dict[int, int]]:
    """The results among the steps needed, and x -> the place of near far."""
    at = {steps[z]: z for z in needed}
    zero = at.get(Step("constant", (), 0.0), -1)

    def place(op: str, *args: int) -> int:
        return at.get(Step(op, args), -1)

    results, products = dict[int, tuple[int, int]](), dict[int, int]()
    for z in needed:
        if steps[z].op != "decay":
            continue
        (x,) = steps[z].args
        near, rest, sign = place("unit", z), place("log1p_unit", z), place("ge", x, zero)
        far, low, high = place("mul", *sorted((z, near))), *sorted((x, zero))
        each = (
            place("where", sign, near, far),
            place("where", sign, far, near),
            place("add", *sorted((rest, place("max", low, high)))),
            place("sub", place("min", low, high), rest),
        )
        results |= {y: (x, which) for which, y in enumerate(each) if y >= 0}
        product = place("mul", *sorted((near, far)))
        products |= {x: product} if product >= 0 else {}
    return results, products


class Program:
    """A lowered formula of the scores and of per-label parameters, in the form that C runs.

    For a separable loss the outputs are pos, neg and their slopes; for a smooth metric yes, no
    and their slopes.
    """

    def __init__(self, formula: Formula, outputs: Sequence[int]) -> None:
        self.formula, self.outputs = formula, tuple(outputs)
        self.columns = inputs(formula) - 1

    @cached_property
    def both(self) -> Code:
        return encoded(self.formula, self.outputs)

    @cached_property
    def off(self) -> Code:
        """neg and its slope only."""
        return encoded(self.formula, self.outputs[1::2])

    @cached_property
    def values(self) -> Code:
        """yes and no."""
        return encoded(self.formula, self.outputs[:2])

    @cached_property
    def values_and_slope(self) -> Code:
        """yes, no and the slope of yes."""
        return encoded(self.formula, self.outputs[:3])

    @cached_property
    def opposite(self) -> bool:
        """Whether the slope of `no` is minus that of `yes`."""
        return self.formula.neg(self.outputs[2]) == self.outputs[3]

    @cached_property
    def slopes(self) -> Code:
        """Those of yes and no, or where they are opposite, that of yes."""
        return encoded(self.formula, self.outputs[2 : 3 if self.opposite else 4])


def check_room(program: Program, device: torch.device | str) -> None:
    """NotTraceable where the loops, which are for a CPU, cannot run a program."""
    if torch.device(device).type == "cpu":
        program.both  # noqa: B018  (encoded here)
