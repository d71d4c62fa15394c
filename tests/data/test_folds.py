"""Folds: sizes, balance, rare labels, groups."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labelset import Labels
from labelset.data import deal_folds


def long_tail(rows, n, per_row, seed=0):
    """Labels of which few are common and many rare, each in at least one row."""
    rng = np.random.default_rng(seed)
    weight = 1 / (np.arange(n) + 10.0)
    drawn = rng.choice(n, size=(rows, per_row), p=weight / weight.sum())
    pairs = np.unique(np.r_[(drawn + n * np.arange(rows)[:, None]).ravel(), np.arange(n) * (n + 1)])
    return Labels.from_csr(np.searchsorted(pairs, n * np.arange(rows + 1)), pairs % n, n)


def table(labels, fold, folds):
    """(folds, labels): positives of each label in each fold."""
    counts = torch.zeros(folds, labels.n)
    index = (fold[labels.rows()], labels.indices.long())
    return counts.index_put(index, torch.ones(len(index[0])), accumulate=True)


@pytest.mark.parametrize("folds", [2, 5, 10])
@pytest.mark.parametrize(("rows", "n"), [(300, 5), (5000, 100), (20_000, 500)])
def test_every_label_is_spread_evenly(rows, n, folds):
    labels = long_tail(rows, n, 3)
    fold = deal_folds(labels, folds)
    assert fold.dtype == torch.int64
    sizes = torch.bincount(fold, minlength=folds)
    assert sizes.max() - sizes.min() <= 1
    counts = table(labels, fold, folds)
    off = (counts - counts.sum(0) / folds).abs()
    assert off.mean() < 3


def test_labels_with_fewer_positives_than_folds_are_spread_one_per_fold():
    rng = np.random.default_rng(0)
    rare = [[int(label)] for label in np.repeat(np.arange(30), rng.integers(1, 5, 30))]
    common = [sorted(set(row)) for row in rng.integers(30, 50, (2000, 3)).tolist()]
    counts = table(labels := Labels.from_lists(rare + common, n=50), deal_folds(labels, 5), 5)
    assert (counts[:, :30] <= 1).all()


@given(st.integers(2, 6), st.integers(0, 60), st.integers(1, 30), st.integers(0, 10**6))
def test_groups_are_never_split_and_no_fold_is_empty(folds, rows, kinds, seed):
    rng = np.random.default_rng(seed)
    large = rng.integers(0, kinds, rows + folds) * (rng.random(rows + folds) < rng.random())
    names = np.array([f"group {g}" for g in np.r_[large, np.arange(folds)]])
    fold = deal_folds(rng.random((len(names), 3)) < 0.4, folds, names, seed)
    assert len(fold.unique()) == folds
    for name in set(names):
        assert len(fold[torch.from_numpy(names == name)].unique()) == 1


def test_the_seed_decides_among_equals():
    labels = long_tail(500, 20, 3)
    assert torch.equal(deal_folds(labels, 5, seed=3), deal_folds(labels, 5, seed=3))
    assert not torch.equal(deal_folds(labels, 5, seed=3), deal_folds(labels, 5, seed=4))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"folds": 1}, "folds must be at least 2, got 1"),
        ({"folds": 128}, "at most 127, got 128"),
        ({"folds": 9}, "9 folds need as many rows, got 8"),
        ({"folds": 3, "groups": ["a", "b"] * 4}, "3 folds need as many groups, got 2"),
        ({"folds": 2, "groups": [1, 2]}, "groups has 2 entries for 8 rows"),
    ],
)
def test_what_cannot_be_dealt_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        deal_folds(np.eye(8), **arguments)
