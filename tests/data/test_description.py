"""Descriptions: TOML files, flags, and what happens when they are wrong."""

from dataclasses import fields

import numpy as np
import pytest

from labelset import Labels
from labelset.catalog import hyperparameters
from labelset.data import Description, load


@pytest.fixture
def folder(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    np.save(inner / "x.npy", np.arange(6.0).reshape(3, 2))
    np.save(inner / "y.npy", np.eye(3))
    np.save(inner / "x2.npy", np.ones((2, 2)))
    np.save(inner / "y2.npy", np.zeros((2, 3)))
    (inner / "split.txt").write_text("train\nvalid\ntest\n")
    (inner / "names.txt").write_text("a\nb\nc\n")
    (inner / "texts.txt").write_text("one\n\nthree\n")
    return inner


def test_files_are_relative_to_the_description(folder):
    text = 'features = "x.npy"\nlabels = "y.npy"\nsplit = "split.txt"\nlabel_names = "names.txt"\n'
    (folder / "all.toml").write_text(text + 'texts = "texts.txt"\n')
    data = load(folder / "all.toml")
    assert data.features.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert data.labels == Labels.from_dense(np.eye(3))
    assert data.split.tolist() == [0, 1, 2]
    assert data.names == ["a", "b", "c"]
    assert data.texts == ["one", "", "three"]
    assert data.card["source"].endswith("all.toml")


def test_flags_win(folder):
    (folder / "d.toml").write_text(
        'data = "x.npy"\nlabels = "y.npy"\nlabel_names = ["a", "b", "c"]\n'
    )
    assert load(folder / "d.toml").names == ["a", "b", "c"]
    assert load(folder / "d.toml", label_names=["x", "y", "z"]).names == ["x", "y", "z"]


def test_parts_from_tables(folder):
    text = 'data = "x.npy"\nlabels = "y.npy"\n[test]\ndata = "x2.npy"\nlabels = "y2.npy"\n'
    (folder / "p.toml").write_text(text)
    data = load(folder / "p.toml")
    assert data.sizes() == (3, 0, 2)
    assert data.part("test").features.tolist() == [[1, 1], [1, 1]]
    as_flags = load(
        folder / "x.npy",
        labels=folder / "y.npy",
        test={"data": folder / "x2.npy", "labels": folder / "y2.npy"},
    )
    assert as_flags.fingerprint() == data.fingerprint()


def test_parts_must_fit_together(folder):
    np.save(folder / "wide.npy", np.ones((2, 5)))
    test = {"data": folder / "wide.npy", "labels": folder / "y2.npy"}
    with pytest.raises(ValueError, match=r"wide\.npy: its features have size \(5,\), .* \(2,\)"):
        load(folder / "x.npy", labels=folder / "y.npy", test=test)
    with pytest.raises(ValueError, match=r"x2\.npy: holds no labels, which .*x\.npy holds"):
        load(folder / "x.npy", labels=folder / "y.npy", test=folder / "x2.npy")


WRONG = [
    ({"label_colum": "x"}, "no key is called 'label_colum': did you mean 'label_column'"),
    ({"label_columns": 3}, "label_columns must be a list, got 3"),
    ({"label_columns": [1]}, "label_columns must be a list"),
    ({"labels": 1.5}, "labels must be text or a whole number, got 1.5"),
    ({"labels": True}, "labels must be text or a whole number, got True"),
    ({"header": 1}, "header must be true or false, got 1"),
    ({"test": {"dta": "x"}}, "no key of test is called 'dta': did you mean 'data'"),
    ({"test": {"data": 3}}, "test.data must name a file, got 3"),
    ({"test": 3}, "test must be text or a table, got 3"),
    ({"base": 2}, "base must be 0 or 1, got 2"),
    ({"n_features": 0}, "n_features must be at least 1, got 0"),
    ({"labels_at": "middle"}, "labels_at must be one of 'end', 'start'"),
    ({"image_mode": "CMYK"}, "image_mode must be one of"),
    ({"delimiter": ""}, "delimiter must not be empty"),
    ({"label_columns": ["a"], "label_column": "b"}, "not both"),
    ({"format": "cvs"}, "format must be one of"),
]


@pytest.mark.parametrize(("flags", "message"), WRONG, ids=lambda x: str(x)[:30])
def test_wrong_flags(folder, flags, message):
    with pytest.raises((TypeError, ValueError), match=message):
        load(folder / "x.npy", **flags)


def test_wrong_keys_in_a_file_name_the_file(folder):
    (folder / "w.toml").write_text('dat = "x.npy"\n')
    with pytest.raises(ValueError, match=r"w\.toml: no key is called 'dat': did you mean 'data'"):
        load(folder / "w.toml")


def test_every_key_says_what_it_means():
    assert all(h.doc for h in hyperparameters(Description).values())
    assert {f.name for f in fields(Description)} == set(hyperparameters(Description))


def test_a_format_can_be_forced(tmp_path):
    (tmp_path / "odd.data").write_text("a,l\n1,1\n")
    data = load(tmp_path / "odd.data", format="csv", labels=1)
    assert data.names == ["l"]


def test_mulans_xml_must_name_attributes_that_are_there(tmp_path):
    (tmp_path / "a.arff").write_text("@relation r\n@attribute ab {0,1}\n@data\n1\n")
    (tmp_path / "a.xml").write_text('<labels><label name="abc"/></labels>')
    with pytest.raises(ValueError, match=r"a\.arff: no column is called 'abc': did you mean 'ab'"):
        load(tmp_path / "a.arff", labels=tmp_path / "a.xml")
    for text, message in (("<labels>", "line 1: not XML"), ("<labels/>", "expected <label name=")):
        (tmp_path / "a.xml").write_text(text)
        with pytest.raises(ValueError, match=rf"a\.xml: {message}"):
            load(tmp_path / "a.arff", labels=tmp_path / "a.xml")
