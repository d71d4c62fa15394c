"""Forests, frequencies and other people's estimators: honest by folds, equal to scikit-learn."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import ExtraTreesRegressor

from labelset import Labels
from labelset.data import SparseRows
from labelset.model import log_odds
from labelset.train.fitted import Failed
from labelset.train.rivals import Trees, extra_trees, frequencies

ROWS, WIDTH, LABELS = 120, 8, 4
FEW = [Trees(trees=6)]


@pytest.fixture(scope="module")
def table():
    g = np.random.default_rng(0)
    x = g.standard_normal((ROWS, WIDTH)).astype(np.float32)
    y = x[:, :LABELS] + g.standard_normal((ROWS, LABELS)) > 0.5
    return torch.from_numpy(x), torch.from_numpy(y)


FOLDS = torch.arange(ROWS) % 3


@pytest.mark.parametrize("leaf", [1, 5])
def test_equal_to_scikit_learn(table, leaf):
    """The same trees as its regressor on 0 and 1, the leaves in float16."""
    x, y = table
    setting = Trees(trees=20, min_samples_leaf=leaf)
    (one,) = extra_trees(x, Labels.from_dense(y), FOLDS, [setting], seed=3)
    whole = torch.zeros(ROWS, LABELS)
    for member in range(3):
        rows = member != FOLDS
        settings = {"max_features": "sqrt", "min_samples_leaf": leaf, "random_state": 3 + member}
        theirs = ExtraTreesRegressor(20, **settings).fit(x[rows].numpy(), y[rows].numpy())
        p = torch.from_numpy(theirs.predict(x.numpy())).float()
        whole += p / 3
        torch.testing.assert_close(
            one.scores[~rows].sigmoid(), p[~rows].clamp(1e-4, 1 - 1e-4), rtol=0, atol=2.0**-11
        )
    torch.testing.assert_close(one.model(x), whole, rtol=0, atol=2.0**-11)
    assert (len(one.model), one.loss) == (60, None)


def test_a_row_is_scored_by_trees_that_have_not_seen_it(table):
    x, y = table
    before = extra_trees(x, Labels.from_dense(y), FOLDS, FEW)[0].scores
    changed = y.clone()
    changed[7] = ~changed[7]
    after = extra_trees(x, Labels.from_dense(changed), FOLDS, FEW)[0].scores
    own = FOLDS[7] == FOLDS
    assert torch.equal(before[own], after[own])
    assert not torch.equal(before, after)


def test_rows_of_fold_minus_one_are_fitted_on_and_not_scored(table):
    x, y = table
    folds = torch.where(torch.arange(ROWS) < 80, -1, 0)
    (one,) = extra_trees(x, Labels.from_dense(y), folds, FEW)
    assert bool((one.scores[:80] == 0).all())
    p = one.model(x[80:])
    torch.testing.assert_close(one.scores[80:], log_odds(p), atol=1e-4, rtol=1e-4)


def test_sparse_and_dense_features_alike(table):
    x, y = table
    x = x * (x > 0)
    rows, columns = x.nonzero(as_tuple=True)
    starts = [0, *torch.bincount(rows, minlength=ROWS).cumsum(0).tolist()]
    sparse = SparseRows.from_csr(starts, columns, WIDTH, x[rows, columns])
    one, other = (extra_trees(f, Labels.from_dense(y), FOLDS, FEW)[0] for f in (x, sparse))
    assert torch.equal(one.scores, other.scores)


def test_unknown_labels_say_nothing(table):
    """A leaf counts the rows in which the label is known; what stood there changes nothing."""
    x, y = table
    some = y.float()
    some[torch.rand(some.shape, generator=torch.Generator().manual_seed(1)) < 0.3] = torch.nan
    some[FOLDS == 0, 3] = torch.nan
    some[:, 2] = torch.nan
    (one,) = extra_trees(x, Labels.from_dense(some), FOLDS, [Trees(40)])
    assert bool(one.scores.isfinite().all())
    torch.testing.assert_close(one.scores[:, 2], log_odds(torch.zeros(ROWS)))
    # half of the labels unknown do not halve what is said of the label
    hidden = y.float()
    hidden[::2, 0] = torch.nan
    (half,) = extra_trees(x, Labels.from_dense(hidden), FOLDS, [Trees(40)])
    assert abs(float(half.scores[:, 0].sigmoid().mean()) - float(y[1::2, 0].float().mean())) < 0.08


def test_what_does_not_fit_is_refused_before(table):
    x, y = table
    labels = Labels.from_dense(y)
    (slow,) = extra_trees(x, labels, FOLDS, [Trees(trees=10**6)], seconds=1.0)
    assert isinstance(slow, Failed)
    assert "would take about" in slow.reason
    (large,) = extra_trees(x, labels, FOLDS, FEW, max_bytes=1000)
    assert isinstance(large, Failed)


def test_progress_rises_and_may_stop_the_fit(table):
    x, y = table
    seen = []
    extra_trees(x, Labels.from_dense(y), FOLDS, FEW * 2, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == pytest.approx(1)

    def stop(done):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extra_trees(x, Labels.from_dense(y), FOLDS, FEW, progress=stop)


def test_frequencies_are_those_of_other_rows():
    y = torch.zeros(6, 2)
    y[:3, 0] = 1
    y[5, 0] = torch.nan
    folds = torch.tensor([0, 0, 1, 1, 1, 1])
    found = frequencies(torch.ones(6, 3), Labels.from_dense(y), folds)
    expected = log_odds(torch.tensor([1 / 3, 0.0]))
    torch.testing.assert_close(found.scores[:2], expected.expand(2, 2))
    torch.testing.assert_close(found.model(torch.ones(1, 3))[0, 0], torch.tensor(0.6).logit())
