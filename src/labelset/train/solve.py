"""Heads on fixed features: a problem with an optimum, so it is solved, for all folds at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from labelset import check, heads
from labelset.data import SparseRows
from labelset.heads import Head, store_by_feature
from labelset.labels import Labels
from labelset.losses import Loss, describe_loss
from labelset.train._dual_passes import DualPasses, Step, is_built
from labelset.train._slopes import separable_parts, slope_tables, stages
from labelset.train._solution import SOLVED, Rows, Solution, Watch, spread
from labelset.train.fitted import LATE, Failed, Fitted, refusal

if TYPE_CHECKING:
    from labelset.train._full_batch import Jobs

STRENGTHS = (0.05, 0.25, 1.0, 4.0)
"""Of a loss as curved as the squared hinge; see `strengths`."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimise strength * (sum of the loss) + |w|^2 / 2 for a head."""

    loss: Loss
    strength: float = 1.0
    """C: what the loss weighs against the size of the weights."""
    head: str = "linear"
    head_settings: Mapping[str, Any] = field(default_factory=dict)
    prior: float = 0.0
    """The weights of label j are shrunk to this times the j-th of the `vectors`, rather than to 0:
    where a label has no positives they stay there, and where it has many these have their way."""

    def __post_init__(self) -> None:
        check.number("strength", self.strength, low=0.0, open_low=True)

    @property
    def by_label(self) -> bool:
        """Whether every label has an optimum of its own, so that it may have a prior."""
        plain = self.head == "linear" and not self.head_settings
        return plain and separable_parts(self.loss) is not None


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
    vectors: Tensor | SparseRows | None = None,
) -> list[Fitted | Failed]:
    """Fit each candidate with one member per fold, and once more to all rows.

        minimise C sum_ij loss(v_ij, y_ij) + sum_j |w_j - prior t_j|^2 / 2,  v = W x + b

    The intercept b is a constant feature, shrunk to the constant score that costs least. Unknown
    entries count nowhere, weights of rows or entries multiply C. A loss that is no sum over entries
    counts as rows times its mean; one that changes with the epoch is solved in each of its forms,
    one after the other.

    final: `refit` to all rows for the model, or `none`. seconds: what is not solved by then fails.
    vectors: the t_j, (labels, features), of problems with a prior.
    """
    check.one_of("final", final, ("refit", "none"))
    if any(each.prior and (vectors is None or not each.by_label) for each in candidates):
        raise ValueError("a prior needs vectors, a linear head and a loss that sums over labels")
    rows = Rows(features, labels, folds, final == "refit", vectors)
    watch = Watch(len(candidates), progress, seconds)
    separately, together = _groups(candidates)
    solutions: dict[int, Solution] = {}
    if isinstance(features, SparseRows) and features.device.type == "cpu" and separately:
        if is_built():
            chains = [
                chain for group in separately for chain in _chains(group, candidates, labels.n)
            ]
            solutions = DualPasses(rows, features, seed).run(chains, watch)
            separately = []
        else:
            from labelset.extensions import warn_slow

            warn_slow()
    todo: Jobs = []
    refused: dict[int, Failed] = {}
    for i in together:
        if (why := refusal(candidates[i].loss, labels)) is not None:
            refused[i] = Failed(why)
            continue
        solutions[i], jobs = _jointly(candidates[i], rows, seed, watch)
        todo += jobs
    for group in separately:
        from labelset.train._full_batch import by_columns

        settings = [(candidates[i].strength, candidates[i].prior) for i in group]
        several, jobs = by_columns(rows, stages(candidates[group[0]].loss), settings, watch)
        solutions |= zip(group, several, strict=True)
        todo += jobs
    spread(todo, features.device)
    return [
        refused.get(i) or _fitted(problem, solutions[i], rows)
        for i, problem in enumerate(candidates)
    ]


