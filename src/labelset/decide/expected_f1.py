"""The label set with the largest expected F1, row by row."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelset import check, inputs
from labelset.catalog import hyper
from labelset.decide._base import Array, Rule

LOST = 1e-17  # probability that may be left out of a distribution
BLOCK = 64  # levels whose counts are kept at a time


def reach(p: Array) -> Array:
    """(rows,) the largest set that can be best; p is (labels, rows), falling along labels.

    With C the expected hits of the k most probable labels and m that of all, Jensen's inequality
    gives 2 C / (k + 1 + m) <= E[F1] <= 2 C / (k + C): a set whose upper bound is below another's
    lower bound cannot be best.
    """
    hits, size = p.cumsum(0), np.arange(1, len(p) + 1)[:, None]
    least = (2 * hits / (size + 1 + hits[-1:])).max(0, initial=0.0)
    most = 2 * hits / (size + hits)
    possible = (most >= least * (1 - 1e-9)) & (p > 0)
    found: Array = (possible * size).max(0, initial=0)
    return found


def expected_f1(p: Array, largest: int) -> Array:
    """(largest + 1, rows): E[F1] of the 0, 1, ..., `largest` most probable labels of each row.

    p is (labels, rows), falling along labels. After Ye et al. (2012): with S_k the number of
    labels on among the first k, R_k among the others and s(k, x) = E[1 / (x + R_k)],

        E[F1 of k] = 2 sum_a a P(S_k = a) s(k, k + a)
        s(k - 1, x) = p_k s(k, x + 1) + (1 - p_k) s(k, x)

    so all of them take O(labels^2); counts of a probability below 1e-17 are left out, which makes
    it O(labels x expected labels + largest^2). The empty set is given 0 here.
    """
    value = np.zeros((largest + 1, p.shape[1]))
    most = _most(p[:largest])
    s = _reciprocal(_count(p[largest:]), largest + most)
    for k, chance in _counts(p[:largest], most):
        hits = np.arange(min(k, most) + 1)[:, None]
        value[k] = 2 * (hits * chance[: len(hits)] * s[k - 1 : k + len(hits) - 1]).sum(0)
        width = k + most - 1
        s[:width] += p[k - 1] * (s[1 : width + 1] - s[:width])
    return value


def _reciprocal(chance: Array, length: int) -> Array:
    """(length, rows) s(x) = sum_b chance_b / (x + b), x = 1, 2, ..."""
    x = np.arange(1, length + 1)[:, None]
    out = np.zeros((length, chance.shape[1]))
    for b, each in enumerate(chance):
        out += each / (x + b)
    return out


def _most(p: Array) -> int:
    """How many of these labels are on at most, in any row, but for a chance of LOST.

    Chernoff: P(count >= x) <= exp(x - m - x log(x / m)) above the mean m.
    """
    mean = float(p.sum(0).max(initial=0.0))
    if mean == 0.0:
        return 0
    x = np.arange(math.floor(mean) + 1, len(p) + 1)
    rare = x - mean - x * (np.log(x) - math.log(mean)) <= math.log(LOST)
    return int(x[rare][0]) - 1 if rare.any() else len(p)


def _add(chance: Array, p: Array) -> None:
    """One more label that may be on: the distribution of the count, in place."""
    chance[1:] += p * (chance[:-1] - chance[1:])
    chance[0] *= 1 - p


def _count(p: Array) -> Array:
    """(counts, rows) distribution of how many labels are on."""
    chance = np.zeros((_most(p) + 1, p.shape[1]))
    chance[0] = 1.0
    for each in p:
        _add(chance, each)
    return chance


def _counts(p: Array, most: int) -> Iterator[tuple[int, Array]]:
    """(k, distribution of the count among the first k), k falling to 1.

    Kept at every 64th level and worked out again in between: memory stays in proportion.
    """
    chance = np.zeros((most + 1, p.shape[1]))
    chance[0] = 1.0
    starts = []
    for k, each in enumerate(p):
        if k % BLOCK == 0:
            starts.append(chance.copy())
        _add(chance, each)
    for first in reversed(range(0, len(p), BLOCK)):
        chance, kept = starts.pop(), []
        for each in p[first : first + BLOCK]:
            _add(chance, each)
            kept.append(chance.copy())
        for k in reversed(range(len(kept))):
            yield first + k + 1, kept[k]


CHUNK = 2**17  # numbers worked on at a time: they stay in the cache


@dataclass(kw_only=True, eq=False)
class ExpectedF1(Rule):
    """For each row the set h that maximises E[F1(h, y)], exactly, labels being independent.

    The best set of k labels is that of the k most probable; all k are compared in O(labels^2) or
    less. Of sets that are equal to 1e-12 the smallest is taken, of equal probabilities the lowest
    label number. The probabilities are taken at their word: calibrate them first.

    >>> ExpectedF1()([[0.6, 0.4, 0.05], [0.2, 0.1, 0.1]]).dense()
    tensor([[1., 1., 0.],
            [1., 1., 1.]])
    """

    name = "expected-f1"
    needs_fit = False

    empty: float = hyper(0.0, "F1 of the empty set where nothing is on: 0, or 1 to reward it")

    def __post_init__(self) -> None:
        super().__post_init__()
        check.number("empty", self.empty, low=0.0, high=1.0)

    def decide(self, p: Tensor) -> Tensor:
        """The most probable labels, as many as are best."""
        q = p.cpu().numpy()
        order = np.argsort(-q, axis=1, kind="stable")
        size, _ = self._best(np.take_along_axis(q, order, 1))
        on = np.zeros(q.shape, dtype=bool)
        np.put_along_axis(on, order, np.arange(q.shape[1]) < size[:, None], 1)
        return torch.from_numpy(on).to(p.device)

    def expected(self, probs: Any) -> Tensor:
        """(rows,) float64: the expected F1 of the set chosen for each row.

        >>> ExpectedF1().expected([[0.5, 0.0], [1.0, 1.0]])
        tensor([0.5000, 1.0000], dtype=torch.float64)
        """
        p = inputs.probabilities(probs).double()
        falling = p.sort(dim=1, descending=True).values.cpu().numpy()
        return torch.from_numpy(self._best(falling)[1]).to(p.device)

    def _best(self, p: Array) -> tuple[Array, Array]:
        """(size, expected F1) per row of (rows, labels) falling probabilities."""
        width = max(int((p > 0).sum(1).max(initial=0)), 1)  # a label of probability 0 is nothing
        p = np.pad(p[:, :width], ((0, 0), (0, width - p[:, :width].shape[1])))
        limit = np.concatenate([reach(part.T) for part in _parts(p, CHUNK // width + 1)])
        size, value = np.zeros(len(p), dtype=np.int64), np.zeros(len(p))
        order = np.argsort(-limit, kind="stable")  # rows of like size together
        first = 0
        while first < len(p):
            largest = int(limit[order[first]])
            rows = order[first : first + CHUNK // (2 * largest + 32) + 1]
            each = expected_f1(np.ascontiguousarray(p[rows].T), largest)
            each[0] = self.empty * np.prod(1 - p[rows], axis=1)
            size[rows] = (each >= each.max(0) - 1e-12).argmax(0)
            value[rows] = each[size[rows], np.arange(len(rows))]
            first += len(rows)
        return size, value


def _parts(p: Array, rows: int) -> list[Array]:
    return [p[i : i + rows] for i in range(0, max(len(p), 1), rows)]
