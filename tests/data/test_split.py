"""Stratified splits: sizes, presence, balance, groups, speed."""

import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labelset import Labels
from labelset.data import Dataset, ensure_split, stratified_split

SHARES = (0.7, 0.1, 0.2)


def long_tail(rows, n, per_row, seed):
    rng = np.random.default_rng(seed)
    weight = 1 / np.arange(1, n + 1) ** 0.8
    drawn = rng.choice(n, size=(rows, per_row), p=weight / weight.sum())
    pairs = np.unique(drawn + n * np.arange(rows)[:, None])
    starts = np.searchsorted(pairs, n * np.arange(rows + 1))
    return Labels.from_csr(starts, pairs % n, n)


def table(labels, part, parts=3):
    """(parts, labels): positives of each label in each part, by a plain loop over parts."""
    dense = labels.dense().nan_to_num(0)
    return torch.stack([dense[part == j].sum(0) for j in range(parts)])


def distance(labels, part, shares):
    """Mean over labels and parts of |share of the label's positives - share of the part|."""
    counts = table(labels, part, len(shares))
    used = counts.sum(0) > 0
    share = counts[:, used] / counts.sum(0)[used]
    return float((share - torch.tensor(shares)[:, None]).abs().mean())


def random_split(rows, shares, seed):
    edges = np.cumsum(np.round(np.array(shares) * rows))[:-1].astype(int)
    out = torch.empty(rows, dtype=torch.int8)
    for j, chunk in enumerate(np.split(np.random.default_rng(seed).permutation(rows), edges)):
        out[chunk] = j
    return out


@pytest.mark.parametrize("shares", [SHARES, (0.5, 0.5), (0.2,) * 5, (0.8, 0.0, 0.2)])
@pytest.mark.parametrize("seed", [0, 1])
def test_far_closer_than_random_splits(shares, seed):
    labels = long_tail(3000, 60, 3, seed)
    ours = distance(labels, stratified_split(labels, shares, seed), shares)
    others = [distance(labels, random_split(3000, shares, s), shares) for s in range(10)]
    assert ours < min(others) / 3


@pytest.mark.parametrize("rows", [5, 10, 101, 1000])
def test_sizes_are_right_to_a_row(rows):
    part = stratified_split(long_tail(rows, 20, 3, 0), SHARES)
    sizes = torch.bincount(part.long(), minlength=3)
    assert part.dtype == torch.int8
    assert all(
        abs(float(size) - share * rows) <= 1 for size, share in zip(sizes, SHARES, strict=True)
    )
    assert (sizes > 0).all()


def test_small_data_leave_no_part_empty():
    for rows in range(3, 12):
        part = stratified_split(np.ones((rows, 1)), (0.9, 0.05, 0.05))
        assert len(part.unique()) == 3


@pytest.mark.parametrize("seed", range(5))
def test_every_label_with_enough_rows_is_in_every_part(seed):
    rng = np.random.default_rng(seed)
    rare = [[int(label)] for label in np.repeat(np.arange(30), rng.integers(3, 6, 30))]
    common = [sorted(set(row)) for row in rng.integers(30, 50, (2000, 3)).tolist()]
    labels = Labels.from_lists(rare + common, n=50)
    counts = table(labels, stratified_split(labels, SHARES, seed))
    assert (counts[:, counts.sum(0) >= 3] > 0).all()


def test_rare_labels_that_would_all_be_dealt_to_one_part_are_exchanged():
    """Each row of label 0 also has a label of its own, which is dealt first and wants train."""
    rows = [[0, 1], [0, 2], [0, 3]] + [[4]] * 97
    labels = Labels.from_lists(rows, n=5)
    counts = table(labels, stratified_split(labels, SHARES, 0))
    assert (counts[:, 0] == 1).all()
    assert counts.sum(0)[4] == 97


def test_deterministic_and_seeded():
    labels = long_tail(500, 20, 3, 0)
    assert torch.equal(stratified_split(labels, seed=3), stratified_split(labels, seed=3))
    assert not torch.equal(stratified_split(labels, seed=3), stratified_split(labels, seed=4))


@given(st.integers(0, 60), st.integers(0, 8), st.integers(0, 10**6))
def test_any_small_labels_split(rows, n, seed):
    rng = np.random.default_rng(seed)
    y = rng.random((rows, n)) < rng.random(n)
    part = stratified_split(y, SHARES, seed)
    sizes = torch.bincount(part.long(), minlength=3).tolist()
    assert sum(sizes) == rows
    assert all(abs(s - share * rows) <= 1.5 for s, share in zip(sizes, SHARES, strict=True))


@given(st.integers(1, 80), st.integers(1, 30), st.integers(0, 10**6))
def test_groups_stay_together(rows, kinds, seed):
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, kinds, rows)
    y = rng.random((rows, 5)) < 0.3
    part = stratified_split(y, SHARES, seed, groups=groups)
    for group in np.unique(groups):
        assert len(part[torch.from_numpy(groups == group)].unique()) == 1


def test_many_small_groups_keep_sizes_and_balance():
    rng = np.random.default_rng(0)
    labels, groups = long_tail(4000, 30, 3, 0), rng.integers(0, 3000, 4000)
    part = stratified_split(labels, SHARES, 0, groups)
    sizes = torch.bincount(part.long(), minlength=3)
    assert (sizes - torch.tensor([2800, 400, 800])).abs().max() <= 3
    assert (
        distance(labels, part, SHARES) < distance(labels, random_split(4000, SHARES, 0), SHARES) / 3
    )


def test_unknown_labels_do_not_count():
    y = np.full((30, 1), np.nan)
    y[:3] = 1
    counts = table(Labels.from_dense(y), stratified_split(y, SHARES))
    assert counts.flatten().tolist() == [1, 1, 1]


@pytest.mark.slow
def test_a_hundred_thousand_rows_in_seconds():
    labels = long_tail(100_000, 1000, 3, 0)
    start = time.process_time()
    part = stratified_split(labels, SHARES)
    assert time.process_time() - start < 15  # about two on one free core
    assert torch.bincount(part.long()).tolist() == [70_000, 10_000, 20_000]
    assert distance(labels, part, SHARES) < 0.005


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"parts": (0.7, 0.7)}, "must add up to 1, got 1.4"),
        ({"parts": ()}, "1 to 127 shares"),
        ({"parts": (1.5, -0.5)}, "every share in parts must be"),
        ({"groups": [1]}, "groups has 1 entries for 4 rows"),
        ({"seed": -1}, "seed must be at least 0"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        stratified_split(np.eye(4), **arguments)


# ---- ensure_split --------------------------------------------------------------------------------


def data(split=None, copies=1):
    rng = np.random.default_rng(0)
    features, y = rng.normal(size=(300, 2)), rng.random((300, 4)) < 0.3
    features[: 2 * copies] = 0.0
    return Dataset.from_arrays(features, y, split=split)


def test_a_split_is_made_kept_or_completed():
    assert ensure_split(data()).sizes() == (210, 30, 60)
    whole = data([0] * 200 + [1] * 50 + [2] * 50)
    assert ensure_split(whole) is whole
    without = data([0] * 200 + [2] * 100)
    done = ensure_split(without, seed=1)
    assert done.sizes() == (175, 25, 100)
    assert torch.equal(done.split == 2, without.split == 2)
    assert "valid rows taken from train" in done.card["notes"][-1]


def test_duplicates_never_straddle():
    done = ensure_split(data(copies=20))
    assert len(done.split[:40].unique()) == 1
