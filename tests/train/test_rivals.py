"""Forests, frequencies and other people's estimators: honest by folds, equal to scikit-learn."""

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import LogisticRegression

from labelset import Labels, metrics
from labelset.data import SparseRows
from labelset.model import log_odds
from labelset.train.fitted import Failed
from labelset.train.rivals import Estimator, estimator, frequencies
from labelset.train.trees import Trees, extra_trees

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
    labels = Labels.from_dense(some)
    (one,) = extra_trees(x, labels, FOLDS, [Trees(40)])
    assert labels == Labels.from_dense(some)
    assert bool(one.scores.isfinite().all())
    torch.testing.assert_close(one.scores[:, 2], log_odds(torch.zeros(ROWS)))
    # half of the labels unknown do not halve what is said of the label
    hidden = y.float()
    hidden[::2, 0] = torch.nan
    (half,) = extra_trees(x, Labels.from_dense(hidden), FOLDS, [Trees(40)])
    assert abs(float(half.scores[:, 0].sigmoid().mean()) - float(y[1::2, 0].float().mean())) < 0.08


def test_projections_choose_splits_and_leaves_count_labels(table):
    """With each row in a leaf of its own the forest says of seen rows what their labels are."""
    x, y = table
    many = Labels.from_dense(torch.cat([y, ~y, y & y.roll(1, 1)], dim=1))
    folds = torch.where(torch.arange(ROWS) < 40, 0, -1)
    setting = Trees(trees=6, min_samples_leaf=1, projections=3)
    (one,) = extra_trees(x, many, folds, [setting])
    torch.testing.assert_close(one.model(x[40:]), many.dense()[40:])
    (other,) = extra_trees(x, many, folds, [setting], seed=1)
    assert not torch.equal(one.scores, other.scores)


def test_what_does_not_fit_is_refused_before(table):
    x, y = table
    labels = Labels.from_dense(y)
    (slow,) = extra_trees(x, labels, FOLDS, [Trees(trees=10**6)], seconds=1.0)
    assert isinstance(slow, Failed)
    assert "would take about" in slow.reason
    (large,) = extra_trees(x, labels, FOLDS, FEW, max_bytes=1000)
    assert isinstance(large, Failed)


def test_missing_numbers_are_refused(table):
    x, y = table
    x = x.clone()
    x[3, 3] = torch.nan
    (found,) = extra_trees(x, Labels.from_dense(y), FOLDS, FEW)
    assert found == Failed("features have missing numbers, of which trees can make nothing")


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


SAVED = [
    ("sklearn.ensemble.RandomForestClassifier:n_estimators=5", "Forest"),
    ("sklearn.ensemble.ExtraTreesClassifier:n_estimators=5,max_features=None", "Forest"),
    ("sklearn.linear_model.LogisticRegression:C=0.5", "Linear"),
    ("sklearn.linear_model.RidgeClassifier", "Linear"),
    ("sklearn.linear_model.SGDClassifier:loss=log_loss", "Linear"),
    ("sklearn.svm.LinearSVC:C=0.1", "Linear"),
]
UNSAVED = [
    "sklearn.neighbors.KNeighborsClassifier:n_neighbors=9",
    "sklearn.neural_network.MLPClassifier:hidden_layer_sizes=(8,),max_iter=60",
    "sklearn.ensemble.HistGradientBoostingClassifier:max_iter=5",
    "sklearn.ensemble.GradientBoostingClassifier:n_estimators=5",
    "sklearn.naive_bayes.GaussianNB",
    "sklearn.svm.SVC:kernel=linear,shrinking=False",
]


