"""Rows that a program has in memory, and what a model is given of new ones."""

import numpy as np
import pytest
import scipy.sparse
import torch

from labelset import Labels
from labelset.data import Schema, dataset_of, frame_keys, inputs_of, load, new_rows, texts_in

Y = np.array([[1, 0], [0, 1], [1, 1]])


def frame(rows=30):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(
        {
            "size": np.arange(rows, dtype=float),
            "colour": pandas.Categorical(["red", "blue", "green"] * (rows // 3)),
            "body": [f"number {i} of some days at the sea in the north" for i in range(rows)],
            "when": pandas.date_range("2024-01-01", periods=rows),
            "old": [True, False] * (rows // 2),
            "key": [f"row{i}" for i in range(rows)],
        }
    )


def test_arrays_sparse_rows_and_tensors_are_features():
    x = np.eye(3)
    for given in (x, x.tolist(), torch.eye(3), scipy.sparse.csr_matrix(x)):
        made = dataset_of(given, Y, names=["a", "b"])
        assert made.names == ["a", "b"]
        assert made.sparse == scipy.sparse.issparse(given)
        assert len(made) == 3


def test_labels_in_every_form():
    x = np.eye(3)
    expected = Labels.from_dense(Y)
    lists = [["fork"], ("knife",), {"fork", "knife"}]
    for given in (Y, Y.tolist(), torch.tensor(Y), scipy.sparse.csr_array(Y), expected, lists):
        assert dataset_of(x, given).labels == expected
    assert dataset_of(x, lists).names == ["fork", "knife"]
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(Y, columns=["fork", "knife"]).astype("Int64")
    table.iloc[0, 1] = pandas.NA
    made = dataset_of(x, table)
    assert made.names == ["fork", "knife"]
    assert made.labels.known().tolist()[0] == [True, False]


def test_lists_of_texts():
    made = dataset_of(["a sea", "rain", ""], Y, split=["train", "train", "test"])
    assert made.texts == ["a sea", "rain", ""]
    assert made.sizes() == (2, 0, 1)
    assert texts_in(np.array(["a", "b"])) == ["a", "b"]
    assert texts_in(np.array([["a", "b"]])) is None
    with pytest.raises(ValueError, match="a list of texts, but row 1 is None"):
        dataset_of(["a sea", None, "rain"], Y)


def test_columns_of_a_frame_are_read_by_what_they_hold():
    made = inputs_of(frame())
    assert made.schema.columns == ["size", "old", "colour", "when"]
    assert made.schema.categories == {"colour": ["blue", "green", "red"]}
    assert made.texts[4] == "number 4 of some days at the sea in the north\nrow4"
    assert frame_keys(frame()[["size", "old"]]) == {}


def test_new_rows_are_read_as_those_of_the_model_were():
    made = inputs_of(frame())
    (some,) = new_rows(frame()[["when", "key", "old", "body", "colour", "size"]][6:9], made.schema)
    assert torch.equal(some.features, made.features[6:9])
    assert list(some.texts) == list(made.texts[6:9])
    (plain,) = new_rows(np.eye(2), Schema(width=2))
    assert torch.equal(plain.features, torch.eye(2))


def test_a_file_holds_labels_of_its_own(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,fork,knife\n1,0,1\n2,1,0\n3,1,1\n")
    made = dataset_of(path, label_columns=["fork", "knife"], split=[0, 0, 2])
    assert made.names == ["fork", "knife"]
    assert made.sizes() == (2, 0, 1)
    assert made.labels == load(path, label_columns=["fork", "knife"]).labels
    with pytest.raises(TypeError, match="a file says where the labels are"):
        dataset_of(path, Y)
    with pytest.raises(TypeError, match="label_column say where the labels are"):
        dataset_of(np.eye(3), Y, label_column="tags")


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="X has 2 rows, y has 3"):
        dataset_of(np.eye(2), Y)
    with pytest.raises(ValueError, match=r"got the word 'fork'; give \['fork'\]"):
        dataset_of(np.eye(2), ["fork", "knife"])
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({"body": ["a", "b", "c"]})
    with pytest.raises(ValueError, match="a reader goes by only once"):
        dataset_of(table.to_reader(), Y)
