"""Dropping labels: the papers' protocol, counted by hand and by exact arithmetic."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labelset import Labels
from labelset.data import Dataset, drop_labels, drop_train_labels


def rows_of(counts, n):
    return Labels.from_lists([list(range(c)) for c in counts], n=n)


@given(st.integers(0, 1000), st.integers(0, 10**6))
def test_counts_are_the_formulas_in_whole_numbers(thousandths, seed):
    """floor(n (1 - r)) + 1 with r = t / 1000, by integer division; at most n."""
    counts = list(range(25))
    left = drop_labels(rows_of(counts, 25), thousandths / 1000, seed).counts().tolist()
    want = [min(c, c * (1000 - thousandths) // 1000 + 1) for c in counts]
    assert left == want


def test_the_case_that_floats_get_wrong():
    assert 5 * (1 - 0.8) < 1  # the trap
    y = rows_of([5] * 50, 5)
    for ratio in (0.8, np.float32(0.8), np.float64(0.8), Decimal("0.8"), Fraction(4, 5)):
        assert drop_labels(y, ratio, 0).counts().tolist() == [2] * 50


def test_the_ends():
    y = rows_of([0, 1, 2, 7], 8)
    assert drop_labels(y, 1, 0).counts().tolist() == [0, 1, 1, 1]
    assert drop_labels(y, 0, 0) == y
    assert drop_labels(Labels.from_lists([], n=3), 0.5, 0).shape == (0, 3)
    assert drop_labels(Labels.from_lists([[], []], n=0), 0.5, 0).shape == (2, 0)


@given(st.integers(0, 10**6), st.floats(0, 1), st.booleans())
def test_only_positives_change(seed, ratio, as_unknown):
    rng = np.random.default_rng(seed)
    y = rng.choice([0, 1, 0.5, np.nan], size=(12, 9), p=[0.4, 0.4, 0.1, 0.1])
    left = drop_labels(y, ratio, seed, as_unknown).dense().double().numpy()
    same = (left == y) | (np.isnan(left) & np.isnan(y))
    assert (y[~same] > 0).all()
    gone = left[~same]
    assert np.isnan(gone).all() if as_unknown else (gone == 0).all()
    was_unknown = np.isnan(y)
    assert np.isnan(left[was_unknown]).all()


def test_every_positive_is_dropped_equally_often():
    y = rows_of([4] * 20_000, 4)
    kept = drop_labels(y, 1, 0).dense().mean(0)
    assert (kept - 0.25).abs().max() < 4 * (0.25 * 0.75 / 20_000) ** 0.5
    pairs = drop_labels(y, 0.6, 0).dense()  # keeps 2 of 4
    together = (pairs.T @ pairs / 20_000)[~torch.eye(4, dtype=torch.bool)]
    assert (together - 1 / 6).abs().max() < 4 * (1 / 6 * 5 / 6 / 20_000) ** 0.5


def test_seeds():
    y = rows_of([6] * 40, 6)
    assert drop_labels(y, 0.5, 1) == drop_labels(y, 0.5, 1)
    assert drop_labels(y, 0.5, 1) != drop_labels(y, 0.5, 2)


@pytest.mark.parametrize("ratio", [-0.1, 1.1, float("nan"), float("inf"), "0.5", None, True])
def test_bad_ratios(ratio):
    with pytest.raises((ValueError, TypeError), match="ratio must be"):
        drop_labels(np.eye(3), ratio, 0)


def test_test_labels_stay_whole():
    y = np.ones((9, 6))
    data = Dataset.from_arrays(None, y, split=[0, 1, 2] * 3)
    left = drop_train_labels(data, 1, seed=0)
    assert left.labels.counts().tolist() == [1, 6, 6] * 3
    assert left.card["notes"] == ["labels dropped at ratio 1 in train, seed 0"]
    both = drop_train_labels(data, 0.5, seed=0, parts=("train", "valid"))
    assert both.labels.counts().tolist() == [4, 4, 6] * 3
    with pytest.raises(ValueError, match="has no split"):
        drop_train_labels(Dataset.from_arrays(None, y), 1)
