"""The exact order: sorted by double precision, near ties decided in exact arithmetic."""

from __future__ import annotations

import operator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelset.retrieve._diagram import Diagram
from labelset.retrieve._dyadic import Dyadic

__all__ = ["best_first", "contenders"]

EPS = 2.0**-52


def contenders(odds: Tensor, k: int, names: int) -> Tensor:
    """Rows (ascending) that may be among the first k: found without sorting all."""
    if k >= len(odds):
        return torch.arange(len(odds), device=odds.device)
    last = odds.topk(k, sorted=False).values.min()
    slack = 0.0 if last.isinf() else _slack(last, names)
    return (odds >= last - slack).nonzero()[:, 0]


def best_first(odds: Tensor, p: Tensor, diagram: Diagram) -> Tensor:
    """Places by falling probability, ties by place. odds: (m,) log odds, p: (m, names).

    Log odds whose difference could be rounding form a cluster with their neighbours; where its rows
    differ in p at all, their probabilities are compared as whole numbers over a power of two.
    """
    order = odds.sort(descending=True, stable=True).indices
    down, sorted_p = odds[order], p[order]
    gap = down[:-1] - down[1:]
    near = gap.isfinite() & (gap <= _slack(down[1:], p.shape[1]))  # infinite odds are exact
    doubtful = near & (sorted_p[:-1] != sorted_p[1:]).any(dim=1)
    if not bool(doubtful.any()):
        return order
    cluster = torch.cat([near.new_zeros(1), ~near]).cumsum(0)
    hit = torch.isin(cluster, cluster[1:][doubtful])
    rows = order[hit].cpu().numpy()
    value = _exact_ranks(sorted_p[hit].cpu().numpy(), diagram)
    again = np.lexsort((rows, -value, cluster[hit].cpu().numpy()))
    order[hit] = torch.as_tensor(rows[again], device=order.device)
    return order


def _slack(odds: Tensor, names: int) -> Tensor:
    """How far rounding can move the log odds of two rows apart, generously.

    Each name adds a few roundings, each of at most EPS relative to a logarithm or to 1.
    """
    return 64 * (names + 1) * EPS * (1 + odds.abs())


def _exact_ranks(p: NDArray[np.float64], diagram: Diagram) -> NDArray[np.int64]:
    """For every row of p a whole number that rises with its exact probability."""
    distinct, place = np.unique(p, axis=0, return_inverse=True)
    on = [Dyadic.of(column) for column in distinct.T]
    off = [column.one_minus() for column in on]
    exact = diagram.weigh(on, off, operator.mul, operator.add).numbers
    ranks = np.unique(exact, return_inverse=True)[1].reshape(-1)
    return np.asarray(ranks[place.reshape(-1)], dtype=np.int64)
