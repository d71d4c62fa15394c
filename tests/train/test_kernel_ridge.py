"""Kernel ridge: scikit-learn's estimates, by honest folds, whatever is unknown."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.kernel_ridge import KernelRidge

from labelset import Labels
from labelset.data import SparseRows
from labelset.model.kernel import log_odds
from labelset.train.fitted import Failed, Fitted
from labelset.train.kernel_ridge import kernel_ridge

ROWS, WIDTH, LABELS, GAMMA, RIDGE = 90, 6, 4, 0.2, 0.3


@pytest.fixture
def table():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, WIDTH, generator=g)
    y = (x[:, :LABELS] * x[:, 1:2] + 0.3 * torch.randn(ROWS, LABELS, generator=g) > 0.2).float()
    return x, y, torch.arange(ROWS) % 3


def fit(x, y, folds, **settings):
    (made,) = kernel_ridge(x, Labels.of(y), folds, [(GAMMA, RIDGE)], **settings)
    assert isinstance(made, Fitted), made
    return made


def by_scikit_learn(x, y, own, other):
    """Estimates of other rows from those own ones where the label is known."""
    own = own & ~y.isnan()
    mean = y[own].mean()
    fitted = KernelRidge(alpha=RIDGE, kernel="rbf", gamma=GAMMA)
    fitted.fit(x[own].double().numpy(), (y[own] - mean).double().numpy())
    return torch.from_numpy(fitted.predict(x[other].double().numpy())) + mean


@pytest.mark.parametrize("unknown", [False, True])
def test_like_scikit_learns(table, unknown):
    x, y, folds = table
    if unknown:
        y[::5, 0], y[1::4, 1], y[1::4, 2] = torch.nan, torch.nan, torch.nan
    folds[80:] = -1
    made, new = fit(x, y, folds), x[:7] + 0.1
    assert not made.scores[80:].any()
    for label in range(LABELS):
        each = []
        for member in range(3):
            own, at = folds != member, folds == member
            estimate = by_scikit_learn(x, y[:, label], own, at)
            torch.testing.assert_close(
                made.scores[at, label], log_odds(estimate), atol=1e-3, rtol=1e-3
            )
            both = torch.cat([x, new])
            last = torch.arange(len(both)) >= ROWS
            padded = torch.cat([y[:, label], torch.zeros(7)])
            own = torch.cat([own, torch.zeros(7, dtype=torch.bool)])
            each.append(by_scikit_learn(both, padded, own, last))
        mean = log_odds(torch.stack(each).mean(0))
        torch.testing.assert_close(made.model.scores(new)[:, label], mean, atol=1e-3, rtol=1e-3)


def test_a_row_has_no_part_in_its_own_score(table):
    x, y, folds = table
    other = y.clone()
    other[folds == 1] = 1 - other[folds == 1]
    made, changed = fit(x, y, folds), fit(x, other, folds)
    torch.testing.assert_close(
        changed.scores[folds == 1], made.scores[folds == 1], atol=1e-4, rtol=0
    )
    assert not torch.allclose(changed.scores[folds == 0], made.scores[folds == 0], atol=1e-2)


def test_labels_that_say_little(table):
    x, y, folds = table
    y[:, 0], y[:, 1], y[:, 2] = 0.0, 1.0, torch.nan
    y[:, 3], y[4, 3] = 0.0, 1.0
    made = fit(x, y, folds)
    p = torch.sigmoid(made.scores)
    assert float(p[:, 0].max()) < 0.05
    assert float(p[:, 1].min()) > 0.95
    assert bool(made.model.scores(x).isfinite().all())


def test_settings_side_by_side(table):
    x, y, folds = table
    settings = [(0.5, 1.0), (GAMMA, RIDGE), (0.5, 0.1)]
    shares = []
    results = kernel_ridge(x, Labels.of(y), folds, settings, progress=shares.append)
    assert torch.equal(results[1].scores, fit(x, y, folds).scores)
    assert [made.about["gamma"] for made in results] == [0.5, GAMMA, 0.5]
    assert shares == pytest.approx([1 / 3, 2 / 3, 1.0])
    late = kernel_ridge(x, Labels.of(y), folds, settings, seconds=-1.0)
    assert all("time" in made.reason for made in late)


def test_without_members_there_is_a_model_of_all_rows(table):
    x, y, folds = table
    made = fit(x, y, folds * 0 - 1)
    everything = torch.ones(ROWS, dtype=torch.bool)
    for label in range(LABELS):
        estimate = by_scikit_learn(x, y[:, label], everything, everything)
        torch.testing.assert_close(
            made.model.scores(x)[:, label], log_odds(estimate), atol=1e-3, rtol=1e-3
        )


def test_sparse_rows_are_made_dense(table):
    x, y, folds = table
    rows = SparseRows.from_scipy(csr_matrix(x.numpy()))
    made = fit(rows, y, folds)
    assert torch.equal(made.scores, fit(x, y, folds).scores)
    assert torch.equal(made.model.scores(rows), made.model.scores(x))


def test_what_cannot_be_done_fails_or_is_refused(table):
    x, y, folds = table
    same = x[:1].repeat(ROWS, 1)
    (failed,) = kernel_ridge(same, Labels.of(y), folds, [(GAMMA, 1e-12)])
    assert isinstance(failed, Failed)
    assert "ridge 1e-12" in failed.reason
    many = torch.zeros(10_001, 1)
    (failed,) = kernel_ridge(many, Labels.of(many), many[:, 0].long(), [(1.0, 1.0)])
    assert "up to 10000 rows, got 10001" in failed.reason
    with pytest.raises(ValueError, match="ridge must be"):
        kernel_ridge(x, Labels.of(y), folds, [(1.0, 0.0)])


def test_equal_calls_are_equal(table):
    x, y, folds = table
    assert np.array_equal(fit(x, y, folds).scores, fit(x, y, folds).scores)
