"""Encoders see rows on disk as they see rows in memory."""

import json

import numpy as np
import pytest
import torch
from torch import nn

from labelset.data import Dataset, SparseRows, StoredRows, StoredSparse, load
from labelset.data.store import blocks, spooled
from labelset.encode import as_encoder, build, encoded
from labelset.encode.tfidf import directions
from labelset.train import Settings, train

RNG = np.random.default_rng(0)
WORDS = [f"word{i}" for i in range(60)]


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "x.jsonl"
    with path.open("w") as file:
        for row in range(3000):
            topic = row % 3
            words = RNG.choice(WORDS[20 * topic : 20 * topic + 25] + WORDS[:5], size=100)
            parts = ("train", "train", "test")[row % 7 % 3]
            item = {"text": " ".join(words), "labels": [topic], "split": parts}
            file.write(json.dumps(item) + "\n")
    return load(path), load(path, memory=0)


def on_disk(tensor):
    return spooled(blocks(tensor, 500), 0)


def test_words_are_counted_alike(texts):
    here, there = (build("tfidf").fit(data) for data in texts)
    assert here.terms("words") == there.terms("words")
    assert here.terms("characters") == there.terms("characters")
    x, y = here(texts[0]), there(texts[1])
    assert isinstance(y, StoredSparse)
    assert torch.equal(x.dense(), y[:].dense())


def test_directions_by_passes_are_those_of_a_full_decomposition():
    dense = torch.randn(400, 30, generator=torch.Generator().manual_seed(1)) * torch.arange(
        30, 0, -1
    )
    dense = dense * (dense.abs() > 8)
    rows, columns = dense.nonzero(as_tuple=True)
    starts = torch.cat([torch.zeros(1, dtype=torch.long), (dense != 0).sum(1).cumsum(0)])
    held = SparseRows.from_csr(starts, columns, 30, dense[rows, columns])
    v = torch.linalg.svd(dense.double())[2][:4].T.float()
    for x in (held, spooled(blocks(held, 500), 0)):
        got = directions(x, 4, seed=0)
        assert torch.allclose((got * v).sum(0).abs(), torch.ones(4), atol=1e-3)
    with pytest.raises(ValueError, match="at most 30"):
        directions(spooled([held], 0), 31, seed=0)


def test_reduced_texts_are_alike(texts):
    here, there = (build("tfidf", svd=2).fit(data)(data) for data in texts)
    assert isinstance(there, StoredRows)
    assert torch.allclose(here, there[:], atol=1e-2)


def test_features_are_scaled_alike():
    x = torch.randn(3000, 7, generator=torch.Generator().manual_seed(0)) * 5 + 2
    x[::9, 3] = torch.nan
    y = torch.zeros(3000, 1)
    here = Dataset.from_arrays(x, y)
    there = Dataset(labels=here.labels, names=here.names, features=on_disk(x))
    made = [build("features").fit(data) for data in (here, there)]
    assert all(torch.equal(made[0].learnt[k], made[1].learnt[k]) for k in ("mean", "deviation"))
    assert torch.equal(made[0](here), made[1](there)[:])


@pytest.mark.parametrize("coder", ["conv", nn.Sequential(nn.Flatten(), nn.LazyLinear(5))])
def test_pictures_stay_where_they_are(coder):
    pictures = torch.randint(0, 255, (300, 1, 10, 10), dtype=torch.uint8)
    if isinstance(coder, nn.Module):
        coder(pictures[:2].float())
    here = Dataset.from_arrays(None, torch.arange(300)[:, None] % 2, images=pictures)
    there = Dataset(labels=here.labels, names=here.names, images=on_disk(pictures))
    made = as_encoder(coder, here).fit(here)
    assert made.prepared(there) is there.images
    assert torch.allclose(made(here), made(there), atol=1e-6)
    if coder == "conv":
        same = build("conv").fit(there).module
        assert torch.allclose(made.module.mean, same.mean)
        assert torch.allclose(made.module.deviation, same.deviation)


@pytest.mark.parametrize("svd", [0, 5])
def test_what_is_cached_may_be_large(texts, tmp_path, monkeypatch, svd):
    coder = build("tfidf", svd=svd)
    _, first = encoded(coder, texts[1], tmp_path)
    (file,) = tmp_path.iterdir()
    monkeypatch.setattr("labelset.encode._cache.MEMORY", 0)
    _, again = encoded(coder, texts[1], tmp_path)
    assert isinstance(again, (StoredRows, StoredSparse))
    monkeypatch.undo()
    _, small = encoded(coder, texts[0], tmp_path)  # the same rows, so the same file
    assert list(tmp_path.iterdir()) == [file]
    for held in (again[:], small):
        x, y = (t.dense() if isinstance(t, SparseRows) else t for t in (first[:], held))
        assert torch.equal(x, y)


def test_training_on_pictures_on_disk_gives_the_same_model():
    pictures = torch.randint(0, 255, (200, 1, 8, 8), dtype=torch.uint8)
    on = (pictures.float().mean((1, 2, 3)) > 127)[:, None]
    split = torch.arange(200, dtype=torch.int8) % 3
    here = Dataset.from_arrays(None, on, images=pictures, split=split)
    there = Dataset(labels=here.labels, names=here.names, images=on_disk(pictures), split=split)
    settings = Settings(epochs=2)
    a, b = (train(data, settings).scores["test"] for data in (here, there))
    assert torch.allclose(a, b, atol=1e-5)
