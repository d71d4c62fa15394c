"""MultiLabelStratifiedKFold as scikit-learn uses it."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn
from sklearn.datasets import make_multilabel_classification
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.neighbors import KNeighborsClassifier

from labelset.sklearn import MultiLabelStratifiedKFold

X, Y = make_multilabel_classification(200, n_classes=12, random_state=0)


def folds(splitter, x=X, y=Y, groups=None):
    """(rows,) the fold in which each row is tested, every row in exactly one."""
    fold = np.full(len(Y), -1)
    for number, (train, test) in enumerate(splitter.split(x, y, groups)):
        assert sorted([*train, *test]) == list(range(len(Y)))
        assert (fold[test] == -1).all()
        fold[test] = number
    assert (fold >= 0).all()
    return fold


def spread(fold, y=Y):
    """By how much the positives of a label differ between folds, at most and on average."""
    counts = np.stack([y[fold == k].sum(0) for k in range(fold.max() + 1)])
    return np.ptp(counts, axis=0)


def test_labels_are_spread_far_more_evenly_than_by_chance():
    ours, chance = folds(MultiLabelStratifiedKFold()), folds(KFold(5))
    assert spread(ours).max() <= 3
    assert spread(ours).mean() < spread(chance).mean() / 3


def test_every_form_of_y_gives_the_same_folds():
    want = folds(MultiLabelStratifiedKFold(3))
    partly = Y.astype(float)
    partly[Y == 0] = np.where(np.arange((Y == 0).sum()) % 3 == 0, np.nan, 0)
    for y in (Y.tolist(), pd.DataFrame(Y), scipy.sparse.csr_array(Y), Y.astype(bool), partly):
        assert (folds(MultiLabelStratifiedKFold(3), y=y) == want).all()
    names = np.array(["b", "a", "c"])[np.minimum(Y.sum(1), 2)]
    by_name = folds(MultiLabelStratifiedKFold(3), y=names)
    assert spread(by_name, np.stack([names == n for n in "abc"], axis=1)).max() <= 1


def test_shuffling_follows_random_state():
    assert MultiLabelStratifiedKFold(4).get_n_splits(X, Y) == 4
    plain = folds(MultiLabelStratifiedKFold())
    assert (folds(MultiLabelStratifiedKFold()) == plain).all()
    one = MultiLabelStratifiedKFold(5, True, 1)
    assert (folds(one) == folds(one)).all()
    assert (folds(one) != folds(MultiLabelStratifiedKFold(5, True, 2))).any()
    with pytest.raises(ValueError, match="has no effect without shuffle=True"):
        MultiLabelStratifiedKFold(random_state=0)
    assert "n_splits=5" in repr(one)


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array, pd.DataFrame, "texts"])
def test_equal_rows_stay_together_when_asked_also_by_way_of_groups(kind):
    rng = np.random.default_rng(0)
    twins = rng.integers(0, 60, len(Y))
    x = X[twins]
    x[0, 0], x[twins == twins[0], 0] = 0.0, -0.0
    given = [" ".join(map(str, row)) for row in x + 0.0] if kind == "texts" else kind(x)
    fold = folds(MultiLabelStratifiedKFold(duplicates_together=True), given)
    assert all(len(set(fold[twins == t])) == 1 for t in twins)
    assert any(len(set(folds(MultiLabelStratifiedKFold(), given)[twins == t])) > 1 for t in twins)
    groups = np.array([f"g{i // 4}" for i in range(len(Y))])  # chain rows that differ
    groups[twins % 10 > 0] = np.arange(len(Y))[twins % 10 > 0].astype(str)
    fold = folds(MultiLabelStratifiedKFold(3, duplicates_together=True), given, groups=groups)
    for part in (twins, groups):
        assert all(len(set(fold[part == t])) == 1 for t in part)


def test_it_serves_as_cv_with_groups_and_in_searches():
    model, groups = KNeighborsClassifier(), np.arange(len(Y)) // 2
    splitter = MultiLabelStratifiedKFold(3)
    assert len(cross_val_score(model, X, Y, cv=splitter)) == 3
    plain = cross_validate(model, X, Y, cv=splitter, groups=groups, return_indices=True)
    search = GridSearchCV(model, {"n_neighbors": [1, 5]}, cv=splitter).fit(X, Y, groups=groups)
    assert search.n_splits_ == 3
    with sklearn.config_context(enable_metadata_routing=True):
        routed = cross_validate(
            model, X, Y, cv=splitter, params={"groups": groups}, return_indices=True
        )
    for one, other in zip(plain["indices"]["test"], routed["indices"]["test"], strict=True):
        assert (one == other).all()
        assert set(groups[one]).isdisjoint(set(groups) - set(groups[one]))
        assert np.bincount(groups[one])[np.unique(groups[one])].tolist() == [2] * len(
            set(groups[one])
        )
