"""MultiLabelClassifier among scikit-learn's tools, and against its numbers."""

import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, f1_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import labelset as ls
from labelset.sklearn import MultiLabelClassifier, scorer
from labelset.train.weighted import Weighted


def data(rows=300, seed=0, **given):
    X, y = make_multilabel_classification(rows, n_features=12, random_state=seed, **given)
    return X, y


def quick(**given):
    return MultiLabelClassifier(**({"max_iter": 10, "random_state": 0} | given))


def test_as_good_as_logistic_regression():
    X, y = data(1500)
    ours = MultiLabelClassifier(random_state=0).fit(X[:1000], y[:1000])
    theirs = make_pipeline(StandardScaler(), OneVsRestClassifier(LogisticRegression()))
    theirs.fit(X[:1000], y[:1000])
    p, q = ours.predict_proba(X[1000:]), theirs.predict_proba(X[1000:])
    assert np.abs(p - q).mean() < 0.02
    assert average_precision_score(y[1000:], p) > average_precision_score(y[1000:], q) - 0.01


def test_decision_and_probability_and_prediction_agree():
    X, y = data()
    model = quick(loss="spa").fit(X, y)  # whose link is not the sigmoid
    p, v = model.predict_proba(X), model.decision_function(X)
    assert np.allclose(p, 1 / (1 + np.exp(-v)))
    assert ((v >= 0) == model.predict(X)).all()


@pytest.mark.parametrize("kind", [scipy.sparse.csr_matrix, scipy.sparse.csr_array])
def test_sparse_rows_and_labels(kind):
    X, y = data()
    X = np.where(np.abs(X) > 2, X, 0)
    model = quick().fit(kind(X), kind(y))
    found = model.predict(kind(X))
    assert isinstance(found, kind)
    assert found.dtype == y.dtype
    assert (found.toarray() == quick().fit(kind(X), y).predict(kind(X))).all()
    assert (found.toarray() == model.predict(X).toarray()).all()


def test_the_order_of_rows_does_not_matter():
    X, y = data()
    mixed = np.random.default_rng(0).permutation(len(X))
    for given in ({}, {"calibrate": "platt", "decide": "per-class", "patience": 3}):
        one, other = quick(**given).fit(X, y), quick(**given).fit(X[mixed], y[mixed])
        assert (one.predict_proba(X) == other.predict_proba(X)).all()
        assert (one.predict(X) == other.predict(X)).all()


@pytest.mark.parametrize("given", [{}, {"calibrate": "platt", "decide": "per-class"}])
@pytest.mark.parametrize("loss", ["bce", "two-way"])
def test_whole_weights_repeat_rows(loss, given):
    X, y = data(120)
    weight = np.random.default_rng(1).integers(0, 4, len(X))
    weighted = quick(loss=loss, **given).fit(X, y, sample_weight=weight)
    repeated = quick(loss=loss, **given).fit(X.repeat(weight, 0), y.repeat(weight, 0))
    assert (weighted.predict_proba(X) == repeated.predict_proba(X)).all()


BY_ROW = {
    **{name: {} for name in ("bce", "asl", "hill", "splc", "spa+lpr", "lpr", "softmax")},
    "two-way": {"way": "sample"},
    "smooth": {"average": "samples"},
}


@pytest.mark.parametrize("name", BY_ROW)
def test_the_loss_of_weighted_rows_is_that_of_repeated_rows(name):
    g = torch.Generator().manual_seed(0)
    v, y = torch.randn(20, 6, generator=g), (torch.rand(20, 6, generator=g) < 0.4).double()
    y[torch.rand(20, 6, generator=g) < 0.2] = torch.nan
    times = torch.randint(1, 4, (20,), generator=g)
    loss = ls.losses.build(name, **BY_ROW[name])
    due = loss(v.repeat_interleave(times, 0), y.repeat_interleave(times, 0))
    share = times / times.double().mean()
    mean = Weighted(of=loss)(v, replace(ls.Labels.from_dense(y), weights=share))
    assert torch.allclose(mean, due, rtol=0.1)  # not every row counts as many entries
    if name != "spa+lpr":
        summed = ls.losses.build(name, **BY_ROW[name], reduction="sum")
        every = summed(v.repeat_interleave(times, 0), y.repeat_interleave(times, 0))
        rows = replace(ls.Labels.from_dense(y), weights=times.double())
        assert torch.allclose(Weighted(of=summed)(v, rows), every, rtol=1e-5)


