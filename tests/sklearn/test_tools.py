"""Coefficients, plain state and routed weights, as other tools of scikit-learn ask for them."""

import pickle
from types import NoneType

import numpy as np
import pytest
import scipy.sparse
import sklearn
from sklearn.datasets import make_multilabel_classification
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, KFold, cross_validate
from sklearn.multiclass import OneVsRestClassifier

from labelset.sklearn import CalibratedLabels, DecidedLabels, MultiLabelClassifier, scorer

X, Y = make_multilabel_classification(120, n_features=8, n_classes=4, random_state=0)
WEIGHT = np.random.default_rng(0).integers(0, 4, len(X)).astype(float)


def quick(**given):
    return MultiLabelClassifier(**({"max_iter": 10, "random_state": 0} | given))


# ---- coefficients -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [{}, {"head_params": {"rank": 3}}, {"head_params": {"bias": False}}, {"head": "dft"}],
)
@pytest.mark.parametrize("kind", ["dense", "sparse", "far"])
def test_coefficients_give_the_scores(given, kind):
    rows = scipy.sparse.csr_array(X) if kind == "sparse" else X + 1e9 * (kind == "far")
    many = np.hstack([Y, 1 - Y])  # dft wants more labels
    model = quick(**given).fit(rows, many)
    dense = rows.toarray() if kind == "sparse" else rows
    assert model.coef_.shape == (8, 8)
    assert model.intercept_.shape == (8,)
    scores = dense @ model.coef_.T + model.intercept_
    assert np.allclose(scores, model.decision_function(rows), atol=1e-4, rtol=1e-4)


def test_coefficients_of_one_class_per_row():
    model = quick().fit(X, Y[:, 0])
    found = X @ model.coef_.T + model.intercept_
    assert np.allclose(found[:, 0], model.decision_function(X), atol=1e-4)
    assert not hasattr(quick(), "coef_")


def test_features_are_selected_by_coefficients():
    rows = np.hstack([X, np.random.default_rng(0).normal(size=(120, 4)) * X.std()])
    y = (X[:, [0, 3]] > np.median(X[:, [0, 3]], 0)).astype(int)
    model = quick(max_iter=40)
    assert set(np.flatnonzero(RFE(model, n_features_to_select=2).fit(rows, y).support_)) == {0, 3}
    kept = SelectFromModel(model, threshold=-np.inf, max_features=2).fit(rows, y).get_support()
    assert set(np.flatnonzero(kept)) == {0, 3}


# ---- plain state ------------------------------------------------------------------------------


def not_plain(value):
    """The types in a state that are neither of Python nor of numpy nor of scikit-learn."""
    if isinstance(value, dict):
        return set().union(*(not_plain(v) for pair in value.items() for v in pair))
    if isinstance(value, (list, tuple)):
        return set().union(*map(not_plain, value))
    if isinstance(value, (str, int, float, bool, NoneType, np.ndarray, np.generic)):
        return set()
    if type(value).__module__.startswith("sklearn") or type(value).__name__ == "Targets":
        return not_plain(vars(value))
    return {type(value)}


FITTED = [
    quick().fit(X, Y),
    quick(loss="two-way", decide="per-class", head="dft", head_params={"k": 1, "slack": 2}).fit(
        scipy.sparse.csr_array(X), np.hstack([Y, 1 - Y])
    ),
    quick(calibrate="isotonic", decide="expected-f1").fit(X + 1e9, Y[:, 0] + Y[:, 1]),
    quick().partial_fit(X, Y),
    CalibratedLabels(OneVsRestClassifier(LogisticRegression()), "histogram", cv=2).fit(X, Y),
    DecidedLabels(OneVsRestClassifier(LogisticRegression()), cv=2).fit(X, Y),
]


@pytest.mark.parametrize("model", FITTED, ids=lambda model: type(model).__name__)
def test_what_was_learnt_is_stored_as_plain_arrays(model):
    assert not_plain(model.__getstate__()) == set()
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(again.predict(X), model.predict(X))


def test_an_estimator_read_back_goes_on_learning():
    model = FITTED[3]
    again = pickle.loads(pickle.dumps(model))
    due = model.partial_fit(X[:50], Y[:50]).predict_proba(X)
    assert np.array_equal(again.partial_fit(X[:50], Y[:50]).predict_proba(X), due)
    assert np.array_equal(
        pickle.loads(pickle.dumps(quick())).fit(X, Y).predict(X), FITTED[0].predict(X)
    )


def test_skops_stores_it():
    io = pytest.importorskip("skops.io")
    for model in FITTED:
        content = io.dumps(model)
        trusted = io.get_untrusted_types(data=content)
        assert all(name.startswith("labelset.sklearn.") for name in trusted)
        again = io.loads(content, trusted=trusted)
        assert np.array_equal(again.predict_proba(X), model.predict_proba(X))


# ---- routed weights ---------------------------------------------------------------------------


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("routing")
def test_a_search_is_scored_by_weighted_rows():
    folds, f1 = KFold(2), scorer("f1-macro").set_score_request(sample_weight=True)
    model = quick().set_fit_request(sample_weight=True)
    found = cross_validate(model, X, Y, cv=folds, scoring=f1, params={"sample_weight": WEIGHT})
    for score, (train, test) in zip(found["test_score"], folds.split(X), strict=True):
        fitted = quick().fit(X[train], Y[train], sample_weight=WEIGHT[train])
        said = fitted.predict(X[test])
        due = f1_score(Y[test], said, average="macro", sample_weight=WEIGHT[test], zero_division=0)
        assert score == pytest.approx(due)
    search = GridSearchCV(model, {"loss": ["bce", "asl"]}, cv=folds, scoring={"f1": f1}, refit="f1")
    assert search.fit(X, Y, sample_weight=WEIGHT).best_score_ > 0


@pytest.mark.usefixtures("routing")
def test_weights_that_nobody_asked_for_are_an_error():
    model = quick().set_fit_request(sample_weight=True)
    with pytest.raises(ValueError, match=r"sample_weight.*not explicitly set"):
        cross_validate(
            model, X, Y, scoring=scorer("f1-macro"), params={"sample_weight": WEIGHT}, cv=2
        )


# ---- other forms of y -------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["Int64", "boolean", "Float32"])
def test_na_of_pandas_is_unknown(dtype):
    pandas = pytest.importorskip("pandas")
    missing = np.random.default_rng(0).random(Y.shape) < 0.2
    names = ["fork", "knife", "spoon", "cup"]
    frame = pandas.DataFrame(Y, columns=names).astype(dtype).mask(missing)
    holes = np.where(missing, np.nan, Y)
    model, due = quick().fit(X, frame), quick().fit(X, holes)
    assert np.array_equal(model.predict_proba(X), due.predict_proba(X))
    assert model.classes_.tolist() == names
    assert scorer("f1-macro")(model, X, frame) == scorer("f1-macro")(due, X, holes)


def test_successive_halving_takes_no_label_sets():
    search = HalvingGridSearchCV(quick(), {"loss": ["bce", "asl"]}, max_resources=40)
    with pytest.raises(ValueError, match="1d array"):
        search.fit(X, Y)


def test_of_several_classes_the_most_likely_is_taken_whatever_the_rule():
    y = np.arange(120) % 3
    plain = quick().fit(X, y)
    for rule in ("per-class", "top-k", "budget"):
        assert np.array_equal(quick(decide=rule).fit(X, y).predict(X), plain.predict(X))
