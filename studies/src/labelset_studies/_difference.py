"""Paired differences between candidates, over seeds and test rows, and what they say."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from labelset.runs import draws
from labelset_studies._store import Done

TIMES = 200


@dataclass(frozen=True, eq=False)
class Seeds:
    """One metric of one candidate on one data set: values by seed, and their resamples."""

    values: dict[int, float]
    drawn: dict[int, Tensor]

    @classmethod
    def of(cls, done: dict[int, Done], metric: str) -> Seeds:
        """From finished cells by seed; those without the metric are left out."""
        having = {seed: one for seed, one in done.items() if metric in one.values}
        return cls(
            {seed: one.values[metric] for seed, one in having.items()},
            {seed: one.drawn[metric] for seed, one in having.items() if metric in one.drawn},
        )

    @property
    def mean(self) -> float:
        """Over seeds."""
        return sum(self.values.values()) / len(self.values) if self.values else math.nan

    def resamples(self, seed: int, times: int) -> Tensor:
        """Of one seed; the value itself where rows were not drawn again."""
        if seed in self.drawn:
            return self.drawn[seed]
        return torch.full((times,), self.values[seed], dtype=torch.float64)


@dataclass(frozen=True)
class Difference:
    """Own mean, the other's, their difference and its 95% interval."""

    own_mean: float
    other_mean: float
    delta: float
    low: float
    high: float


def difference(own: Seeds, other: Seeds) -> Difference | None:
    """Paired by seed, and by resample of the test rows; None where no seed is in both.

    A resample draws seeds with replacement and, for all of them and both candidates, the same
    test rows; the interval holds the middle 95% of 200 such means.
    """
    seeds = sorted(set(own.values) & set(other.values))
    if not seeds:
        return None
    lengths = [len(t) for side in (own, other) for t in side.drawn.values()]
    times = min(lengths, default=TIMES)
    gaps = torch.stack(
        [own.resamples(s, times)[:times] - other.resamples(s, times)[:times] for s in seeds]
    )
    again = draws(len(seeds), times, seed=1).T / len(seeds)
    drawn = (gaps * again).sum(0)
    drawn = drawn[drawn.isfinite()]
    means = [sum(side.values[s] for s in seeds) / len(seeds) for side in (own, other)]
    low = high = math.nan
    if len(drawn):
        low, high = torch.quantile(drawn, torch.tensor([0.025, 0.975]).double()).tolist()
    return Difference(means[0], means[1], means[0] - means[1], low, high)
