"""Labels: construction, checks, views, memory."""

import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st

from labelset import Labels, csr

NAN = float("nan")


def same(a, b):
    torch.testing.assert_close(a, b, equal_nan=True)


@st.composite
def matrices(draw):
    rows, n = draw(st.integers(0, 6)), draw(st.integers(0, 5))
    kinds = draw(st.sampled_from([(0.0, 1.0), (0.0, 1.0, NAN), (0.0, 0.25, 1.0, NAN)]))
    size = rows * n
    values = draw(st.lists(st.sampled_from(kinds), min_size=size, max_size=size))
    return torch.tensor(values).reshape(rows, n)


@given(matrices())
def test_dense_round_trip(y):
    labels = Labels.from_dense(y)
    same(labels.dense(), y)
    same(labels.T.dense(), y.T)
    same(labels.T.T.dense(), y)
    assert labels.shape == y.shape
    assert labels.counts().tolist() == (y > 0).sum(1).tolist()
    known = labels.known()
    same(~y.isnan() if known is None else known, ~y.isnan())
    assert (known is None) == (not bool(y.isnan().any()))
    assert labels == pickle.loads(pickle.dumps(labels))


@given(matrices(), st.data())
def test_rows_can_be_chosen_in_every_way(y, data):
    labels, rows = Labels.from_dense(y), len(y)
    index = data.draw(st.lists(st.integers(-rows, rows - 1), max_size=8)) if rows else []
    same(labels[index].dense(), y[torch.tensor(index, dtype=torch.long)])
    same(labels[torch.tensor(index, dtype=torch.long)].dense(), y[index])
    same(labels[1:4].dense(), y[1:4])
    same(labels[::2].dense(), y[::2])
    mask = torch.arange(rows) % 2 == 0
    same(labels[mask].dense(), y[mask])
    same(labels[mask.numpy()].dense(), y[mask])
    if rows:
        same(labels[-1].dense(), y[-1:])
    assert len(labels[index]) == len(index)


@given(matrices(), st.integers(1, 4))
def test_stacking_puts_rows_back(y, size):
    labels = Labels.from_dense(y)
    parts = [labels[i : i + size] for i in range(0, len(y), size)] or [labels]
    assert Labels.stack(parts) == labels


@given(matrices())
def test_scipy_and_csr(y):
    on, unknown = torch.nan_to_num(y).numpy(), y.isnan().numpy()
    matrix, mask = scipy.sparse.coo_matrix(on), scipy.sparse.csr_matrix(unknown)
    assert Labels.from_scipy(matrix, unknown=mask) == Labels.from_dense(y)
    csr = matrix.tocsr()
    made = Labels.from_csr(
        csr.indptr, csr.indices, y.shape[1], csr.data, unknown=(mask.indptr, mask.indices)
    )
    assert made == Labels.from_dense(y)


def test_index_lists():
    labels = Labels.from_lists([[2, 0], [], np.array([1])], n=3, unknown=[[], [1], [0, 2]])
    want = torch.tensor([[1, 0, 1], [0, NAN, 0], [NAN, 1, NAN]])
    same(labels.dense(), want)
    assert labels.indices.tolist() == [0, 2, 1, 0, 1, 2]
    assert repr(labels) == "Labels(3 rows, 3 labels, 3 on, 3 unknown)"


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int64, np.float16, np.float64])
def test_arrays_of_every_kind(dtype):
    y = np.array([[1, 0], [0, 1]], dtype=dtype)
    y.flags.writeable = False
    assert Labels.from_dense(y) == Labels.from_lists([[0], [1]], n=2)
    assert Labels.from_dense(y[::-1]) == Labels.from_lists([[1], [0]], n=2)


