"""Thresholds are the exact optimum over all cut points: scikit-learn and brute force say so."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, fbeta_score

from labelset import Labels
from labelset.decide import build

METRICS = ("f1-micro", "f1-macro", "f1-weighted", "f1-samples", "hamming")
SEPARABLE = ("f1-micro", "f1-macro", "f1-weighted", "hamming")


def data(rows, labels, seed, levels=None, unknown=0.0):
    rng = np.random.default_rng(seed)
    p = rng.random((rows, labels)) ** 2
    if levels:
        p = np.round(p * levels) / levels
    y = (rng.random((rows, labels)) < 0.7 * p + 0.1).astype(float)
    y[rng.random((rows, labels)) < unknown] = np.nan
    return p, y


def sklearn_value(metric, y, chosen, beta=1.0):
    if metric == "hamming":
        return accuracy_score(y.ravel(), chosen.ravel())
    average = metric.removeprefix("f1-")
    return fbeta_score(y, chosen, beta=beta, average=average, zero_division=0)


def values(metric, y, chosen, beta=1.0):
    """The same of many (choices, rows, labels) decisions at once."""
    y = y.astype(bool)
    if metric == "hamming":
        return (chosen == y).mean((1, 2))
    average = metric.removeprefix("f1-")
    over = {"micro": (1, 2), "samples": 2}.get(average, 1)
    hits, size = (chosen & y).sum(over), (chosen + beta**2 * y).sum(over)
    each = (1 + beta**2) * hits / np.where(size > 0, size, 1)
    if average == "micro":
        return each
    return np.average(each, axis=1, weights=y.sum(0) if average == "weighted" else None)


@pytest.mark.parametrize("beta", [1.0, 0.5])
@pytest.mark.parametrize("metric", METRICS)
def test_many_decisions_count_as_each_does_by_scikit_learn(metric, beta):
    p, y = data(9, 4, 1)
    y[:, 0] = 0
    chosen = np.stack([p >= t for t in cuts(p)[::4]])
    want = [sklearn_value(metric, y, one, beta) for one in chosen]
    assert values(metric, y, chosen, beta) == pytest.approx(want, abs=1e-12)


def cuts(p):
    """A threshold for every way to cut sorted probabilities, nothing and everything included."""
    return [*np.unique(p), 1.5]


@pytest.mark.parametrize("beta", [1.0, 0.5, 2.0])
@pytest.mark.parametrize("levels", [None, 7])
@pytest.mark.parametrize("metric", METRICS)
def test_global_is_the_best_of_all_thresholds(metric, levels, beta):
    for seed in range(3):
        p, y = data(12, 3, seed, levels)
        r = build("global", metric=metric, beta=beta).fit(p, y)
        chosen = r(p).dense().numpy()
        best = values(metric, y, np.stack([p >= t for t in cuts(p)]), beta).max()
        assert sklearn_value(metric, y, chosen, beta) == pytest.approx(best, abs=1e-12)
        assert r.objective(p, y) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_global_on_a_larger_set(metric):
    p, y = data(80, 8, 5)
    r = build("global", metric=metric).fit(p, y)
    best = max(r.score(Labels.from_dense(p >= t), y) for t in cuts(p))
    assert r.objective(p, y) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("levels", [None, 5])
@pytest.mark.parametrize("metric", SEPARABLE)
def test_per_class_is_the_best_of_all_combinations(metric, levels):
    for seed in range(3):
        p, y = data(5, 3, seed, levels)
        y[:, 0] *= seed > 0  # one class without positives in the first
        r = build("per-class", metric=metric).fit(p, y)
        every = itertools.product(*(cuts(column) for column in p.T))
        best = values(metric, y, np.stack([p >= np.array(t) for t in every])).max()
        assert sklearn_value(metric, y, r(p).dense().numpy()) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("beta", [0.3, 1.0, 3.0])
def test_per_class_micro_with_beta_is_optimal_together(beta):
    p, y = data(7, 3, 11)
    r = build("per-class", metric="f1-micro", beta=beta).fit(p, y)
    best = max(
        r.score(Labels.from_dense(p >= np.array(t)), y)
        for t in itertools.product(*(cuts(column) for column in p.T))
    )
    assert r.objective(p, y) == pytest.approx(best, abs=1e-12)


def test_per_class_macro_is_each_class_on_its_own():
    p, y = data(150, 6, 3)
    chosen = build("per-class").fit(p, y)(p).dense().numpy()
    for j in range(6):
        column = np.stack([p[:, [j]] >= t for t in cuts(p[:, j])])
        best = values("f1-micro", y[:, [j]], column).max()
        assert f1_score(y[:, j], chosen[:, j]) == pytest.approx(best, abs=1e-12)


def test_per_class_micro_beats_its_neighbours_at_scale():
    """No change of one threshold helps, and it is no worse than the other tunings."""
    p, y = data(400, 8, 9)
    r = build("per-class", metric="f1-micro").fit(p, y)
    reached, t = r.objective(p, y), r.thresholds.numpy()
    for j in range(8):
        for other in cuts(p[:, j])[::3]:
            moved = np.where(np.arange(8) == j, other, t)
            assert r.score(Labels.from_dense(p >= moved), y) <= reached + 1e-12
    for name, metric in (("global", "f1-micro"), ("per-class", "f1-macro")):
        assert r.score(build(name, metric=metric).fit(p, y)(p), y) <= reached + 1e-12


@settings(max_examples=80)
@given(
    st.integers(1, 7),
    st.integers(1, 4),
    st.integers(0, 10**6),
    st.sampled_from(METRICS),
    st.sampled_from([0.0, 0.3, 0.9]),
)
def test_any_small_case_with_unknown_labels(rows, labels, seed, metric, unknown):
    p, y = data(rows, labels, seed, levels=4, unknown=unknown)
    for name in ("global", "per-class"):
        if name == "per-class" and metric == "f1-samples":
            continue
        r = build(name, metric=metric).fit(np.where(np.isnan(y), np.nan, p), y)
        for t in cuts(p):
            assert r.score(Labels.from_dense(p >= t), y) <= r.objective(p, y) + 1e-12
        assert not bool(r.thresholds.isnan().any())


@pytest.mark.parametrize("low", [0.0, 0.3, 0.5, 1 - 2**-53, 5e-324])
def test_a_threshold_separates_neighbouring_floats(low):
    high = math.nextafter(low, 2)
    for name in ("global", "per-class"):
        r = build(name).fit([[high], [low]], [[1], [0]])
        assert r([[high], [low]]).dense().tolist() == [[1.0], [0.0]]
        assert low < float(r.thresholds) <= high


def test_everything_and_nothing_can_be_said():
    for name in ("global", "per-class"):
        nothing = build(name, metric="hamming").fit([[1.0], [1.0]], [[0], [0]])
        assert nothing([[1.0]]).counts().item() == 0
        everything = build(name, metric="hamming").fit([[0.0], [0.0]], [[1], [1]])
        assert everything([[0.0]]).counts().item() == 1


def test_thresholds_lie_midway_and_the_ends_count_as_neighbours():
    r = build("global").fit([[0.75], [0.25]], [[1], [0]])
    assert float(r.thresholds) == 0.5
    assert float(build("global").fit([[0.5], [0.25]], [[1], [1]]).thresholds) == 0.125
    r = build("global", metric="hamming").fit([[0.5], [0.25]], [[0], [0]])
    assert float(r.thresholds) == 0.75


def test_of_equal_cuts_the_highest_threshold():
    p, y = [[0.9], [0.7], [0.5], [0.3]], [[1], [0], [0], [1]]  # 2/3 after one, 2/3 after four
    for name in ("global", "per-class"):
        assert float(build(name).fit(p, y).thresholds) == pytest.approx(0.8)


def test_shrinking_is_the_formula():
    p, y = data(60, 4, 2)
    own = build("per-class").fit(p, y).thresholds
    pooled = build("global", metric="f1-macro").fit(p, y).thresholds
    m = torch.tensor(y).sum(0)
    got = build("per-class", shrink=7).fit(p, y).thresholds
    torch.testing.assert_close(got, (m * own + 7 * pooled) / (m + 7), rtol=0, atol=1e-15)
    far = build("per-class", shrink=1e9).fit(p, y).thresholds
    torch.testing.assert_close(far, pooled.expand(4), rtol=0, atol=1e-6)


def test_a_class_that_says_nothing_takes_the_global_threshold():
    p, y = data(40, 4, 4)
    y[:, 1], y[:, 2] = 0, np.nan
    pooled = build("global", metric="f1-macro").fit(p, y).thresholds
    t = build("per-class").fit(p, y).thresholds
    assert t[1] == pooled
    assert t[2] == pooled
    for metric in ("hamming", "f1-micro"):  # there a class without positives is best left off
        r = build("per-class", metric=metric).fit(p, y)
        assert r(p).dense()[:, 1].sum() == 0
        assert r.thresholds[2] == build("global", metric=metric).fit(p, y).thresholds


@pytest.mark.parametrize("metric", SEPARABLE)
@pytest.mark.parametrize("shrink", [0, 5])
def test_bootstrap_rounds_are_fits_to_drawn_rows(metric, shrink):
    """One round: the interval is one point, the threshold of the drawn rows."""
    p, y = data(50, 3, 8)
    y[:, 2] = 0
    y[0, 2] = 1  # may be left out of a round
    for seed in range(6):
        r = build("per-class", metric=metric, shrink=shrink).fit(p, y)
        low, high = r.intervals(p, y, rounds=1, seed=seed).T
        drawn = np.random.default_rng(seed).integers(50, size=50)
        again = build("per-class", metric=metric, shrink=shrink).fit(p[drawn], y[drawn])
        assert torch.equal(low, high)
        if shrink == 0:  # cut points are those of all rows, so compare what is decided
            value = r.score(Labels.from_dense(p[drawn] >= low.numpy()), y[drawn])
            assert value == pytest.approx(again.objective(p[drawn], y[drawn]), abs=1e-12)
        else:
            m = y[drawn].sum(0)
            own = build("per-class", metric=metric).fit(p, y)
            plain = own.intervals(p, y, rounds=1, seed=seed)[:, 0].numpy()
            want = (m * plain + 5 * float(r.learnt["pooled"])) / (m + 5)
            np.testing.assert_allclose(low.numpy(), want, atol=1e-12)


def test_intervals_are_ordered_reproducible_and_wider_for_rare_labels():
    rng = np.random.default_rng(0)
    p = rng.beta(0.7, 2.0, size=(2000, 2))
    y = (rng.random((2000, 2)) < p).astype(float)
    y[40:, 1] = np.nan  # little is known of the second label
    r = build("per-class").fit(p, y)
    ends = r.intervals(p, y, rounds=100, seed=3)
    assert torch.equal(ends, r.intervals(p, y, rounds=100, seed=3))
    assert not torch.equal(ends, r.intervals(p, y, rounds=100, seed=4))
    width = ends[:, 1] - ends[:, 0]
    assert bool((width >= 0).all())
    assert width[1] > 2 * width[0]
    narrow = r.intervals(p, y, rounds=100, level=0.5, seed=3)
    assert bool(((narrow[:, 1] - narrow[:, 0]) <= width).all())
    assert ends[0, 0] <= r.thresholds[0] <= ends[0, 1]


def test_intervals_cover_the_threshold_of_all_rows():
    """For calibrated p the best F1 threshold of the population is half its best F1."""
    rng = np.random.default_rng(1)
    p = rng.random((200_000, 1))
    truth = float(build("global").fit(p, rng.random(p.shape) < p).thresholds)
    covered = 0
    for seed in range(20):
        q = np.random.default_rng(100 + seed).random((400, 1))
        y = np.random.default_rng(200 + seed).random(q.shape) < q
        low, high = build("per-class").fit(q, y).intervals(q, y, rounds=100)[0].tolist()
        covered += low <= truth <= high
    assert covered >= 15


def naive_averaging(p, y):
    best = []
    for row, truth in zip(p, y, strict=True):
        known = ~np.isnan(truth)
        q, t = row[known], truth[known]
        if t.sum():
            scores = {c: 2 * (t * (q >= c)).sum() / ((q >= c).sum() + t.sum()) for c in q}
            top = max(scores.values())
            best.append(max(c for c, s in scores.items() if s == top))
    return math.fsum(best) / len(best)


@pytest.mark.parametrize("levels", [None, 5])
@pytest.mark.parametrize("unknown", [0.0, 0.3])
def test_averaging_is_the_loop(levels, unknown):
    for seed in range(5):
        p, y = data(30, 6, seed, levels, unknown)
        assert float(build("averaging").fit(p, y).thresholds) == naive_averaging(p, y)
