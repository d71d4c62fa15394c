"""Label files: every format, and broken ones."""

import gzip
import json

import numpy as np
import pytest

from labelset import Labels
from labelset.data import read_labels

NAN = float("nan")
WANT = Labels.from_dense([[1, 0, NAN], [0, 1, 1]])


def write(path, name):
    if name == "dense.npz":
        np.savez(path / name, Y=[[1, 0, NAN], [0, 1, 1]])
    elif name == "csr.npz":
        np.savez(
            path / name,
            Y_indptr=[0, 1, 3],
            Y_indices=[0, 1, 2],
            Y_shape=[2, 3],
            U_indptr=[0, 1, 1],
            U_indices=[2],
            label_names=["a", "b", "c"],
            split=[0, 2],
        )
    elif name == "y.npy":
        np.save(path / name, [[1, 0, NAN], [0, 1, 1]])
    else:
        rows = [{"labels": [0], "unknown": [2]}, {"labels": [1, 2]}]
        text = "\n".join(json.dumps(row) for row in rows) + "\n"
        opener = gzip.open if name.endswith("gz") else open
        with opener(path / name, "wt") as file:
            file.write(text)
    return path / name


@pytest.mark.parametrize("name", ["dense.npz", "csr.npz", "y.npy", "y.jsonl", "y.jsonl.gz"])
def test_every_format(tmp_path, name):
    assert read_labels(write(tmp_path, name), n=3).labels == WANT


def test_names_and_splits(tmp_path):
    found = read_labels(write(tmp_path, "csr.npz"))
    assert found.names == ["a", "b", "c"]
    assert found.split == [0, 2]
    header = {"header": True, "label_names": ["x", "y", "z", "w"]}
    row = {"labels": [3], "split": 1}
    (tmp_path / "h.jsonl").write_text(json.dumps(header) + "\n\n" + json.dumps(row) + "\n")
    found = read_labels(tmp_path / "h.jsonl")
    assert found.labels == Labels.from_lists([[3]], n=4)
    assert found.split == [1]


BROKEN = {
    "no such file": ("none.npz", None),
    "cannot read .txt files": ("y.txt", b"1"),
    "damaged or not a .npz": ("y.npz", b"PK\x03\x04 nonsense"),
    "line 2: not JSON": ("y.jsonl", b'{"labels": [1]}\n{"labels": \n'),
    "line 1: no `labels`": ("y.jsonl", b'{"text": "a"}\n'),
    "line 1: expected an object, got list": ("y.jsonl", b"[1]\n"),
    "must list label numbers, got str": ("y.jsonl", b'{"labels": ["a"]}\n'),
    "damaged or not a .jsonl": ("y.jsonl", b'{"labels": [1], "text": "\xff\xfe"}\n'),
    "damaged or not a .jsonl file": ("y.jsonl.gz", b"not gzip"),
    "label 1 appears twice": ("y.jsonl", b'{"labels": [1, 1]}\n'),
}


@pytest.mark.parametrize("message", BROKEN)
def test_broken_files_are_one_clear_line(tmp_path, message):
    name, content = BROKEN[message]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_labels(tmp_path / name)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_npz_without_labels(tmp_path):
    np.savez(tmp_path / "x.npz", X=np.eye(2))
    with pytest.raises(ValueError, match="neither Y nor Y_indptr"):
        read_labels(tmp_path / "x.npz")
