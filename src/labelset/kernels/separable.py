"""Separable losses by kernels: one pass for the value and the gradient of every entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from torch import Tensor

from labelset.formulas.formula import Formula, evaluate
from labelset.formulas.passes import SplitLog, lower, shared, split_log
from labelset.formulas.tracer import trace
from labelset.kernels.dispatch import Kernel, Result, label_kind, label_types
from labelset.kernels.native.calls import separable_loop
from labelset.kernels.native.program import Program, check_room
from labelset.labels import Labels

Side = Callable[[Tensor], Tensor]
COLUMNS = 2  # how many per-label parameters a kernel reads
FAR, DEAR = 100.0, 1000.0  # a score, and a loss that no usual one has there


@dataclass
class Pair:
    """A separable loss as formulas, with the per-label parameters that they read."""

    soft: tuple[Formula, tuple[int, ...]]
    """For soft labels: pos(v), neg(v) and their slopes."""
    chosen: tuple[Formula, int]
    """The value of (v, on), as it was traced."""
    columns: list[Tensor]
    texts: dict[tuple[bool, bool], str] = field(default_factory=dict)

    def text(self, soft: bool, short: bool) -> str:
        """The Triton function of one of the two, for 16-bit scores if `short`."""
        from labelset.kernels.triton.source import source

        if (soft, short) not in self.texts:
            formula, outputs = self.soft if soft else self.hard
            inputs = (1 if soft else 2) + len(self.columns)
            self.texts[soft, short] = source(formula, outputs, inputs, short)
        return self.texts[soft, short]

    def function(self, soft: bool, short: bool) -> Any:
        """That function itself."""
        from labelset.kernels.triton.source import compiled

        return compiled(self.text(soft, short))

    @cached_property
    def hard(self) -> tuple[Formula, tuple[int, ...]]:
        """For hard labels: the value and slope of (v, on)."""
        formula, value = self.chosen
        return shared(*lower(formula, (value, formula.slope(value, formula.input(0)))), 1)

    @cached_property
    def off(self) -> SplitLog:
        """The side of labels that are off, by itself."""
        formula, (_, value, _, slope) = self.soft
        return split_log(formula, value, slope)

    @cached_property
    def off_function(self) -> Any:
        """The Triton function of that, for 16-bit scores."""
        from labelset.kernels.triton.source import compiled, source

        return compiled(source(self.off.formula, self.off.outputs, 1, short=True))

    @cached_property
    def mild(self) -> bool:
        """Whether negatives cost little at any usual score; without per-label parameters."""
        formula, (_, value, _, _) = self.soft
        (far,) = evaluate(formula, (value,), [np.array([-FAR, FAR])])
        return bool(np.all(np.abs(far) <= DEAR))  # False for NaN too

    @cached_property
    def program(self) -> Program:
        return Program(*self.soft)


def traced_pair(pos: Side, neg: Side, width: int, device: Any) -> Pair | None:
    """The formulas of two sides; None where they need learnt or too many per-label parameters."""
    sides, (on, off), columns = trace(lambda v: (pos(v), neg(v)), 1, width, device)
    if any(t.requires_grad for t in columns) or len(columns) > COLUMNS:
        return None
    v = sides.input(0)
    soft = lower(sides, (on, off, sides.slope(on, v), sides.slope(off, v)))
    chosen, (on, off), _ = trace(lambda v, y: (pos(v), neg(v)), 2, width, device)
    value = chosen.where(chosen.input(1), on, off)
    pair = Pair(soft, (chosen, value), columns)
    check_room(pair.program, device)
    return pair


def separable(pair: Pair, impl: str, scores: Tensor, labels: Tensor | Labels, mean: bool) -> Kernel:
    """The mean over known entries, or the sum, of a separable loss, for all such matrices."""
    if impl == "native":
        return lambda v, y: _by_native(pair, v, y, mean)
    from labelset.kernels.triton.separable import entries

    types = label_types(labels)
    function = pair.function(label_kind(types)[1], scores.element_size() == 2)
    return entries(function, pair.columns, scores, types, mean)


def _by_native(pair: Pair, v: Tensor, labels: Any, mean: bool) -> Result:
    entries = v.numel()
    scale = 1.0 / entries if mean else 1.0
    value, known, gradient = separable_loop(pair.program, pair.columns, v, labels, scale)
    if known is None or not mean:
        return value, gradient, None
    share = entries / known.clamp(min=1)  # the mean is over what is known
    return value * share, gradient, share
