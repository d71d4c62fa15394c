"""Texts without embeddings: their features are made once, by training rows; runs add up."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from labelset import encode
from labelset.data import load
from labelset_studies import Budget, read_results, read_tables, study, write_page
from labelset_studies import _special as special
from labelset_studies import _texts as texts
from labelset_studies._about import runs_of, tell_files, told, write_about
from labelset_studies._cell import final_cells
from labelset_studies._data import available, only_texts, open_named
from labelset_studies._special import expressible
from labelset_studies._work import Workshop

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
    monkeypatch.setattr(texts, "_features", lambda *given: pytest.fail("computed again"))
    again = open_named("told", folder, folder / "kept")
    assert torch.equal(first.features, again.features)
    assert again.texts is None
    (path,) = (folder / "kept").iterdir()
    assert path.match("told-*.npy")
    assert np.array_equal(np.load(path), first.features.half().numpy())


def rewritten(folder, change):
    """The texts changed, row by row."""
    path = folder / "told.jsonl.gz"
    head, *rows = gzip.decompress(path.read_bytes()).decode().splitlines()
    changed = [json.dumps(change(json.loads(row))) for row in rows]
    path.write_bytes(gzip.compress("\n".join([head, *changed]).encode()))


@pytest.mark.parametrize(
    "change",
    [
        lambda row: row | {"text": row["text"].replace("red", "green fork")},
        lambda row: row | {"text": row["text"] + " fork"} if row["id"] in (3, 4) else row,
        lambda row: row | {"split": int(row["id"] >= 20) + int(row["id"] >= 65)},
    ],
)
def test_other_texts_or_parts_have_other_features(folder, change):
    first = open_named("told", folder, folder / "kept").features
    rewritten(folder, change)
    own, again = (open_named("told", folder, kept) for kept in (None, folder / "kept"))
    assert torch.equal(own.features, again.features)
    assert first.shape != own.features.shape or not torch.equal(first, own.features)


def test_another_folder_has_other_features(folder, tmp_path_factory):
    first = open_named("told", folder, folder / "kept").features
    other = tmp_path_factory.mktemp("other")
    (other / "told.jsonl.gz").write_bytes((folder / "told.jsonl.gz").read_bytes())
    rewritten(other, lambda row: row | {"text": f"fork{row['id'] % 5} {row['text']}"})
    found = open_named("told", other, folder / "kept").features
    assert torch.equal(found, open_named("told", other).features)
    assert torch.equal(first, open_named("told", folder, folder / "kept").features)


@pytest.mark.parametrize(("what", "value"), [("WIDTH", 4), ("SEED", 1), ("FORMAT", 99)])
def test_other_settings_have_files_of_their_own(folder, monkeypatch, what, value):
    open_named("told", folder, folder / "kept")
    monkeypatch.setattr(texts, what, value)
    found = open_named("told", folder, folder / "kept").features
    assert torch.equal(found, open_named("told", folder).features)
    assert len(list((folder / "kept").iterdir())) == 2


def test_damaged_features_are_made_anew(folder):
    want = open_named("told", folder, folder / "kept").features
    (path,) = (folder / "kept").iterdir()
    whole = path.read_bytes()
    cut = [whole[:size] for size in (0, 10, 40, len(whole) // 2, len(whole) - 1)]
    flipped = [
        whole[:at] + bytes([whole[at] ^ 64]) + whole[at + 1 :]
        for at in (0, 8, 70, len(whole) // 2, len(whole) - 1)
    ]
    for damaged in (*cut, *flipped, b"\x80\x04N."):
        path.write_bytes(damaged)
        assert torch.equal(open_named("told", folder, folder / "kept").features, want)
        assert path.read_bytes() == whole


@pytest.mark.slow
def test_processes_take_what_was_made_before_them(folder):
    tables = read_tables([folder / "table.toml"])
    one = study(tables, folder / "one", folder, Budget("short"))
    kept = folder / "two" / texts.FEATURES
    Workshop(folder, kept=kept).prepare(final_cells(tables[0], ["told"], Budget(), {}))
    (path,) = kept.iterdir()
    mixed = np.random.default_rng(0).permuted(np.load(path), axis=0)
    texts._write(path, torch.from_numpy(mixed))  # so that it shows who reads it
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
    tell_files(path, 8, {"table": "as asked"})
    about = json.loads(path.read_text())
    assert "8 trainings (and 2 that count no more), 2 more being left" in told(about)
    write_about(path, Budget("long"), 2, "cpu", 1.2, did=0, left=2)
    assert "8 trainings (and 2 that count no more)" in told(json.loads(path.read_text()))
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
