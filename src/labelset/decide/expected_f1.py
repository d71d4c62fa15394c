"""The label set with the largest expected F1, row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelset import _given, check
from labelset.catalog import hyper
from labelset.decide._base import Rule
from labelset.decide._expectation import expected_f1, reach
from labelset.decide._thresholds import Array

__all__ = ["ExpectedF1"]

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
        p = _given.probabilities(probs).double()
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
