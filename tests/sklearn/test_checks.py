"""scikit-learn's own checks of estimators; what is expected to fail is named with its reason."""

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.fixes import parse_version

from labelset.sklearn import CalibratedLabels, DecidedLabels, MultiLabelClassifier

THRESHOLD = "predict is not p > 0.5: the threshold is tuned, as in TunedThresholdClassifierCV"
EXPECTED = {"DecidedLabels": {"check_classifiers_train": THRESHOLD}}
if parse_version(sklearn.__version__) < parse_version("1.7"):
    first = (
        "scikit-learn 1.6 makes y binary by its first value, another one in each of the two fits"
    )
    for kind in ("dense", "sparse"):
        EXPECTED["DecidedLabels"][f"check_sample_weight_equivalence_on_{kind}_data"] = first


TUNED = {"check_classifiers_train": THRESHOLD, "check_classifier_multioutput": THRESHOLD}


def expected(estimator):
    if getattr(estimator, "decide", None) is not None:
        return TUNED
    return EXPECTED.get(type(estimator).__name__, {})


@parametrize_with_checks([MultiLabelClassifier()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [
        MultiLabelClassifier(decide="per-class"),
        CalibratedLabels(LogisticRegression(), cv=2),
        DecidedLabels(LogisticRegression(), cv=2),
    ],
    expected_failed_checks=expected,
)
def test_scikit_learn_checks_of_wrappers_and_of_a_tuned_rule(estimator, check):
    check(estimator)


MULTI_LABEL = [
    "check_classifier_multioutput",
    "check_classifiers_multilabel_representation_invariance",
    "check_classifiers_multilabel_output_format_predict",
    "check_classifiers_multilabel_output_format_predict_proba",
    "check_classifiers_multilabel_output_format_decision_function",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", MULTI_LABEL[1:4])
@pytest.mark.parametrize("wrapper", [CalibratedLabels, DecidedLabels])
def test_wrappers_of_multi_label_estimators(wrapper, name):
    from sklearn.utils import estimator_checks

    model = wrapper(MultiLabelClassifier(max_iter=3, random_state=0), cv=2)
    getattr(estimator_checks, name)(wrapper.__name__, model)


def test_the_multi_label_checks_are_run_for_the_classifier():
    from sklearn.utils.estimator_checks import _yield_all_checks

    checks = _yield_all_checks(MultiLabelClassifier(), legacy=True)
    run = {getattr(check, "func", check).__name__ for check in checks}
    assert set(MULTI_LABEL) <= run


def test_the_expected_failure_is_one():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = (X[:, 0] + rng.normal(size=300) > 1.5).astype(int)
    model = clone(DecidedLabels(LogisticRegression(), random_state=0)).fit(X, y)
    assert (model.predict(X) != model.predict_proba(X).argmax(1)).any()
