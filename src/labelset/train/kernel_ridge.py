"""RBF kernel ridge regression: one Gram matrix, all folds from one inverse."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from labelset import check
from labelset.data import SparseRows
from labelset.labels import Labels
from labelset.model.kernel import KernelMachine, log_odds, squared_distances
from labelset.train.fitted import LATE, Failed, Fitted

ROWS = 10_000
"""More would need matrices of more than 400 MB each, and minutes."""
SOLVED = 0.01
"""The largest residual of the linear equations."""
REFINED = 2
"""Steps of iterative refinement: the factors are float32."""


def kernel_ridge(
    features: Tensor | SparseRows,
    labels: Labels,
    folds: Tensor,
    settings: Sequence[tuple[float, float]],
    *,
    progress: Callable[[float], None] | None = None,
    seconds: float | None = None,
) -> list[Fitted | Failed]:
    """Fit each (gamma, ridge) with one member per fold; the model is the mean of the members.

        estimates = m + K a,  (K + ridge I) a = y - m,  K_ij = exp(-gamma |x_i - x_j|^2)

    with the label frequencies m. Labels are fitted as numbers in [0, 1], those that are unknown
    are left out, label by label. Scores are the log-odds of the estimates. Where rows or entries
    have weights w, row i has ridge / w_i; labels with weights of their own have equations of their
    own.

    Members need no equations of their own: with G = (K + ridge I)^-1 and a = G y, the fit that
    leaves out the rows F has a - G_:F (G_FF)^-1 a_F.
    """
    began = time.perf_counter()
    for gamma, ridge in settings:
        check.number("gamma", gamma, low=0.0, open_low=True)
        check.number("ridge", ridge, low=0.0, open_low=True)
    if len(features) > ROWS:
        reason = f"kernel ridge takes up to {ROWS} rows, got {len(features)}"
        return [Failed(reason) for _ in settings]
    out: dict[int, Fitted | Failed] = {}
    dense = features.dense() if isinstance(features, SparseRows) else features
    wide = dense.double()
    distances = squared_distances(wide, wide, wide.square().sum(1)).float()
    order = sorted(range(len(settings)), key=lambda i: settings[i])
    kernel, latest = distances, 0.0
    for done, i in enumerate(order):
        if seconds is not None and time.perf_counter() - began > seconds:
            out[i] = LATE
            continue
        start, (gamma, ridge) = time.perf_counter(), settings[i]
        if gamma != latest:
            kernel, latest = torch.exp(-gamma * distances), gamma
        left = None if seconds is None else seconds - (start - began)
        out[i] = _fitted(dense, kernel, labels, folds, gamma, ridge, left)
        if progress is not None:
            progress((done + 1) / len(settings))
    return [out[i] for i in range(len(settings))]


def _fitted(
    features: Tensor,
    kernel: Tensor,
    labels: Labels,
    folds: Tensor,
    gamma: float,
    ridge: float,
    left: float | None,
) -> Fitted | Failed:
    """One setting; not where it would take more seconds than are left."""
    began, members = time.perf_counter(), int(folds.max()) + 1
    y = labels.dense().to(features.device)
    coefficients, means = torch.zeros_like(y), y.new_zeros(labels.n)
    scores, worst = torch.zeros_like(y), 0.0
    counts = labels.entry_weights
    patterns = [*_patterns(y, None if counts is None else counts.to(y))]
    for done, (known, some, count) in enumerate(patterns):
        needed = (time.perf_counter() - began) / max(done, 1) * len(patterns)
        if done and left is not None and needed > left:
            return Failed(f"{len(patterns)} systems of equations would take about {needed:.0f} s")
        inside = kernel if len(known) == len(y) else kernel[known][:, known]
        target = torch.cat([y[known][:, some], y.new_ones(len(known), 1)], dim=1)
        solved = _solved(inside, ridge / count, target)
        if solved is None:
            return Failed(f"the equations of ridge {ridge:g} have no solution in float32")
        inverse, whole, residual = solved
        worst = max(worst, residual)
        own = folds.to(known.device)[known]
        for member in range(members) if members else [-2]:
            absent = (own == member).nonzero()[:, 0]
            reached = inverse[:, absent]
            each = whole - reached @ torch.linalg.solve(reached[absent], whole[absent])
            each[absent] = 0.0
            present = own != member
            share = count[present] / count[present].sum().clamp(min=1e-30)
            mean = share @ target[present, :-1]
            a = each[:, :-1] - each[:, -1:] * mean
            at = (folds == member).nonzero().to(known.device)
            scores[at, some] = log_odds(kernel[at[:, 0]][:, known] @ a + mean)
            coefficients[known[:, None], some] += a / max(members, 1)
            means[some] += mean / max(members, 1)
    if not worst < SOLVED:
        return Failed(f"the equations of ridge {ridge:g} were not solved: residual {worst:.3g}")
    model = KernelMachine(features.cpu(), coefficients.cpu(), means.cpu(), gamma)
    about = {"gamma": gamma, "ridge": ridge, "residual": worst}
    return Fitted(scores.cpu(), model, None, time.perf_counter() - began, about)


def _patterns(y: Tensor, counts: Tensor | None) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """The rows where labels are known, the labels that are known in just these and count alike
    there, and what each of these rows counts."""
    each = (~y.isnan()).to(y.dtype) if counts is None else counts.masked_fill(y.isnan(), 0.0)
    distinct, pattern = torch.unique(each.T, dim=0, return_inverse=True)
    for number, rows in enumerate(distinct):
        if bool(rows.any()):
            known = rows.nonzero()[:, 0]
            yield known, (pattern == number).nonzero()[:, 0], rows[known]


def _solved(kernel: Tensor, ridge: Tensor, target: Tensor) -> Any:
    """The inverse of K with the ridge on its diagonal, its product with the target, and the
    residual of that."""
    system = kernel.clone()
    system.diagonal().add_(ridge)
    factor, failed = torch.linalg.cholesky_ex(system)
    if bool(failed):
        return None
    solution = torch.cholesky_solve(target, factor)
    for _ in range(REFINED):
        solution = solution + torch.cholesky_solve(target - system @ solution, factor)
    residual = float((target - system @ solution).norm() / target.norm())
    return torch.cholesky_inverse(factor), solution, residual
