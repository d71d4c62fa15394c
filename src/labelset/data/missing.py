"""Labels that go missing: the papers' protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from labelset import check, csr
from labelset.data.dataset import PARTS, Dataset
from labelset.labels import Labels


def kept(n: int, ratio: Fraction) -> int:
    """floor(n (1 - r)) + 1 of n positives, at most n; computed exactly.

    >>> [kept(5, Fraction(4, 5)), kept(5, Fraction(1)), kept(5, Fraction(0)), kept(0, Fraction(1))]
    [2, 1, 5, 0]
    """
    return min(n, int(n * (1 - ratio) // 1) + 1)


def drop_labels(labels: Any, ratio: Any, seed: int = 0, as_unknown: bool = False) -> Labels:
    """Of each row's n positives keep floor(n (1 - ratio)) + 1 at random, at most n.

    `ratio` = 1 leaves one positive per row. What is dropped becomes off, as in the Hill and SPLC
    paper, or unknown with `as_unknown`; rows without positives and unknown entries stay as they
    are. A float ratio counts as the decimal number it is written as, so that 5 (1 - 0.8) is 1.

    >>> y = Labels.from_lists([[0, 1, 2, 3, 4], [2], []], n=5)
    >>> drop_labels(y, 0.8, seed=0).counts(), drop_labels(y, 1, seed=0).counts()
    (tensor([2, 1, 0]), tensor([1, 1, 0]))
    """
    y = Labels.from_dense(labels)
    exact = _exact(ratio)
    positives = y.counts()
    most = int(positives.max()) if len(y) else 0
    table = torch.tensor([kept(n, exact) for n in range(most + 1)], device=y.device)
    on = _is_on(y)
    rank = _random_ranks(y.rows()[on], check.whole("seed", seed))
    drop = on.clone()
    drop[on] = rank >= table[positives][y.rows()[on]]
    return _without(y, drop, as_unknown)


def drop_train_labels(
    dataset: Dataset,
    ratio: Any,
    seed: int = 0,
    as_unknown: bool = False,
    parts: Sequence[str] = ("train",),
) -> Dataset:
    """The data set with labels dropped in `parts`; the labels of all other rows stay whole.

    >>> data = Dataset.from_arrays(None, [[1, 1, 1], [1, 1, 1]], split=[0, 2])
    >>> drop_train_labels(data, 1).labels.counts()
    tensor([1, 3])
    """
    sizes = dataset.sizes()  # says what to do where there is no split
    chosen = [PARTS.index(check.one_of("part", part, PARTS)) for part in parts]
    split = torch.zeros(sum(sizes)) if dataset.split is None else dataset.split
    hit = torch.isin(split, torch.tensor(chosen, dtype=split.dtype))
    order = torch.cat([hit.nonzero().flatten(), (~hit).nonzero().flatten()])
    changed = drop_labels(dataset.labels[hit], ratio, seed, as_unknown)
    stacked = Labels.stack([changed, dataset.labels[~hit]])
    note = f"labels dropped at ratio {ratio} in {' and '.join(parts)}, seed {seed}"
    card = dataset.card | {"notes": [*dataset.card.get("notes", []), note]}
    return replace(dataset, labels=stacked[order.argsort()], card=card)


def _exact(ratio: Any) -> Fraction:
    if isinstance(ratio, (Fraction, Decimal)):
        exact = Fraction(ratio)
    else:
        check.number("ratio", ratio)
        exact = Fraction(str(ratio))
    if not 0 <= exact <= 1:
        raise ValueError(f"ratio must be a number in [0, 1], got {ratio!r}")
    return exact


def _is_on(y: Labels) -> Tensor:
    if y.values is None:
        return torch.ones(len(y.indices), dtype=torch.bool, device=y.device)
    return ~y.values.isnan()


def _random_ranks(rows: Tensor, seed: int) -> Tensor:
    """A random order of the entries of each row: 0 for its first, 1 for its second, ..."""
    key = torch.rand(len(rows), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    shuffled = key.to(rows.device).argsort()
    order = shuffled[rows[shuffled].argsort(stable=True)]
    within = torch.arange(len(rows), device=rows.device)
    counts = torch.bincount(rows)
    first = torch.repeat_interleave(counts.cumsum(0) - counts, counts)
    rank = torch.empty_like(within)
    rank[order] = within - first
    return rank


def _without(y: Labels, drop: Tensor, as_unknown: bool) -> Labels:
    if as_unknown:
        ones = torch.ones(len(y.indices), device=y.device) if y.values is None else y.values
        values = ones.masked_fill(drop, torch.nan)
        return Labels(y.indptr, y.indices, y.n, csr.plain(values), y.weights)
    lengths = torch.bincount(y.rows()[~drop], minlength=len(y))
    stored = None if y.values is None else csr.plain(y.values[~drop])
    return Labels(csr.cumulate(lengths), y.indices[~drop], y.n, stored, y.weights)
