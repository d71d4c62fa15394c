"""Contributions: what each feature adds to a score, so that all of them add up to it.

A model that is a sum says it by itself (heads; trees, on the scale of probabilities). Of a
network, and of distances, slopes are averaged on the straight way from a row of nothing but zeros:
integrated gradients. What comes after a sum (a link, a mean of probabilities, a calibrator) is a
curve f, and f(total) - f(base) is shared out in proportion to what was added up: by the slope of
the chord.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelset.data import SparseRows
from labelset.heads import Head

Array = NDArray[Any]
Curve = Callable[[Array], Array]

ENTRIES = 1 << 22
"""Contributions, and weights of labels, that are in memory together."""
PARTS, POINTS, HALVINGS = 4, 4, 12
"""Of a way from zeros to a row, points of each, and how often one is halved."""
CLOSE = 2e-4
"""How far a sum may be off, as a share of the difference that it is to explain."""
NETWORK = (3, 2e-3)
"""The same two of networks that are trained whole: their scores are float32, whose rounding no
halving removes, and each point costs a pass through all of it."""
TOGETHER = 64
"""Rows that go through a network together."""


@dataclass(frozen=True, eq=False)
class Contributions:
    """score = base + the sum of values, up to rounding and to what integrating leaves over.

    Of pairs of a row and a label, one after the other.
    """

    base: Array
    """(pairs,) float64: the score where nothing is known, or in all training rows."""
    values: Any
    """(pairs, features) scipy matrix, float64."""
    members: tuple[tuple[str, Contributions], ...] = ()
    """Of a blend: its models by name, whose values add up to these."""

    def total(self) -> Array:
        """(pairs,): what it adds up to."""
        total: Array = self.base + np.asarray(self.values.sum(axis=1)).ravel()
        return total

    def scaled(self, factor: Array) -> Any:
        """The values, those of each pair times a number."""
        from scipy.sparse import diags

        return (diags(factor) @ self.values).tocsr()

    def through(self, curve: Curve, least: Any) -> Contributions:
        """The same after a curve; `least` as in `chord`."""
        slope = chord(curve, self.base, self.total(), least)
        return replace(self, base=curve(self.base), values=self.scaled(slope))


def chord(curve: Curve, low: Array, high: Array, least: Any) -> Array:
    """Slope of the straight line between two points of a curve, which are taken to be at least so
    far apart, as nearer ones tell of rounding and steps alone.

    >>> chord(np.square, np.array([1.0, 1.0]), np.array([3.0, 1.0]), 0.5)
    array([4., 2.])
    """
    middle, half = (low + high) / 2, np.maximum(np.abs(high - low), least) / 2
    slope: Array = (curve(middle + half) - curve(middle - half)) / (2 * half)
    return slope


def logit(p: Array, clip: float) -> Array:
    """Log-odds of probabilities that are kept away from 0 and 1."""
    q = np.clip(p, clip, 1 - clip)
    odds: Array = np.log(q) - np.log1p(-q)
    return odds


def apart(low: Array, high: Array, clip: float) -> Array:
    """The `least` of a `chord` of `logit`, which is steep near 0 and 1."""
    middle = np.clip((low + high) / 2, clip, 1 - clip)
    distance: Array = 1e-4 * np.minimum(middle, 1 - middle)
    return distance


def in_blocks(
    rows: Array, labels: Array, size: int, made: Callable[[Array, Array], Contributions]
) -> Contributions:
    """Of all pairs, so many at a time."""
    from scipy.sparse import vstack

    starts = range(0, max(len(rows), 1), size)
    parts = [made(rows[at : at + size], labels[at : at + size]) for at in starts]

    def joined(parts: Sequence[Contributions]) -> Contributions:
        names = [name for name, _ in parts[0].members]
        each = (joined([part.members[k][1] for part in parts]) for k in range(len(names)))
        values = vstack([part.values for part in parts], format="csr")
        base = np.concatenate([part.base for part in parts])
        return Contributions(base, values, tuple(zip(names, each, strict=True)))

    return joined(parts)


def placed(found: Contributions, end: int, width: int) -> Contributions:
    """The same among so many features, of which its own ones end at `end`."""
    from scipy.sparse import csr_matrix

    held = csr_matrix(found.values)
    place = held.indices + (end - held.shape[1])
    values = csr_matrix((held.data, place, held.indptr), shape=(held.shape[0], width))
    return replace(found, values=values)


def dense(features: Any, rows: Array) -> Array:
    """(rows, features) float64 or float32 of the chosen rows."""
    some = features[torch.from_numpy(rows)]
    some = some.dense() if isinstance(some, SparseRows) else some
    array: Array = some.cpu().numpy()
    return array


# ---- heads --------------------------------------------------------------------------------------


def of_model(model: Any, features: Any, rows: Array, labels: Array) -> Contributions:
    """Of pairs, (pairs,) rows of the features and (pairs,) labels, by a head or an estimator."""
    if hasattr(features, "contributions"):  # texts before a network, by words
        texts: Contributions = features.contributions(model, rows, labels)
        return texts
    if isinstance(model, Head):
        return _of_head(model, features, rows, labels)
    found: Contributions = model.contributions(features, rows, labels)
    return found


def _of_head(head: Head, features: Any, rows: Array, labels: Array) -> Contributions:
    """Weight times feature, and the score of zeros."""
    width = int(features.shape[1])
    with torch.no_grad():
        zeros = head(torch.zeros(1, width, dtype=torch.float64))[0].numpy()
    order = np.argsort(labels, kind="stable")  # pairs of one label need its weights once
    size = max(1, ENTRIES // width)

    def made(rows: Array, labels: Array) -> Contributions:
        different, number = np.unique(labels, return_inverse=True)
        weights = head.weights(torch.from_numpy(different)).numpy()
        return Contributions(zeros[labels], times(features, rows, weights, number))

    found = in_blocks(rows[order], labels[order], size, made)
    back = np.argsort(order, kind="stable")
    return Contributions(found.base[back], found.values[back])


def times(features: Any, rows: Array, weights: Array, number: Array) -> Any:
    """(pairs, features) scipy matrix: features of a pair's row, times its row of weights."""
    from scipy.sparse import csr_matrix

    some = features[torch.from_numpy(rows)]
    if not isinstance(some, SparseRows):
        return csr_matrix(some.cpu().double().numpy() * weights[number])
    at, columns = some.rows().numpy(), some.indices.numpy()
    values = some.filled().double().numpy() * weights[number[at], columns]
    return csr_matrix((values, columns, some.indptr.numpy()), shape=(len(rows), some.width))


