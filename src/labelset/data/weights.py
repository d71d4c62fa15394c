"""Weights: what each row of a data set counts, or each of its entries, in all that is learnt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelset import csr
from labelset.data.dataset import Dataset
from labelset.data.reading import reading
from labelset.labels import Labels

MOST = 20
"""Whole weights are taken for how often rows count, up to so many on average."""


def weighted(dataset: Dataset, weights: Any) -> Dataset:
    """The data set with labels that carry weights, one per row or one per row and label.

    A row of weight 0 is left out, an entry of weight 0 is unknown: they teach nothing and judge
    nothing. Whole numbers say how often a row counts, as if it were repeated; others are scaled so
    that their mean is 1. Weights that are all 1 are the same as none.

    >>> data = Dataset.from_arrays([[1.0], [2.0], [3.0]], [[1, 0], [0, 1], [1, 1]])
    >>> weighted(data, [1, 0, 2]).labels.weights
    tensor([1., 2.], dtype=torch.float64)
    >>> weighted(data, [[1, 0], [1, 1], [1, 1]]).labels.dense()
    tensor([[1., nan],
            [0., 1.],
            [1., 1.]])
    """
    weight = checked(weights, dataset.labels.shape)
    some = weight > 0 if weight.ndim == 1 else (weight > 0).any(1)
    if not bool(some.all()):
        note = f"{int((~some).sum())} rows of weight 0 are left out"
        card = dataset.card | {"notes": [*dataset.card.get("notes", []), note]}
        dataset, weight = replace(dataset.rows(some), card=card), weight[some]
    labels = dataset.labels
    if weight.ndim == 2:
        if not bool((weight > 0).all()):
            y = labels.dense().masked_fill(weight == 0, torch.nan)
            labels = Labels.from_dense(y)
        row = weight.amax(1)
        if bool(((weight == row[:, None]) | (weight == 0)).all()):
            weight = row
    above = weight[weight > 0]
    if not (bool((above == above.round()).all()) and float(above.mean()) <= MOST):
        weight = weight / above.mean()
    if bool((weight == 1).all()):
        return replace(dataset, labels=labels)
    if weight.ndim == 2:
        note = (
            "weights of entries count in what is fitted; thresholds, calibrators and figures take "
            "all known entries alike"
        )
        card = dataset.card | {"notes": [*dataset.card.get("notes", []), note]}
        dataset = replace(dataset, card=card)
    return replace(dataset, labels=replace(labels, weights=weight))


def checked(weights: Any, shape: tuple[int, int]) -> Tensor:
    """(rows,) or (rows, labels) float64 weights, none negative, not all of them 0."""
    weight = csr.as_tensor(weights).detach().double()
    if tuple(weight.shape) not in (shape[:1], shape):
        raise ValueError(
            f"weights must be one number for each of {shape[0]} rows, or {shape[0]} x {shape[1]}, "
            f"one for each row and label, got shape {tuple(weight.shape)}"
        )
    wrong = ~(weight.isfinite() & (weight >= 0))
    if bool(wrong.any()):
        at = wrong.nonzero()[0].tolist()
        where = f"row {at[0]}" + (f", label {at[1]}" if len(at) > 1 else "")
        raise ValueError(
            f"weights must be numbers, none of them negative, got {weight[tuple(at)]:g} in {where}"
        )
    if not bool(weight.any()):
        raise ValueError("weights are 0 everywhere, which leaves no row to learn from")
    return weight


def from_file(path: Path) -> Tensor:
    """The array of an .npy file, or `weights`, or the only array, of an .npz file."""
    with reading(path):
        saved = np.load(path, allow_pickle=False)
        if isinstance(saved, np.lib.npyio.NpzFile):
            with saved:
                name = "weights" if "weights" in saved.files else saved.files[0]
                if name != "weights" and len(saved.files) > 1:
                    listed = ", ".join(saved.files)
                    raise ValueError(f"holds {listed}; call the array with weights `weights`")
                saved = saved[name]
        if saved.dtype.kind not in "biuf":
            raise ValueError(f"weights must be numbers, got {saved.dtype}")
        return torch.from_numpy(saved.astype(np.float64))
