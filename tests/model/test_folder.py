"""A run on disk: what goes in comes out, and what is damaged says so."""

import json

import numpy as np
import pytest
import torch

from labelset import Labels, NoLink, calibrate, decide, heads, losses
from labelset.model import SavedModel, Split, read_scores


@pytest.fixture
def run():
    g = torch.Generator().manual_seed(0)
    y = (torch.rand(60, 4, generator=g) < 0.4).float()
    v = torch.randn(60, 4, generator=g) + 2 * y
    y[0, 1] = torch.nan
    parts = {
        "train": Split(Labels.from_dense(y)),
        "valid": Split(Labels.from_dense(y), v, [f"row {i}" for i in range(60)]),
    }
    head = heads.build("linear", features=3, labels=4)
    return SavedModel(
        names=["a", "b", "c", "<d>"], splits=parts, loss="spa", head=head, about={"x": [1]}
    )


def test_everything_comes_back(run, tmp_path):
    part = run.splits["valid"]
    run.calibrator = calibrate.build("platt").fit(part.scores, part.labels)
    run.rule = decide.build("per-class").fit(run.calibrator(part.scores), part.labels)
    run.save(tmp_path / "r")
    again = SavedModel.open(tmp_path / "r")
    assert again.names == run.names
    assert again.loss == losses.build("spa")
    assert again.about == {"x": [1]}
    assert again.splits["train"].scores is None
    assert again.splits["valid"].labels == part.labels
    assert torch.equal(again.splits["valid"].scores, part.scores)
    assert again.splits["valid"].id(3) == "row 3"
    assert torch.equal(
        again.predictor.probabilities(part.scores), run.predictor.probabilities(part.scores)
    )
    assert again.predictor.sets(part.scores) == run.predictor.sets(part.scores)
    assert torch.equal(again.head.matrix()[0], run.head.matrix()[0])
    assert {p.name for p in (tmp_path / "r").iterdir()} == {
        *("model.json", "head.safetensors", "train.npz", "valid.npz")
    }


def test_probabilities_come_from_calibrator_then_link_then_sigmoid(run):
    v = torch.tensor([[0.0, 0.0, 0.0, 0.0]])
    assert torch.equal(run.predictor.probabilities(v), losses.build("spa").link(v.double()).float())
    run.loss = None
    assert torch.equal(run.predictor.probabilities(v), torch.sigmoid(v))
    run.loss = losses.build("hill")
    with pytest.raises(NoLink, match="labelset calibrate"):
        run.predictor.probabilities(v)
    assert torch.equal(run.predictor.or_sigmoid().probabilities(v), torch.sigmoid(v))


def test_without_a_rule_labels_are_on_from_a_half(run):
    assert run.predictor.decide([[0.5, 0.4, 0.6, 0.0]]).dense().tolist() == [[1, 0, 1, 0]]


def test_the_test_part_is_not_for_fitting(run):
    run.splits["test"] = run.splits["valid"]
    with pytest.raises(ValueError, match="must not be fitted on the test part"):
        run.held_out("test")
    with pytest.raises(ValueError, match="there are valid, test"):
        run.held_out("train")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: SavedModel(names=["a", "a", "b", "c"], splits=p), "'a' more than once"),
        (lambda p: SavedModel(names=["a"], splits=p), "names 1"),
        (lambda p: SavedModel(names=list("abcd"), splits={"dev": p["valid"]}), "'dev'"),
        (
            lambda p: SavedModel(names=list("abcd"), splits=p, loss="nope"),
            "no loss is called 'nope'",
        ),
        (
            lambda p: SavedModel(
                names=list("abcd"), head=heads.build("linear", features=2, labels=3)
            ),
            "has 3 labels, names 4",
        ),
        (lambda p: Split(p["valid"].labels, [[1.0]]), "shape"),
        (lambda p: Split([[1]], [[float("nan")]]), "numbers"),
        (lambda p: Split([[1]], ids=["a", "b"]), "2 ids for 1 rows"),
    ],
)
def test_what_does_not_fit_is_refused(run, make, message):
    with pytest.raises(ValueError, match=message):
        make(run.splits)


def test_damaged_runs_say_so(run, tmp_path):
    with pytest.raises(ValueError, match=r"no model\.json"):
        SavedModel.open(tmp_path)
    run.save(tmp_path)
    whole = (tmp_path / "model.json").read_text()
    for damage in (
        "{",
        "[]",
        json.dumps({**json.loads(whole), "format": 99}),
        json.dumps({**json.loads(whole), "names": 3}),
        json.dumps({**json.loads(whole), "loss": {"name": "nope"}}),
    ):
        (tmp_path / "model.json").write_text(damage)
        with pytest.raises(ValueError, match="damaged run"):
            SavedModel.open(tmp_path)
    (tmp_path / "model.json").write_text(whole)
    content = (tmp_path / "valid.npz").read_bytes()
    (tmp_path / "valid.npz").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"valid\.npz"):
        SavedModel.open(tmp_path)


def test_a_run_is_not_there_until_all_of_it_is(run, tmp_path, monkeypatch):
    monkeypatch.setattr(heads, "save", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        run.save(tmp_path)
    with pytest.raises(ValueError, match="not a run"):
        SavedModel.open(tmp_path)


def test_scores_are_read_from_arrays(tmp_path):
    v = np.arange(6.0).reshape(3, 2)
    np.save(tmp_path / "v.npy", v)
    np.savez(tmp_path / "one.npz", anything=v)
    np.savez(tmp_path / "two.npz", scores=v, other=v)
    np.savez(tmp_path / "bad.npz", a=v, b=v)
    (tmp_path / "text.npy").write_text("no")
    for name in ("v.npy", "one.npz", "two.npz"):
        assert read_scores(tmp_path / name).tolist() == v.tolist()
    for name, message in (("bad.npz", "a, b"), ("text.npy", "damaged"), ("none.npy", "no such")):
        with pytest.raises(ValueError, match=message):
            read_scores(tmp_path / name)
