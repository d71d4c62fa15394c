"""Top-k, and k labels per row for a macro metric."""

import itertools

import numpy as np
import pytest
import torch

from labelset import Labels
from labelset.decide import build

METRICS = ("f1-macro", "recall-macro", "precision-macro")


def value(metric, p, h):
    hits, picked, positives = (p * h).sum(0), h.sum(0), p.sum(0)
    above, below = {
        "f1-macro": (2 * hits, picked + positives),
        "recall-macro": (hits, positives),
        "precision-macro": (hits, picked),
    }[metric]
    return np.divide(above, below, out=np.zeros_like(hits), where=below > 0).mean()


def best_of_all(metric, p, k):
    rows = [np.isin(np.arange(p.shape[1]), c) for c in itertools.combinations(range(p.shape[1]), k)]
    return max(value(metric, p, np.array(h)) for h in itertools.product(rows, repeat=len(p)))


def test_top_k_takes_the_largest_and_of_equal_ones_the_first():
    p = torch.tensor([[0.2, 0.9, 0.2, 0.2], [0.0, 0.0, 0.0, 0.0], [0.1, 0.2, 0.3, 0.4]])
    got = build("top-k", k=2)(p)
    assert got == Labels.from_lists([[0, 1], [0, 1], [2, 3]], n=4)


@pytest.mark.parametrize("k", [1, 3, 7])
def test_top_k_is_a_stable_sort(k):
    p = np.round(np.random.default_rng(k).random((200, 7)) * 5) / 5
    order = np.argsort(-p, axis=1, kind="stable")[:, :k]
    assert build("top-k", k=k)(p) == Labels.from_lists(order.tolist(), n=7)


def test_k_beyond_the_labels_is_told():
    p, y = [[0.1, 0.2, 0.3]], [[0, 0, 1]]
    told = "k must be at most the number of labels, 3, got 4"
    for name in ("top-k", "budget"):
        with pytest.raises(ValueError, match=told):
            build(name, k=4)(p)
    with pytest.raises(ValueError, match=told):
        build("budget", k=4).fit(p, y)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("k", [1, 2])
def test_budget_between_top_k_and_the_optimum(metric, k):
    gained = near = 0
    for seed in range(12):
        p = np.random.default_rng(seed).random((4, 4)) ** 2
        h = build("budget", k=k, metric=metric)(p)
        assert h.counts().tolist() == [k] * 4
        got = value(metric, p, h.dense().numpy())
        start = value(metric, p, build("top-k", k=k)(p).dense().numpy())
        best = best_of_all(metric, p, k)
        assert start - 1e-12 <= got <= best + 1e-12
        assert got >= 0.75 * best
        gained += got > start + 1e-9
        near += got > best - 1e-9
        if metric == "recall-macro":
            assert got == pytest.approx(best, abs=1e-12)
    assert gained >= 6
    assert near >= (3 if metric == "precision-macro" else 6)


@pytest.mark.parametrize("metric", METRICS)
def test_no_single_row_can_do_better(metric):
    """Where the ascent ends, each row is the best given the others."""
    p = np.random.default_rng(1).random((12, 5)) ** 2
    h = build("budget", k=2, metric=metric, sweeps=100)(p).dense().numpy()
    reached = value(metric, p, h)
    for i in range(12):
        for chosen in itertools.combinations(range(5), 2):
            other = h.copy()
            other[i] = np.isin(np.arange(5), chosen)
            assert value(metric, p, other) <= reached + 1e-11


def test_more_sweeps_never_hurt():
    p = np.random.default_rng(2).random((60, 8)) ** 3
    for metric in METRICS:
        each = [
            value(metric, p, build("budget", k=2, metric=metric, sweeps=s)(p).dense().numpy())
            for s in range(6)
        ]
        assert each == sorted(each)
        top = build("top-k", k=2)(p)
        assert build("budget", k=2, metric=metric, sweeps=0)(p) == top


@pytest.mark.parametrize("metric", ["f1-macro", "recall-macro"])
def test_fitted_on_held_out_rows_it_decides_row_by_row_and_nearly_as_well(metric):
    rng = np.random.default_rng(3)
    p = 1 / (1 + np.exp(-(rng.normal(size=(1000, 8)) * 1.5 - np.linspace(0, 4, 8))))
    r = build("budget", k=2, metric=metric).fit(p[:500], p[:500] > rng.random((500, 8)))
    held, new = r(p[500:]), p[500:]
    assert held.counts().tolist() == [2] * 500
    assert Labels.stack([r(new[i : i + 1]) for i in range(500)]) == held
    together = value(metric, new, build("budget", k=2, metric=metric)(new).dense().numpy())
    plain = value(metric, new, build("top-k", k=2)(new).dense().numpy())
    mine = value(metric, new, held.dense().numpy())
    assert mine > plain + 0.9 * (together - plain)


def test_rare_labels_are_found_by_macro_recall():
    rng = np.random.default_rng(4)
    p = rng.random((100, 4)) * np.array([1.0, 1.0, 0.05, 0.01])
    assert build("top-k", k=2)(p).dense()[:, 3].sum() == 0
    assert build("budget", k=2, metric="recall-macro")(p).dense()[:, 3].sum() > 10


def test_budget_with_too_little_known_is_top_k():
    p = np.random.default_rng(5).random((6, 4))
    y = np.full((6, 4), np.nan)
    y[:, 0] = 1  # one known label per row, two are due
    for metric in METRICS:
        r = build("budget", k=2, metric=metric).fit(p, y)
        assert r(p) == build("top-k", k=2)(p)
