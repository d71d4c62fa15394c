"""Linear heads on sparse rows: passes of dual coordinate steps, sixteen labels at a time, in C."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelset.data import SparseRows
from labelset.labels import Labels
from labelset.train._slopes import Solution, best_constants

try:
    from labelset.train import _dual
except ImportError:  # no compiler where this was installed: L-BFGS does it, many times slower
    _dual = None  # type: ignore[assignment, unused-ignore]

Array = NDArray[Any]
LANES = 16
"""Labels that are solved side by side; csrc/solve/passes.c has the same number."""
COLD, WARM = (5, 8), (3, 4)
"""The fewest passes of a member and of the fit to all rows: from 0, and from a smaller strength."""
MOST, ENOUGH = 60, 0.03
"""There are more passes, up to so many, until the residual is below this."""


def is_built() -> bool:
    """Whether the extension is there."""
    return _dual is not None


@dataclass(frozen=True)
class Step:
    """Minimise with these slopes at this strength, from where the step before ended."""

    tables: Tensor
    strength: float
    problem: int | None
    """Whose solution this is; None: it is on the way to one."""


class DualPasses:
    """Rows and labels as the passes read them, and the fits to make.

    shares: (members + 1, labels), how often each label is on in the rows of each fit, of which the
    last is to all rows.
    """

    def __init__(
        self, features: SparseRows, labels: Labels, folds: Tensor, shares: Tensor, seed: int
    ) -> None:
        self.rows, self.width, self.labels = len(features), features.width, labels.n
        self.folds, self.shares, self.seed = folds.numpy(), shares, seed
        counts = torch.bincount(features.indices, minlength=features.width)
        often = counts.argsort(descending=True, stable=True)
        self.used = often[: int((counts > 0).sum())]  # frequent ones lie together, in the cache
        place = torch.empty_like(often)
        place[often] = torch.arange(len(often))
        values = features.filled()
        columns = place[features.indices.long()].int()
        self.matrix = [t.numpy() for t in (features.indptr, columns, values)]
        self.sizes = torch.ones(self.rows).index_add_(0, features.rows(), values.square()).numpy()
        self.by_label = labels.T
        rare_last = self.by_label.indptr.diff().argsort(descending=True, stable=True)
        self.blocks = rare_last.split(LANES)  # rows that are done with are so for all of a block

    def run(
        self,
        chains: Sequence[Sequence[Step]],
        refit: bool,
        progress: Callable[[float], None] | None,
        deadline: float | None,
    ) -> dict[int, Solution]:
        """The solutions of all chains, block by block; threads share nothing that is written."""
        members = range(len(self.shares) - (not refit))
        out = {
            step.problem: Solution.empty(
                self.rows, self.width, self.labels, len(self.shares), refit
            )
            for chain in chains
            for step in chain
            if step.problem is not None
        }
        jobs = [
            (chain, member, block)
            for chain in chains
            for member in members
            for block in range(len(self.blocks))
        ]

        def work(job: tuple[Sequence[Step], int, int]) -> None:
            if deadline is None or time.perf_counter() < deadline:
                self._fit(*job, out)
                return
            for step in job[0]:
                if step.problem is not None:
                    out[step.problem].complete = False

        pool = ThreadPoolExecutor(torch.get_num_threads())
        try:
            running = [pool.submit(work, job) for job in jobs]
            for done, future in enumerate(as_completed(running), start=1):
                future.result()
                if progress is not None:
                    progress(done / len(jobs))
        finally:
            pool.shutdown(cancel_futures=True)
        return out

    def _fit(
        self, chain: Sequence[Step], member: int, number: int, out: dict[int, Solution]
    ) -> None:
        """Go through a chain for one block of labels and one member, and keep what comes of it."""
        block, everything = self.blocks[number], member == len(self.shares) - 1
        own = self.folds != (-2 if everything else member)
        order = np.flatnonzero(own).astype(np.int32)
        left_out = np.flatnonzero(~own).astype(np.int32)
        source = np.random.SeedSequence([self.seed, member, number])
        seed = int(source.generate_state(1, np.uint64)[0])
        targets, idle = self._targets(block), np.empty(self.rows, dtype=np.uint8)
        dual = np.zeros((self.rows, LANES), dtype=np.float32)
        weight = np.zeros((len(self.used), LANES), dtype=np.float32)
        bias = np.zeros(LANES, dtype=np.float32)
        used, least = len(block), COLD
        for step in chain:
            began = time.perf_counter()
            lines = block if len(step.tables) > 1 else torch.zeros_like(block)
            if least is COLD:
                start = best_constants(step.tables[lines], self.shares[member, block])
                bias[:used] = start.numpy()
            table = np.zeros(LANES, dtype=np.int64)
            table[:used] = lines.numpy() * step.tables[0].numel()
            fewest = least[everything]
            passes, lacked, length = _dual.passes(
                *self.matrix, self.sizes, order, idle, step.tables.numpy(), table, targets,
                step.strength, dual, weight, bias, fewest, MOST, ENOUGH, seed,
            )  # fmt: skip
            least = WARM
            if step.problem is None:
                continue
            solution = out[step.problem]
            if everything:
                solution.weight[self.used[:, None], block] = torch.from_numpy(weight[:, :used])
                solution.bias[block] = torch.from_numpy(bias[:used])
            elif len(left_out):
                scores = np.empty((len(left_out), LANES), dtype=np.float32)
                _dual.scores(*self.matrix, weight, bias, left_out, scores)
                rows = torch.from_numpy(left_out).long()
                solution.scores[rows[:, None], block] = torch.from_numpy(scores[:, :used])
            solution.add(member, passes, lacked, length, time.perf_counter() - began)

    def _targets(self, block: Tensor) -> Array:
        """(rows, LANES) labels, NaN where unknown and beyond the block."""
        some = self.by_label[block]
        out = np.zeros((self.rows, LANES), dtype=np.float32)
        out[:, len(block) :] = np.nan
        values = 1.0 if some.values is None else some.values.numpy()
        out[some.indices.numpy(), some.rows().numpy()] = values
        return out
