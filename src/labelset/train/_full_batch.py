"""Heads by L-BFGS over all rows at once: label by label where the loss is a sum, else jointly.

Each way gives solutions that are empty yet, and the jobs that fill them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from labelset.data import SparseRows
from labelset.heads import Head
from labelset.labels import Labels
from labelset.losses import Loss, build
from labelset.train._lbfgs import HISTORY, Products, Slopes, by_column
from labelset.train._slopes import best_constants, objective, separable_parts, slope_tables, sum_of
from labelset.train._solution import Rows, Solution, Watch

ENTRIES = 1 << 22
"""Scores, or numbers in a history, of the columns that are solved together."""
MOST = 300
"""Iterations for a head that is not linear, whose problem is not convex."""


def _slopes(value: Callable[[Tensor, Any], Tensor], labels: Any, strength: Tensor) -> Slopes:
    """The slopes of strength * value, by autograd or a kernel."""

    def slopes(v: Tensor) -> Tensor:
        leaf = v.detach().requires_grad_()
        return torch.autograd.grad(value(leaf, labels), leaf)[0] * strength

    return slopes


Jobs = list[Callable[[], None]]


def by_columns(
    rows: Rows, each: Sequence[Loss], settings: Sequence[tuple[float, float]], watch: Watch
) -> tuple[list[Solution], Jobs]:
    """Linear heads of a separable loss; `each`: the losses in force one after the other.

    Strengths with priors, fits and labels are columns, of which as many are solved together as
    memory allows.
    """
    device, n, width = rows.features.device, rows.labels.n, rows.features.shape[1]
    x, y = Products(rows.features), rows.labels.dense().to(device)
    out = [rows.empty() for _ in settings]
    strengths, priors = map(torch.tensor, zip(*settings, strict=True))
    stages = [[(share, loss.bind(n)) for share, loss in separable_parts(one) or ()] for one in each]
    tables, shares, counts = slope_tables(stages[0], n), rows.shares(), rows.labels.entry_weights
    axes = torch.arange(len(settings)), torch.tensor(rows.fits), torch.arange(n)
    grid = torch.cartesian_prod(*axes)
    threads = torch.get_num_threads() if device.type == "cpu" else 1
    size = min(ENTRIES // max(len(y), HISTORY * width), len(grid)) // threads

    def job(columns: Tensor) -> None:
        if watch.late:
            for solution in out:
                solution.complete = False
            return
        began = time.perf_counter()
        which, fit, label = columns.unbind(1)
        absent = rows.folds[:, None] == torch.where(fit < rows.members, fit, -2)
        target = torch.where(absent.to(device), torch.nan, y[:, label.to(device)])
        strength = strengths[which].to(device)
        if counts is not None:
            strength = strength * counts[:, label].to(strength)
        line = label if len(tables) > 1 else torch.zeros_like(label)
        centre = torch.zeros(width + 1, len(columns))
        centre[-1] = best_constants(tables[line], shares[fit, label])
        if bool(priors.any()):
            for k in {*fit.tolist()}:
                own = fit == k
                centre[:, own] += priors[which[own]] * rows.priors(k, label[own])
        centre = centre.to(device)
        start = x.forward(centre) if bool(priors.any()) else centre[-1]
        weight, iterations = torch.zeros_like(centre), 0
        for parts in stages:
            some = [(share, loss.select_labels(label.to(device), n)) for share, loss in parts]
            minimum = by_column(x, _slopes(sum_of(some), target, strength), weight, start)
            weight, iterations = minimum.weight, iterations + minimum.iterations
        v, weight = (x.forward(weight) + start).cpu(), (weight + centre).cpu()
        seconds = (time.perf_counter() - began) / len(columns)
        for s, k in torch.unique(columns[:, :2], dim=0).tolist():
            own = ((which == s) & (fit == k)).nonzero()[:, 0]
            solution, at = out[s], label[own]
            lacked, length = minimum.lacked.cpu()[own].sum(), minimum.length.cpu()[own].sum()
            solution.add(k, iterations, lacked, length, seconds * len(at))
            if k == rows.members:
                solution.weight[:, at] = weight[:-1, own]
                solution.bias[at] = weight[-1, own]
            else:
                some_rows = rows.left_out(k).nonzero()
                solution.scores[some_rows, at] = v[some_rows, own]
        watch.advance(len(settings) * len(columns) / len(grid))

    return out, [partial(job, columns) for columns in torch.split(grid, max(1, size))]


def jointly(
    rows: Rows, each: Sequence[Loss], strength: float, watch: Watch
) -> tuple[Solution, Jobs]:
    """A linear head of a loss that is no sum over entries."""
    out, shares, device = rows.empty(), rows.shares(), rows.features.device
    weighted = torch.tensor(strength, device=device)

    def job(fit: int) -> None:
        if watch.late:
            out.complete = False
            return
        began, absent, iterations = time.perf_counter(), rows.left_out(fit), 0
        seen, y = rows.seen(fit)
        x, y = Products(seen), y.to(device)
        start = shares[fit].logit().float().to(device)
        weight = torch.zeros(rows.features.shape[1] + 1, rows.labels.n, device=device)
        if each[0].saturates_positives or each[0].saturates_negatives:  # it has no slope far off
            first = _slopes(objective(build("bce"), y), y, torch.ones((), device=device))
            weight = by_column(x, first, weight, start).weight
        for loss in each:
            slopes = _slopes(objective(loss, y), y, weighted)
            minimum = by_column(x, slopes, weight, start, joint=True)
            weight, iterations = minimum.weight, iterations + minimum.iterations
        if fit == rows.members:
            out.weight, out.bias = weight[:-1].cpu(), (weight[-1] + start).cpu()
        else:
            v = Products(rows.features[absent]).forward(weight) + start
            out.scores[absent] = v.cpu()
        seconds = time.perf_counter() - began
        out.add(fit, iterations, minimum.lacked[0].cpu(), minimum.length[0].cpu(), seconds)
        watch.advance(1 / len(rows.fits))

    return out, [partial(job, fit) for fit in rows.fits]


def of_head(
    rows: Rows, each: Sequence[Loss], strength: float, new: Callable[[], Head], watch: Watch
) -> tuple[Solution, Jobs]:
    """Any head, all parameters at once; those that are no matrix are shrunk to where they start."""
    out, device = rows.empty(), rows.features.device

    def job(fit: int, head: Head) -> None:
        if watch.late:
            out.complete = False
            return
        began, absent = time.perf_counter(), rows.left_out(fit)
        x, y = rows.seen(fit)
        y = y.to(device)
        centres = [p.detach() * (p.ndim < 2) for p in head.parameters()]
        lengths: list[float] = []
        for loss in each:
            lengths += _descend(head, x, y, objective(loss, y), strength, centres)
        head.eval().requires_grad_(False)
        if fit == rows.members:
            out.head = head.cpu()
        else:
            out.scores[absent] = head(rows.features[absent]).cpu()
        out.add(fit, len(lengths), lengths[-1], lengths[0], time.perf_counter() - began)
        watch.advance(1 / len(rows.fits))

    return out, [partial(job, fit, new().to(device)) for fit in rows.fits]


def _descend(
    head: Head,
    x: Tensor | SparseRows,
    y: Labels,
    value: Callable[[Tensor, Any], Tensor],
    strength: float,
    centres: Sequence[Tensor],
) -> list[float]:
    """Minimise in place; the squared lengths of all gradients on the way."""
    trained, lengths = [*head.parameters()], []

    def closure() -> Tensor:
        pull = [(p - c).square().sum() for p, c in zip(trained, centres, strict=True)]
        cost = strength * value(head(x), y) + torch.stack(pull).sum() / 2
        slopes = torch.autograd.grad(cost, trained)
        for p, slope in zip(trained, slopes, strict=True):
            p.grad = slope.contiguous()
        lengths.append(sum(float(slope.square().sum()) for slope in slopes))
        return cost.detach()

    optimiser = torch.optim.LBFGS(
        trained,
        max_iter=MOST,
        history_size=HISTORY,
        tolerance_grad=0.0,
        line_search_fn="strong_wolfe",
    )
    optimiser.step(closure)  # type: ignore[no-untyped-call]
    return lengths