def test_weights_mean_what_they_mean_to_logistic_regression():
    X, y = data(800)
    X = StandardScaler().fit_transform(X)
    weight = np.where(y[:, 0] == 1, 0.25, 3.5)
    ours = quick(max_iter=40).fit(X, y, sample_weight=weight).predict_proba(X)[:, 0]
    theirs = LogisticRegression().fit(X, y[:, 0], sample_weight=weight).predict_proba(X)[:, 1]
    plain = LogisticRegression().fit(X, y[:, 0]).predict_proba(X)[:, 1]
    assert np.abs(ours - theirs).mean() < 0.02
    assert np.abs(plain - theirs).mean() > 0.2


def test_a_heavy_row_pulls():
    X = np.zeros((40, 1))
    y = np.zeros((40, 2), dtype=int)
    y[:10] = 1
    weight = np.where(np.arange(40) < 10, 4.5, 0.5)
    p = quick(max_iter=60).fit(X, y, sample_weight=weight).predict_proba(X[:1])
    assert np.allclose(p, 0.75, atol=0.02)  # 10 * 4.5 of 60


def test_weights_of_losses_that_compare_rows_must_be_whole():
    X, y = data(60)
    with pytest.raises(ValueError, match=r"compares rows.*one whole number for each row"):
        quick(loss="sigmoid-f1").fit(X, y, sample_weight=np.full(60, 0.5) + np.arange(60))
    with pytest.raises(ValueError, match=r"0 for every row|non-zero"):
        quick().fit(X, y, sample_weight=np.zeros(60))


def test_unknown_labels_teach_nothing():
    X, y = data(400)
    hidden = np.random.default_rng(0).random(y.shape) < 0.3
    holes = np.where(hidden, np.nan, y)
    model = quick(max_iter=20).fit(X, holes)
    assert f1_score(y[hidden].ravel(), model.predict(X)[hidden].ravel()) > 0.65
    wrong = quick(max_iter=20).fit(X, np.where(hidden, 0, y))
    assert model.predict_proba(X).mean() > wrong.predict_proba(X).mean() + 0.05


def test_map_and_rule_learn_from_rows_that_the_head_has_not_seen():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 80)), rng.integers(0, 2, (60, 3))  # nothing but noise to learn
    free = quick(max_iter=60).fit(X, y)
    held = quick(max_iter=60, calibrate="platt", decide="global").fit(X, y)
    assert np.abs(free.predict_proba(X) - 0.5).mean() > 0.3  # learnt by heart
    assert np.abs(held.predict_proba(X) - 0.5).mean() < 0.2
    assert held.rule_.thresholds.ndim == 0


def test_auto_takes_the_link_and_where_there_is_none_fits_a_map():
    X, y = data(200)
    assert type(quick(loss="asl").fit(X, y).calibrator_).__name__ == "Link"
    assert type(quick(loss="two-way").fit(X, y).calibrator_).__name__ == "Platt"
    with pytest.raises(ls.NoLink):
        quick(loss="two-way", calibrate=None).fit(X, y)


