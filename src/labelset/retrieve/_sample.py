"""Queries of one length: all of them, or a uniform sample."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["possible", "some_queries"]

Queries = NDArray[np.int64]


def possible(n: int, length: int, forbidden: int | None = None) -> int:
    """How many queries of a length there are over n labels with at least one asked for.

    C(n, length) (2^length - 1); with exactly so many forbidden, C(n, length) C(length, forbidden).
    """
    ways = 2**length - 1 if forbidden is None else math.comb(length, forbidden)
    return math.comb(n, length) * ways


def some_queries(n: int, length: int, most: int, seed: int) -> Queries:
    """(m, length): the queries, j for label j asked for and n + j for label j forbidden.

    All of them where they are at most `most`; otherwise `most` different ones, every set of them
    equally likely.

    >>> some_queries(2, 2, most=10, seed=0).tolist()
    [[0, 1], [2, 1], [0, 3]]
    """
    if possible(n, length) <= most:
        return _all(n, length)
    random = np.random.default_rng([seed, length])
    found = np.empty((0, length), dtype=np.int64)
    while len(found) < most:
        found = np.concatenate([found, _draw(random, n, length, 2 * most)])
        first = np.unique(found, axis=0, return_index=True)[1]
        found = found[np.sort(first)]  # in the order drawn: the first ones are a fair sample
    return found[:most]


def _all(n: int, length: int) -> Queries:
    sets = np.array(list(itertools.combinations(range(n), length)), dtype=np.int64)
    sets = sets.reshape(-1, 1, length)
    codes = np.arange(2**length - 1)[:, None]
    forbidden = codes >> np.arange(length) & 1  # every code but the last has a 0
    return (sets + n * forbidden).reshape(-1, length)


def _draw(random: np.random.Generator, n: int, length: int, count: int) -> Queries:
    """Queries drawn evenly, with repeats; those that ask for nothing are dropped."""
    sets = np.empty((count, length), dtype=np.int64)
    for place, top in enumerate(range(n - length, n)):  # Floyd: every set of labels equally likely
        label = random.integers(top + 1, size=count)
        taken = (sets[:, :place] == label[:, None]).any(axis=1)
        sets[:, place] = np.where(taken, top, label)
    forbidden = random.integers(2, size=(count, length))
    drawn = np.sort(sets, axis=1) + n * forbidden
    return drawn[~forbidden.all(axis=1)]
