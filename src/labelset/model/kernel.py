"""KernelMachine: scores from the distances of a row to the rows that were fitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from labelset.data import SparseRows
from labelset.model.contributions import (
    Contributions,
    chord,
    dense,
    in_blocks,
    integrated,
)

Array = NDArray[Any]

EDGE = 0.05
"""Nearer than this to 0 or 1, log-odds go on in a straight line: they never end or stop rising."""
ENTRIES = 1 << 22
"""Distances that are in memory together."""
FILE = ("rows", "coefficients", "means", "gamma")


@dataclass(frozen=True, eq=False, repr=False)
class KernelMachine:
    """scores = log-odds of m + sum_i a_i exp(-gamma |x - x_i|^2).

    >>> machine = KernelMachine(torch.tensor([[0.0], [2.0]]), torch.tensor([[0.5], [0.0]]),
    ...     means=torch.tensor([0.25]), gamma=1.0)
    >>> machine
    KernelMachine(2 rows, 1 features, 1 labels)
    >>> torch.sigmoid(machine.scores(torch.tensor([[0.0], [9.0]])))
    tensor([[0.7500],
            [0.2500]])
    """

    kind: ClassVar[str] = "kernel"

    rows: Tensor
    """(rows, features) float32: what was fitted."""
    coefficients: Tensor
    """(rows, labels) float32: a."""
    means: Tensor
    """(labels,) float32: m, the estimate far from all rows."""
    gamma: float
    """How fast a row's influence fades."""

    def __post_init__(self) -> None:
        for name, dimensions in (("rows", 2), ("coefficients", 2), ("means", 1)):
            t = getattr(self, name)
            if t.ndim != dimensions or t.dtype != torch.float32 or not bool(t.isfinite().all()):
                raise ValueError(
                    f"{name} of a kernel machine must be {dimensions}-D finite float32, got "
                    f"{t.dtype} of shape {tuple(t.shape)}"
                )
        if len(self.coefficients) != len(self.rows) or self.means.shape != (self.labels,):
            shapes = tuple(self.rows.shape), tuple(self.coefficients.shape), tuple(self.means.shape)
            raise ValueError(
                "a kernel machine has coefficients (rows, labels) and means (labels,) for its rows "
                f"(rows, features), got shapes {shapes}"
            )
        if not 0 < self.gamma < float("inf"):
            raise ValueError(f"gamma of a kernel machine must be above 0, got {self.gamma}")

    def __repr__(self) -> str:
        sizes = f"{len(self.rows)} rows, {self.width} features, {self.labels} labels"
        return f"KernelMachine({sizes})"

    @property
    def width(self) -> int:
        """How many features a row has."""
        return self.rows.shape[1]

    @property
    def labels(self) -> int:
        """How many labels it gives scores of."""
        return self.coefficients.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(t.nbytes for t in (self.rows, self.coefficients, self.means))

    @cached_property
    def _wide(self) -> tuple[Tensor, Tensor, Tensor]:
        """In float64: the rows, their squared lengths, and the coefficients."""
        own = self.rows.double()
        return own, own.square().sum(1), self.coefficients.double()

    def scores(self, features: Any) -> Tensor:
        """(rows, labels) float32 log-odds of a tensor or of sparse rows.

        Computed in float64, so that a row has the same ones alone and among others.
        """
        if len(features.shape) != 2 or features.shape[1] != self.width:
            got = tuple(features.shape)
            raise ValueError(f"the kernel machine takes (rows, {self.width}) features, got {got}")
        own, lengths, coefficients = self._wide
        out = torch.empty(len(features), self.labels)
        size = max(1, ENTRIES // max(len(own), self.width, 1))
        for start in range(0, len(features), size):
            x = features[start : start + size]
            x = (x.dense() if isinstance(x, SparseRows) else x).cpu().double()
            influence = squared_distances(x, own, lengths).mul_(-self.gamma).exp_()
            out[start : start + len(x)] = log_odds(self.means + influence @ coefficients)
        return out

    # ---- explained ------------------------------------------------------------------------------

    def contributions(self, features: Any, rows: Array, labels: Array) -> Contributions:
        """Integrated gradients of the estimate, whose log-odds are shared out in proportion.

        On the way t x from zeros the slope is -2 gamma sum_i a_i k_i (t x - x_i), with k_i the
        influence of a fitted row there; its mean times x needs the means of k_i and t k_i alone.
        """
        size = max(1, ENTRIES // max(len(self.rows), self.width, 1))
        return in_blocks(rows, labels, size, lambda *pairs: self._contributions(features, *pairs))

    def _contributions(self, features: Any, rows: Array, labels: Array) -> Contributions:
        from scipy.sparse import csr_matrix

        own, lengths, coefficients = self._wide
        different, row = np.unique(rows, return_inverse=True)
        x = torch.from_numpy(dense(features, different)).double()
        weights, base = coefficients[:, labels].T, self.means[labels].double().numpy()

        nearness, squares = (x @ own.T)[row], x.square().sum(1)[row]

        def influence(which: Array, t: Array) -> Tensor:
            far = t[:, None] ** 2 * squares[which].numpy()[:, None] + lengths.numpy()
            far -= 2 * t[:, None] * nearness[which].numpy()
            return torch.from_numpy(far).clamp_(min=0).mul_(-self.gamma).exp_() * weights[which]

        def slopes(which: Array, t: Array) -> Array:
            near = influence(which, t).numpy()
            return np.concatenate([near, t[:, None] * near.sum(1, keepdims=True)], axis=1)

        def sums(which: Array, means: Array) -> Array:
            crossed = (nearness[which].numpy() * means[:, :-1]).sum(1)
            added: Array = -2 * self.gamma * (squares[which].numpy() * means[:, -1] - crossed)
            return added

        every = np.arange(len(rows))

        def value(which: Array, t: Array) -> Array:
            total: Array = influence(which, t).sum(1).numpy()
            return total

        found = integrated(len(rows), value, slopes, sums)
        low, high = (base + value(every, every * 0 + t) for t in (0.0, 1.0))
        z, near, moved = x[row].numpy(), found[:, :-1] @ own.numpy(), found[:, -1:]
        values = csr_matrix(-2 * self.gamma * z * (z * moved - near))
        slope = chord(_log_odds, low, high, 1e-3)
        return Contributions(_log_odds(low), Contributions(low, values).scaled(slope))

    def module(self) -> nn.Module:
        """`scores` as a module of plain operations, whose `forward` takes dense rows."""
        return _Module(self)

    # ---- in files -------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """What a safetensors file keeps, for `from_tensors`."""
        gamma = torch.tensor([self.gamma], dtype=torch.float64)
        held = (self.rows, self.coefficients, self.means, gamma)
        return {name: t.contiguous() for name, t in zip(FILE, held, strict=True)}

    @classmethod
    def from_tensors(cls, held: Mapping[str, Tensor]) -> KernelMachine:
        """From what `tensors` gave, as a file has it; ValueError where that describes none."""
        if {*held} != {*FILE}:
            raise ValueError(
                f"a kernel machine has the tensors {', '.join(FILE)}, got {', '.join(held)}"
            )
        gamma = held["gamma"]
        if gamma.shape != (1,) or gamma.dtype != torch.float64:
            got = f"{gamma.dtype} of shape {tuple(gamma.shape)}"
            raise ValueError(f"gamma of a kernel machine must be one float64 number, got {got}")
        return cls(held["rows"], held["coefficients"], held["means"], float(gamma))


class _Module(nn.Module):
    """(rows, features) -> (rows, labels), in float64 from float32 weights."""

    rows: Tensor
    coefficients: Tensor
    means: Tensor

    def __init__(self, machine: KernelMachine) -> None:
        super().__init__()
        for name in FILE[:3]:
            self.register_buffer(name, getattr(machine, name))
        self.gamma = machine.gamma

    def forward(self, features: Tensor) -> Tensor:
        """The log-odds of the estimates."""
        own = self.rows.double()
        distances = squared_distances(features.double(), own, own.square().sum(1))
        return log_odds(self.means + (-self.gamma * distances).exp() @ self.coefficients.double())


def squared_distances(x: Tensor, others: Tensor, lengths: Tensor) -> Tensor:
    """(rows, others): |x|^2 + |y|^2 - 2 x.y, at least 0; lengths: |y|^2 of the others."""
    return torch.addmm(x.square().sum(1)[:, None] + lengths, x, others.T, alpha=-2).clamp_(min=0)


def log_odds(estimate: Tensor) -> Tensor:
    """float32 log-odds of estimates, which may lie beyond 0 and 1; they rise with the estimate.

    >>> log_odds(torch.tensor([-0.1, 0.5, 0.95]))
    tensor([-6.1023,  0.0000,  2.9444])
    """
    return _straightened(estimate).float()


def _straightened(estimate: Tensor) -> Tensor:
    inside = estimate.clamp(EDGE, 1 - EDGE)
    return inside.logit() + (estimate - inside) / (EDGE * (1 - EDGE))


def _log_odds(estimate: Array) -> Array:
    odds: Array = _straightened(torch.from_numpy(estimate)).numpy()
    return odds
