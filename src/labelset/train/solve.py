"""Heads on fixed features: a problem with an optimum, so it is solved, for all folds at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from labelset import check, heads
from labelset.data import SparseRows
from labelset.extensions import warn_slow
from labelset.heads import Head, store_by_feature
from labelset.labels import Labels
from labelset.losses import Loss, describe_loss
from labelset.train import _dual_passes, _lbfgs
from labelset.train._slopes import Solution, separable_parts, slope_tables, stages
from labelset.train.fitted import Failed, Fitted

SOLVED = 0.05
"""The largest residual of a fit that counts as solved."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimise strength * (sum of the loss) + |w|^2 / 2 for a head."""

    loss: Loss
    strength: float = 1.0
    """C: what the loss weighs against the size of the weights."""
    head: str = "linear"
    head_settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check.number("strength", self.strength, low=0.0, open_low=True)


def solve(
    features: Tensor | SparseRows,
    labels: Labels,
    folds: Tensor,
    candidates: Sequence[Problem],
    *,
    final: str = "refit",
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
    seconds: float | None = None,
) -> list[Fitted | Failed]:
    """Fit each candidate with one member per fold, and once more to all rows.

        minimise C sum_ij loss(v_ij, y_ij) + |w|^2 / 2,  v = W x + b

    The intercept b is a constant feature, shrunk to the constant score that costs least. Unknown
    entries count nowhere. A loss that is no sum over entries counts as rows times its mean; one
    that changes with the epoch is solved in each of its forms, one after the other.

    final: `refit` to all rows for the model, or `none`. seconds: what is not solved by then fails.
    """
    check.one_of("final", final, ("refit", "none"))
    began = time.perf_counter()
    rows = _lbfgs.Rows(features, labels, folds, _shares(labels, folds), final == "refit")
    deadline = None if seconds is None else began + seconds
    solutions: dict[int, Solution] = {}
    groups = _groups(candidates)
    if isinstance(features, SparseRows) and _dual_passes.is_built():
        passes = _dual_passes.DualPasses(features, labels, folds, rows.shares, seed)
        chains = [chain for group in groups for chain in _chains(group, candidates, labels.n)]
        solutions = passes.run(chains, rows.refit, progress, deadline)
    else:
        if isinstance(features, SparseRows):
            warn_slow()
        for group in groups:
            strengths = [candidates[i].strength for i in group]
            each = stages(candidates[group[0]].loss)
            solutions |= zip(group, _lbfgs.solve_by_column(rows, each, strengths), strict=True)
    return [_fitted(problem, solutions[i], rows) for i, problem in enumerate(candidates)]


def _shares(labels: Labels, folds: Tensor) -> Tensor:
    """(members + 1, labels): how often each label is on in the rows of each member, and in all.

    Half a row is taken to be on, and half not: no frequency is 0 or 1.
    """
    members, n = int(folds.max()) + 1, labels.n
    place = (folds[labels.rows()] + 1) * n + labels.indices.long()
    values = torch.ones(len(place)) if labels.values is None else labels.values
    free = values.isnan()

    def counted(weight: Tensor) -> Tensor:
        each = torch.bincount(place, weight.double(), (members + 1) * n).reshape(members + 1, n)
        return torch.cat([each.sum(0) - each[1:], each.sum(0, keepdim=True)])

    size = torch.bincount(folds + 1, minlength=members + 1).double()
    rows = torch.cat([size.sum() - size[1:], size.sum()[None]])[:, None]
    return (counted(values.nan_to_num(0.0)) + 0.5) / (rows - counted(free) + 1)


def _groups(candidates: Sequence[Problem]) -> list[list[int]]:
    """Those that differ in their strength alone, by rising strength."""
    groups: list[list[int]] = []
    for i, problem in enumerate(candidates):
        mine = next((g for g in groups if candidates[g[0]].loss == problem.loss), None)
        if mine is None:
            groups.append([i])
        else:
            mine.append(i)
    return [sorted(group, key=lambda i: candidates[i].strength) for group in groups]


def _chains(
    group: list[int], candidates: Sequence[Problem], labels: int
) -> list[list[_dual_passes.Step]]:
    """From each strength to the next; a loss with several forms begins anew with each strength."""
    tables = [
        slope_tables(separable_parts(loss) or [], labels)
        for loss in stages(candidates[group[0]].loss)
    ]
    each = [
        [
            _dual_passes.Step(table, candidates[i].strength, i if table is tables[-1] else None)
            for table in tables
        ]
        for i in group
    ]
    return each if len(tables) > 1 else [[step for steps in each for step in steps]]


def _fitted(problem: Problem, solution: Solution, rows: _lbfgs.Rows) -> Fitted | Failed:
    """The solution as a head, if it is one."""
    if not solution.complete:
        return Failed("there was no time left for it")
    if not solution.residual < SOLVED:
        return Failed(
            f"it was not solved: residual {solution.residual:.3g} after {solution.passes} passes"
        )
    about = {
        "loss": describe_loss(problem.loss),
        "strength": problem.strength,
        "residual": solution.residual,
        "passes": solution.passes,
    }
    head: Head | None = None
    if rows.refit:
        head = heads.build("linear", features=rows.features.shape[1], labels=rows.labels.n)
        head.load_state_dict(
            {"classifier.weight": solution.weight.T, "classifier.bias": solution.bias}
        )
        head.eval().requires_grad_(False)
        if isinstance(rows.features, SparseRows):
            store_by_feature(head, rows.features.shape[1])
    return Fitted(solution.scores, head, problem.loss, solution.seconds, about)
