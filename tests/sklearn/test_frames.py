"""Data frames in and out: names of columns are kept, and numbers are those of plain arrays."""

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from labelset.sklearn import CalibratedLabels, DecidedLabels, MultiLabelClassifier

X, Y = make_multilabel_classification(120, n_features=6, n_classes=4, random_state=0)
COLUMNS, NAMES = [f"x{i}" for i in range(6)], ["fork", "knife", "spoon", "cup"]


@pytest.fixture(params=["pandas", "polars"])
def made(request):
    """A data frame from an array and the names of its columns."""
    package = pytest.importorskip(request.param)
    frame = lambda array, names: package.DataFrame(dict(zip(names, array.T, strict=True)))  # noqa: E731
    frame.library = request.param
    return frame


def estimators():
    inner = OneVsRestClassifier(LogisticRegression())
    return [
        MultiLabelClassifier(max_iter=5, random_state=0),
        CalibratedLabels(inner, cv=2, random_state=0),
        DecidedLabels(inner, "per-class", cv=2, random_state=0),
    ]


@pytest.mark.parametrize("which", range(3))
def test_frames_in(made, which):
    model, plain = estimators()[which], estimators()[which].fit(X, Y)
    model.fit(made(X, COLUMNS), made(Y, NAMES))
    assert model.feature_names_in_.tolist() == COLUMNS
    assert model.n_features_in_ == 6
    assert model.get_feature_names_out().tolist() == NAMES
    frame = made(X, COLUMNS)
    assert np.allclose(model.predict_proba(frame), plain.predict_proba(X))
    assert np.array_equal(np.asarray(model.predict(frame)), plain.predict(X))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(made(X, COLUMNS[::-1]))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X)


@pytest.mark.parametrize("which", range(3))
def test_frames_out(made, which):
    model = estimators()[which].set_output(transform=made.library)
    found = model.fit(made(X, COLUMNS), made(Y, NAMES)).transform(made(X, COLUMNS))
    assert type(found).__module__.startswith(made.library)
    assert list(found.columns) == NAMES
    plain = estimators()[which].fit(X, Y).transform(X)
    assert np.allclose(found.to_numpy(), plain)
    unnamed = estimators()[which].set_output(transform=made.library).fit(X, Y).transform(X)
    assert list(map(str, unnamed.columns)) == ["0", "1", "2", "3"]


def test_a_frame_through_a_pipeline_and_a_search(made):
    scaled = make_column_transformer((StandardScaler(), COLUMNS[:4]), remainder="drop")
    chain = make_pipeline(scaled, MultiLabelClassifier(max_iter=3, random_state=0))
    search = GridSearchCV(chain, {"multilabelclassifier__loss": ["bce", "asl"]}, cv=2)
    search.fit(made(X, COLUMNS), made(Y, NAMES))
    assert search.predict(made(X, COLUMNS)).shape == Y.shape


def test_the_index_of_rows_is_kept():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=COLUMNS, index=[f"row {i}" for i in range(len(X))])
    for model in estimators():
        found = model.set_output(transform="pandas").fit(frame, Y).transform(frame)
        assert found.index.tolist() == frame.index.tolist()


def test_sparse_columns_of_pandas():
    pandas = pytest.importorskip("pandas")
    held = np.where(np.abs(X) > 2, X, 0)
    frame = pandas.DataFrame(held, columns=COLUMNS).astype(pandas.SparseDtype(float, 0.0))
    model = MultiLabelClassifier(max_iter=3, random_state=0).fit(frame, Y)
    assert model.predict_proba(frame).shape == Y.shape