@pytest.mark.parametrize("spec", [*(spec for spec, _ in SAVED), *UNSAVED])
def test_estimators_rank_the_rows_that_they_have_not_seen(table, spec):
    x, y = table
    found = estimator(spec, x, Labels.from_dense(y), FOLDS)
    assert found.scores.shape == (ROWS, LABELS)
    assert bool(found.scores.isfinite().all())
    value = metrics.build("auroc@class")(found.scores, y)
    assert value > 0.5
    kept = dict(SAVED).get(spec)
    if spec == "sklearn.svm.SVC:kernel=linear,shrinking=False":
        kept = "Linear"
    if kept is None:
        assert type(found.model).__name__ == "Unsaved"
        assert metrics.build("auroc@class")(found.model.scores(x), y) > value
        assert "cannot be turned into" in found.about["unsaved"]
    else:
        assert type(found.model).__name__ == kept
        assert metrics.build("auroc@class")(found.model(x), y) > value


def test_an_estimator_does_not_see_the_row_that_it_scores(table):
    x, y = table
    changed = y.clone()
    changed[7] = ~changed[7]
    spec = "sklearn.linear_model.LogisticRegression"
    one, other = (estimator(spec, x, Labels.from_dense(t), FOLDS).scores for t in (y, changed))
    own = FOLDS[7] == FOLDS
    assert torch.equal(one[own], other[own])
    assert not torch.equal(one[~own], other[~own])


def test_a_linear_estimator_is_kept_as_it_is(table):
    x, y = table
    found = estimator("sklearn.linear_model.LogisticRegression", x, Labels.from_dense(y), FOLDS)
    for label in range(LABELS):
        theirs = LogisticRegression().fit(x.numpy(), y[:, label].numpy())
        expected = torch.from_numpy(theirs.decision_function(x.numpy())).float()
        torch.testing.assert_close(found.model(x)[:, label], expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "spec", ["sklearn.neighbors.KNeighborsClassifier", "sklearn.linear_model.LogisticRegression"]
)
def test_unknown_labels_and_labels_of_one_class(table, spec):
    x, y = table
    y = y.float()
    y[:, 0] = 0
    y[FOLDS == 1, 1] = 1
    y[FOLDS == 2, 1] = 1
    some = y.clone()
    some[::5, 2] = torch.nan
    for labels in (y, some):
        found = estimator(spec, x, Labels.from_dense(labels), FOLDS)
        assert bool((found.scores[:, 0].sigmoid() < 1e-3).all())
        assert bool((found.scores[FOLDS == 0, 1].sigmoid() > 0.999).all())
    hidden = some.clone()
    hidden[some.isnan()] = 0
    without = estimator(spec, x, Labels.from_dense(hidden), FOLDS)
    assert not torch.equal(without.scores[:, 2], found.scores[:, 2])
    rows = ~some[:, 2].isnan() & (FOLDS != 0)
    own = Estimator.parse(spec).build(0).fit(x[rows].numpy(), some[rows, 2].int().numpy())
    p = torch.from_numpy(own.predict_proba(x[FOLDS == 0].numpy())[:, 1])
    expected = p.clamp(1e-4, 1 - 1e-4).float()
    torch.testing.assert_close(found.scores[FOLDS == 0, 2].sigmoid(), expected, atol=1e-4, rtol=0)


class Reversed(ClassifierMixin, BaseEstimator):
    """Its classes stand the other way round."""

    def fit(self, x, y):
        self.share, self.classes_ = y.mean(), np.array([1, 0])
        return self

    def predict_proba(self, x):
        return np.tile([self.share, 1 - self.share], (len(x), 1))


class Broken(Reversed):
    def fit(self, x, y):
        raise ArithmeticError("the matrix is singular\nand more")


def test_columns_are_found_by_their_classes_and_failures_told(table):
    x, y = table
    one = Estimator("own", Reversed, {})
    found = estimator(one, x, Labels.from_dense(y), torch.where(FOLDS == 0, 0, -1))
    share = y[FOLDS != 0].float().mean(0)
    torch.testing.assert_close(found.scores[FOLDS == 0].sigmoid()[0], share)
    failed = estimator(Estimator("own", Broken, {}), x, Labels.from_dense(y), FOLDS)
    assert failed == Failed("Broken failed: ArithmeticError: the matrix is singular")
    soft = estimator(one, x, Labels.from_dense(y * 0.5), FOLDS)
    assert "labels must be 0 or 1" in soft.reason
    late = estimator(
        "sklearn.linear_model.LogisticRegression", x, Labels.from_dense(y), FOLDS, seconds=1e-6
    )
    assert "would take about" in late.reason


