"""Log-odds of every score and their slopes, finite: what label pairs are made of."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from labelset import check
from labelset.kernels import _native
from labelset.kernels._formula import Formula
from labelset.kernels._lower import lowered
from labelset.kernels._source import source
from labelset.kernels._trace import NotTraceable, trace
from labelset.labels import Labels

__all__ = ["FAR", "Odds", "finite"]

FAR = 87.0  # log-odds that stand for certainty: a probability of 1e-38
HUGE = 3e38  # stands for infinity inside a formula
COLUMNS = 2  # how many numbers per label a kernel reads
PIECE = 2**22  # entries whose log-odds torch works out at a time


def finite(u: Tensor) -> Tensor:
    """Log-odds of probabilities 0 and 1, which a flat link can give, as large finite numbers."""
    return torch.where(u.isinf(), torch.sign(u) * FAR, u)


class Odds:
    """The log-odds u(v) that a loss gives to scores, entry by entry, with du/dv.

    `by_triton` and `by_native` run the traced formula, on a GPU and on a CPU; where there is none,
    autograd is asked, for a bounded piece of the matrix at a time.
    """

    def __init__(self, log_odds: Callable[[Tensor], Tensor]) -> None:
        self.log_odds = log_odds
        self.known: dict[Any, Traced | None] = {}

    def by_triton(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """(rows, n) float32 each: u and du/dv."""
        found = self._traced(v.shape[1], v.device)
        if found is None:
            return self._by_torch(v)
        from labelset.kernels._pairs_odds_device import odds_and_slopes
        from labelset.kernels._source import compiled

        return odds_and_slopes(compiled(found.text), found.columns, v)

    def by_native(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """(rows, n) float32 each: u and du/dv."""
        found = self._traced(v.shape[1], v.device)
        if found is None:
            return self._by_torch(v)
        u, slope = (found.matrix(program, v.float()) for program in found.programs)
        return _bounded(u, u.abs() > HUGE / 3, slope)

    def _by_torch(self, v: Tensor) -> tuple[Tensor, Tensor]:
        u, slope = (torch.empty_like(v, dtype=torch.float32) for _ in range(2))
        rows = max(1, PIECE // v.shape[1])
        for start in range(0, len(v), rows):
            part = slice(start, start + rows)
            u[part], slope[part] = self._piece(v[part])
        return u, slope

    @torch.enable_grad()  # type: ignore[untyped-decorator, unused-ignore]
    def _piece(self, v: Tensor) -> tuple[Tensor, Tensor]:
        leaf = v.detach().float().requires_grad_()
        u = self.log_odds(leaf)
        (slope,) = torch.autograd.grad(u.sum(), leaf)
        return _bounded(u.detach(), u.detach().isinf(), slope)

    def _traced(self, n: int, device: torch.device) -> Traced | None:
        key = n, device
        if key not in self.known:
            try:
                self.known[key] = traced_odds(self.log_odds, n, device)
            except NotTraceable:
                self.known[key] = None
        return self.known[key]


def _bounded(u: Tensor, certain: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
    """Certainty is far, and flat."""
    if check.can_look(certain) and not bool(certain.any()):
        return u, slope
    far = torch.sign(u) * FAR
    return torch.where(certain, far, u), slope.masked_fill(certain, 0.0)


@dataclass
class Traced:
    """u and du/dv as a formula of v and of numbers per label."""

    formula: Formula
    outputs: tuple[int, ...]
    columns: list[Tensor]

    @cached_property
    def text(self) -> str:
        return source(self.formula, self.outputs, 1 + len(self.columns))

    @cached_property
    def programs(self) -> list[_native.Program]:
        """One for u, one for du/dv: each as the slope of a separable loss, of which C fills a
        matrix."""
        return [_native.Program(self.formula, [output] * 4) for output in self.outputs]

    def matrix(self, program: _native.Program, v: Tensor) -> Tensor:
        none = Labels(
            torch.zeros(len(v) + 1, dtype=torch.int64),
            torch.zeros(0, dtype=torch.int32),
            v.shape[1],
        )
        return _native.separable(program, self.columns, v, none, 1.0)[2]


def traced_odds(log_odds: Callable[[Tensor], Tensor], n: int, device: torch.device) -> Traced:
    """The formula of log-odds and of their slope; infinity is a huge number in it."""
    formula, (u,), columns = trace(lambda v: (log_odds(v),), 1, n, device)
    if len(columns) > COLUMNS:
        raise NotTraceable(f"log-odds of more than {COLUMNS} numbers per label")
    for place, step in enumerate(formula.steps):
        if step.op == "constant" and math.isinf(step.value):
            formula.steps[place] = step._replace(value=math.copysign(HUGE, step.value))
    return Traced(*lowered(formula, (u, formula.slope(u, formula.input(0)))), columns)