def test_partial_fit_goes_on():
    X, y = data(600)
    model = quick()
    for part in np.array_split(np.arange(600), 6):
        model.partial_fit(X[part], y[part])
    first = average_precision_score(y, model.predict_proba(X))
    for _ in range(5):
        for part in np.array_split(np.arange(600), 6):
            model.partial_fit(X[part], y[part])
    assert model.n_iter_ == 36
    whole = average_precision_score(
        y, MultiLabelClassifier(random_state=0).fit(X, y).predict_proba(X)
    )
    assert first < average_precision_score(y, model.predict_proba(X))
    assert average_precision_score(y, model.predict_proba(X)) > whole - 0.02
    again = pickle.loads(pickle.dumps(model))
    assert (
        again.partial_fit(X, y).predict_proba(X) == model.partial_fit(X, y).predict_proba(X)
    ).all()


def test_partial_fit_of_classes():
    X = np.random.default_rng(0).normal(size=(90, 2))
    y = np.array(["a", "b", "c"])[(X[:, 0] > 0.5).astype(int) + (X[:, 0] > 1)]
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        quick().partial_fit(X, y)
    model = quick().partial_fit(X[:10], np.full(10, "a"), classes=["a", "b", "c", "d"])
    assert model.partial_fit(X, y).predict_proba(X).shape == (90, 4)
    with pytest.raises(ValueError, match="'e', which is not among classes"):
        model.partial_fit(X, np.full(90, "e"))
    with pytest.raises(ValueError, match=r'held-out rows.*cv="prefit"'):
        quick(decide="per-class").partial_fit(X, np.eye(3, dtype=int)[np.arange(90) % 3])


def test_warm_start_goes_on_from_the_head():
    X, y = data(200)
    model = quick(max_iter=3, learning_rate=1e-9).set_params(warm_start=True)
    model.fit(X, y)
    before = model.decision_function(X)
    model.fit(X[:100], y[:100])  # other frequencies, but the same head
    assert np.allclose(model.decision_function(X), before, atol=1e-4)
    cold = clone(model).fit(X[:100], y[:100])
    assert not np.allclose(cold.decision_function(X), before, atol=1e-2)


@pytest.mark.parametrize("labels", [2, 5])
def test_cross_val_predict_and_grid_search(labels):
    X, y = data(150, n_classes=labels)
    for method in ("predict_proba", "decision_function", "predict"):
        assert cross_val_predict(quick(), X, y, cv=3, method=method).shape == y.shape
    grid = {"loss": ["focal"], "loss__gamma": [0.0, 2.0], "decide": [None, "per-class"]}
    search = GridSearchCV(quick(), grid, cv=2, scoring=scorer("f1-macro")).fit(X, y)
    assert len(search.cv_results_["params"]) == 4
    assert search.best_estimator_.get_params()["loss__gamma"] in (0.0, 2.0)
    assert search.best_estimator_.loss_params == {"gamma": search.best_params_["loss__gamma"]}


def test_a_scorer_leaves_unknown_labels_out():
    X, y = data(150)
    holes = np.where(np.random.default_rng(0).random(y.shape) < 0.3, np.nan, y)
    search = GridSearchCV(
        quick(), {"loss": ["bce", "asl"]}, cv=KFold(2), scoring=scorer("nll"), error_score="raise"
    ).fit(X, holes)
    assert -1 < search.best_score_ < 0


def test_texts_through_a_pipeline():
    texts = ["red apple", "green apple", "red fork", "green fork"] * 10
    y = np.array([[1, 0], [0, 0], [1, 1], [0, 1]] * 10)
    model = make_pipeline(TfidfVectorizer(), quick(max_iter=30)).fit(texts, y)
    assert (model.predict(texts[:4]) == y[:4]).all()
    assert model[-1].encoder_.fact("sparse")


class Table:
    """As much of a data frame as counts here."""

    def __init__(self, values, columns):
        self.values, self.columns, self.shape = values, columns, values.shape

    def __array__(self, dtype=None, copy=None):
        return self.values

    def __len__(self):
        return len(self.values)


