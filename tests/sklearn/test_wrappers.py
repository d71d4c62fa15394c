"""CalibratedLabels and DecidedLabels around other people's classifiers."""

import numpy as np
import pytest
import scipy.sparse
import sklearn
from sklearn.datasets import make_multilabel_classification
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import labelset as ls
from labelset.sklearn import CalibratedLabels, DecidedLabels, scorer

X, Y = make_multilabel_classification(
    400, n_features=10, n_classes=4, n_labels=1, allow_unlabeled=True, random_state=0
)
TRAIN, TEST = slice(0, 250), slice(250, 400)
FOREST = RandomForestClassifier(n_estimators=15, random_state=0)
BAYES = OneVsRestClassifier(GaussianNB())
SHAPES = {
    "list of a forest": FOREST,
    "list of a tree": DecisionTreeClassifier(max_depth=4, random_state=0),
    "list of neighbours": KNeighborsClassifier(),
    "list of many outputs": MultiOutputClassifier(GaussianNB()),
    "array of one against the rest": BAYES,
    "array of a chain": ClassifierChain(GaussianNB()),
    "pipeline": make_pipeline(StandardScaler(), BAYES),
    "search": GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [3]}, cv=2),
}


def told(p):
    """(rows, labels), however it came."""
    return np.stack([one[:, 1] for one in p], 1) if isinstance(p, list) else p


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_of_predict_proba(name):
    model = SHAPES[name]
    calibrated = CalibratedLabels(model, cv=3, random_state=0).fit(X[TRAIN], Y[TRAIN])
    decided = DecidedLabels(model, cv=3, random_state=0).fit(X[TRAIN], Y[TRAIN])
    plain = told(decided.estimator_.predict_proba(X[TEST]))
    assert np.allclose(decided.predict_proba(X[TEST]), plain)
    assert (decided.predict(X[TEST]) == (plain >= decided.rule_.thresholds.numpy())).all()
    p = calibrated.predict_proba(X[TEST])
    assert p.shape == Y[TEST].shape
    assert (calibrated.predict(X[TEST]) == (p >= 0.5)).all()


def test_calibration_helps_naive_bayes():
    nll = ls.metrics.build("nll")
    plain = BAYES.fit(X[TRAIN], Y[TRAIN]).predict_proba(X[TEST])
    for name in ("platt", "isotonic", "temperature", "histogram"):
        model = CalibratedLabels(BAYES, map=name, random_state=0).fit(X[TRAIN], Y[TRAIN])
        if name != "isotonic":  # which may say 0 and be wrong
            assert nll(model.predict_proba(X[TEST]), Y[TEST]) < nll(plain, Y[TEST])
        ace = ls.metrics.build("ece")
        assert ace(model.predict_proba(X[TEST]), Y[TEST]) < ace(plain, Y[TEST])


def test_thresholds_are_the_best_on_rows_out_of_fold():
    folds = KFold(3)
    model = DecidedLabels(BAYES, cv=folds).fit(X, Y)
    p = cross_val_predict(BAYES, X, Y, cv=folds, method="predict_proba")
    due = ls.decide.build("per-class").fit(p, Y)
    assert (model.rule_.thresholds == due.thresholds).all()
    grid = np.linspace(0, 1, 41)
    best = [max(f1_score(Y[:, j], p[:, j] >= t) for t in grid) for j in range(4)]
    assert model.rule_.objective(p, Y) >= np.mean(best) - 1e-12


def test_calibration_is_fitted_to_rows_out_of_fold():
    folds = KFold(3)
    model = CalibratedLabels(BAYES, map="isotonic", cv=folds).fit(X, Y)
    p = cross_val_predict(BAYES, X, Y, cv=folds, method="predict_proba")
    step = np.minimum(p, 1 - p)
    step = max(step[step > 0].min() / 2, 1e-12)
    q = np.clip(p, step, 1 - step)
    due = ls.calibrate.build("isotonic").fit(np.log(q / (1 - q)), Y)
    r = np.clip(model.estimator_.predict_proba(X), step, 1 - step)
    assert np.allclose(model.predict_proba(X), due(np.log(r / (1 - r))).numpy(), atol=1e-6)


@pytest.mark.parametrize("wrapper", [CalibratedLabels, DecidedLabels])
def test_prefit_and_frozen_are_the_same_and_fit_nothing(wrapper):
    fitted = OneVsRestClassifier(LogisticRegression()).fit(X[TRAIN], Y[TRAIN])
    coefficients = fitted.estimators_[0].coef_.copy()
    one = wrapper(fitted, cv="prefit").fit(X[TEST], Y[TEST])
    two = wrapper(FrozenEstimator(fitted), cv=4).fit(X[TEST], Y[TEST])
    # not byte by byte: where its input happens to lie in memory, BLAS rounds differently
    np.testing.assert_allclose(one.transform(X), two.transform(X), rtol=1e-9, atol=0)
    assert (fitted.estimators_[0].coef_ == coefficients).all()
    with pytest.raises(sklearn.exceptions.NotFittedError):
        wrapper(OneVsRestClassifier(LogisticRegression()), cv="prefit").fit(X, Y)


def test_unknown_labels_with_an_estimator_that_is_fitted():
    fitted = OneVsRestClassifier(LogisticRegression()).fit(X[TRAIN], Y[TRAIN])
    holes = np.where(np.random.default_rng(0).random(Y[TEST].shape) < 0.2, np.nan, Y[TEST])
    model = DecidedLabels(fitted, cv="prefit").fit(X[TEST], holes)
    due = ls.decide.build("per-class").fit(fitted.predict_proba(X[TEST]), holes)
    assert (model.rule_.thresholds == due.thresholds).all()