def behaves(method, does):
    """An estimator of which one method does something else."""
    return Estimator("own", type("Own", (Reversed,), {method: does}), {})


def fails(error):
    def method(self, *given):
        raise error

    return method


GIVEN = {
    "too few rows": lambda self, x: np.full((len(x) - 1, 2), 0.5),
    "too many columns": lambda self, x: np.full((len(x), 5), 0.5),
    "one column": lambda self, x: np.full(len(x), 0.5),
    "no probabilities": lambda self, x: np.full((len(x), 2), 7.0),
    "NaN": lambda self, x: np.full((len(x), 2), np.nan),
    "words": lambda self, x: np.full((len(x), 2), "x"),
    "nothing": lambda self, x: None,
}


@pytest.mark.parametrize("what", GIVEN)
def test_what_is_no_probability_of_each_row_is_refused(table, what):
    x, y = table
    failed = estimator(behaves("predict_proba", GIVEN[what]), x, Labels.from_dense(y), FOLDS)
    assert failed.reason.startswith("Own failed: ")


@pytest.mark.parametrize("error", [KeyError("x"), RuntimeError("a\nb"), SystemExit(3), OSError()])
@pytest.mark.parametrize("method", ["fit", "predict_proba"])
def test_whatever_an_estimator_raises_is_its_failure_alone(table, method, error):
    x, y = table
    failed = estimator(behaves(method, fails(error)), x, Labels.from_dense(y), FOLDS)
    assert failed.reason.startswith(f"Own failed: {type(error).__name__}: ")
    assert "\n" not in failed.reason


def test_what_an_estimator_prints_is_not_our_output(table, capsys):
    def fit(self, x, y):
        print("iteration 1")
        return Reversed.fit(self, x, y)

    x, y = table
    estimator(behaves("fit", fit), x, Labels.from_dense(y), FOLDS)
    shown = capsys.readouterr()
    assert (shown.out, "iteration 1" in shown.err) == ("", True)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("KNeighborsClassifier", "module.Class:name=value"),
        ("sklearn.neighbors.KNN; import os", "module.Class:name=value"),
        ("lihgtgbm.LGBMClassifier", "needs the module lihgtgbm, which cannot be imported"),
        ("sklearn.neighbors.KNeighborClassifier", "did you mean KNeighborsClassifier"),
        ("sklearn.neighbors.sort_graph_by_row_values", "no estimator"),
        ("sklearn.neighbors.KNeighborsClassifier:neighbors=3", "did you mean n_neighbors"),
        ("sklearn.neighbors.KNeighborsClassifier:n_neighbors", "are name=value"),
        ("sklearn.neighbors.KNeighborsClassifier:n_neighbors=open('x')", "are name=value"),
        ("sklearn.neighbors.KNeighborsClassifier:n_neighbors=3,n_neighbors=5", "are name=value"),
        ("sklearn.multioutput.MultiOutputClassifier", "cannot be made by name alone"),
    ],
)
def test_errors_of_a_spec(spec, message):
    with pytest.raises(ValueError, match=message):
        Estimator.parse(spec)


def test_values_of_a_spec():
    spec = "sklearn.neural_network.MLPClassifier:alpha=1e-3,hidden_layer_sizes=(9,9),solver=lbfgs"
    expected = {"alpha": 1e-3, "hidden_layer_sizes": (9, 9), "solver": "lbfgs"}
    assert Estimator.parse(spec).parameters == expected
    assert Estimator.parse(spec).build(5).random_state == 5
