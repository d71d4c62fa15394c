"""Dealing rows to folds so that each fold has its share of every label."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelset import check
from labelset.data.split import MOST, numbered, stratified_split
from labelset.data.store import Array
from labelset.labels import Labels


def deal_folds(labels: Any, folds: int, groups: Any = None, seed: int = 0) -> Tensor:
    """(rows,) int64: the fold of each row, from 0, so that all folds have alike labels.

    Folds have equal sizes, to a row, and equal shares of each label's positives, as near as can
    be; a label with fewer positives than folds is spread one per fold. Rows with the same entry of
    `groups` (numbers or strings) stay together. Soft labels count as on, unknown ones do not.

    >>> y = Labels.from_lists([[0], [0], [0], [1], [1], [], []], n=2)
    >>> fold = deal_folds(y, folds=3)
    >>> fold.bincount().tolist(), fold[:3].sort().values.tolist()
    ([3, 2, 2], [0, 1, 2])
    """
    y = Labels.from_dense(labels)
    if check.whole("folds", folds, low=2) > MOST:
        raise ValueError(f"folds must be at most {MOST}, got {folds}")
    group = np.arange(len(y)) if groups is None else numbered(groups)
    together = int(group.max(initial=-1)) + 1
    if together < folds:
        what = "rows" if groups is None else "groups"
        raise ValueError(f"{folds} folds need as many {what}, got {together}; ask for fewer folds")
    fold = stratified_split(y, [1 / folds] * folds, seed, group).long().numpy()
    _fill_empty(fold, group, folds)
    return torch.from_numpy(fold)


def _fill_empty(fold: Array, group: Array, folds: int) -> None:
    """Few and large groups can leave a fold empty: it gets the smallest group of another, which is
    the one with most groups."""
    for empty in np.flatnonzero(np.bincount(fold, minlength=folds) == 0):
        first = np.unique(group, return_index=True)[1]
        most = np.bincount(fold[first]).argmax()
        sizes = np.bincount(group[fold == most])
        smallest = np.where(sizes > 0, sizes, len(group) + 1).argmin()
        fold[group == smallest] = empty