def test_scores_without_probabilities():
    machine = OneVsRestClassifier(LinearSVC())
    model = CalibratedLabels(machine, random_state=0).fit(X[TRAIN], Y[TRAIN])
    due = ls.calibrate.build("platt")
    out = cross_val_predict(machine, X[TRAIN], Y[TRAIN], cv=5, method="decision_function")
    due.fit(out, Y[TRAIN])
    mine, theirs = model.predict_proba(X[TEST]), due(machine.fit(X, Y).decision_function(X[TEST]))
    assert np.abs(mine - theirs.numpy()).mean() < 0.05
    with pytest.raises(TypeError, match="wrap it in CalibratedLabels first"):
        DecidedLabels(machine).fit(X, Y)
    both = DecidedLabels(CalibratedLabels(machine, cv=2), cv=2, random_state=0)
    assert both.fit(X[TRAIN], Y[TRAIN]).predict(X[TEST]).shape == Y[TEST].shape


def test_sparse_labels_come_back_sparse():
    sparse = scipy.sparse.csr_matrix(Y)
    model = DecidedLabels(BAYES, cv=3, random_state=0).fit(X, sparse)
    dense = DecidedLabels(BAYES, cv=3, random_state=0).fit(X, Y)
    assert (model.predict(X).toarray() == dense.predict(X)).all()


def test_a_label_that_is_never_on():
    empty = np.hstack([Y, np.zeros((len(Y), 1), dtype=int)])
    for model in (FOREST, KNeighborsClassifier()):
        for wrapper in (CalibratedLabels, DecidedLabels):
            found = wrapper(model, cv=2, random_state=0).fit(X, empty)
            assert found.predict_proba(X).shape == empty.shape


def test_whole_weights_are_rows_that_are_repeated():
    weight = np.random.default_rng(0).integers(0, 3, len(X))
    fitted = BAYES.fit(X, Y)
    times = np.repeat(np.arange(len(X)), weight)
    for wrapper in (CalibratedLabels, DecidedLabels):
        one = wrapper(FrozenEstimator(fitted), cv="prefit").fit(X, Y, sample_weight=weight)
        two = wrapper(FrozenEstimator(fitted), cv="prefit").fit(X[times], Y[times])
        assert np.allclose(one.transform(X), two.transform(X))
    with pytest.warns(UserWarning, match=r"KNeighborsClassifier.fit takes no sample_weight"):
        DecidedLabels(KNeighborsClassifier(), cv=2).fit(X, Y, sample_weight=weight)


def test_metadata_is_routed():
    with sklearn.config_context(enable_metadata_routing=True):
        inner = LogisticRegression().set_fit_request(sample_weight=True)
        y, weight = Y[:, 0], np.random.default_rng(0).random(len(X))
        model = CalibratedLabels(inner, cv=KFold(3)).fit(X, y, sample_weight=weight)
    plain = CalibratedLabels(LogisticRegression(), cv=KFold(3)).fit(X, y, sample_weight=weight)
    assert np.allclose(model.predict_proba(X), plain.predict_proba(X))


def test_names_of_columns():
    model = CalibratedLabels(BAYES, cv=2).fit(X, Y)
    assert model.get_feature_names_out().tolist() == ["0", "1", "2", "3"]
    chain = make_pipeline(model, OneVsRestClassifier(LogisticRegression())).fit(X, Y)
    assert chain.predict(X).shape == Y.shape
    assert model.set_output(transform="default") is model


def test_tables_out():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(Y, columns=list("abcd"))
    model = CalibratedLabels(BAYES, cv=2).set_output(transform="pandas").fit(X, frame)
    assert model.transform(X).columns.tolist() == list("abcd")


def test_parameters_of_what_is_inside():
    model = DecidedLabels(FOREST, "per-class", rule_params={"shrink": 5.0}, cv=2)
    model.set_params(rule__metric="f1-micro", estimator__n_estimators=4)
    assert model.rule_params == {"shrink": 5.0, "metric": "f1-micro"}
    assert model.get_params()["rule__shrink"] == 5.0
    grid = {"rule__shrink": [0.0, 10.0]}
    search = GridSearchCV(model, grid, cv=2, scoring=scorer("f1-macro")).fit(X, Y)
    assert search.best_estimator_.rule_.shrink in (0.0, 10.0)


def test_folds_and_classes_that_do_not_fit():
    with pytest.raises(ValueError, match="multiclass"):
        DecidedLabels(GaussianNB()).fit(X, np.arange(len(X)) % 3)
    with pytest.raises(ValueError, match="n_samples=3"):
        DecidedLabels(BAYES, cv=5).fit(X[:3], Y[:3])
    with pytest.raises(ValueError, match="cv"):
        DecidedLabels(BAYES, cv="other").fit(X, Y)
    with pytest.raises(TypeError, match="neither predict_proba nor decision_function"):
        CalibratedLabels(MultiOutputClassifier(LinearSVC())).fit(X, Y)
    odd = DummyClassifier().fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="OneVsRestClassifier"):
        CalibratedLabels(FrozenEstimator(odd), cv="prefit").fit(X, Y)


def test_a_class_that_a_fold_has_not_seen():
    y = np.arange(60) % 2
    y[0] = 2  # in one fold only
    model = CalibratedLabels(GaussianNB(), cv=KFold(3)).fit(X[:60], y)
    p = model.predict_proba(X)
    assert p.shape == (400, 3)
    assert np.allclose(p.sum(1), 1)
