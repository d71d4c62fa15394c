"""Formulas as programs for the C loops: their steps in order, in as few registers as they need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from labelset.kernels._formula import Formula
from labelset.kernels._native_steps import CODES, Line, Writer
from labelset.kernels._trace import NotTraceable

__all__ = ["Code", "encoded", "inputs"]

MOST_REGISTERS = 64
OUTPUTS = 4


class Code(NamedTuple):
    """A program as `play` of _native_program.h reads it."""

    steps: npt.NDArray[np.int32]
    """How many steps, registers, inputs and pins; the registers of four outputs; the pins, each a
    register and the constant that it holds; the steps, each a code, a result, four arguments
    and two constants."""
    constants: npt.NDArray[np.float32]


def inputs(formula: Formula) -> int:
    """How many inputs a formula reads: the scores, and its numbers per label."""
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
            lines.append(Line(CODES["fill"], (own,), (), (step.value,)))
        elif step.op == "input":
            lines.append(Line(CODES["a k"], (own,), (y,), (1.0,)))
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

    def code(self, lines: Sequence[Line], outputs: Sequence[int]) -> Code:
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

    def _row(self, k: int, line: Line, last: dict[int, int]) -> list[int]:
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
