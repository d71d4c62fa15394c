"""Frames and Arrow tables are read like files."""

import numpy as np
import pyarrow as pa
import pytest
import torch

from labelset.data import load, stream

COLUMNS = {
    "x": [0.5, None, 1.5],
    "n": [1, 2, 3],
    "y": [1, None, 0],
    "z": [True, False, None],
    "body": ["one", "two", "three"],
    "tags": [["a", "b"], [], None],
}
LABELS = torch.tensor([[1.0, 1.0], [torch.nan, 0.0], [0.0, torch.nan]])


def table():
    return pa.table(COLUMNS)


def pandas():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(COLUMNS, index=[7, 8, 9])
    return frame.astype({"y": "Int64", "z": "boolean"})


def polars():
    return pytest.importorskip("polars").DataFrame(COLUMNS)


def reader():
    return table().to_reader(max_chunksize=2)


class HuggingFace:
    """As far as a data set of theirs is read."""

    column_names = list(COLUMNS)

    def with_format(self, kind):
        assert kind == "arrow"
        return self

    def iter(self, batch_size):
        yield table()


FRAMES = [table, pandas, polars, reader, HuggingFace]


@pytest.mark.parametrize("frame", FRAMES)
def test_numbers_texts_and_columns_of_labels(frame):
    flags = {"label_columns": ["y", "z"], "text_column": "body", "feature_columns": ["x", "n"]}
    data = load(frame(), **flags)
    wanted = torch.tensor([[0.5, 1], [torch.nan, 2], [1.5, 3]])
    assert torch.equal(data.features.nan_to_num(9), wanted.nan_to_num(9))
    assert torch.equal(data.labels.dense().nan_to_num(9), LABELS.nan_to_num(9))
    assert data.names == ["y", "z"]
    assert list(data.texts) == ["one", "two", "three"]


@pytest.mark.parametrize("frame", FRAMES)
def test_a_column_of_lists_of_labels(frame):
    data = load(frame(), label_column="tags", text_column="body")
    assert data.names == ["a", "b"]
    assert data.labels.dense()[:2].tolist() == [[1, 1], [0, 0]]
    assert data.labels.dense()[2].isnan().all()


@pytest.mark.parametrize("frame", [table, pandas, polars, HuggingFace])
def test_new_rows_are_read_by_name(frame):
    flags = {"feature_columns": ["n", "x"], "label_columns": ["y"]}
    schema = load(table(), **flags).schema
    (part,) = stream(frame(), schema)
    assert part.features[:, 0].tolist() == [1, 2, 3]


def test_many_batches_and_vectors():
    rows = np.arange(20_000, dtype=np.float32).reshape(10_000, 2)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), 2)
    frame = pa.table({"v": lists, "y": pa.array(np.arange(10_000) % 2)})
    data = load(frame, labels=1)
    assert np.array_equal(data.features.numpy(), rows)


def test_mistakes_name_the_row_and_the_column():
    with pytest.raises(
        ValueError, match=r"Table: row 2: column 'n': a label must be 0 or 1 .* got 2"
    ):
        load(pa.table({"x": [1.0] * 3, "n": [0, 1, 2]}), labels=1)
    with pytest.raises(ValueError, match="Table: column 'body' must hold numbers, got string"):
        load(table().select(["body", "y"]), label_columns=["y"])
    with pytest.raises(ValueError, match="Table: holds no labels"):
        load(table().select(["x"]))
    assert len(load(table().select(["x"]), labelled=False)) == 3
