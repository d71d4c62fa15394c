"""Reports: every number by brute force."""

import json

import numpy as np
import pytest
import scipy.sparse

from labelset.data import Dataset, inspect

NAN = float("nan")


def brute(x, y, split):
    """Counts by plain loops over rows."""
    keys = [tuple("nan" if v != v else float(v) for v in row) for row in x]
    first = [keys.index(key) for key in keys]
    on = [tuple(j for j, v in enumerate(row) if v > 0) for row in y]
    part = [{k for k, s in zip(keys, split, strict=True) if s == p} for p in range(3)]
    return {
        "duplicates": sum(f != i for i, f in enumerate(first)),
        "conflicts": sum(on[f] != on[i] for i, f in enumerate(first)),
        "label_sets": len(set(on)),
        "most": max(map(len, on)),
        "cardinality": pytest.approx(np.mean([len(o) for o in on])),
        "leaks": {
            f"{a} in {b}": sum(k in part[j] for k, s in zip(keys, split, strict=True) if s == i)
            for a, i, b, j in (
                *(("valid", 1, "train", 0), ("test", 2, "train", 0), ("test", 2, "valid", 1)),
            )
        },
    }


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_numbers_by_brute_force(sparse, seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 3, (80, 3)).astype(float)
    if not sparse:
        x[rng.random(x.shape) < 0.1] = NAN
    y = (rng.random((80, 4)) < [0.5, 0.3, 0.08, 0.0]).astype(float)
    split = np.concatenate([[0, 1, 2], rng.integers(0, 3, 77)])
    features = scipy.sparse.csr_matrix(x) if sparse else x
    report = inspect(Dataset.from_arrays(features, y, split=split, names=["a", "b", "c", "d"]), 5)
    for name, value in brute(x, y, split).items():
        assert getattr(report, name) == value, name
    assert report.sparse == sparse
    assert report.missing_values == np.isnan(x).sum()
    assert report.zeros == pytest.approx((x == 0).mean())
    assert report.empty_rows == (x == 0).all(1).sum()
    assert report.density == pytest.approx(y.mean())
    assert report.dead == np.array(["a", "b", "c", "d"])[y.sum(0) == 0].tolist()
    for number, part in enumerate(("train", "valid", "test")):
        mine = y[split == number]
        found = report.parts[part]
        names = np.array(["a", "b", "c", "d"])
        assert found.rows == len(mine)
        assert found.without_labels == (mine.sum(1) == 0).sum()
        assert found.dead == names[mine.sum(0) == 0].tolist()
        assert found.rare == names[(mine.sum(0) > 0) & (mine.sum(0) < 5)].tolist()
    unseen = (y[split == 0].sum(0) == 0) & (y[split != 0].sum(0) > 0)
    assert report.unseen == np.array(["a", "b", "c", "d"])[unseen].tolist()


def test_texts_and_pictures_are_compared_too():
    y = np.eye(3)
    texts = Dataset.from_arrays(None, y, texts=["a", "b", "a"], split=[0, 0, 2])
    assert inspect(texts).leaks == {"test in train": 1}
    pictures = np.zeros((3, 2, 2), dtype=np.uint8)
    assert inspect(Dataset.from_arrays(None, y, images=pictures)).duplicates == 2
    both = Dataset.from_arrays(None, y, images=pictures, texts=["a", "b", "a"])
    assert inspect(both).duplicates == 1
    assert inspect(Dataset.from_arrays(None, y)).duplicates is None


def test_zeros_and_missing_values_of_either_sign_are_the_same():
    x = np.array([[0.0, NAN], [-0.0, -NAN]])
    assert inspect(Dataset.from_arrays(x, np.eye(2))).duplicates == 1


def test_unknown_and_soft_labels():
    report = inspect(Dataset.from_arrays(None, [[1, NAN, 0.5], [NAN, 0, 0]]))
    assert (report.unknown, report.soft, report.cardinality) == (2, 1, 1.0)
    assert "unknown         2 entries (33.3%)" in str(report)


def test_the_text():
    x = np.zeros((1200, 2))
    y = np.zeros((1200, 12))
    y[:, 0] = 1
    y[1199, 11] = 1
    names = [f"label {i}" for i in range(12)]
    split = [0] * 1100 + [2] * 100
    text = str(inspect(Dataset.from_arrays(x, y, names=names, split=split)))
    assert "rows            1,200" in text
    assert "features        2 dense, 100.0% zeros" in text
    assert "duplicated rows 1,199, 1 with other labels" in text
    assert "! test in train: 100 rows (100.0%) have the same input" in text
    assert "! never positive in train, but later: label 11" in text
    assert "label 8 and 2 more" in text
    assert all(len(line) < 120 for line in text.splitlines())


def test_json():
    report = inspect(Dataset.from_arrays(np.eye(3), np.eye(3), split=[0, 1, 2]))
    again = json.loads(json.dumps(report.as_json()))
    assert again["parts"]["train"]["rows"] == 1
    assert again["leaks"] == {"test in train": 0, "test in valid": 0, "valid in train": 0}


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (1, 1)])
def test_hardly_any_data(shape):
    x = np.zeros((shape[0], 0))
    report = inspect(Dataset.from_arrays(x, np.zeros(shape)))
    assert (report.rows, report.labels) == shape
    assert report.cardinality == 0
    assert str(report)
    json.dumps(report.as_json(), allow_nan=False)
