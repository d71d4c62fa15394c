"""Losses of sums as C evaluates them in double precision: the steps of a formula as they stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from labelset.kernels._formula import Formula, Step

__all__ = ["Ratio", "ratio"]

# in the order of the numbers that _native_ratio.h knows them by
OPERATIONS = (
    *("input", "constant", "neg", "add", "sub", "mul", "reciprocal", "unit", "where", "min", "max"),
    *("gt", "ge", "eq", "abs", "sqrt", "exp", "decay", "log", "log1p", "tanh", "power"),
)
SWAPPED = {"lt": "gt", "le": "ge"}


class Ratio(NamedTuple):
    """A program as `evaluate` of _native_ratio.h reads it."""

    steps: npt.NDArray[np.int32]
    """How many steps; which of them are the loss and its slopes by the four sums; the steps, each
    an operation and three arguments."""
    numbers: npt.NDArray[np.float64]
    """The value of each step that is a constant or a power."""

    @property
    def address(self) -> tuple[int, int]:
        return self.steps.ctypes.data, self.numbers.ctypes.data


def ratio(formula: Formula, outputs: Sequence[int]) -> Ratio:
    """The program of a lowered formula of the sums."""
    steps = [x for step in formula.steps for x in _encoded(step)]
    head = len(formula.steps), *outputs
    numbers = [step.value for step in formula.steps]
    return Ratio(np.array([*head, *steps], np.int32), np.array(numbers, np.float64))


def _encoded(step: Step) -> list[int]:
    op, args = step.op, step.args
    if op == "input":
        args = (int(step.value),)
    elif op == "log1p_unit":
        op = "log1p"
    elif op in SWAPPED:
        op, args = SWAPPED[op], args[::-1]
    return [OPERATIONS.index(op), *args, *[0] * (3 - len(args))]
