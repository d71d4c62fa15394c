"""Texts without embeddings: their features are made once, by training rows; runs add up."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from labelset import encode
from labelset.data import load
from labelset.study import Budget, read_results, read_tables, study, write_page
from labelset.study import _special as special
from labelset.study import _texts as texts
from labelset.study._about import runs_of, told, write_about
from labelset.study._cell import final_cells
from labelset.study._data import available, only_texts, open_named
from labelset.study._special import expressible
from labelset.study._work import Workshop

TABLE = """
claim = 1
title = "t"
source = "s"
note = "Words are all there is."
metrics = ["raw map@class"]
epochs = { short = 10, long = 10 }
data = { short = ["told"] }

[[candidates]]
name = "bce"

[[candidates]]
name = "asl"
"""
OLD = {"budget": "long", "seconds": 24.3, "cells": 7, "jobs": 16, "device": "a GPU"} | {
    "machine": "m", "python": "3", "torch": "2", "labelset": "0"
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    words = [["red", "apple", "tree"], ["blue", "fish", "sea"], ["old", "stone", "house"]]
    lines = [json.dumps({"header": True, "label_names": ["a", "b", "c"]})]
    for i in range(90):
        on = sorted({int(random.integers(3)), int(random.integers(3))})
        text = " ".join(random.choice(words[label]) for label in on for _ in range(4))
        row = {"id": i, "split": int(i >= 50) + int(i >= 65), "labels": on, "text": text}
        lines.append(json.dumps(row))
    with gzip.open(tmp_path / "told.jsonl.gz", "wt") as file:
        file.write("\n".join(lines))
    (tmp_path / "table.toml").write_text(TABLE)
    return tmp_path


def test_texts_alone_are_a_data_set(folder):
    assert available(["told", "absent"], folder) == (["told"], ["absent"])
    assert only_texts("told", folder)
    np.savez(folder / "told.npz", X=np.ones((2, 1)), Y=np.ones((2, 1)))
    assert not only_texts("told", folder)
    assert not only_texts("absent", folder)
    assert not only_texts("yeast", None)


def test_features_are_those_of_the_encoder_by_training_rows(folder):
    found = open_named("told", folder)
    given = load(str(folder / "told.jsonl.gz"))
    own = encode.build("tfidf", svd=found.features.shape[1]).fit(given.part("train"))(given)
    train = found.features[given.split == 0].double()
    scaled = (found.features.double() - train.mean(0)) / train.std(0, correction=0)
    varied = train.std(0) > 1e-3
    close = torch.isclose(scaled[:, varied], own.double()[:, varied], atol=0.02)
    assert varied.sum() > 3
    assert close.all()


def test_features_are_computed_once_and_the_same_afterwards(folder, monkeypatch):
    first = open_named("told", folder, folder / "kept")
    monkeypatch.setattr(texts, "_features", lambda dataset: pytest.fail("computed again"))
    again = open_named("told", folder, folder / "kept")
    assert torch.equal(first.features, again.features)
    assert again.texts is None
    assert [path.name for path in (folder / "kept").iterdir()] == ["told.npy"]


def test_processes_take_what_was_made_before_them(folder):
    tables = read_tables([folder / "table.toml"])
    one = study(tables, folder / "one", folder, Budget("short"))
    kept = folder / "two" / texts.FEATURES / "told.npy"
    Workshop(folder, kept=kept.parent).prepare(final_cells(tables[0], ["told"], Budget(), {}))
    made = np.load(kept)
    np.save(kept, np.random.default_rng(0).permuted(made, axis=0))  # so that it shows who reads it
    two = study(tables, folder / "two", folder, Budget("short"), jobs=2)
    key = next(iter(one.values))
    assert np.mean(two.values[key]) < np.mean(one.values[key])


def test_no_features_at_all(folder):
    np.savez(folder / "bare.npz", Y=np.ones((4, 2), dtype="uint8"))
    with pytest.raises(ValueError, match=r"bare"):
        open_named("bare", folder)


def test_runs_add_up_and_one_that_did_nothing_is_none(folder):
    path = folder / "about.json"
    path.write_text(json.dumps(OLD))
    assert "7 trainings, in 24 seconds, 16 at a time, on a GPU (m, " in told(OLD)
    write_about(path, Budget("long"), 2, "cpu", 99.0, did=0, left=5)
    about = json.loads(path.read_text())
    assert (about["seconds"], about["cells"], about["left"]) == (24.3, 7, 5)
    assert [run["device"] for run in runs_of(about)] == ["a GPU"]
    write_about(path, Budget("long"), 2, "cpu", 1.2, did=3, left=2)
    about = json.loads(path.read_text())
    assert (about["seconds"], about["cells"], len(runs_of(about))) == (25.5, 10, 2)
    assert "10 trainings, 2 more being left" in told(about)
    assert "2 runs" in told(about)
    assert "on a GPU" in told(about)
    assert "on cpu" in told(about)
    same = {**about, "runs": [runs_of(about)[0]] * 2}
    assert told(same).count("on a GPU") == 1


def test_the_page_has_the_note_and_reads_old_files(folder):
    tables = read_tables([folder / "table.toml"])
    study(tables, folder / "run", folder, Budget("short"))
    (folder / "run" / "about.json").write_text(json.dumps(OLD))
    write_page(read_results(folder / "run", tables), folder / "page.md")
    text = (folder / "page.md").read_text()
    assert "Words are all there is." in text
    assert "in 24 seconds" in text


def test_verification_of_many_rows_takes_some_of_them(monkeypatch):
    from labelset.heads.linear import Linear
    from labelset.labels import Labels

    head = Linear(features=4, labels=12, rank=1, bias=False)
    y = Labels.from_dense(torch.rand(40, 12, generator=torch.Generator().manual_seed(0)) < 0.3)
    seen = []
    verify = special.verify

    def counting(model, labels, **more):
        seen.append(len(labels))
        return verify(model, labels, **more)

    monkeypatch.setattr(special, "verify", counting)
    expressible(head, y, "cpu", seconds=5.0)
    monkeypatch.setattr(special, "PRODUCTS", 12 * 10.0)
    said = expressible(head, y, "cpu", seconds=5.0)
    assert seen == [40, 10]
    assert said["expressible"] + said["unsayable"] == pytest.approx(1.0)
