"""The expected-F1 rule against every set and every outcome."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labelset.decide import build
from labelset.decide.expected_f1 import expected_f1, reach


def all_sets(n):
    return (np.arange(2**n)[:, None] >> np.arange(n)) & 1


def brute_force(row, empty=0.0):
    """E[F1] of all 2^n sets, by going through all 2^n outcomes."""
    sets = all_sets(len(row))
    chance = np.prod(np.where(sets, row, 1 - row), axis=1)
    size = sets.sum(1)
    below = size[:, None] + size[None, :]
    f1 = np.where(below > 0, 2 * (sets @ sets.T) / np.maximum(below, 1), empty)
    return f1 @ chance


def check(p, empty=0.0):
    r = build("expected-f1", empty=empty)
    chosen, value = r(p).dense().numpy().astype(int), r.expected(p).numpy()
    for row, picked, v in zip(p, chosen, value, strict=True):
        each = brute_force(row, empty)
        mine = each[(picked << np.arange(len(row))).sum()]
        assert mine == pytest.approx(each.max(), abs=2e-12)
        assert v == pytest.approx(mine, abs=1e-13)


@pytest.mark.parametrize("empty", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("n", range(1, 9))
def test_best_of_all_sets(n, empty):
    rng = np.random.default_rng(n)
    check(rng.random((20, n)), empty)
    check(rng.random((20, n)) ** 4, empty)
    check(np.round(rng.random((20, n)) * 4) / 4, empty)  # ties, zeros and ones


@pytest.mark.parametrize("n", [10, *(pytest.param(n, marks=pytest.mark.slow) for n in (11, 12))])
def test_best_of_all_sets_of_many(n):
    rng = np.random.default_rng(n)
    check(np.stack([rng.random(n), rng.random(n) ** 3, 0.1 * rng.random(n)]))


@settings(max_examples=100)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=7), st.sampled_from([0.0, 1.0]))
def test_best_of_all_sets_of_any_row(row, empty):
    check(np.array([row]), empty)


def naive(p, k):
    """E[F1] of the k most probable of many labels, from two distributions of counts."""

    def distribution(q):
        out = np.ones(1)
        for each in q:
            out = np.convolve(out, [1 - each, each])
        return out

    p = np.sort(p)[::-1]
    a, b = distribution(p[:k]), distribution(p[k:])
    hits, missed = np.arange(len(a))[:, None], np.arange(len(b))
    return (2 * hits / np.maximum(k + hits + missed, 1) * np.outer(a, b)).sum()


@pytest.mark.parametrize(("n", "power"), [(40, 1), (90, 6), (150, 3), (200, 20)])
def test_the_value_and_the_size_with_many_labels(n, power):
    p = np.random.default_rng(n).random((4, n)) ** power
    r = build("expected-f1")
    sizes, values = r(p).counts().tolist(), r.expected(p).tolist()
    for row, size, value in zip(p, sizes, values, strict=True):
        each = [naive(row, k) for k in range(n + 1)]
        assert value == pytest.approx(max(each), abs=1e-12)
        assert each[size] == pytest.approx(max(each), abs=2e-12)


def test_every_size_is_right_across_blocks():
    p = np.sort(np.random.default_rng(0).random((2, 150)), axis=1)[:, ::-1]
    got = expected_f1(np.ascontiguousarray(p.T), 140)
    for i in range(2):
        want = [naive(p[i], k) for k in range(141)]
        np.testing.assert_allclose(got[:, i], want, atol=1e-13)


def test_no_larger_set_than_reach_is_best():
    rng = np.random.default_rng(3)
    for power in (1, 3, 10, 40):
        p = np.sort(rng.random((6, 50)) ** power, axis=1)[:, ::-1]
        limit = reach(p.T)
        for row, most in zip(p, limit, strict=True):
            assert np.argmax([naive(row, k) for k in range(51)]) <= most


def test_the_expectation_is_the_mean_over_drawn_outcomes():
    rng = np.random.default_rng(4)
    p = rng.random((1, 30)) ** 2
    r = build("expected-f1")
    chosen = r(p).dense().numpy()[0]
    y = rng.random((200_000, 30)) < p
    f1 = 2 * (y * chosen).sum(1) / (y.sum(1) + chosen.sum())
    assert f1.mean() == pytest.approx(r.expected(p).item(), abs=2e-3)


def test_rows_do_not_depend_on_each_other_whatever_the_chunks():
    rng = np.random.default_rng(5)
    p = rng.random((3000, 30)) ** rng.integers(1, 9, size=(3000, 1))
    r = build("expected-f1")
    whole, values = r(p), r.expected(p)
    some = rng.permutation(3000)[:100]
    assert r(p[some]) == whole[some]
    torch.testing.assert_close(r.expected(p[some]), values[some], rtol=0, atol=1e-14)


def test_the_empty_set():
    r = build("expected-f1")
    assert r([[0.0, 0.0]]).counts().tolist() == [0]
    assert r.expected([[0.0, 0.0]]).tolist() == [0.0]
    lenient = build("expected-f1", empty=1.0)
    assert lenient([[0.1, 0.1], [0.9, 0.1]]).counts().tolist() == [0, 1]
    assert lenient.expected([[0.1, 0.1]]).item() == pytest.approx(0.81)
    assert lenient.expected([[0.0, 0.0]]).tolist() == [1.0]


def test_thousands_of_labels():
    rng = np.random.default_rng(6)
    p = np.zeros((50, 5000))
    p[:, :60] = rng.beta(0.2, 1.0, size=(50, 60))
    r = build("expected-f1")
    assert torch.equal(r.expected(p), r.expected(p[:, :60]))
    assert r(p).dense()[:, :60].equal(r(p[:, :60]).dense())
    half = np.full((1, 3000), 0.5)
    assert r(half).counts().tolist() == [3000]
    assert r.expected(half).item() == pytest.approx(2 / 3, abs=1e-3)
