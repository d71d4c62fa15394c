"""Rows to learn from: in an order of their own, and as often as they weigh."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import _check_sample_weight
from torch import Tensor

from labelset import check, csr
from labelset.data import Dataset, SparseRows, ensure_split
from labelset.labels import Labels
from labelset.losses import AxisLoss, ConfusionLoss, DelegatingLoss, Loss, Separable, Sum
from labelset.losses.lpr import LPR
from labelset.losses.spa_lpr import SPAPairs
from labelset.sklearn.targets import Array


@dataclass(frozen=True, eq=False, repr=False)
class WeightedLabels(Labels):
    """Labels with a weight per row, which goes wherever the row goes."""

    weights: Tensor | None = None
    """(rows,) float64, with mean 1."""

    @classmethod
    def weighted(cls, labels: Labels, weights: Tensor) -> WeightedLabels:
        """The same labels, weighted."""
        return cls(labels.indptr, labels.indices, labels.n, labels.values, weights)

    def __getitem__(self, rows: Any) -> WeightedLabels:
        assert self.weights is not None
        chosen = csr.row_numbers(rows, len(self), self.device)
        return WeightedLabels.weighted(super().__getitem__(chosen), self.weights[chosen])

    def to(self, device: torch.device | str, non_blocking: bool = False) -> WeightedLabels:
        """On another device."""
        assert self.weights is not None
        there = self.weights.to(device, non_blocking=non_blocking)
        return WeightedLabels.weighted(super().to(device, non_blocking), there)


@dataclass(frozen=True, kw_only=True, eq=False)
class RowWeighted(DelegatingLoss):
    """sum_i w_i (loss of row i) / (what the mean is over), for `WeightedLabels` with weights w.

    Only a loss that is a sum over rows has this; others compare rows with one another.

    >>> from labelset.losses import build
    >>> y = WeightedLabels.weighted(Labels.from_dense([[1], [0]]), torch.tensor([0.5, 1.5]))
    >>> RowWeighted(of=build("mse"))(torch.tensor([[0.0], [9.0]]), y)
    tensor(0.8123)
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        for _, term in _added(self.of):
            if not _by_row(term):
                raise ValueError(
                    f"{type(term).__name__} compares rows with one another, so that a row has no "
                    "loss of its own to be weighted; give whole numbers as sample_weight (up to "
                    "20 on average), which repeat rows, or take another loss"
                )

    def __call__(self, logits: Tensor, labels: Any) -> Tensor:
        if not isinstance(labels, WeightedLabels) or labels.weights is None:
            return self.of(logits, labels)
        v, weights = check.logits(logits), labels.weights
        parts = [f * _weighted(term, v, labels, weights.to(v.dtype)) for f, term in _added(self.of)]
        return torch.stack(parts).sum(0)


def _added(loss: Loss) -> list[tuple[float, Loss]]:
    """What a sum adds up, with its factors."""
    if isinstance(loss, SPAPairs):
        loss = loss._sum
    if isinstance(loss, Sum):
        return [(f * inner, term) for f, one in loss.parts for inner, term in _added(one)]
    return [(1.0, loss)]


def _by_row(loss: Loss) -> bool:
    """Whether the first axis of its terms is that of rows."""
    if isinstance(loss, AxisLoss):
        return loss.way == "sample"
    if isinstance(loss, ConfusionLoss):
        return loss.average == "samples"
    return isinstance(loss, (Separable, LPR))


def _weighted(loss: Loss, v: Tensor, labels: Labels, weights: Tensor) -> Tensor:
    """The sum or mean of the terms, those of row i times w_i; the mean is over what is known."""
    ((values, known),) = loss.groups(v, labels)
    each = weights if values.ndim == 1 else weights[:, None]
    if known is None:
        known = torch.ones_like(values)
    total = (torch.where(known > 0, values, 0.0) * known * each).sum()
    return total / known.sum().clamp(min=1) if loss.reduction == "mean" else total


MOST = 20
"""Whole weights are made good by repeating rows up to so many times, on average."""


def rows_to_learn_from(
    inputs: Dataset, labels: Labels, weight: Array | None, held_out: float, seed: int
) -> Dataset:
    """A data set with train rows and, `held_out` being above 0, valid ones.

    Rows are put in an order that depends on what they hold, not on how they came: the same rows
    teach the same. Those of weight 0 are left out; whole weights repeat their rows; other weights
    go with the labels.
    """
    times = None if weight is None else copies(weight)
    if weight is not None and times is None:
        share = weight / weight[weight > 0].mean()
        labels = WeightedLabels.weighted(labels, torch.from_numpy(share))
        times = (weight > 0).astype(np.int64)
    data = replace(inputs, labels=labels, names=[str(label) for label in range(labels.n)])
    order = _by_content(data)
    data = data.rows(order if times is None else np.repeat(order, times[order]))
    if held_out:
        return ensure_split(data, (1 - held_out, held_out, 0.0), seed)
    return replace(data, split=torch.zeros(len(data), dtype=torch.int8))


def checked_weight(sample_weight: Any, X: Any) -> Array:
    """(rows,) float64 weights, 1 each where None is given; none negative, not all 0."""
    weight: Array = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if bool((weight < 0).any()):
        at = int(np.flatnonzero(weight < 0)[0])
        raise ValueError(f"sample_weight must not be negative, got {weight[at]:g} in row {at}")
    if not weight.any():
        raise ValueError("sample_weight is 0 for every row, which leaves none to learn from")
    return weight


def copies(weight: Array) -> Array | None:
    """How often each row counts, where weights are whole numbers and not too large; else None.

    >>> copies(np.array([2.0, 0.0, 1.0])), copies(np.array([0.5, 1.0]))
    (array([2, 0, 1]), None)
    """
    whole = bool((weight == np.rint(weight)).all()) and weight.sum() <= MOST * len(weight)
    return weight.astype(np.int64) if whole else None


def _by_content(data: Dataset) -> Array:
    """Row numbers, sorted by a hash of each row's inputs and labels."""
    x, texts = data.features, data.texts
    streams = [] if x is None else [_stored(x) if isinstance(x, SparseRows) else _dense(x)]
    streams += [] if texts is None else [(text.encode() for text in texts)]
    rows = zip(*streams, _stored(data.labels), strict=True)
    keys = [hashlib.blake2b(b"|".join(row), digest_size=16).digest() for row in rows]
    return np.argsort(np.array(keys, dtype="S16"), kind="stable")


def _dense(x: Any) -> Iterator[bytes]:
    for row in (x + 0.0).numpy():  # -0.0 and 0.0 are the same
        yield row.tobytes()


def _stored(rows: SparseRows | Labels) -> Iterator[bytes]:
    values: Tensor | None = rows.values
    ends, indices = rows.indptr.tolist(), rows.indices.numpy()
    held = None if values is None else values.numpy()
    for start, end in pairwise(ends):
        value = b"" if held is None else held[start:end].tobytes()
        yield indices[start:end].tobytes() + value
