"""labelset.compare: rows in memory, the answer of the command line, a model to use at once."""

import gc

import numpy as np
import pytest
import scipy.sparse
import torch

import labelset as ls
from labelset.model import SavedModel

QUICK = {"losses": ["bce"], "time_budget": 0.01}


def rows(count=120):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(count, 4))
    return X, (X[:, :3] + 0.5 * rng.normal(size=(count, 3)) > 0.7).astype(int)


@pytest.fixture(scope="module")
def found():
    X, y = rows()
    return ls.compare(X, y, names=["fork", "knife", "spoon"], **QUICK)


def test_the_best_model_can_be_used_at_once(found):
    X, _ = rows()
    model = found.best_model
    sets, p = model.predict(X[:7]), model.predict_proba(X[:7])
    assert model.names == ["fork", "knife", "spoon"]
    assert torch.equal(model.predictor.decide(p).dense(), sets.dense())
    assert torch.equal(model.predict_proba(X[:7].tolist()), p)
    assert model.predict(X[:0]).shape == (0, 3)
    assert model.predict_proba(X[:0]).shape == (0, 3)


def test_it_says_what_the_command_line_says(found):
    said = found.table()
    assert repr(found) == said
    assert said.splitlines()[0].startswith("candidate")
    assert "bce+linear" in said
    assert said.endswith(found.recommendation)
    assert "96 rows, each by a model fitted on" in said  # a fifth of 120 are test rows


def test_the_folder_goes_with_the_answer_or_stays_where_it_was_asked_for(tmp_path):
    X, y = rows(60)
    one = ls.compare(X, y, **QUICK)
    folder, model = one.out, one.best_model
    assert (folder / "compare.json").is_file()
    del one
    gc.collect()
    assert not folder.exists()
    assert model.predict(X).shape == y.shape
    ls.compare(X, y, out=tmp_path / "run", **QUICK)
    gc.collect()
    assert SavedModel.open(tmp_path / "run").predict(X).shape == y.shape


def test_no_folder_is_left_where_nothing_was_compared(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ValueError, match="no label is positive"):
        ls.compare(np.eye(20), np.zeros((20, 2)), **QUICK)
    assert not list(tmp_path.iterdir())


def test_own_test_rows(found):
    X, y = rows()
    split = ["train"] * 90 + ["test"] * 30
    part = ls.compare(X, y, split=split, **QUICK).best_model.splits["test"]
    assert part.labels == ls.Labels.from_dense(y[90:])


def test_groups_and_times():
    X, y = rows()
    patient = np.arange(120) % 24
    model = ls.compare(X, y, groups=patient, **QUICK).best_model
    assert len(model.splits["test"]) in range(20, 29)
    dates = np.datetime64("2024-01-01") + np.arange(120)
    splits = ls.compare(X, y, times=dates, **QUICK).best_model.splits
    assert splits["test"].labels == ls.Labels.from_dense(y[96:])
    assert splits["valid"].labels == ls.Labels.from_dense(y[77:96])


def test_sparse_rows_texts_frames_and_files(tmp_path):
    X, y = rows(60)
    held = scipy.sparse.csr_array(np.where(X > 0, X, 0))
    assert ls.compare(held, scipy.sparse.csr_array(y), **QUICK).best_model.predict(held).n == 3

    words = np.array(["rain", "sea", "snow", "warm", "wind", "cloud"])
    texts = [" ".join(np.random.default_rng(i).choice(words, 3)) for i in range(80)]
    tags = [[word for word in words[:2] if word in text] for text in texts]
    model = ls.compare(texts, tags, **QUICK).best_model
    assert model.names == ["rain", "sea"]
    p = model.predict_proba(["rain and wind", "sea and wind"])
    assert p[0, 0] > p[1, 0]
    assert p[0, 1] < p[1, 1]

    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"body": texts, "size": range(80), "kind": [*"ab"] * 40})
    own = pandas.DataFrame({"rain": ["rain" in t for t in texts], "b": frame["kind"] == "b"})
    model = ls.compare(frame, own, **QUICK).best_model
    assert model.names == ["rain", "b"]
    assert model.predict(frame[["kind", "size", "body"]]).shape == (80, 2)

    both = frame.assign(rain=own["rain"].astype(int), b=own["b"].astype(int))
    both.drop(columns=["kind", "size"]).to_csv(tmp_path / "a.csv", index=False)
    keys = {"label_columns": ["rain", "b"], "text_column": "body"}
    model = ls.compare(tmp_path / "a.csv", **keys, **QUICK).best_model
    assert model.names == ["rain", "b"]
    assert model.predict(tmp_path / "a.csv").shape == (80, 2)

    held = ls.data.load(tmp_path / "a.csv", **keys)
    assert ls.compare(held, **QUICK).best_model.names == ["rain", "b"]


def test_lists_are_asked_for():
    with pytest.raises(TypeError, match=r"losses must be a list of names, got 'bce'; give \['bce'"):
        ls.compare(*rows(20), losses="bce")
    with pytest.raises(ValueError, match="optimise must be one of"):
        ls.compare(*rows(20), optimise="accuracy")