def _jointly(problem: Problem, rows: Rows, seed: int, watch: Watch) -> tuple[Solution, Jobs]:
    """A problem that is not a sum over labels."""
    from labelset.train._full_batch import jointly, of_head

    each = stages(problem.loss)
    if problem.head == "linear" and not problem.head_settings:
        return jointly(rows, each, problem.strength, watch)

    def new() -> Head:
        from labelset.train.task import seeded

        width, n = rows.features.shape[1], rows.labels.n
        with seeded(seed, "head"):
            head = heads.build(problem.head, features=width, labels=n, **problem.head_settings)
        if isinstance(rows.features, SparseRows):
            store_by_feature(head, width)
        return head

    return of_head(rows, each, problem.strength, new, watch)


def _groups(candidates: Sequence[Problem]) -> tuple[list[list[int]], list[int]]:
    """Sums over labels that differ in strength and prior alone, by rising ones; and the others."""
    groups: list[list[int]] = []
    others = []
    for i, problem in enumerate(candidates):
        if not problem.by_label:
            others.append(i)
            continue
        mine = next((g for g in groups if candidates[g[0]].loss == problem.loss), None)
        if mine is None:
            groups.append([i])
        else:
            mine.append(i)
    path = [(each.strength, each.prior) for each in candidates]
    return [sorted(group, key=path.__getitem__) for group in groups], others


def _chains(group: list[int], candidates: Sequence[Problem], labels: int) -> list[list[Step]]:
    """From each strength to the next; a loss with several forms begins anew with each strength."""
    forms = stages(candidates[group[0]].loss)
    tables = [slope_tables(separable_parts(form) or [], labels) for form in forms]
    each = [
        [
            Step(
                table,
                candidates[i].strength,
                candidates[i].prior,
                i if table is tables[-1] else None,
            )
            for table in tables
        ]
        for i in group
    ]
    return each if len(tables) > 1 else [[step for steps in each for step in steps]]


def _fitted(problem: Problem, solution: Solution, rows: Rows) -> Fitted | Failed:
    """The solution as a head, if it is one."""
    if not solution.complete:
        return LATE
    if not solution.residual < SOLVED:
        return Failed(
            f"it was not solved: residual {solution.residual:.3g} after {solution.passes} passes"
        )
    about = {
        "loss": describe_loss(problem.loss),
        "strength": problem.strength,
        "head": problem.head,
        **problem.head_settings,
        **({"prior": problem.prior} if problem.prior else {}),
        "residual": solution.residual,
        "passes": solution.passes,
    }
    head = solution.head
    if rows.refit and head is None:
        head = heads.build("linear", features=rows.features.shape[1], labels=rows.labels.n)
        head.load_state_dict(
            {"classifier.weight": solution.weight.T, "classifier.bias": solution.bias}
        )
        head.eval().requires_grad_(False)
        if isinstance(rows.features, SparseRows):
            store_by_feature(head, rows.features.shape[1])
    return Fitted(solution.scores, head, problem.loss, solution.seconds, about)


def strengths(loss: Loss, sparse: bool) -> list[float]:
    """The path of C: a loss that bends less than the squared hinge needs more of it."""
    scale = softness(loss)
    path = STRENGTHS[::2] if loss.of_sums else STRENGTHS
    return [c * scale * (1.0 if sparse else 0.1) for c in path]


def softness(loss: Loss) -> float:
    """How much less than the squared hinge a loss bends where scores are small."""
    v = torch.linspace(-1, 1, 21, dtype=torch.float64)[:, None].requires_grad_()
    y = torch.zeros_like(v)
    try:
        (slope,) = torch.autograd.grad(_total(loss, v, y), v, create_graph=True)
        bend = torch.autograd.grad(slope.sum(), v)[0].abs().mean()
    except (RuntimeError, ValueError):
        bend = torch.tensor(0.25)
    return 2.0 / float(bend.clamp(1e-2, 2.0))


def _total(loss: Loss, v: Tensor, y: Tensor) -> Tensor:
    summed = replace(loss, reduction="sum") if hasattr(loss, "reduction") else loss
    return summed(v, y) + summed(v, 1 - y)
