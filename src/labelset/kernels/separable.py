"""Separable losses by kernels: one pass for the value and the gradient of every entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from torch import Tensor

from labelset.kernels import _native
from labelset.kernels._evaluate import evaluate
from labelset.kernels._formula import Formula
from labelset.kernels._gradient import Kernel, Result
from labelset.kernels._kinds import label_kind, label_types
from labelset.kernels._logs import Apart, log_apart
from labelset.kernels._lower import lowered
from labelset.kernels._sides import shared
from labelset.kernels._source import compiled, source
from labelset.kernels._trace import trace
from labelset.labels import Labels

__all__ = ["Pair", "separable", "traced_pair"]

Side = Callable[[Tensor], Tensor]
COLUMNS = 2  # how many numbers per label a kernel reads
FAR, DEAR = 100.0, 1000.0  # a score, and a loss that no usual one has there


@dataclass
class Pair:
    """A separable loss as formulas, with the numbers per label that they read."""

    soft: tuple[Formula, tuple[int, ...]]
    """For soft labels: pos(v), neg(v) and their slopes."""
    chosen: tuple[Formula, int]
    """The value of (v, on), as it was traced."""
    columns: list[Tensor]
    texts: dict[tuple[bool, bool], str] = field(default_factory=dict)

    def text(self, soft: bool, short: bool) -> str:
        """The Triton function of one of the two, for 16-bit scores if `short`."""
        if (soft, short) not in self.texts:
            formula, outputs = self.soft if soft else self.hard
            inputs = (1 if soft else 2) + len(self.columns)
            self.texts[soft, short] = source(formula, outputs, inputs, short)
        return self.texts[soft, short]

    def function(self, soft: bool, short: bool) -> Any:
        """That function itself."""
        return compiled(self.text(soft, short))

    @cached_property
    def hard(self) -> tuple[Formula, tuple[int, ...]]:
        """For hard labels: the value and slope of (v, on)."""
        formula, value = self.chosen
        return shared(*lowered(formula, (value, formula.slope(value, formula.input(0)))), 1)

    @cached_property
    def off(self) -> Apart:
        """The side of labels that are off, by itself."""
        formula, (_, value, _, slope) = self.soft
        return log_apart(formula, value, slope)

    @cached_property
    def off_function(self) -> Any:
        """The Triton function of that, for 16-bit scores."""
        return compiled(source(self.off.formula, self.off.outputs, 1, short=True))

    @cached_property
    def mild(self) -> bool:
        """Whether labels that are off cost little at any usual score; for no numbers per label."""
        formula, (_, value, _, _) = self.soft
        (far,) = evaluate(formula, (value,), [np.array([-FAR, FAR])])
        return bool(np.all(np.abs(far) <= DEAR))  # False for NaN too

    @cached_property
    def program(self) -> _native.Program:
        return _native.Program(*self.soft)


def traced_pair(pos: Side, neg: Side, width: int, device: Any) -> Pair | None:
    """The formulas of two sides; None where they need learnt or too many numbers per label."""
    sides, (on, off), columns = trace(lambda v: (pos(v), neg(v)), 1, width, device)
    if any(t.requires_grad for t in columns) or len(columns) > COLUMNS:
        return None
    v = sides.input(0)
    soft = lowered(sides, (on, off, sides.slope(on, v), sides.slope(off, v)))
    chosen, (on, off), _ = trace(lambda v, y: (pos(v), neg(v)), 2, width, device)
    value = chosen.where(chosen.input(1), on, off)
    pair = Pair(soft, (chosen, value), columns)
    _native.check_room(pair.program, device)
    return pair


def separable(pair: Pair, impl: str, scores: Tensor, labels: Tensor | Labels, mean: bool) -> Kernel:
    """The mean over known entries, or the sum, of a separable loss, for all such matrices."""
    if impl == "native":
        return lambda v, y: _by_native(pair, v, y, mean)
    from labelset.kernels._entries import entries

    types = label_types(labels)
    function = pair.function(label_kind(types)[1], scores.element_size() == 2)
    return entries(function, pair.columns, scores, types, mean)


def _by_native(pair: Pair, v: Tensor, labels: Any, mean: bool) -> Result:
    entries = v.numel()
    scale = 1.0 / entries if mean else 1.0
    value, known, gradient = _native.separable(pair.program, pair.columns, v, labels, scale)
    if known is None or not mean:
        return value, gradient, None
    share = entries / known.clamp(min=1)  # the mean is over what is known
    return value * share, gradient, share
