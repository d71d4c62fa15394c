"""What rows and entries count: read from columns, arrays and files, and carried along."""

import numpy as np
import pytest
import torch

from labelset.data import Dataset, dataset_of, load
from labelset.data.weights import weighted

X = [[1.0], [2.0], [3.0], [4.0]]
Y = [[1, 0], [0, 1], [1, 1], [0, 0]]


def test_a_column_of_weights_is_no_feature(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("w,x,z,fork,cup\n1,2,3,0,1\n0,3,4,1,0\n2,4,5,1,1\n")
    made = load(path, label_columns=["fork", "cup"], weights="w")
    assert made.schema.columns == ["x", "z"]
    assert made.features.tolist() == [[2, 3], [4, 5]]
    assert made.labels.weights.tolist() == [1, 2]
    assert made.rows([1]).labels.weights.tolist() == [2]
    assert "1 rows of weight 0 are left out" in made.card["notes"]


def test_what_weights_of_entries_do_not_count_in_is_noted():
    data = dataset_of(X, Y)
    (note,) = weighted(data, np.array([[1.0, 2.0]] * 4)).card["notes"]
    assert "thresholds, calibrators and figures take all known entries alike" in note
    assert "notes" not in weighted(data, [1.0, 2.0, 1.0, 2.0]).card


@pytest.mark.parametrize("cell", ["-1", "", "many", "nan", "inf"])
def test_cells_that_are_no_weights_are_named(tmp_path, cell):
    path = tmp_path / "a.csv"
    path.write_text(f"w,x,fork\n1,2,0\n{cell},3,1\n")
    with pytest.raises(ValueError, match=r"line 3: column 'w' must hold weights, numbers of 0 and"):
        load(path, label_columns=["fork"], weights="w")


def test_arrays_and_files_of_weights(tmp_path):
    each = np.array([[0.5, 0], [1, 1], [2, 3], [1, 1]])
    np.savez(tmp_path / "a.npz", X=X, Y=Y, heavy=[1, 0, 2, 1])
    np.save(tmp_path / "w.npy", each)
    np.savez(tmp_path / "w.npz", weights=each)
    assert load(tmp_path / "a.npz", weights="heavy").labels.weights.tolist() == [1, 2, 1]
    due = dataset_of(X, Y, sample_weight=each)
    for name in ("w.npy", "w.npz"):
        made = load(tmp_path / "a.npz", weights=str(tmp_path / name))
        assert torch.equal(made.labels.weights, due.labels.weights)
    assert due.labels.dense()[0].tolist()[0] == 1
    assert bool(due.labels.dense()[0, 1].isnan())
    assert torch.allclose(due.labels.weights[each > 0].mean(), torch.tensor(1.0).double())
    (tmp_path / "about.toml").write_text('data = "a.npz"\nweights = "w.npy"\n')
    assert load(tmp_path / "about.toml").labels.weights.shape == (4, 2)


def test_weights_of_one_are_none():
    plain = Dataset.from_arrays(X, Y)
    for ones in (np.ones(4), np.ones((4, 2))):
        assert weighted(plain, ones).fingerprint() == plain.fingerprint()
    assert weighted(plain, [1, 2, 1, 1]).fingerprint() != plain.fingerprint()


def test_zeros_and_ones_for_entries_say_which_are_known():
    made = weighted(Dataset.from_arrays(X, Y), [[1, 0], [1, 1], [0, 1], [0, 0]])
    assert made.labels.weights is None
    assert made.labels.dense().nan_to_num(-1).tolist() == [[1, -1], [0, 1], [-1, 1]]


def test_fractions_are_scaled_and_whole_numbers_are_not():
    plain = Dataset.from_arrays(X, Y)
    assert weighted(plain, [0.25, 0.5, 0.5, 0.75]).labels.weights.tolist() == [0.5, 1, 1, 1.5]
    assert weighted(plain, [2, 2, 2, 4]).labels.weights.tolist() == [2, 2, 2, 4]
    assert weighted(plain, [100, 200, 200, 300]).labels.weights.tolist() == [0.5, 1, 1, 1.5]


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([1, 2, 3], "one number for each of 4 rows, or 4 x 2, .* got shape \\(3,\\)"),
        ([1, -2, 3, 1], "none of them negative, got -2 in row 1"),
        ([1, np.nan, 3, 1], "none of them negative, got nan in row 1"),
        ([[1, 1], [1, -1], [1, 1], [1, 1]], "got -1 in row 1, label 1"),
        ([0, 0, 0, 0], "weights are 0 everywhere"),
    ],
)
def test_what_cannot_be_weights_is_said(weights, said):
    with pytest.raises(ValueError, match=said):
        weighted(Dataset.from_arrays(X, Y), weights)
