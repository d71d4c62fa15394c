"""Label pairs by kernels: memory of a few times the scores, however many pairs there are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from labelset import check
from labelset.formulas.formula import Formula
from labelset.formulas.passes import lower
from labelset.formulas.tracer import NotTraceable, trace
from labelset.kernels.dispatch import Kernel, Result
from labelset.kernels.native.calls import separable_loop
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


# ---- on the CPU: value and gradient in one pass, a bounded number of pairs at a time -------------


CACHED = 2**18  # scores whose log-odds are worked out at a time
PAIRS = 2**17  # pairs alive at once: they stay in the cache of a core
OddsAndSlopes = Callable[[Tensor], tuple[Tensor, Tensor]]


def blocks(
    odds: OddsAndSlopes, scores: Tensor, labels: Tensor | Labels, mean: bool
) -> tuple[Tensor, Tensor]:
    """Mean over the rows that have two known labels, or sum, and its gradient by the scores."""
    if isinstance(labels, Tensor):
        check.unit_interval(labels)
    known = _known(labels)
    scale = _scales(known, mean)
    gradient, value = torch.empty_like(scores), torch.zeros((), dtype=torch.float64)
    step = max(1, CACHED // scores.shape[1])
    for start in range(0, len(scores), step):
        part = slice(start, start + step)
        y = labels[part]
        dense = y.dense() if isinstance(y, Labels) else y.float()
        sums, slopes = _rows(odds, scores[part].float(), dense, known[part] > 1)
        value += (sums * scale[part]).sum()
        gradient[part] = slopes.mul_(scale[part, None])
    return value.float(), gradient


def _known(labels: Tensor | Labels) -> Tensor:
    """How many labels of each row are known."""
    rows, n = labels.shape
    if isinstance(labels, Labels) and labels.values is not None:
        return n - (labels.indptr.diff() - labels.counts())
    if isinstance(labels, Tensor) and labels.is_floating_point():
        return n - labels.isnan().sum(1)
    return torch.full((rows,), n)


def _scales(known: Tensor, mean: bool) -> Tensor:
    """2 / (T (T - 1)), over the number of rows where T > 1 in a mean; 0 elsewhere."""
    defined = known > 1
    rows = max(1, int(defined.sum())) if mean else 1
    return torch.where(defined, 2.0 / (known * (known - 1)).clamp(min=1).float() / rows, 0.0)


def _rows(odds: OddsAndSlopes, v: Tensor, y: Tensor, defined: Tensor) -> tuple[Tensor, Tensor]:
    """Each row's sum over its pairs, (rows,), and the gradient of that by v, (rows, n)."""
    unknown = y.isnan()
    on, off = y.masked_fill(unknown, 0.0), (1.0 - y).masked_fill_(unknown, 0.0)
    u, chain = odds(v.masked_fill(unknown, 0.0))
    itself = on * off  # a soft label is no pair with itself
    listed = _listed(on, defined)
    own, rival = u.masked_fill(off == 0, -torch.inf), listed.table(u, torch.inf)
    share = listed.table(on, 0.0) if bool(itself.any()) else None
    sums, falls, rises = -math.log(2) * itself.sum(1), torch.zeros_like(u), rival.clone()
    for rows, width in listed.batches(u.shape[1]):
        weights = None if share is None else (share[rows, :width], off[rows])
        cost, falls[rows], rises[rows, :width] = _pairs(own[rows], rival[rows, :width], weights)
        sums[rows] += cost
    falls[listed.row, listed.label] -= rises[listed.row, listed.place]
    return sums, falls.mul_(chain)


class _Listed(NamedTuple):
    """The labels that may be on: their row, which they are, and their place among those of it."""

    row: Tensor
    label: Tensor
    place: Tensor
    counts: Tensor

    def table(self, values: Tensor, empty: float) -> Tensor:
        """(rows, most on): one value for each."""
        out = values.new_full((len(values), int(self.counts.max())), empty)
        out[self.row, self.place] = values[self.row, self.label]
        return out

    def batches(self, n: int) -> Iterator[tuple[Tensor, int]]:
        """Rows with about equally many on, so that few pairs are computed in vain; how many."""
        sizes, order = self.counts.sort(descending=True)
        start, end = 0, int((sizes > 0).sum())
        while start < end:
            width = int(sizes[start])
            rows = max(1, PAIRS // (n * width))
            yield order[start : min(start + rows, end)], width
            start += rows


def _listed(on: Tensor, defined: Tensor) -> _Listed:
    chosen = (on > 0) & defined[:, None]
    row, label = chosen.nonzero(as_tuple=True)
    counts = chosen.sum(1)
    place = torch.arange(len(row)) - (counts.cumsum(0) - counts)[row]
    return _Listed(row, label, place, counts)


def _pairs(
    own: Tensor, rival: Tensor, weights: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Sums of softplus(own - rival): all of a row; its slope by each own, and by each rival.

    What is no pair is infinitely far on the side where value and slope are 0.
    """
    value, by_own, by_rival = (
        own.new_zeros(len(own)),
        torch.zeros_like(own),
        torch.empty_like(rival),
    )
    step = max(1, PAIRS // own.numel())
    for start in range(0, rival.shape[1], step):
        part = slice(start, start + step)
        x = own[:, None, :] - rival[:, part, None]
        cost, rate = softplus(x), x.sigmoid_()  # (beyond 20 both are linear in float32)
        if weights is not None:
            share, off = weights
            weight = share[:, part, None] * off[:, None, :]
            cost, rate = cost.mul_(weight), rate.mul_(weight)
        value += cost.sum((1, 2))
        by_own += rate.sum(1)
        by_rival[:, part] = rate.sum(2)
    return value, by_own, by_rival
