"""Networks trained whole as candidates of a search: seen by nobody twice, resumed, blended."""

import importlib
import json
import random
import subprocess
import sys

import pytest
import torch

import labelset
from labelset import encode
from labelset.data import Dataset, load
from labelset.export import Pipeline
from labelset.model import Blend, SavedModel
from labelset.runs import Plan, compare
from labelset.train import Settings
from labelset.train.finetune import default_settings, finetune
from labelset.train.fitted import Failed

WORDS = ["red", "green", "blue", "small", "large", "apple", "fork", "spoon", "table", "chair"]
NAMES = ["red", "fork"]
EPOCHS = 2


def texts_and_labels(count=80):
    draw = random.Random(0)
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(1, 9))) for _ in range(count)]
    return texts, [[int(name in text.split()) for name in NAMES] for text in texts]


def text_data(count=80):
    texts, y = texts_and_labels(count)
    split = [0] * (count * 3 // 4) + [2] * (count - count * 3 // 4)
    return Dataset.from_arrays(None, y, texts=texts, split=split, names=NAMES)


def spec(folder):
    return f"transformer:model={folder},rate=1,length=12"


def plan(folder, **keys):
    keys = {"losses": ("bce",), "effort": "quick", "finetune": (spec(folder),)} | keys
    return Plan(**{"training": {"epochs": EPOCHS}} | keys)


@pytest.fixture(scope="module")
def fitted_encoder(text_model):
    encoder = encode.build("transformer", model=str(text_model), rate=1, length=12)
    return encoder.fit(text_data())


def trained(data, encoder, folds=None, tries=None, value=None, **keys):
    rows = (data.split < 2).nonzero().flatten()
    folds = torch.arange(len(rows)) % 2 if folds is None else folds
    tries = [Settings(epochs=EPOCHS, lr=5e-3, monitor=None)] if tries is None else tries
    return finetune(data, rows, folds, encoder, tries, value, **keys)


def test_a_row_is_scored_by_a_member_that_has_not_seen_it(fitted_encoder):
    data = text_data()
    y = data.labels.dense()
    first = trained(data, fitted_encoder)
    y[6] = 1 - y[6]
    other = Dataset.from_arrays(None, y, texts=data.texts, split=data.split, names=NAMES)
    second = trained(other, fitted_encoder)
    own = torch.arange(60) % 2 == 0  # the fold of row 6, scored by a member that left it out
    assert torch.equal(first.scores[own], second.scores[own])
    assert not torch.equal(first.scores[~own], second.scores[~own])
    assert not torch.equal(first.model.classifier.weight, second.model.classifier.weight)


def test_rows_of_fold_minus_1_are_learned_from_by_all(fitted_encoder):
    data = text_data()
    folds = torch.full((60,), -1)
    folds[40:] = 0
    done = trained(data, fitted_encoder, folds)
    assert not done.scores[:40].any()
    assert done.scores[40:].any()


def test_what_was_given_stays_as_it_is(fitted_encoder):
    before = {name: t.clone() for name, t in fitted_encoder.state().items()}
    done = trained(text_data(), fitted_encoder)
    assert done.encoder is not fitted_encoder
    after = fitted_encoder.state()
    assert all(torch.equal(t, after[name]) for name, t in before.items())


def test_a_stopped_one_goes_on_to_the_same(fitted_encoder, tmp_path):
    data = text_data()
    want = trained(data, fitted_encoder)
    for stop in (1, 3, 5):
        folder, told = tmp_path / str(stop), []

        def stopping(news, told=told, stop=stop):
            told.append((news["training"], news["epoch"]))
            if len(set(told)) == stop:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            trained(data, fitted_encoder, folder=folder, progress=stopping)
        rest = []
        got = trained(data, fitted_encoder, folder=folder, progress=rest.append)
        assert torch.equal(got.scores, want.scores)
        for name, t in want.encoder.state().items():
            assert torch.equal(t, got.encoder.state()[name]), name
        if stop > 2:
            assert min(news["training"] for news in rest) > 1  # the first fold was not done again


def test_checkpoints_are_as_far_apart_as_is_asked_for(fitted_encoder, tmp_path, monkeypatch):
    asked = []
    module = importlib.import_module("labelset.train.finetune")
    train = module.train
    monkeypatch.setattr(
        module, "train", lambda *a, **k: asked.append(k["save_seconds"]) or train(*a, **k)
    )
    trained(text_data(), fitted_encoder, folder=tmp_path, save_seconds=7.5)
    assert asked == [7.5] * 3


def test_damaged_checkpoints_are_trained_again(fitted_encoder, tmp_path, caplog):
    data = text_data()
    want = trained(data, fitted_encoder)

    def stopping(news):
        if news["epoch"] == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(data, fitted_encoder, folder=tmp_path, progress=stopping)
    for file in tmp_path.rglob("checkpoint*"):
        file.write_bytes(file.read_bytes()[:100])
    got = trained(data, fitted_encoder, folder=tmp_path)
    assert torch.equal(got.scores, want.scores)
    assert "trained from the start" in caplog.text


def test_a_rate_that_is_too_high_is_lowered(fitted_encoder, monkeypatch):
    from labelset.train import Diverged
    from labelset.train import finetune as module

    rates = []

    def diverging(data, settings, *args, **keys):
        rates.append(settings.lr)
        if settings.lr > 1e-3:
            raise Diverged("the loss became nan")
        return train(data, settings, *args, **keys)

    train = module.train
    monkeypatch.setattr(module, "train", diverging)
    done = trained(text_data(), fitted_encoder)
    assert done.about["lr"] == pytest.approx(5e-4)
    assert rates[:3] == pytest.approx([5e-3, 1.5e-3, 5e-4])
    monkeypatch.setattr(module, "LOWER", ())
    done = trained(text_data(), fitted_encoder)
    assert isinstance(done, Failed)
    assert "became nan" in done.reason


def test_what_takes_too_long_is_left_out_in_words(fitted_encoder):
    done = trained(text_data(), fitted_encoder, seconds=0.01)
    assert isinstance(done, Failed)
    assert "--time-budget" in done.reason
    assert "0:00 that are left" in done.reason


def test_settings_that_serve(fitted_encoder):
    usual = default_settings({}, fitted_encoder, 1300)
    assert (usual.epochs, usual.lr, usual.batch, usual.monitor) == (17, 5e-3, 32, None)
    assert default_settings({"epochs": 4, "lr": 0.01}, fitted_encoder, 1300).epochs == 4


def test_of_several_settings_the_best_on_one_fold_is_taken(fitted_encoder, tmp_path):
    data, told, judged = text_data(), [], []
    tries = [Settings(epochs=1, lr=lr, monitor=None) for lr in (1e-9, 3e-3, 1e-8)]

    def value(loss, scores, labels):
        assert len(scores) == len(labels) == 30
        judged.append(float(loss(scores, labels)))
        return -judged[-1]

    done = trained(data, fitted_encoder, None, tries, value, folder=tmp_path, progress=told.append)
    assert len(judged) == 3
    assert done.about["lr"] == 3e-3
    shares = [news["share"] for news in told]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(0.999)
    # the others on the first fold only, and with too little time not at all
    folders = {path.parent.parent.name for path in tmp_path.rglob("scores.safetensors")}
    assert len(folders) == 3
    assert not (tmp_path / "lr-1e-09-epochs-1" / "fold-1").exists()
    again = trained(data, fitted_encoder, None, tries[1:2])
    assert torch.equal(again.scores, done.scores)


@pytest.fixture(scope="module")
def compared(text_model, tmp_path_factory):
    out = tmp_path_factory.mktemp("compared")
    return compare(text_data(), plan(text_model, effort="quick"), out / "run")


def test_it_stands_in_the_table_with_its_costs(compared):
    assert "bce+transformer" in compared.standings
    size = compared.search["costs"]["bce+transformer"][2]
    assert size > 0.02  # megabytes: with its network
    fit = compared.run("bce+transformer").about["fit"]
    assert (fit["way"], fit["epochs"]) == ("finetune", EPOCHS)


def test_it_predicts_as_it_was_judged(compared):
    run = compared.run("bce+transformer")
    data = text_data().part("test")
    torch.testing.assert_close(run.score(data), run.splits["test"].scores, atol=1e-5, rtol=1e-4)
    assert run.predict(data.texts).dense().shape == (20, 2)


def test_no_rest_of_the_training_is_kept(compared):
    assert not list(compared.out.rglob("unfinished"))
    assert not list(compared.out.rglob("checkpoint*"))


def test_a_blend_reads_rows_by_each_parts_own_encoder(compared, tmp_path):
    one, other = compared.run("bce+transformer"), compared.run("bce+linear")
    from labelset.model import Part
    from labelset.runs.blend import calibrator_of

    parts = tuple(
        Part(name, 0.5, run.head, calibrator_of(run), view)
        for view, (name, run) in enumerate({"whole": one, "words": other}.items())
    )
    encoder = encode.Several(encoders=[one.encoder, other.encoder])
    blend = SavedModel(names=NAMES, estimator=Blend(parts), encoder=encoder)
    rows = text_data().part("test")
    mean = (one.predictor.of(one.loss).probabilities(one.score(rows))
            + other.predictor.of(other.loss).probabilities(other.score(rows))) / 2  # fmt: skip
    torch.testing.assert_close(
        blend.predict_proba(rows), mean.to(torch.float32), atol=1e-5, rtol=1e-4
    )
    blend.save(tmp_path)
    again = SavedModel.open(tmp_path)
    assert torch.equal(again.score(rows), blend.score(rows))
    crafted = json.loads((tmp_path / "model.json").read_text())
    crafted["encoder"]["encoders"].pop()
    crafted.pop("sum")
    (tmp_path / "model.json").write_text(json.dumps(crafted))
    with pytest.raises(ValueError, match="damaged run"):
        SavedModel.open(tmp_path)


def test_a_blend_of_a_search_may_have_networks_in_it(text_model, tmp_path, monkeypatch):
    from labelset.runs import search

    real = search.select

    def both(unseen, *args, **keys):
        chosen = real(unseen, *args, **keys)
        if len(unseen) < 2:
            return chosen
        weights = torch.zeros(len(unseen), dtype=torch.float64)
        weights[0] = weights[-1] = 0.5
        return type(chosen)(weights, (0, len(unseen) - 1), 0, chosen.value, chosen.rows)

    monkeypatch.setattr(search, "select", both)
    found = compare(text_data(), plan(text_model), tmp_path / "run")
    blend = found.run("blend")
    assert [part.view for part in blend.estimator.parts] == [0, 1]
    alone = tmp_path / "run" / "work" / "bce+transformer" / "0" / "encoder.safetensors"
    assert alone.samefile(blend.folder / "encoder-1.safetensors")  # one copy of the network
    data = text_data().part("test")
    torch.testing.assert_close(blend.score(data), blend.splits["test"].scores, atol=1e-4, rtol=1e-3)
    with pytest.raises(ValueError, match="networks that were trained whole"):
        Pipeline(blend)
    why = blend.explain(data.texts)[0]
    assert why.base + sum(value for _, value in why.terms) + why.rest == pytest.approx(why.score)
    network = why.members[1]
    assert {name.strip('"') for name, _ in network.terms} <= {*data.texts[0].split()}
    added = sum(value for _, value in network.terms) + network.rest
    assert added == pytest.approx(network.value)
    assert {why.members[0].name, network.name} == {"bce+linear", "bce+transformer"}
    (red,) = blend.weights("red", top=3)
    assert red.member == "bce+linear"
    assert '"red"' in red.terms[0][0]


def test_pictures_are_compared_by_frozen_and_trained_networks(picture_model, tmp_path):
    g = torch.Generator().manual_seed(0)
    y = torch.rand(48, 2, generator=g) > 0.5
    images = torch.randint(0, 90, (48, 3, 16, 16), generator=g, dtype=torch.uint8)
    images[y[:, 0], 0] += 120
    data = Dataset.from_arrays(None, y, images=images, split=[0] * 36 + [2] * 12)
    found = compare(data, plan(picture_model, finetune=(str(picture_model),)), tmp_path / "run")
    assert {"bce+vision", "bce+linear", "extra-trees"} <= {*found.standings}
    assert found.best_model.predict(images[:3]).dense().shape == (3, 2)
    assert found.run("bce+linear").encoder.layers == 0


def test_what_cannot_be_trained_is_said_before_anything_is(text_model, tmp_path):
    data = Dataset.from_arrays(torch.randn(40, 3), torch.randn(40, 2) > 0)
    with pytest.raises(ValueError, match="no texts or pictures"):
        compare(data, plan(text_model, finetune=("somewhere",)), tmp_path / "a")
    with pytest.raises(ValueError, match="leave out --seeds"):
        compare(text_data(), plan(text_model, seeds=1), tmp_path / "b")
    frozen = f"transformer:model={text_model},layers=0"
    with pytest.raises(ValueError, match="layers=0 trains nothing"):
        compare(text_data(), plan(text_model, finetune=(frozen,)), tmp_path / "c")
    with pytest.raises(ValueError, match="neither a folder nor"):
        compare(text_data(), plan(text_model, finetune=("no_such_model",)), tmp_path / "d")
    assert not (tmp_path / "d" / "work").exists()
    with pytest.raises(ValueError, match="a network for images, and the data set has none"):
        compare(text_data(), plan(text_model, finetune=("vision:model=x",)), tmp_path / "e")
    with pytest.raises(ValueError, match="an --encoder that is trained itself"):
        compare(text_data(), plan(text_model, encoder=spec(text_model)), tmp_path / "f")


@pytest.mark.slow
def test_from_the_command_line_and_from_python(text_model, tmp_path):
    texts, y = texts_and_labels(60)
    lines = [
        json.dumps({"text": text, "labels": [n for n, on in zip(NAMES, row, strict=True) if on]})
        for text, row in zip(texts, y, strict=True)
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    command = [sys.executable, "-m", "labelset"]
    given = ["compare", "rows.jsonl", "--finetune", spec(text_model), "--epochs", "1"]
    given += ["--losses", "bce", "--effort", "quick", "--out", "run"]
    ended = subprocess.run([*command, *given], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "bce+transformer: training 1 of 3, epoch 1 of 1" in ended.stderr
    assert "bce+transformer" in ended.stdout
    run = "run/work/bce+transformer/0"
    ended = subprocess.run(
        [*command, "predict", run, "rows.jsonl", "--out", "said.jsonl"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert len((tmp_path / "said.jsonl").read_text().splitlines()) == 60
    y = load(tmp_path / "rows.jsonl").labels
    found = labelset.compare(
        texts, y.dense(), finetune=[spec(text_model)], losses=["bce"], effort="quick"
    )
    assert "bce+transformer" in found.standings


def test_networks_of_one_kind_are_told_apart(text_model, tmp_path):
    last, first = (f"{spec(text_model)},{rest}" for rest in ("layers=1", "pooling=first"))
    found = plan(text_model, finetune=(last, first)).networks(text_data())
    assert [*found] == [last, first]
    assert [*plan(text_model).networks(text_data())] == ["transformer"]
    named = (str(text_model), f"transformer:model={text_model}")
    with pytest.raises(ValueError, match="named once each"):
        compare(text_data(), plan(text_model, finetune=named), tmp_path / "run")


def test_a_head_that_attends_to_tokens_competes_with_one_that_does_not(text_model, tmp_path):
    heads = ("label-attention",)
    found = compare(text_data(), plan(text_model, heads=heads), tmp_path / "run")
    key = "bce+transformer+label-attention"
    assert {"bce+linear", "bce+transformer", key} <= {*found.standings}
    run = found.run(key)
    data = text_data().part("test")
    assert run.head.name == "label-attention"
    torch.testing.assert_close(run.score(data), run.splits["test"].scores, atol=1e-4, rtol=1e-3)
    with pytest.raises(ValueError, match="name one, --finetune MODEL"):
        compare(text_data(), Plan(heads=heads, finetune=()), tmp_path / "other")


def test_what_has_no_room_is_left_out_in_words(fitted_encoder, monkeypatch):
    def full(*args, **keys):
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(importlib.import_module("labelset.train.finetune"), "train", full)
    done = trained(text_data(), fitted_encoder)
    assert isinstance(done, Failed)
    assert "cpu has no memory for one row" in done.reason
