"""The statement that a fit makes about itself, recomputed by hand."""

import numpy as np
import pytest
import torch
from scipy.special import expit

from labelset import calibrate, losses


def data(rows=300, n=3, seed=0):
    r = np.random.default_rng(seed)
    v = r.normal(size=(rows, n)) * 4
    y = (r.random(v.shape) < expit(v / 3 - 1)).astype(float)
    y[r.random(v.shape) < 0.1] = np.nan
    return v, y


def ace(p, y):
    keep = ~np.isnan(y)
    p, y = p[keep], y[keep]
    number = np.clip(np.ceil(p * 15).astype(int) - 1, 0, 14)
    gaps = [abs(p[number == k].mean() - y[number == k].mean()) for k in np.unique(number)]
    return np.mean(gaps)


def test_before_and_after_are_cross_validated_ace():
    v, y = data()
    m = calibrate.build("platt", per="label").fit(v, y, folds=4, seed=7)
    part = torch.randperm(300, generator=torch.Generator().manual_seed(7)).numpy() % 4
    after = np.empty_like(v)
    for k in range(4):
        rest = calibrate.build("platt", per="label").fit(v[part != k], y[part != k], folds=0)
        after[part == k] = rest(v[part == k]).numpy()
    assert m.quality.before == pytest.approx(ace(expit(v), y))
    assert m.quality.after == pytest.approx(ace(after, y))
    assert m.quality.folds == 4
    assert m.quality.helped
    assert str(m.quality).startswith(f"ACE {m.quality.before:.4f} before")
    assert "it helped" in str(m.quality)


def test_before_is_the_link_of_the_loss():
    v, y = data(seed=1)
    for loss in ("asl", "spa"):
        m = calibrate.build("isotonic", loss=loss).fit(v, y)
        link = losses.build(loss).link(torch.tensor(v)).numpy()
        assert m.quality.before == pytest.approx(ace(link, y))
    hill = calibrate.build("isotonic", loss="hill").fit(v, y)
    assert hill.quality.before == pytest.approx(ace(expit(v), y))


def test_it_says_so_when_it_did_not_help():
    words = str(calibrate.Quality(before=0.01, after=0.02, folds=5))
    assert words.endswith("it did not help.")


def test_the_seed_draws_the_parts():
    v, y = data(seed=2)
    one, two, other = (calibrate.build("platt").fit(v, y, seed=seed).quality for seed in (0, 0, 1))
    assert one == two != other


def test_no_statement_where_none_can_be_made():
    v, y = data()
    assert calibrate.build("platt").fit(v, y, folds=0).quality is None
    assert calibrate.build("platt").fit([[1.0, -1.0]], [[1, 0]]).quality is None  # one row
    only = np.zeros((20, 2))
    only[3] = 1  # all positives in one row: the rest has none to learn from
    assert calibrate.build("platt").fit(np.ones((20, 2)), only).quality is None
    assert calibrate.build("link").fit(v, np.full_like(y, np.nan)).quality is None


def test_few_rows_mean_few_folds():
    v, y = [[0.0], [1.0], [2.0]], [[0.4], [1.0], [0.5]]
    assert calibrate.build("platt").fit(v, y).quality.folds == 3
    with pytest.raises(ValueError, match="folds must be 0"):
        calibrate.build("platt").fit(v, y, folds=1)


def test_quality_travels_with_the_map():
    v, y = data()
    m = calibrate.build("temperature").fit(v, y)
    assert calibrate.from_json(m.as_json()).quality == m.quality