def test_the_columns_of_a_table_are_the_classes():
    X, y = data(50)
    names = ["fork", "apple", "knife", "plate", "spoon"]
    assert quick().fit(X, Table(y, names)).classes_.tolist() == names
    assert quick().fit(X, y).classes_.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array([[0, 2], [1, 0], [0, 1]]), "Unknown label type"),
        (np.array([["a", "b"]] * 3), "MultiLabelBinarizer"),
        ([["a", "b"], ["a"], []], "MultiLabelBinarizer"),
        ([{"a", "b"}, {"a"}, set()], "MultiLabelBinarizer"),
        (np.array([0.0, np.nan, 1.0]), "NaN"),
        (np.array([1, 1, 1]), "1 class"),
        (np.zeros((2, 2)), "inconsistent numbers"),
        (np.zeros((3, 2, 2)), "1-D or 2-D"),
    ],
)
def test_a_y_that_cannot_be(y, message):
    with pytest.raises(ValueError, match=message):
        quick().fit(np.eye(3), y)


def test_what_cannot_be_combined():
    X, y = data(60)
    with pytest.raises(ValueError, match="validation_fraction"):
        quick(decide="per-class", validation_fraction=1.0).fit(X, y)
    with pytest.raises(ValueError, match="did you mean 'asl'"):
        quick(loss="als").fit(X, y)
    with pytest.raises(TypeError, match="go with the name of a map"):
        quick(calibrate=ls.calibrate.build("platt"), calibrate_params={"per": "label"}).fit(X, y)
    with pytest.raises(TypeError, match="go with the name of a rule"):
        quick(decide=ls.decide.build("top-k", k=1), decide_params={"k": 2}).fit(X, y)
    with pytest.raises(ValueError, match="a head 'linear' to go on from"):
        quick(warm_start=True).fit(X, y).set_params(head="dft").fit(X, y)


def test_features_far_from_0_are_told_apart():
    X, y = data(200)
    far = X + 1.7e9  # float32 has steps of 128 there
    model = quick().fit(far, y)
    near = X - (X.min(0) + X.max(0)) / 2
    assert np.array_equal(model.predict_proba(far), quick().fit(near, y).predict_proba(near))
    assert np.array_equal(
        model.predict_proba(scipy.sparse.csr_array(far)), model.predict_proba(far)
    )
    missing = np.where(np.arange(12) == 3, np.nan, far)
    assert np.isfinite(quick().fit(missing, y).predict_proba(missing)).all()
    assert model.offset_.shape == (12,)
    assert quick().fit(X, y).offset_ is None


def test_probabilities_as_features():
    X, y = data(100)
    model = quick()
    assert model.set_output(transform="default") is model
    assert np.array_equal(model.fit_transform(X, y), model.predict_proba(X))
    assert model.get_feature_names_out().tolist() == ["0", "1", "2", "3", "4"]


def test_a_head_that_can_be_verified():
    X, y = data(100, n_classes=10)
    model = quick(head="dft", head_params={"k": 2, "slack": 4}).fit(X, y)
    assert model.predict_proba(X).shape == (100, 10)
    sets = ls.Labels.from_lists([[0], [3, 7]], n=10)
    assert (ls.verify(model.head_.float(), sets).status == "argmaxable").all()
    parts = quick(head="dft").partial_fit(X[:50], y[:50]).partial_fit(X[50:], y[50:])
    assert parts.predict(X).shape == y.shape


def test_two_classes_with_a_rule():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = np.where(X[:, 0] + rng.normal(size=400) > 1.5, "yes", "no")
    plain, tuned = quick().fit(X, y), quick(decide="per-class").fit(X, y)
    assert set(tuned.predict(X)) == {"yes", "no"}
    assert (tuned.predict(X) == "yes").sum() > (plain.predict(X) == "yes").sum()


def test_import_without_scikit_learn_says_what_to_install():
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import labelset\n"
        "try: import labelset.sklearn\n"
        "except ImportError as error: print(error)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'labelset[sklearn]'" in out.stdout
