"""Numbers beside texts: one encoder for a table with both."""

import csv
import json

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import StandardScaler

from labelset import encode
from labelset.cli import main
from labelset.data import Dataset, SparseRows, StoredSparse, load
from labelset.model import SavedModel

RNG = np.random.default_rng(0)
TOPICS = ["apple pear plum", "fork knife spoon", "chair table sofa"]


def rows_of_a_table(count=120):
    """Texts tell the topic, the first number what is cheap."""
    for row in range(count):
        words = RNG.choice(TOPICS[row % 3].split(), size=5)
        price = RNG.uniform(0, 10)
        yield " ".join(words), price, RNG.normal(), row % 3, price < 5


def table(count=120, sparse=False):
    texts, *numbers, topics, cheap = zip(*rows_of_a_table(count), strict=True)
    x = np.float32(numbers).T
    if sparse:
        rows, columns = np.nonzero(x)
        x = SparseRows.from_csr(np.arange(count + 1) * 2, columns, 2, x[rows, columns])
    y = np.column_stack([np.eye(3)[list(topics)], cheap])
    return Dataset.from_arrays(x, y, texts=list(texts), split=np.arange(count) % 3)


def dense(x):
    return x.dense() if isinstance(x, SparseRows) else x


def test_a_table_with_texts_and_numbers_uses_both():
    data = table()
    coder, x = encode.encoded(encode.as_encoder(None, data), data)
    assert coder.name == "table"
    assert coder.reads == ("features", "texts")
    assert isinstance(x, SparseRows)
    train = data.split == 0
    kinds = [((1, 2), "word"), ((2, 5), "char_wb")]  # fewer than 50 training rows
    seen = [data.texts[row] for row in train.nonzero().flatten().tolist()]
    parts = [
        TfidfVectorizer(ngram_range=n, analyzer=kind, sublinear_tf=True).fit(seen)
        for n, kind in kinds
    ]
    want = np.column_stack([part.transform(data.texts).toarray() for part in parts])
    np.testing.assert_allclose(x.dense()[:, :-2], want, atol=1e-6)
    z = StandardScaler().fit(data.features[train]).transform(data.features)
    np.testing.assert_allclose(x.dense()[:, -2:], z / np.sqrt(2), atol=1e-5)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("svd", [0, 4])
def test_numbers_weigh_as_much_as_words(sparse, svd):
    data = table(sparse=sparse)
    coder = encode.build("table", characters=0, svd=svd).fit(data.part("train"))
    x = dense(coder(data.part("train")))
    squares = x.double().square().mean(0)
    assert isinstance(coder(data), torch.Tensor if svd else SparseRows)
    assert float(squares[-2:].sum()) == pytest.approx(svd or 1, rel=1e-4)
    assert float(squares[:-2].sum()) == pytest.approx(svd or 1, rel=1e-4)


def test_numbers_that_never_change_or_are_missing_stay_finite():
    x = [[1.0, torch.nan], [1.0, torch.nan], [1.0, torch.nan]]
    data = Dataset.from_arrays(x, [[1]] * 3, texts=["red", "blue", ""])
    got = encode.build("table").fit(data)(data).dense()
    assert got.isfinite().all()
    assert not got[:, -2:].any()


@pytest.mark.parametrize("lacks", ["features", "texts"])
def test_what_is_lacking_is_named(lacks):
    data = table()
    held = {"features": data.features, "texts": data.texts} | {lacks: None}
    part = Dataset.from_arrays(held["features"], data.labels, texts=held["texts"])
    with pytest.raises(ValueError, match=f"has no {lacks}|needs {lacks}"):
        encode.build("table").fit(part)
    with pytest.raises(ValueError, match=f"has no {lacks}|needs {lacks}"):
        encode.build("table").fit(data)(part)


def saved(coder):
    return json.loads(json.dumps(coder.as_json())), {k: t.clone() for k, t in coder.state().items()}


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("svd", [0, 4])
def test_what_is_saved_gives_the_same_features(sparse, svd, tmp_path):
    data = table(sparse=sparse)
    coder, x = encode.encoded(encode.build("table", svd=svd), data, tmp_path)
    twin = encode.from_json(*saved(coder))
    assert torch.equal(dense(twin(data)), dense(x))
    kept, again = encode.encoded(encode.build("table", svd=svd), data, tmp_path)
    assert torch.equal(dense(again), dense(x))
    assert torch.equal(dense(kept(data)), dense(x))
    assert len([*tmp_path.iterdir()]) == 1


@pytest.mark.parametrize(
    "crafted",
    [
        lambda facts, state: state.pop("scale"),
        lambda facts, state: state.update(scale=torch.ones(2)),
        lambda facts, state: state.update(scale=torch.tensor([torch.nan])),
        lambda facts, state: state.pop("numbers.mean"),
        lambda facts, state: state.update({"numbers.mean": torch.ones(3)}),
        lambda facts, state: state.update({"numbers.more": torch.ones(3)}),
        lambda facts, state: state.update({"numbers.deviation": torch.ones(2).long()}),
        lambda facts, state: facts.pop("numbers"),
        lambda facts, state: facts["numbers"].update(sparse=True),
        lambda facts, state: state.pop("idf"),
    ],
)
def test_a_crafted_file_is_refused(crafted):
    about, state = saved(encode.build("table").fit(table()))
    crafted(about["facts"], state)
    with pytest.raises(ValueError, match=r"table|features|tfidf"):
        encode.from_json(about, state)


FLAGS = {"label_column": "tags", "text_column": "body", "feature_columns": ["price", "noise"]}


def written(path, count=240):
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["body", "price", "noise", "tags"])
        for text, price, noise, topic, cheap in rows_of_a_table(count):
            tags = ["fruit", "cutlery", "seat"][topic] + "|cheap" * bool(cheap)
            out.writerow([text, f"{price:.3f}", f"{noise:.3f}", tags])
    return path


def test_on_disk_as_in_memory(tmp_path):
    path = written(tmp_path / "x.csv")
    here, there = load(path, **FLAGS), load(path, memory=0, **FLAGS)
    assert there.on_disk
    made = [encode.build("table").fit(data) for data in (here, there)]
    x, y = (coder(data) for coder, data in zip(made, (here, there), strict=True))
    assert isinstance(y, StoredSparse)
    torch.testing.assert_close(y[:].dense(), x.dense())


def test_a_table_is_trained_on_saved_and_predicted(tmp_path):
    path, out = written(tmp_path / "x.csv"), tmp_path / "run"
    data = ["--data", "label_column=tags", "--data", "text_column=body"]
    data += ["--data", "feature_columns=price,noise"]
    settings = ["--loss", "bce", "--epochs", "60", "--lr", "0.05", "--quiet"]
    assert main(["train", str(path), *data, *settings, "--out", str(out)]) == 0
    model = SavedModel.open(out)
    assert model.encoder.name == "table"
    rows = load(path, **FLAGS)
    right = model.predictor.sets(model.score(rows)).dense() == rows.labels.dense()
    assert (right.float().mean(0) > 0.9).all()  # "cheap" by the price, all others by the text
    assert main(["predict", str(out), str(path), "--out", str(tmp_path / "p.jsonl")]) == 0
    lines = (tmp_path / "p.jsonl").read_text().splitlines()
    assert len(lines) == len(rows)
