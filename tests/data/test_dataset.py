"""Dataset and SparseRows: against scipy and plain indexing."""

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
import scipy.sparse
import torch

from labelset import Labels
from labelset.data import Dataset, SparseRows

RNG = np.random.default_rng(0)
INDICES = [3, -1, slice(1, 7, 2), [], [4, 4, 0], torch.tensor([5, 2]), np.arange(9) % 2 == 0]


def full():
    """A data set with everything in it."""
    return Dataset.from_arrays(
        RNG.normal(size=(9, 4)),
        RNG.random((9, 3)) > 0.5,
        names=["a", "b", "ü"],
        texts=[f"text {i}" for i in range(9)],
        images=RNG.integers(0, 256, (9, 5, 6), dtype=np.uint8),
        split=[0, 0, 1, 2, 0, 1, 2, 2, 0],
        ids=range(9),
        card={"source": "here"},
    )


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_rows_of_everything_are_chosen_alike(index):
    data = full()
    plain = np.atleast_1d(
        np.arange(9)[index if not isinstance(index, list) else np.array(index, int)]
    )
    some = data.rows(index)
    assert len(some) == len(plain)
    assert torch.equal(some.features, data.features[plain])
    assert torch.equal(some.images, data.images[plain])
    assert torch.equal(some.labels.dense(), data.labels.dense()[plain])
    assert some.texts == [data.texts[i] for i in plain]
    assert some.ids == [str(i) for i in plain]
    assert torch.equal(some.split, data.split[plain])
    assert some.names == data.names


@pytest.mark.parametrize("index", [1.5, [0.5], True, None, [[1]], torch.eye(2)], ids=str)
def test_rows_are_not_chosen_by_anything_else(index):
    with pytest.raises(TypeError, match="rows must be chosen by"):
        full().rows(index)


def test_rows_that_are_not_there():
    with pytest.raises(IndexError, match="rows among 9"):
        full().rows([9])
    with pytest.raises(IndexError, match="rows among 9"):
        full().rows([True, False])


def test_parts():
    data = full()
    assert data.sizes() == (4, 2, 3)
    assert data.part("valid").ids == ["2", "5"]
    with pytest.raises(ValueError, match="part must be one of 'train', 'valid', 'test', got 'dev'"):
        data.part("dev")
    with pytest.raises(ValueError, match="has no split; make one"):
        replace(data, split=None).part("train")


def test_a_dataset_is_frozen_and_says_what_it_is():
    data = full()
    with pytest.raises(FrozenInstanceError):
        data.names = []
    text = repr(data)
    for what in ("9 rows", "4 features", "texts", "images 1 x 5 x 6", "3 labels", "4 / 2 / 3"):
        assert what in text


BAD = {
    "rows of texts": {"texts": ["one"]},
    "rows of split": {"split": [0]},
    "has 2 names for 3": {"names": ["a", "b"]},
    "'a' appears twice, at 0 and 2": {"names": ["a", "b", "a"]},
    "row 1: split must be": {"split": [0, 3, 0]},
    "features must be 2-D": {"features": np.zeros(3)},
    "got inf at row 1, feature 0": {"features": [[0.0], [np.inf], [0.0]]},
    "got 1e\\+300 at row 0": {"features": [[1e300], [0.0], [0.0]]},
    "must be numbers, got object": {"features": np.array([[None], [1], [2]], dtype=object)},
    "images must be": {"images": np.zeros((3, 2))},
    "finite, got NaN": {"images": np.full((3, 2, 2), np.nan)},
}


@pytest.mark.parametrize("message", BAD)
def test_what_does_not_fit_is_refused(message):
    with pytest.raises(ValueError, match=message):
        Dataset.from_arrays(**({"labels": np.eye(3)} | BAD[message]))


def test_labels_are_needed():
    with pytest.raises(TypeError, match="needs labels"):
        Dataset.from_arrays(np.eye(2))


def test_one_row_no_rows_no_labels():
    assert len(Dataset.from_arrays(np.zeros((1, 2)), np.ones((1, 1))).rows([0])) == 1
    assert Dataset.from_arrays(np.zeros((0, 2)), np.ones((0, 3))).n == 3
    assert Dataset.from_arrays(np.zeros((2, 2)), np.ones((2, 0))).names == []


def test_channels_come_first():
    assert Dataset.from_arrays(None, np.eye(2), images=np.zeros((2, 8, 9, 3))).images.shape == (
        *(2, 3, 8, 9),
    )


# ---- fingerprint ---------------------------------------------------------------------------------