def test_a_stated_number_is_unknown():
    y = torch.tensor([[1, -1, 0]])
    same(Labels.from_dense(y, unknown=-1).dense(), torch.tensor([[1, NAN, 0]]))
    same(Labels.from_dense(y.float(), unknown=-1).dense(), torch.tensor([[1, NAN, 0]]))
    bytes_ = torch.tensor([[1, 0, 255]], dtype=torch.uint8)
    with pytest.raises(ValueError, match="got 255"):
        Labels.from_dense(bytes_, unknown=-1)
    same(Labels.from_dense(bytes_[:, :2], unknown=257).dense(), torch.tensor([[1.0, 0.0]]))
    same(Labels.from_dense(torch.tensor([[1, 9]]), unknown=9).dense(), torch.tensor([[1, NAN]]))


def test_labels_are_taken_as_they_are():
    labels = Labels.from_lists([[0]], n=2)
    assert Labels.from_dense(labels) is labels


def test_small_things():
    assert len(Labels.from_dense(torch.tensor([[1e-50]], dtype=torch.float64)).indices) == 0
    assert Labels.from_lists([torch.tensor([1])], n=np.int64(3)) == Labels.from_lists([[1]], n=3)
    stored_zero = scipy.sparse.csr_matrix(([0.0], ([0], [1])), shape=(1, 2))
    assert Labels.from_scipy(scipy.sparse.eye(1, 2), unknown=stored_zero).known() is None
    known = Labels.from_dense([[NAN], [1.0]])[1:]
    assert known.dense(torch.bool).tolist() == [[True]]
    assert len(known[np.array(0)]) == 1


def test_dense_dtypes():
    labels = Labels.from_lists([[0]], n=2)
    assert labels.dense(torch.bool).tolist() == [[True, False]]
    assert labels.dense(torch.float64).dtype == torch.float64
    with pytest.raises(TypeError, match="cannot hold soft or unknown"):
        Labels.from_dense([[NAN]]).dense(torch.int64)


