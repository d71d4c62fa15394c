"""Splitting rows so that every part sees every label: iterative stratification, fast.

The rarest label that still has free rows is dealt first: each of its rows goes to the part that
still wants it most (Sechidis, Tsoumakas and Vlahavas, 2011). Two things are added. The parts have
exact sizes, which are never overrun. And a part wants at least one row of each label that has as
many rows as there are parts; where the dealing still left one out, rows are exchanged afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelset import check
from labelset.data._deal import Items, deal
from labelset.data._exchange import exchange
from labelset.data.dataset import Dataset
from labelset.data.duplicates import input_groups
from labelset.data.store import Array
from labelset.labels import Labels

MOST = 127
"""Parts, whose numbers are int8."""


def stratified_split(
    labels: Any,
    parts: Sequence[float] = (0.7, 0.1, 0.2),
    seed: int = 0,
    groups: Any = None,
) -> Tensor:
    """(rows,) int8: the part of each row, 0 for the first, so that all parts have alike labels.

    Part j gets its share `parts[j]` of the rows, to a row, and of each label's positives, as near
    as can be; a label on in at least as many rows as there are parts is on in every part, where
    sizes and other labels allow it. Rows with the same entry of `groups` stay together (sizes are
    then right to a group). Soft labels count as on, unknown ones do not.

    >>> y = Labels.from_lists([[0], [0], [0], [1], [1], [1], [], [], []], n=2)
    >>> part = stratified_split(y, parts=(1 / 3, 1 / 3, 1 / 3), seed=0)
    >>> [y[part == j].dense().sum(0).tolist() for j in range(3)]
    [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
    """
    y = Labels.from_dense(labels)
    shares = _shares(parts)
    items, item_of_row = _items(y, groups)
    capacity = _sizes(len(y), shares)
    generator = torch.Generator().manual_seed(check.whole("seed", seed))
    order = torch.randperm(len(items.sizes), generator=generator).numpy()
    where = deal(items, shares, capacity, order)
    exchange(items, where, [j for j, size in enumerate(capacity) if size], order)
    return torch.from_numpy(np.frombuffer(where, dtype=np.int8)[item_of_row])


def ensure_split(
    dataset: Dataset, parts: tuple[float, float, float] = (0.7, 0.1, 0.2), seed: int = 0
) -> Dataset:
    """The data set with train, valid and test rows, whatever it came with.

    Without a split it gets a stratified one; with train and test rows only, valid ones are taken
    from train; a split that has both is kept. Rows with the same input stay together.

    >>> data = Dataset.from_arrays([[float(i)] for i in range(20)], [[1]] * 20)
    >>> ensure_split(data).sizes()
    (14, 2, 4)
    """
    groups = input_groups(dataset)
    if dataset.split is None:
        split = stratified_split(dataset.labels, parts, seed, groups)
        return _noted(dataset, split, f"split by labels, {parts}, seed {seed}")
    train, valid, _ = dataset.sizes()
    if valid or not train or not parts[1]:
        return dataset
    share = parts[1] / (parts[0] + parts[1])
    rows = (dataset.split == 0).nonzero().flatten()
    inner = stratified_split(
        dataset.labels[rows], (1 - share, share), seed, None if groups is None else groups[rows]
    )
    split = dataset.split.clone()
    split[rows] = inner
    return _noted(dataset, split, f"valid rows taken from train, {share:.2g} of it, seed {seed}")


def _noted(dataset: Dataset, split: Tensor, note: str) -> Dataset:
    card = dataset.card | {"notes": [*dataset.card.get("notes", []), note]}
    return replace(dataset, split=split, card=card)


def _shares(parts: Sequence[float]) -> list[float]:
    shares = [check.number("every share in parts", share, low=0.0) for share in parts]
    if not 1 <= len(shares) <= MOST:
        raise ValueError(f"parts must be 1 to {MOST} shares, got {len(shares)}")
    if not math.isclose(sum(shares), 1, abs_tol=1e-6):
        raise ValueError(f"parts must add up to 1, got {sum(shares):g} from {tuple(parts)}")
    return shares


def _sizes(rows: int, shares: list[float]) -> list[int]:
    """Whole sizes that add up to `rows`; a share above 0 gets a row while there are enough."""
    exact = [share * rows for share in shares]
    sizes = [int(size + 1e-9) for size in exact]
    by_rest = sorted(range(len(shares)), key=lambda j: (sizes[j] - exact[j], -shares[j]))
    for j in by_rest[: rows - sum(sizes)]:
        sizes[j] += 1
    if rows >= len([share for share in shares if share]):
        for j, share in enumerate(shares):
            if share and not sizes[j]:
                sizes[sizes.index(max(sizes))] -= 1
                sizes[j] += 1
    return sizes


def numbered(groups: Any) -> Array:
    """(rows,) the group of each row as a number from 0, whatever groups are called.

    >>> numbered(["b", "a", "b"])
    array([1, 0, 1])
    """
    found: Array = np.unique(np.asarray(groups).ravel(), return_inverse=True)[1]
    return found


def _items(y: Labels, groups: Any) -> tuple[Items, Array]:
    """What is dealt: rows, or groups of rows; and the item of each row."""
    item = np.arange(len(y))
    if groups is not None:
        item = numbered(groups)
        if len(item) != len(y):
            raise ValueError(f"groups has {len(item)} entries for {len(y)} rows")
    on = y.indices if y.values is None else y.indices[~y.values.isnan()]
    return Items.of(item, y.counts().numpy(), on.numpy(), y.n), item
