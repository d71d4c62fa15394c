"""Label pairs by kernels: memory of a few times the scores, however many pairs there are."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from labelset import check
from labelset.formulas.formula import Formula
from labelset.formulas.passes import lower
from labelset.formulas.tracer import NotTraceable, trace
from labelset.kernels.dispatch import Kernel, Result
from labelset.kernels.native.calls import separable_loop
from labelset.kernels.native.pairs import blocks
from labelset.kernels.native.program import Program
from labelset.labels import Labels

FEW = 2**17  # pairs; with fewer, calls of torch cost more than what they compute


def pairs(odds: Odds, impl: str, mean: bool) -> Kernel:
    """The mean over rows with two known labels, or the sum, of

    2 / (T (T - 1)) sum over t on, t' off of softplus(u_t' - u_t), T labels of the row being known.
    """

    def kernel(v: Tensor, labels: Tensor | Labels) -> Result:
        if impl == "triton":
            from labelset.kernels.triton.pairs import value_and_gradient

            found = value_and_gradient(*odds.by_triton(v), labels, mean, v.dtype)
        else:
            found = blocks(odds.by_native, v, labels, mean)
        return *found, None

    return kernel


def few(labels: Tensor | Labels) -> bool:
    """Whether the formula, written out for every pair at once, is small (on a CPU)."""
    if isinstance(labels, Labels):
        return len(labels.indices) * labels.n <= FEW
    small = labels.numel() <= FEW
    return small and int((labels > 0).sum()) * labels.shape[1] <= FEW


FAR = 87.0  # log-odds that stand for certainty: a probability of 1e-38
HUGE = 3e38  # stands for infinity inside a formula
COLUMNS = 2  # how many per-label parameters a kernel reads
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
        from labelset.kernels.triton.pairs import odds_and_slopes
        from labelset.kernels.triton.source import compiled

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
    """u and du/dv as a formula of v and of per-label parameters."""

    formula: Formula
    outputs: tuple[int, ...]
    columns: list[Tensor]

    @cached_property
    def text(self) -> str:
        from labelset.kernels.triton.source import source

        return source(self.formula, self.outputs, 1 + len(self.columns))

    @cached_property
    def programs(self) -> list[Program]:
        """One for u, one for du/dv: each as the slope of a separable loss, of which C fills a
        matrix."""
        return [Program(self.formula, [output] * 4) for output in self.outputs]

    def matrix(self, program: Program, v: Tensor) -> Tensor:
        none = Labels(
            torch.zeros(len(v) + 1, dtype=torch.int64),
            torch.zeros(0, dtype=torch.int32),
            v.shape[1],
        )
        return separable_loop(program, self.columns, v, none, 1.0)[2]


def traced_odds(log_odds: Callable[[Tensor], Tensor], n: int, device: torch.device) -> Traced:
    """The formula of log-odds and of their slope; infinity is a huge number in it."""
    formula, (u,), columns = trace(lambda v: (log_odds(v),), 1, n, device)
    if len(columns) > COLUMNS:
        raise NotTraceable(f"log-odds of more than {COLUMNS} numbers per label")
    for place, step in enumerate(formula.steps):
        if step.op == "constant" and math.isinf(step.value):
            formula.steps[place] = step._replace(value=math.copysign(HUGE, step.value))
    return Traced(*lower(formula, (u, formula.slope(u, formula.input(0)))), columns)