BAD = {
    "got -1 at row 1, label 0": lambda: Labels.from_dense([[1, 0], [-1, 0]]),
    "got 2 at row 0, label 1": lambda: Labels.from_dense([[1, 2]]),
    "got 1.5 at row 0, label 0": lambda: Labels.from_dense(torch.tensor([[1.5]])),
    "got inf at row 0, label 0": lambda: Labels.from_dense(torch.tensor([[float("inf")]])),
    "must be 2-D": lambda: Labels.from_dense([1, 0]),
    "a tensor, an array or Labels": lambda: Labels.from_dense([["on"]]),
    "complex64": lambda: Labels.from_dense(torch.zeros(1, 1, dtype=torch.complex64)),
    "meta device": lambda: Labels.from_dense(torch.zeros(1, 1, device="meta")),
    "unknown must be a whole number": lambda: Labels.from_dense([[1]], unknown=0.5),
    "lie in 0..2 .n=3., got 3 in row 1": lambda: Labels.from_lists([[0], [3]], n=3),
    "got -1 in row 0": lambda: Labels.from_lists([[-1]], n=3),
    "label 1 appears twice in row 0": lambda: Labels.from_lists([[1, 0, 1]], n=3),
    "label 0 appears twice": lambda: Labels.from_lists([[0]], n=3, unknown=[[0]]),
    "got float 1.0": lambda: Labels.from_lists([[1.0]], n=3),
    "got bool True": lambda: Labels.from_lists([[True]], n=3),
    "as many rows": lambda: Labels.from_lists([[0]], n=3, unknown=[[], []]),
    "must run from 0 to 2": lambda: Labels.from_csr([0, 1], [0, 1], n=3),
    "must never fall": lambda: Labels.from_csr([0, 2, 1, 2], [0, 1], n=3),
    "must run from 0 to 0": lambda: Labels.from_csr([], [], n=3),
    "1-D whole numbers": lambda: Labels.from_csr([0.0, 1.0], [0], n=3),
    "one per index, 1": lambda: Labels.from_csr([0, 1], [0], n=3, values=[0.5, 0.5]),
    "n must be a whole number": lambda: Labels.from_csr([0], [], n=2.5),
    "n must be at least 0": lambda: Labels.from_csr([0], [], n=-1),
    "unknown must have shape": lambda: Labels.from_scipy(scipy.sparse.eye(2), scipy.sparse.eye(3)),
    "n must be below 2": lambda: Labels.from_lists([[0]], n=2**31),
    "got 1.5 at row 1, label 1": lambda: Labels.from_csr([0, 1, 2], [2, 1], 3, values=[1, 1.5]),
    "must be a scipy sparse matrix, got ndarray": lambda: Labels.from_scipy(np.eye(2)),
    "goes through Labels.from_scipy": lambda: Labels.from_dense(scipy.sparse.eye(2)),
    "must be dense, got layout": lambda: Labels.from_dense(torch.eye(2).to_sparse()),
    "one list of label numbers per row": lambda: Labels.from_lists([0, 1], n=3),
    "got None": lambda: Labels.from_lists([[0]], n=2)[None],
    "got True": lambda: Labels.from_lists([[0]], n=2)[True],
    "got .slice": lambda: Labels.from_lists([[0]], n=2)[0:1, 1],
    "one or more Labels": lambda: Labels.stack([]),
    "equal n, got .2, 3.": lambda: Labels.stack(
        [Labels.from_lists([[0]], n=2), Labels.from_lists([[0]], n=3)]
    ),
    "cannot choose rows": lambda: Labels.from_lists([[0]], n=2)[5],
    "by whole numbers or a bool mask": lambda: Labels.from_lists([[0]], n=2)[torch.ones(1)],
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_refused_with_its_reason(message):
    with pytest.raises((ValueError, TypeError, IndexError), match=message):
        BAD[message]()


def test_memory_follows_what_is_stored():
    """100,000 rows by 1,000,000 labels with 5 on each: a few megabytes, not 400 GB."""
    rows = 100_000
    indices = (np.arange(rows * 5) * 37) % 200_000 + np.tile(np.arange(5) * 200_000, rows)
    labels = Labels.from_csr(np.arange(rows + 1) * 5, indices, n=1_000_000)
    assert labels.nbytes < 4e6
    assert labels[:1000].nbytes < 1e5
    assert labels.T.shape == (1_000_000, 100_000)
    assert int(labels.T.counts().sum()) == 500_000
    tracemalloc.start()
    _ = labels[torch.randperm(rows)]
    assert tracemalloc.get_traced_memory()[1] < 1e7
    tracemalloc.stop()


def test_moving_and_batching():
    labels = Labels.from_dense([[1, NAN, 0], [0, 0.5, 1]])
    assert labels.to("cpu") == labels
    assert labels.to("meta").device.type == "meta"
    loader = torch.utils.data.DataLoader(range(2), batch_size=2, collate_fn=lambda i: labels[i])
    assert next(iter(loader)) == labels


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_rows_chosen_by_tensors_of_numbers(dtype):
    y = Labels.from_lists([[0], [1, 2], [], [0, 2]], n=3)
    rows = torch.tensor([3, -3, 3, -4], dtype=dtype)
    expected = torch.tensor([[1, 0, 1], [0, 1, 1], [1, 0, 1], [1, 0, 0]])
    assert torch.equal(y[rows].dense(torch.int64), expected)
    assert len(y[rows[:0]]) == 0
    for wrong in (4, -5):
        with pytest.raises(IndexError, match="among 4"):
            y[torch.tensor([0, wrong], dtype=dtype)]


def test_chosen_row_numbers_are_not_the_callers_memory():
    mine = torch.tensor([2, 0, 1])
    chosen = csr.row_numbers(mine, 3)
    mine[:] = 0
    assert chosen.tolist() == [2, 0, 1]


def test_of_takes_labels_as_they_are():
    labels = Labels.from_lists([[0], [1]], n=2)
    assert Labels.of(labels) is labels
    assert Labels.of([[1, 0], [0, 1]]) == labels
