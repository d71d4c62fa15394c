"""model="auto": the search of `labelset compare` behind scikit-learn's interface."""

import pickle

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from labelset import Labels
from labelset.calibrate import build
from labelset.data import inputs_of
from labelset.model import Blend, Part
from labelset.runs import Plan, choose_model
from labelset.sklearn import MultiLabelClassifier
from labelset.sklearn.state import plain, restored
from labelset.sklearn.weights import rows_to_learn_from

QUICK = 0.01
"""Seconds in which nothing but the baseline is fitted."""
THRESHOLD = "predict is not p > 0.5: the thresholds are tuned, as in TunedThresholdClassifierCV"
WORDS = [
    "rain",
    "sea",
    "snow",
    "warm",
    "fine",
    "over",
    "north",
    "wind",
    "cloud",
    "light",
    "road",
    "house",
    "tree",
    "bird",
    "hill",
]
TEXTS = [" ".join(np.random.default_rng(i).choice(WORDS, 6, replace=False)) for i in range(120)]
TAGS = np.array([["rain" in text, "sea" in text] for text in TEXTS]).astype(int)


def rows(count=160, seed=0):
    """A label by a line, one by a product, one by chance."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 5))
    truth = np.stack([X[:, 0], 2 * X[:, 2] * X[:, 3], rng.normal(size=count)], axis=1)
    return X, (truth + 0.4 * rng.normal(size=truth.shape) > 0.5).astype(int)


def auto(**settings):
    return MultiLabelClassifier(model="auto", **{"time_budget": QUICK} | settings)


@pytest.fixture(scope="module")
def fitted():
    X, y = rows()
    return auto(time_budget=None).fit(X, y), X, y


def test_every_family_competes_and_the_table_says_why_one_is_chosen(fitted):
    model, _, y = fitted
    table = model.search_["candidates"]
    names = {one["candidate"] for one in table}
    assert {"bce+linear", "kernel-ridge", "extra-trees", "bce+mlp", "frequency"} <= names
    values = [one["f1-micro"] for one in table if not one["note"]]
    assert values == sorted(values, reverse=True)
    assert model.n_iter_ == len(values)
    assert [one["candidate"] for one in table if one["chosen"]] == [model.search_["best"]]
    assert f"scores of {len(y)} rows" in model.search_["sentence"]
    assert all(one["seconds"] > 0 for one in table if not one["note"])


def test_it_predicts_what_the_chosen_model_of_the_same_rows_predicts(fitted):
    model, X, y = fitted
    new = rows(seed=1)[0]
    p, v, sets = model.predict_proba(new), model.decision_function(new), model.predict(new)
    data = rows_to_learn_from(inputs_of(X), Labels.from_dense(y), None, 0.0, seed=0)
    choice = choose_model(data, Plan())
    assert np.array_equal(choice.model.predict_proba(new).double().numpy().round(5), p.round(5))
    assert np.array_equal(choice.model.predict(new).dense().numpy(), sets)
    assert np.allclose(1 / (1 + np.exp(-v)), p, atol=1e-9)
    assert sets.dtype == y.dtype
    for label in range(3):  # a threshold parts the rows of a label
        on = sets[:, label] == 1
        assert p[on, label].min() >= p[~on, label].max()


def test_unseen_rows_are_predicted_better_than_by_a_line(fitted):
    model, X, y = fitted
    new, truth = rows(400, seed=2)
    line = MultiLabelClassifier(random_state=0).fit(X, y).predict(new)
    found = model.predict(new)
    product = (found[:, 1] == truth[:, 1]).mean(), (line[:, 1] == truth[:, 1]).mean()
    assert product[0] > product[1] + 0.05


def test_pickles_and_clones(fitted):
    model, X, _ = fitted
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.search_["sentence"] == model.search_["sentence"]
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(X)


def test_a_blend_is_kept_as_plain_arrays(fitted):
    model, X, y = fitted
    head, link = auto().fit(X, y).head_.float(), build("link")
    blend = Blend((Part("one", 0.25, model.model_, link), Part("line", 0.75, head, link)))
    features = model.encoder_(inputs_of(X))
    again = restored(pickle.loads(pickle.dumps(plain(blend))))
    assert torch.equal(again.scores(features), blend.scores(features))


def test_a_head_has_coefficients_and_a_forest_has_not(fitted):
    model, X, y = fitted
    assert not hasattr(model, "coef_")
    line = auto().fit(X, y)
    assert line.search_["best"] == "bce+linear"
    p = 1 / (1 + np.exp(-(X @ line.coef_.T + line.intercept_)))
    order = p.argsort(0)  # a calibrator leaves it as it is
    assert np.array_equal(order, line.predict_proba(X).argsort(0))


def test_the_order_of_rows_and_how_they_are_repeated_do_not_matter():
    X, y = rows(60)
    order = np.random.default_rng(0).permutation(60)
    first = auto().fit(X, y)
    assert np.array_equal(first.predict_proba(X), auto().fit(X[order], y[order]).predict_proba(X))
    twice = auto().fit(X, y, sample_weight=np.full(60, 2.0))
    repeated = auto().fit(np.vstack([X, X]), np.vstack([y, y]))
    assert np.array_equal(twice.predict_proba(X), repeated.predict_proba(X))
    weight = np.where(np.arange(60) % 2, 2.5, 0.5)
    some = auto().fit(X, y, sample_weight=weight)
    assert not np.array_equal(some.predict_proba(X), first.predict_proba(X))


def test_sparse_rows_and_sparse_labels():
    X, y = rows(60)
    held = scipy.sparse.csr_array(np.where(np.abs(X) > 0.5, X, 0))
    model = auto().fit(held, scipy.sparse.csr_array(y))
    assert scipy.sparse.issparse(model.predict(held))
    assert np.allclose(model.predict_proba(held), model.predict_proba(held.toarray()))


def test_unknown_labels():
    X, y = rows(80)
    partly = np.where(np.random.default_rng(1).random(y.shape) < 0.2, np.nan, y)
    assert auto().fit(X, partly).predict(X).shape == y.shape


def test_texts():
    model = auto().fit(TEXTS, TAGS)
    rain, sea = model.predict_proba(np.array(["rain and snow", "the sea"]))
    assert rain[0] > sea[0]
    assert rain[1] < sea[1]
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(TEXTS), model.predict_proba(TEXTS))
    assert not hasattr(model, "n_features_in_")
    assert not hasattr(model, "coef_")
    with pytest.raises(ValueError, match="TF-IDF needs texts"):
        model.predict(np.zeros((2, 3)))
    assert auto().fit(*rows(60)).fit(TEXTS, TAGS).predict(TEXTS).shape == TAGS.shape
    refit = model.fit(*rows(60))
    assert refit.n_features_in_ == 5


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_with_words_numbers_and_categories(library):
    package = pytest.importorskip(library)
    count = len(TEXTS)
    held = {
        "size": [float(i % 7) for i in range(count)],
        "colour": ["red", "blue", "green"] * (count // 3),
        "body": [f"{text} in the north of it all" for text in TEXTS],
    }
    y = np.stack([TAGS[:, 0], [colour == "red" for colour in held["colour"]]], axis=1).astype(int)
    model = auto().fit(package.DataFrame(held), y)
    frame = package.DataFrame({name: held[name] for name in reversed(held)})  # by name
    assert np.array_equal(model.predict(frame), y)
    with pytest.raises(ValueError, match="no column is called 'colour'"):
        model.predict(package.DataFrame({"size": [1.0], "body": ["rain"]}))
    numbers = auto().fit(package.DataFrame({"a": held["size"], "b": held["size"]}), y)
    assert numbers.feature_names_in_.tolist() == ["a", "b"]


def test_one_class_per_row():
    X, y = rows(90)
    names = np.array(["no", "yes"])[y[:, 0]]
    model = auto().fit(X, names)
    p = model.predict_proba(X)
    assert p.shape == (90, 2)
    assert np.array_equal(model.predict(X), model.classes_[p.argmax(1)])
    assert np.array_equal(model.decision_function(X) > 0, model.predict(X) == "yes")
    three = auto().fit(X, y[:, 0] + y[:, 1])
    p = three.predict_proba(X)
    assert np.allclose(p.sum(1), 1)
    assert np.array_equal(three.predict(X), three.classes_[p.argmax(1)])


def test_what_has_no_effect_is_refused():
    X, y = rows(40)
    with pytest.raises(ValueError, match="loss='asl' has no effect with model='auto'"):
        auto(loss="asl").fit(X, y)
    with pytest.raises(ValueError, match="warm_start=True has no effect"):
        auto(warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match="time_budget=60 has no effect without model='auto'"):
        MultiLabelClassifier(time_budget=60).fit(X, y)
    with pytest.raises(ValueError, match="model must be one of 'auto', got 'best'"):
        MultiLabelClassifier(model="best").fit(X, y)
    with pytest.raises(ValueError, match="optimise must be one of"):
        auto(optimise="accuracy").fit(X, y)
    with pytest.raises(AttributeError, match="partial_fit"):
        auto().partial_fit(X, y)
    with pytest.raises(ValueError, match="no label is positive in any row"):
        auto().fit(X, np.zeros((40, 2)))


@pytest.mark.slow
@parametrize_with_checks(
    [auto(time_budget=1e-3)],
    expected_failed_checks=lambda _: {"check_classifier_multioutput": THRESHOLD},
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