def test_fingerprints_are_stable_and_notice_every_change():
    data = full()
    same = full_again(data)
    assert same.fingerprint() == data.fingerprint()
    changed = [
        replace(data, features=data.features + 1e-6),
        replace(data, texts=["text", *data.texts[1:]]),
        replace(data, texts=None),
        replace(data, images=data.images.float()),
        replace(data, names=["a", "b", "c"]),
        replace(data, split=data.split.flip(0)),
        replace(data, labels=Labels.from_dense(1 - data.labels.dense())),
        replace(data, ids=[*data.ids[1:], data.ids[0]]),
        data.rows([1, 0, *range(2, 9)]),
    ]
    prints = {d.fingerprint() for d in (data, *changed)}
    assert len(prints) == 1 + len(changed)


def full_again(data):
    """The same data by another way: other memory, another card."""
    return replace(
        data,
        features=torch.tensor(data.features.tolist()),
        texts=list(data.texts),
        images=data.images.flip(0).flip(0),
        card={"source": "elsewhere"},
    )


def test_the_fingerprint_of_a_known_dataset_never_changes():
    data = Dataset.from_arrays(
        [[0.5, -0.0], [float("nan"), 2.0]], [[1, 0], [0, 1]], names=["a", "b"]
    )
    assert data.fingerprint() == KNOWN


KNOWN = "ed8c82af5b6db891aba3c5918ea2d2209cb10b27d7ab06b6c053e8026866afce"


def test_words_cannot_run_into_each_other():
    one = Dataset.from_arrays(None, np.eye(2), texts=["ab", "c"])
    two = Dataset.from_arrays(None, np.eye(2), texts=["a", "bc"])
    assert one.fingerprint() != two.fingerprint()


# ---- sparse features -----------------------------------------------------------------------------


def matrix(rows=20, width=30, seed=0):
    return scipy.sparse.random(rows, width, density=0.2, format="csr", random_state=seed)


@pytest.mark.parametrize("index", [2, slice(3, 9), [5, 5, 0], np.arange(20) > 12, []], ids=str)
def test_sparse_rows_are_scipys(index):
    ours, theirs = SparseRows.from_scipy(matrix()), matrix()
    chosen = np.atleast_1d(
        np.arange(20)[np.array(index, int) if isinstance(index, list) else index]
    )
    assert np.array_equal(ours[index].dense(), theirs[chosen].toarray().astype(np.float32))


def test_products_and_their_gradients():
    weight = torch.randn(30, 4, dtype=torch.float64, requires_grad=True)
    x = SparseRows.from_scipy(matrix())[[0, 3, 3]]
    (x @ weight).square().sum().backward()
    sparse, weight.grad = weight.grad.clone(), None
    (x.dense().double() @ weight).square().sum().backward()
    assert torch.allclose(sparse, weight.grad)
    assert torch.allclose(x @ weight, x.dense().double() @ weight)


def test_the_product_of_empty_rows():
    weight = torch.ones(30, 4, requires_grad=True)
    x = SparseRows.from_csr([0, 0, 0], np.zeros(0, int), 30)
    out = x @ weight
    out.sum().backward()
    assert torch.equal(out, torch.zeros(2, 4))
    assert torch.equal(weight.grad, torch.zeros(30, 4))
    with pytest.raises(ValueError, match="needs 30 rows"):
        x @ torch.ones(3, 4)


def test_sparse_rows_stay_small_and_plain_ones_store_no_values():
    ones = scipy.sparse.csr_matrix(matrix() > 0)
    x = SparseRows.from_scipy(ones)
    assert x.values is None
    assert x.nbytes < 21 * 8 + 4 * ones.nnz + 1
    data = Dataset.from_arrays(ones, scipy.sparse.csr_matrix(np.eye(20)))
    assert isinstance(data.rows([1, 2]).features, SparseRows)
    assert "30 sparse features" in repr(data)


def test_explicit_zeros_duplicates_and_order_do_not_matter():
    theirs = scipy.sparse.coo_matrix(([1.0, 2.0, 3.0, 0.0], ([0, 0, 1, 1], [2, 2, 0, 1])), (2, 3))
    x = SparseRows.from_scipy(theirs)
    assert np.array_equal(x.dense(), theirs.toarray())
    assert len(x.indices) == 2
    y = SparseRows.from_csr([0, 2], [2, 0], 3, [5.0, 4.0])
    assert y.indices.tolist() == [0, 2]
    assert y.values.tolist() == [4.0, 5.0]


BAD_CSR = {
    "run from 0 to 1": ([0, 2], [0], 3, None),
    "never fall": ([0, 2, 1, 2], [0, 1], 3, None),
    "lie in 0..2": ([0, 1], [3], 3, None),
    "1 values for 2": ([0, 2], [0, 1], 3, [1.0]),
    "got inf at row 0, feature 1": ([0, 1], [1], 3, [np.inf]),
    "feature 1 appears twice in row 0": ([0, 2], [1, 1], 3, None),
    "indices must be 1-D whole": ([0, 1], [0.5], 3, None),
}


@pytest.mark.parametrize("message", BAD_CSR)
def test_bad_sparse_rows(message):
    with pytest.raises((ValueError, TypeError), match=message):
        SparseRows.from_csr(*BAD_CSR[message])
