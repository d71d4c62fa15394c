"""What several ways to solve share: the rows and their fits, solutions, and the time they take."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from labelset.data import SparseRows
from labelset.heads import Head
from labelset.labels import Labels
from labelset.train.fitted import repeated

SOLVED = 0.05
"""The largest residual of a fit that counts as solved."""


@dataclass(frozen=True, eq=False)
class Rows:
    """What is fitted: features, labels, and the fold of each row."""

    features: Tensor | SparseRows
    labels: Labels
    folds: Tensor
    refit: bool
    """Whether there is a fit to all rows beside those of the members."""
    vectors: Tensor | SparseRows | None = None
    """(labels, features): the directions of priors, where there are any."""

    @property
    def members(self) -> int:
        """How many fits leave a fold out; the fit to all rows has this number."""
        return int(self.folds.max()) + 1 if len(self.folds) else 0

    @property
    def fits(self) -> range:
        return range(self.members + self.refit)

    def left_out(self, fit: int) -> Tensor:
        """(rows,) bool: what a fit does not see."""
        return self.folds == (fit if fit < self.members else -2)

    def present(self, fit: int) -> Tensor:
        """(rows,) bool: what a fit sees, without the rows of which nothing is known."""
        y = self.labels
        if y.values is None:
            return ~self.left_out(fit)
        free = torch.bincount(y.rows()[y.values.isnan()], minlength=len(y))
        return ~self.left_out(fit) & (free < y.n)

    def seen(self, fit: int) -> tuple[Tensor | SparseRows, Labels]:
        """Features and labels of what a fit sees; whole weights repeat their rows."""
        at = self.present(fit).nonzero()[:, 0]
        times = repeated(self.labels[at])
        if times is None:
            return self.features[at], self.labels[at]
        return self.features[at[times]], replace(self.labels[at[times]], weights=None)

    def shares(self) -> Tensor:
        """(members + 1, labels): how often each label is on in the rows of each fit.

        Half a row is taken to be on, and half not: no frequency is 0 or 1.
        """
        y, members = self.labels, self.members
        place = (self.folds[y.rows()] + 1) * y.n + y.indices.long()
        values = torch.ones(len(place)) if y.values is None else y.values
        size = torch.bincount(self.folds + 1, minlength=members + 1).double()[:, None]
        free = values.isnan().double()

        def by_fold(weight: Tensor) -> Tensor:
            return torch.bincount(place, weight, (members + 1) * y.n).reshape(-1, y.n)

        each = torch.ones_like(free)
        if (entries := y.entry_weights) is not None:
            size = torch.zeros(members + 1, y.n, dtype=torch.float64)
            size.index_add_(0, self.folds + 1, entries)
            each = entries[y.rows(), y.indices.long()]
        on = _without_each_fold(by_fold(each * values.nan_to_num(0.0)))
        return (on + 0.5) / (_without_each_fold(size - by_fold(each * free)) + 1)

    def priors(self, fit: int, labels: Tensor) -> Tensor:
        """(features + 1, labels): where a prior of 1 puts weights, and intercepts, so that the mean
        score of the rows of a fit stays what it was."""
        assert self.vectors is not None
        some = self.vectors[labels]
        towards = (some.dense() if isinstance(some, SparseRows) else some).cpu()
        return torch.cat([towards, -(towards @ self.means[fit])[:, None]], dim=1).T

    @cached_property
    def means(self) -> Tensor:
        """(fits, features) of the rows of each fit."""
        x, fold = self.features, self.folds + 1
        known = self.present(self.members).float()
        each = torch.bincount(fold, known, self.members + 1)
        if isinstance(x, Tensor):
            sums = torch.zeros(len(each), x.shape[1]).index_add_(0, fold, known[:, None] * x.cpu())
        else:
            row, width = x.rows().cpu(), x.width
            values = x.filled().cpu() * known[row]
            place = fold[row] * width + x.indices.cpu().long()
            sums = torch.bincount(place, values, len(each) * width).reshape(-1, width)
        counts = _without_each_fold(each).clamp(min=1)
        return (_without_each_fold(sums) / counts[:, None]).float()

    def empty(self) -> Solution:
        """A solution of which nothing is known."""
        (count, n), nothing = self.labels.shape, torch.zeros(self.members + 1, dtype=torch.float64)
        weight = torch.zeros(self.features.shape[1] if self.refit else 0, n)
        return Solution(torch.zeros(count, n), weight, torch.zeros(n), nothing, nothing.clone())


def _without_each_fold(sums: Tensor) -> Tensor:
    """Sums over rows of each fold, of -1 first -> over the rows of each fit, of all rows last."""
    return torch.cat([sums.sum(0) - sums[1:], sums.sum(0, keepdim=True)])


@dataclass
class Solution:
    """What is known of a problem so far; several threads write to different parts of it."""

    scores: Tensor
    """(rows, labels), each row's by the member that leaves it out."""
    weight: Tensor
    """(features, labels) of the fit to all rows."""
    bias: Tensor
    lacked: Tensor
    """(members,) float64: what is left of the equations of each fit, squared."""
    length: Tensor
    """(members,) float64: what that is measured against, squared."""
    passes: int = 0
    seconds: float = 0.0
    complete: bool = True
    head: Head | None = None
    """The fit to all rows, where it is not a weight and a bias."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, fit: int, passes: int, lacked: Any, length: Any, seconds: float) -> None:
        """Count in some labels of a fit."""
        with self.lock:
            self.lacked[fit] += lacked
            self.length[fit] += length
            self.passes = max(self.passes, passes)
            self.seconds += seconds

    def lost(self, fit: int) -> bool:
        """Whether a fit that has ended is not solved, so that the others need not be tried."""
        return not bool(self.lacked[fit] <= SOLVED**2 * self.length[fit])

    @property
    def residual(self) -> float:
        """The largest share of the equations of any fit that is not solved."""
        shares = torch.where(self.lacked > 0, self.lacked / self.length, self.lacked).sqrt()
        return float(shares.max()) if len(shares) else 0.0


def spread(jobs: Sequence[Callable[[], None]], device: torch.device) -> None:
    """Do all: on a CPU each job on one thread from begin to end.

    Spreading every operation over all threads makes them wait for one another a thousand times a
    second: on cores that others use as well that takes fifty times as long.
    """
    threads = torch.get_num_threads()
    workers = min(threads, len(jobs)) if device.type == "cpu" else 1
    if workers < 2:
        for job in jobs:
            job()
        return
    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))
    try:
        for future in as_completed([pool.submit(job) for job in jobs]):
            future.result()
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # which a thread sets for those that begin after it


class Watch:
    """Tells what share of several problems is done, and whether time is up."""

    def __init__(
        self, problems: int, progress: Callable[[float], None] | None, seconds: float | None
    ) -> None:
        self.problems, self.progress, self.done = problems, progress, 0.0
        self.lock = threading.Lock()
        self.deadline = None if seconds is None else time.perf_counter() + seconds

    @property
    def late(self) -> bool:
        return self.deadline is not None and time.perf_counter() >= self.deadline

    def advance(self, problems: float) -> None:
        """Some part of a problem is done."""
        with self.lock:
            self.done += problems
        if self.progress is not None:
            self.progress(min(self.done / self.problems, 1.0))
