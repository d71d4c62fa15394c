"""How many of the best rows are right, expected from their probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelset import _csr, check

__all__ = ["Expected", "expected_right"]

EXACT = 2_000  # first rows whose interval is exact


@dataclass(frozen=True)
class Expected:
    """Of the first 1, 2, ..., k rows: how many are right."""

    mean: Tensor
    """(k,) float64: the expected number."""
    low: Tensor
    """(k,) int64: the number lies between `low` and `high` with at least probability `level`."""
    high: Tensor
    level: float

    def __str__(self) -> str:
        if not len(self.mean):
            return "no rows"
        return (
            f"{self.mean[-1].item():.1f} of the first {len(self.mean):,} rows expected right, "
            f"{int(self.low[-1]):,} to {int(self.high[-1]):,} with probability {self.level:g}"
        )


def expected_right(scores: Any, level: float = 0.95) -> Expected:
    """The expected number of right rows among the first 1, ..., k, with an interval.

    scores: (k,) probabilities, such as `rank` returns. The mean is their running sum. If they are
    calibrated and rows independent, the number follows the Poisson binomial distribution; the
    interval is central, exact for the first 2,000 rows and from its mean, variance and skewness
    (Cornish and Fisher) beyond.

    >>> print(expected_right([0.9, 0.8, 0.8, 0.1]))
    2.6 of the first 4 rows expected right, 1 to 4 with probability 0.95
    """
    p = _probabilities(scores)
    tail = (1 - check.number("level", level, low=0, high=1, open_low=True, open_high=True)) / 2
    ends = np.concatenate([_exact(p[:EXACT], tail), _approximate(p, tail)[EXACT:]])
    low, high = torch.as_tensor(ends, dtype=torch.int64).unbind(1)
    return Expected(torch.as_tensor(p.cumsum()), low, high, level)


def _probabilities(scores: Any) -> NDArray[np.float64]:
    p = _csr.as_tensor(scores).detach()
    if p.ndim != 1:
        raise ValueError(f"scores must be 1-D, one probability per row, got {tuple(p.shape)}")
    bad = (~((p >= 0) & (p <= 1))).nonzero()[:, 0]
    if len(bad):
        place = int(bad[0])
        raise ValueError(
            f"scores must be probabilities in [0, 1], got {p[place].item():g} at {place}; for "
            "log_scores take their exp()"
        )
    return np.asarray(p.cpu().double().numpy())


def _exact(p: NDArray[np.float64], tail: float) -> NDArray[np.float64]:
    """(k, 2) ends: the distribution of the count, one row after another."""
    ends = np.zeros((len(p), 2))
    chance = np.ones(1)
    for i, each in enumerate(p.tolist()):
        chance = np.append(chance * (1 - each), 0.0) + np.append(0.0, chance * each)
        below = chance.cumsum()
        ends[i] = np.minimum(np.searchsorted(below, (tail, 1 - tail)), i + 1)
    return ends


def _approximate(p: NDArray[np.float64], tail: float) -> NDArray[np.float64]:
    mean, variance = p.cumsum(), (p * (1 - p)).cumsum()
    third = (p * (1 - p) * (1 - 2 * p)).cumsum()
    spread = np.sqrt(variance)
    z = NormalDist().inv_cdf(1 - tail)
    # sd * (z + skewness (z^2 - 1) / 6), where sd * skewness = third / variance
    shift = (z * z - 1) / 6 * np.divide(third, variance, out=np.zeros_like(p), where=variance > 0)
    ends = np.stack([mean + shift - z * spread, mean + shift + z * spread], axis=1)
    most = np.arange(1, len(p) + 1)[:, None]
    return np.asarray(np.clip(np.ceil(ends - 0.5), 0, most))
