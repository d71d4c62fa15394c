"""Linear heads on sparse rows: passes of dual coordinate steps, sixteen labels at a time, in C."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelset.data import SparseRows
from labelset.train._slopes import best_constants
from labelset.train._solution import Rows, Solution, Watch

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


def _lines(count: int) -> Array:
    """(count, LANES) zeros, each row one line of the cache, not parts of two."""
    return torch.zeros(count, LANES).numpy()


@dataclass(frozen=True)
class Step:
    """Minimise with these slopes at this strength, from where the step before ended."""

    tables: Tensor
    strength: float
    prior: float
    problem: int | None
    """Whose solution this is; None: it is on the way to one."""


class DualPasses:
    """Rows and labels as the passes read them."""

    def __init__(self, rows: Rows, features: SparseRows, seed: int) -> None:
        self.rows, self.shares, self.seed = rows, rows.shares(), seed
        counts = torch.bincount(features.indices, minlength=features.width)
        often = counts.argsort(descending=True, stable=True)
        self.used = often[: int((counts > 0).sum())]  # frequent ones lie together, in the cache
        self.place = torch.empty_like(often)
        self.place[often] = torch.arange(len(often))
        values = features.filled()
        self.starts = features.indptr.numpy()
        self.columns = self.place[features.indices.long()].int().numpy()
        self.values = values.numpy()
        sizes = torch.ones(len(features))
        self.sizes = sizes.index_add_(0, features.rows(), values.square()).numpy()
        self.by_label = rows.labels.T
        rare_last = self.by_label.indptr.diff().argsort(descending=True, stable=True)
        # rare labels together: rows that are done with are so for all of a block
        self.blocks = torch.split(rare_last, LANES)

    def run(self, chains: Sequence[Sequence[Step]], watch: Watch) -> dict[int, Solution]:
        """The solutions of all chains; threads take blocks of labels and share no writing."""
        problems = [step.problem for chain in chains for step in chain if step.problem is not None]
        out = {problem: self.rows.empty() for problem in problems}
        blocks, fits = range(len(self.blocks)), self.rows.fits
        left = {(id(chain), fit): len(blocks) for chain in chains for fit in fits}
        jobs = [(chain, fit, block) for chain in chains for fit in fits for block in blocks]

        def work(chain: Sequence[Step], fit: int, block: int) -> None:
            ended = [other for other in fits if not left[id(chain), other]]
            own = [out[step.problem] for step in chain if step.problem is not None]
            if all(any(map(solution.lost, ended)) for solution in own):
                return
            if not watch.late:
                self._fit(chain, fit, block, out)
                with lock:
                    left[id(chain), fit] -= 1
                return
            for step in chain:
                if step.problem is not None:
                    out[step.problem].complete = False

        lock, pool = Lock(), ThreadPoolExecutor(torch.get_num_threads())
        try:
            for future in as_completed([pool.submit(work, *job) for job in jobs]):
                future.result()
                watch.advance(len(problems) / len(jobs))
        finally:
            pool.shutdown(cancel_futures=True)
        return out

    def _fit(self, chain: Sequence[Step], fit: int, number: int, out: dict[int, Solution]) -> None:
        """Go through a chain for one block of labels and one fit, and keep what comes of it."""
        block, everything, rows = self.blocks[number], fit == self.rows.members, len(self.sizes)
        absent = self.rows.left_out(fit).numpy()
        order = np.flatnonzero(~absent).astype(np.int32)
        left_out = np.flatnonzero(absent).astype(np.int32)
        source = np.random.SeedSequence([self.seed, fit, number])
        seed = int(source.generate_state(1, np.uint64)[0])
        targets, idle = self._targets(block), np.empty(rows, dtype=np.uint8)
        counts = self._counts(block)
        dual, weight = _lines(rows), _lines(len(self.used))
        bias = np.zeros(LANES, dtype=np.float32)
        used, least, prior = len(block), COLD, 0.0
        priors = self._priors(fit, block) if any(step.prior for step in chain) else None
        for step in chain:
            began = time.perf_counter()
            lines = block if len(step.tables) > 1 else torch.zeros_like(block)
            if least is COLD:
                start = best_constants(step.tables[lines], self.shares[fit, block])
                bias[:used] = start.numpy()
            if priors is not None:  # w = prior + sum_i a_i x_i: what the dual variables say, stays
                feature, lane, value, intercept = priors
                at = self.place[feature]
                seen = at < len(self.used)
                weight[at[seen].numpy(), lane[seen].numpy()] += (step.prior - prior) * value[
                    seen
                ].numpy()
                bias[:used] += (step.prior - prior) * intercept.numpy()
                prior = step.prior
            table = np.zeros(LANES, dtype=np.int64)
            table[:used] = lines.numpy() * step.tables[0].numel()
            fewest = least[everything]
            passes, lacked, length = _dual.passes(
                self.starts, self.columns, self.values, self.sizes, order, idle,
                step.tables.numpy(), table, targets, counts,
                step.strength, dual, weight, bias, fewest, MOST, ENOUGH, seed,
            )  # fmt: skip
            least = WARM
            if step.problem is None:
                continue
            solution = out[step.problem]
            if everything:
                if priors is not None:  # of features that no row has, too
                    feature, lane, value, _ = priors
                    solution.weight[feature, block[lane]] = step.prior * value
                solution.weight[self.used[:, None], block] = torch.from_numpy(weight[:, :used])
                solution.bias[block] = torch.from_numpy(bias[:used])
            elif len(left_out):
                scores = np.empty((len(left_out), LANES), dtype=np.float32)
                _dual.scores(self.starts, self.columns, self.values, weight, bias, left_out, scores)
                at = torch.from_numpy(left_out).long()[:, None]
                solution.scores[at, block] = torch.from_numpy(scores[:, :used])
            solution.add(fit, passes, lacked, length, time.perf_counter() - began)

    def _priors(self, fit: int, block: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Of a prior of 1: feature, lane and value of each weight that is not 0, and intercepts, by
        which the mean score of the rows of a fit stays what it was."""
        assert self.rows.vectors is not None
        some = self.rows.vectors[block].to("cpu")
        if isinstance(some, Tensor):
            lane, feature = some.nonzero(as_tuple=True)
            value = some[lane, feature]
        else:
            lane, feature, value = some.rows(), some.indices.long(), some.filled()
        away = torch.zeros(len(block)).index_add_(0, lane, value * self.rows.means[fit, feature])
        return feature, lane, value, -away

    def _counts(self, block: Tensor) -> Array:
        """(rows, LANES) what each entry counts; empty where all count alike."""
        each = self.rows.labels.entry_weights
        out = np.zeros((0 if each is None else len(each), LANES), dtype=np.float32)
        if each is not None:
            out[:, : len(block)] = each[:, block].numpy()
        return out

    def _targets(self, block: Tensor) -> Array:
        """(rows, LANES) labels, NaN where unknown and beyond the block."""
        some = self.by_label[block]
        out = np.zeros((len(self.sizes), LANES), dtype=np.float32)
        out[:, len(block) :] = np.nan
        values = 1.0 if some.values is None else some.values.numpy()
        out[some.indices.numpy(), some.rows().numpy()] = values
        return out