# ---- integrated gradients -----------------------------------------------------------------------


def integrated(
    count: int,
    value: Callable[[Array, Array], Array],
    slopes: Callable[[Array, Array], Array],
    sums: Callable[[Array, Array], Array],
    halvings: int = HALVINGS,
    close: float = CLOSE,
) -> Array:
    """Integrals of slopes over 0 <= t <= 1 of so many ways, one after the other in the result.

    `value(which, t)` is a score on each of these ways, `slopes(which, t)` what is integrated, and
    `sums(which, integrals)` what these add to the score: between two points of a way that must be
    the difference of the values there, or else the interval is halved.

    >>> def bend(which, t):
    ...     return np.maximum(t - 0.3, 0)
    >>> def slope(which, t):
    ...     return (t > 0.3) * 1.0
    >>> integrated(1, bend, slope, lambda which, integrals: integrals).round(4)
    array([0.7])
    """
    points, weights = np.polynomial.legendre.leggauss(POINTS)
    points, weights = (points + 1) / 2, weights / 2
    every = np.arange(count)
    difference = value(every, np.ones(count)) - value(every, np.zeros(count))
    allowed = close * (np.abs(difference) + 0.01)
    which, at = np.repeat(every, PARTS), np.tile(np.arange(PARTS) / PARTS, count)
    length, total = 1 / PARTS, np.zeros(0)
    for halving in range(halvings + 1):
        pairs = zip(points, weights, strict=True)
        part = np.stack([w * slopes(which, at + t * length) for t, w in pairs]).sum(0) * length
        missed = value(which, at + length) - value(which, at) - sums(which, part)
        off = np.abs(missed) > allowed[which] * max(length, 1 / 32)
        off &= halving < halvings
        if not halving:
            total = np.zeros((count, *part.shape[1:]))
        np.add.at(total, which[~off], part[~off])
        which, length = np.repeat(which[off], 2), length / 2
        at = np.repeat(at[off], 2) + np.tile([0.0, length], int(off.sum()))
        if not len(which):
            break
    return total


def along(
    score: Callable[[Tensor], Tensor], start: Tensor, end: Tensor, labels: Array
) -> tuple[Array, Array]:
    """Integrated gradients of any network: (pairs,) its scores at the start, and (pairs, ...) what
    each number of the inputs adds on the straight way to the end.

    `score` is from (rows, ...) to (rows, labels).
    """
    way = end - start

    def evaluated(which: Array, t: Array, sloped: bool) -> Array:
        parts = []
        for some in np.array_split(np.arange(len(which)), max(1, len(which) // TOGETHER)):
            at = torch.from_numpy(which[some])
            share = torch.from_numpy(t[some]).to(way).view(-1, *[1] * (way.ndim - 1))
            x = (start[at] + share * way[at]).requires_grad_(sloped)
            with torch.set_grad_enabled(sloped):
                picked = score(x)[torch.arange(len(at)), labels[which[some]]]
                out = torch.autograd.grad(picked.sum(), x)[0] * way[at] if sloped else picked
            parts.append(out.double().cpu().numpy())
        return np.concatenate(parts)

    total = integrated(
        len(labels),
        lambda which, t: evaluated(which, t, False),
        lambda which, t: evaluated(which, t, True),
        lambda _, added: added.reshape(len(added), -1).sum(1),
        *NETWORK,
    )
    every = np.arange(len(labels))
    return evaluated(every, np.zeros(len(labels)), False), total
