"""Paths: the ways of rows through trees, and what every split on them changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Means = Callable[[Array], Array]
NARROW = 1 << 12
"""Features up to which changes are counted in a table with a column for each."""


class Paths:
    """Of trees as a `Forest` has them, and of what their leaves say."""

    def __init__(
        self,
        feature: Array,
        threshold: Array,
        starts: Array,
        child: Array,
        leaf: Array,
        table: Any,
        sizes: Array | None,
    ) -> None:
        self.feature, self.threshold, self.roots = feature, threshold, starts[:-1]
        self.child, self.leaf, self.inner = child, leaf, feature >= 0
        self.table = table.tocsc()
        self.sizes = np.ones(table.shape[0]) if sizes is None else sizes

    @cached_property
    def _levels(self) -> list[Array]:
        """The nodes of all trees, level by level."""
        levels, at = [], self.roots
        while len(at):
            levels.append(at)
            first = self.child[at[self.inner[at]]]
            at = np.concatenate([first, first + 1])
        return levels

    @cached_property
    def _spans(self) -> tuple[Array, Array, Array, Array]:
        """Of each leaf its place from left to right; of each node where those below it begin and
        end, and how many training rows they have."""
        below = np.where(self.inner, 0, 1)
        for level in reversed(self._levels):
            at = level[self.inner[level]]
            below[at] = below[self.child[at]] + below[self.child[at] + 1]
        start = np.zeros(len(below), dtype=np.int64)
        start[self.roots] = np.cumsum(below[self.roots]) - below[self.roots]
        for level in self._levels:
            at = level[self.inner[level]]
            first = self.child[at]
            start[first], start[first + 1] = start[at], start[at] + below[first]
        place = np.empty(len(self.sizes), dtype=np.int64)
        place[self.leaf[~self.inner]] = start[~self.inner]
        end, running = start + below, np.zeros(len(place) + 1)
        running[place + 1] = self.sizes
        np.cumsum(running, out=running)
        return place, start, end, running[end] - running[start]

    def means(self, label: int) -> Means:
        """The share of the label among the training rows below nodes.

        From sums over leaves from left to right, of which two differ by the sum over those below a
        node. Shares are float16 and sizes are whole numbers: hardly any sum is rounded.
        """
        place, start, end, rows = self._spans
        own = slice(*self.table.indptr[label : label + 2])
        at, running = self.table.indices[own], np.zeros(len(place) + 1)
        running[place[at] + 1] = self.table.data[own] * self.sizes[at]
        np.cumsum(running, out=running)
        return lambda nodes: (running[end[nodes]] - running[start[nodes]]) / rows[nodes]

    def _steps(self, x: Array) -> tuple[Array, Array, Array]:
        """Where the steps of each row begin, the nodes they start from, and those they lead to."""
        flat, width, taken = x.ravel(), x.shape[1], [(np.empty(0, dtype=np.int64),) * 3]
        row = np.repeat(np.arange(len(x)), len(self.roots))
        node = np.tile(self.roots, len(x))
        while len(node):
            looked = self.feature[node]
            on = np.flatnonzero(looked >= 0)
            row, node, looked = row[on], node[on], looked[on]
            after = self.child[node] + (flat[row * width + looked] > self.threshold[node])
            taken.append((row, node, after))
            node = after
        row, node, after = (np.concatenate(each) for each in zip(*taken, strict=True))
        order = np.argsort(row, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(x)))])
        return starts, node[order], after[order]

    def changes(self, x: Array, row: Array, labels: Array) -> tuple[Array, Any]:
        """(pairs,) probabilities of labels at the roots, and a (pairs, features) scipy matrix of
        what splits by each feature add; pair i is of x[row[i]] and labels[i]."""
        from scipy.sparse import csr_matrix

        trees, width = len(self.roots), x.shape[1]
        starts, node, after = self._steps(x)
        base, pair, looked, change = np.zeros(len(row)), [], [], []
        for label, pairs in _by(labels):
            mean = self.means(label)
            base[pairs] = mean(self.roots).mean()
            lengths = (starts[1:] - starts[:-1])[row[pairs]]
            ends = np.cumsum(lengths)
            at = np.arange(lengths.sum()) + np.repeat(starts[row[pairs]] - ends + lengths, lengths)
            pair.append(np.repeat(pairs, lengths))
            looked.append(self.feature[node[at]])
            change.append((mean(after[at]) - mean(node[at])) / trees)
        where = tuple(np.concatenate([[], *each]).astype(np.int64) for each in (pair, looked))
        shape, values = (len(row), width), np.concatenate([[], *change])
        if width > NARROW:
            return base, csr_matrix((values, where), shape=shape)
        flat = np.bincount(where[0] * width + where[1], values, minlength=len(row) * width)
        return base, csr_matrix(flat.reshape(shape))

    def decreases(self, label: int, width: int) -> Array:
        """(width,) that add up to 1, or are all 0: the decrease of the variance of a label by
        splits, by the feature that they look at."""
        mean, rows, at = self.means(label), self._spans[3], np.flatnonzero(self.inner)
        one, other = self.child[at], self.child[at] + 1
        fall = rows[one] * rows[other] / rows[at] * (mean(one) - mean(other)) ** 2
        total = np.bincount(self.feature[at], fall, minlength=width)
        decreases: Array = total / max(total.sum(), 1e-300)
        return decreases


def _by(labels: Array) -> Iterator[tuple[int, Array]]:
    """Each label, and the pairs that ask for it."""
    order = np.argsort(labels, kind="stable")
    different, first = np.unique(labels[order], return_index=True)
    yield from zip(different.tolist(), np.split(order, first[1:]), strict=True)
