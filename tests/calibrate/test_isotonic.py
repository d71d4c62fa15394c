"""Isotonic regression against scikit-learn and a direct search."""

import time

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from sklearn.isotonic import IsotonicRegression

from labelset import calibrate
from labelset.calibrate.curves import _stack, isotonic_curves


def theirs(v, y, at):
    keep = ~np.isnan(y)
    model = IsotonicRegression(out_of_bounds="clip", y_min=0, y_max=1)
    return model.fit(v[keep], y[keep]).predict(at)


def agree(v, y):
    """At the training points, between them and beyond them."""
    m = calibrate.build("isotonic", per="label").fit(v, y, folds=0)
    flat = np.sort(v, axis=0)
    at = np.concatenate([v, (flat[1:] + flat[:-1]) / 2, flat[:1] - 5, flat[-1:] + 5])
    got = m(at).numpy()
    for j in range(v.shape[1]):
        np.testing.assert_allclose(got[:, j], theirs(v[:, j], y[:, j], at[:, j]), atol=1e-9)


def seen(y):
    """Every label known both on and off, so that no label falls back on the pool."""
    y[0], y[1] = 0, 1
    return y


@pytest.mark.parametrize("decimals", [None, 1, 0])
@pytest.mark.parametrize("unknown", [0.0, 0.3])
def test_agrees_with_scikit_learn(decimals, unknown):
    r = np.random.default_rng(0)
    v = r.normal(size=(300, 6)) * 2
    v = v if decimals is None else np.round(v, decimals)  # ties
    y = (r.random(v.shape) < 1 / (1 + np.exp(-v))).astype(float)
    y[r.random(v.shape) < unknown] = np.nan
    agree(v, seen(y))


def test_agrees_on_soft_labels():
    r = np.random.default_rng(1)
    v = r.normal(size=(200, 4))
    y = np.clip(0.5 + 0.2 * v + 0.3 * r.normal(size=v.shape), 0, 1).astype(np.float32)
    agree(v, y.astype(float))


@given(st.data())
def test_agrees_on_small_awkward_data(data):
    rows = data.draw(st.integers(2, 12))
    score = st.integers(-3, 3).map(float)
    answer = st.sampled_from([0.0, 1.0, 0.5, 0.25])
    v = np.array(data.draw(st.lists(score, min_size=rows, max_size=rows)))[:, None]
    y = np.array(data.draw(st.lists(answer, min_size=rows, max_size=rows)))[:, None]
    agree(v, seen(y))


def test_is_the_best_rising_curve_by_max_min():
    """f_i = max over a <= i of min over b >= i of mean(y_a..b), the closed form of the solution."""
    r = np.random.default_rng(2)
    y = (r.random(40) < np.linspace(0.1, 0.9, 40)).astype(float)
    curves = isotonic_curves(np.arange(40.0)[None], y[None])
    got = np.interp(np.arange(40.0), curves.x, curves.p)
    want = [
        max(min(y[a : b + 1].mean() for b in range(i, 40)) for a in range(i + 1)) for i in range(40)
    ]
    np.testing.assert_allclose(got, want, atol=1e-12)


def test_rounds_and_stack_give_the_same_blocks():
    r = np.random.default_rng(3)
    label = np.sort(r.integers(0, 5, 400))
    total, weight = r.integers(0, 4, 400).astype(float), r.integers(1, 5, 400).astype(float)
    blocks = _stack(label, total, weight)
    mean = np.add.reduceat(total, blocks) / np.add.reduceat(weight, blocks)
    same = label[blocks][1:] == label[blocks][:-1]
    assert (mean[1:][same] > mean[:-1][same]).all()
    for j in range(5):
        mine = label == j
        u = np.arange(mine.sum(), dtype=float)
        y = (total[mine] / weight[mine]).clip(0)
        fit = IsotonicRegression().fit(u, y, sample_weight=weight[mine]).predict(u)
        own = np.flatnonzero(mine)
        of = np.searchsorted(blocks, own, side="right") - 1
        np.testing.assert_allclose(mean[of], fit, atol=1e-12)


def test_the_worst_case_takes_no_quadratic_time():
    """A long rise that ends in zeros merges one block a round."""
    n = 60_000
    y = np.r_[np.linspace(0.1, 0.9, n), np.zeros(n)].astype(np.float32).astype(float)
    v = np.arange(2.0 * n)
    start = time.perf_counter()
    curves = isotonic_curves(v[None], y[None])
    assert time.perf_counter() - start < 5
    np.testing.assert_allclose(np.interp(v, curves.x, curves.p), theirs(v, y, v), atol=1e-9)


def test_shrunk_is_the_documented_mixture():
    r = np.random.default_rng(4)
    v = r.normal(size=(200, 3))
    y = (r.random(v.shape) < np.array([0.02, 0.3, 0.95])).astype(float)
    y[:2] = [[0, 0, 0], [1, 1, 1]]

    def fitted(**how):
        return calibrate.build("isotonic", **how).fit(v, y, folds=0)(v)

    m = torch.tensor(np.minimum(y.sum(0), (1 - y).sum(0)))
    label, pool = fitted(per="label"), fitted(per="pool")
    want = (m * label + 12 * pool) / (m + 12)
    torch.testing.assert_close(fitted(per="shrunk", strength=12), want)
    flat = theirs(v.ravel(), y.ravel(), v.ravel()).reshape(v.shape)
    np.testing.assert_allclose(pool.numpy(), flat, atol=1e-9)


def test_many_scores_are_quick():
    r = np.random.default_rng(5)
    v = r.normal(size=(20_000, 20)).astype(np.float32)
    y = r.random(v.shape) < 1 / (1 + np.exp(-v))
    start = time.perf_counter()
    calibrate.build("isotonic").fit(v, y, folds=0)
    assert time.perf_counter() - start < 10
