"""Losses and their gradients on the CPU, by loops in C: one pass, no temporaries, no compiler."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from labelset.kernels._formula import Formula
from labelset.kernels._native_calls import Given, address, loops, per_label, sizes
from labelset.kernels._native_program import Code, encoded, inputs
from labelset.labels import Labels

__all__ = ["Program", "available", "check_room", "separable"]


def available() -> bool:
    """Whether the package was built with its C extension."""
    return loops is not None


class Program:
    """A lowered formula of the scores and of numbers per label, in the form that C runs.

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


def separable(
    program: Program,
    columns: Sequence[Tensor],
    scores: Tensor,
    labels: Tensor | Labels,
    scale: float,
) -> tuple[Tensor, Tensor | None, Tensor]:
    """scale * sum of the values, how many entries are known (None: all), scale * gradient.

    Scores are (rows, n) float32 or bfloat16; the gradient is of their kind.
    """
    given, others = Given(scores, labels), per_label(columns, program.columns)
    entries = given.v.numel()
    units = -(-entries // loops.UNIT)
    gradient, sums, unknown = torch.empty_like(given.v), np.zeros(units), np.zeros(units, np.int64)
    codes = address(program.off), address(program.both), sizes(others)
    out = gradient.data_ptr(), scale, sums.ctypes.data, unknown.ctypes.data
    held = program, others, gradient, sums, unknown
    given.run(loops.separable, units, held, *codes, *out)
    value = torch.tensor(scale * math.fsum(sums))
    return value, torch.tensor(entries - unknown.sum()) if given.may_lack else None, gradient
