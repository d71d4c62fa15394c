"""One law: two ways to one answer do not differ, whatever file, frame or program the rows go by."""

import contextlib
import csv
import gzip
import io
import json
import sys
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import onnxruntime
import pytest
import torch

import labelset as ls
from labelset import calibrate, data, decide
from labelset.cli import main
from labelset.data import Dataset
from labelset.export import to_onnx, to_torch
from labelset.model import Blend, Forest, KernelMachine, Mlp, Part, SavedModel, Split
from labelset.sklearn import MultiLabelClassifier

COLUMNS = ["a", "b", "c", "d"]
SCALE = 0.37
ESTIMATORS = ("forest", "networks", "machine", "blend")


def numbers(kind):
    """(features as float32, what the npz file holds): far from 0 and of unlike sizes, or scaled."""
    draw = np.random.default_rng(0)
    if kind == "scaled":
        stored = draw.integers(0, 256, size=(150, 4), dtype=np.uint8)
        return stored * np.float32(SCALE), {"X": stored, "X_scale": SCALE}
    x = draw.normal(size=(150, 4)) * [1, 1e-4, 300, 1e6] + [0, 0, 1e5, -3e6]
    return x.astype(np.float32), {"X": x.astype(np.float32)}


# ---- the same rows in every file ---------------------------------------------------------------


def write_table(path, x, separator):
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=separator).writerows([COLUMNS, *x.tolist()])


def frames(x):
    """The same rows as tables in memory."""
    import pandas
    import pyarrow

    columns = {name: x[:, at].copy() for at, name in enumerate(COLUMNS)}
    yield "pandas", pandas.DataFrame(columns)
    yield "pandas in another order", pandas.DataFrame(columns)[COLUMNS[::-1]]
    yield "arrow", pyarrow.table(columns)
    if find_spec("polars"):
        yield "polars", import_module("polars").DataFrame(columns)


def write_all(folder, x, held):
    """The files of these rows."""
    import pyarrow
    from pyarrow import feather, parquet

    np.savez(folder / "n.npz", **held)
    np.savez_compressed(folder / "plain.npz", X=x, feature_names=COLUMNS)
    np.save(folder / "n.npy", x)
    for name, separator in {"n.csv": ",", "n.csv.gz": ",", "n.tsv": "\t", "semi.csv": ";"}.items():
        write_table(folder / name, x, separator)
    lines = [json.dumps(dict(zip(COLUMNS, row, strict=True))) for row in x.tolist()]
    (folder / "n.jsonl").write_text("\n".join(lines))
    vectors = [json.dumps({"features": row}) for row in x.tolist()]
    (folder / "vectors.jsonl").write_text("\n".join(vectors))
    table = pyarrow.table({name: x[:, at].copy() for at, name in enumerate(COLUMNS)})
    parquet.write_table(table.select(COLUMNS[::-1]), folder / "n.parquet")
    feather.write_feather(table, folder / "n.arrow", compression="uncompressed")
    return sorted(path for path in folder.iterdir() if path.is_file())


def forest(z, y):
    from sklearn.ensemble import ExtraTreesRegressor

    made = ExtraTreesRegressor(20, min_samples_leaf=2, random_state=0)
    return Forest.from_sklearn(made.fit(z.numpy(), y.numpy()))


def blend(z, y, head):
    """Of every kind of model one."""
    g = torch.Generator().manual_seed(0)

    def drawn(*shape):
        return torch.randn(shape, generator=g)

    weights = drawn(4, 3, 8), drawn(0, 3, 8, 8), drawn(1, 3, 8), drawn(3, 8, 3), drawn(3, 3)
    networks = Mlp(drawn(4), *weights, ls.losses.build("asl"))
    machine = KernelMachine(z, 0.1 * drawn(len(z), 3), torch.full((3,), 0.4), gamma=0.3)
    link, platt = (
        calibrate.build("link"),
        calibrate.build("platt").fit(drawn(len(y), 3), y, folds=0),
    )
    given = {"head": head, "networks": networks, "machine": machine, "forest": forest(z, y)}
    maps = dict.fromkeys(given, link) | {"machine": platt}
    return Blend(tuple(Part(name, 0.25, model, maps[name]) for name, model in given.items()))


def with_estimator(run, rows, kind):
    """The folder of a run like this one with another model."""
    saved, train = SavedModel.open(run), rows.part("train")
    z, y = saved.encoder(train), train.labels.dense()
    mixture = blend(z, y, saved.head)
    own = {part.name: part.model for part in mixture.parts} | {"blend": mixture}
    parts = {name: rows.part(name) for name in saved.splits}
    other = SavedModel(
        names=saved.names, encoder=saved.encoder, estimator=own[kind], about=saved.about
    )
    other.splits = {name: Split(part.labels, other.score(part)) for name, part in parts.items()}
    valid = other.splits["valid"]
    other.calibrator = calibrate.build("platt").fit(valid.scores, valid.labels)
    p = other.predictor.probabilities(valid.scores)
    other.rule = decide.build("per-class").fit(p, valid.labels)
    other.save(run.parent / kind)
    return run.parent / kind


@pytest.fixture(scope="module", params=["large", "scaled", *ESTIMATORS])
def made(request, tmp_path_factory):
    """A run, the rows that it has not seen, and their files."""
    folder = tmp_path_factory.mktemp(request.param)
    estimates = request.param in ESTIMATORS
    x, held = numbers("large" if estimates else request.param)
    middle = np.median(x, 0)
    y = np.stack([x[:, 0] > middle[0], x[:, 1] + 0 * x[:, 2] > middle[1], x[:, 3] > middle[3]], 1)
    split = np.arange(150) % 5 // 2
    part = np.array(["train", "valid", "test"])[split]
    arrays = {"Y": y, "split": split.astype(np.int8), "feature_names": COLUMNS}
    np.savez(folder / "train.npz", **held, **arrays)
    run = folder / "run"
    words = ["train", folder / "train.npz", "--epochs", "3", "--quiet", "--out", run]
    assert main(list(map(str, words))) == 0
    if estimates:
        run = with_estimator(run, data.load(folder / "train.npz"), request.param)
    rows = folder / "rows"
    rows.mkdir()
    test = part == "test"
    held = {"X": held["X"][test]} | {k: v for k, v in held.items() if k != "X"}
    return run, x[test], y[test], write_all(rows, x[test], held)


# ---- the ways ----------------------------------------------------------------------------------


def by_python(run, x, files):
    """(way, scores) of the saved model, by everything that rows can be read from."""
    saved = SavedModel.open(run)
    schema = data.Schema.from_json(saved.about["schema"])
    yield "array", saved.score(Dataset.from_arrays(x, np.zeros((len(x), 1))))
    for name, source in (*((path.name, path) for path in files), *frames(x)):
        for rows in (1024, 7):
            way = f"{name}, {rows} at a time"
            parts = [saved.score(part) for part in data.stream(source, schema, rows=rows)]
            yield way, torch.cat(parts)


def by_command(run, files, monkeypatch):
    """(way, what `predict` writes) by file and from standard input."""
    for path in files:
        out = path.parent.parent / "out.jsonl"
        assert main(["predict", str(run), str(path), "--out", str(out)]) == 0
        yield path.name, out.read_text()
        kind = path.suffix[1:]
        if path.name in ("n.csv", "n.tsv", "n.jsonl", "n.npz", "n.npy", "n.parquet"):
            given = io.TextIOWrapper(io.BytesIO(path.read_bytes()), encoding="utf-8")
            printed = io.StringIO()
            with monkeypatch.context() as patch, contextlib.redirect_stdout(printed):
                patch.setattr(sys, "stdin", given)
                assert main(["predict", str(run), "-", "--format", kind]) == 0
            yield f"{path.name} on standard input", printed.getvalue()


def different(run, x, files, monkeypatch):
    """The ways whose answer is not, byte for byte, that of the rows in memory."""
    saved = SavedModel.open(run)
    ways = dict(by_python(run, x, files))
    due = ways["array"]
    wrong = [way for way, v in ways.items() if v.numpy().tobytes() != due.numpy().tobytes()]
    p = saved.predictor.probabilities(due)
    sets = saved.predictor.decide(p).dense() == 1
    for way, text in by_command(run, files, monkeypatch):
        items = [json.loads(line) for line in text.splitlines()]
        right = len(items) == len(sets) and all(
            item["labels"] == on.nonzero()[:, 0].tolist()
            and item["probabilities"] == [round(q, 6) for q in chances[on].tolist()]
            for item, on, chances in zip(items, sets, p, strict=True)
        )
        wrong += [] if right else [way]
    return wrong


def test_every_way_to_read_rows_gives_one_answer(made, monkeypatch):
    run, x, _, files = made
    assert different(run, x, files, monkeypatch) == []


@pytest.mark.parametrize("bug", ["columns", "scale", "digits"])
@pytest.mark.parametrize("made", ["large", "blend"], indirect=True)
def test_the_law_catches_a_reader_that_errs(made, bug, monkeypatch):
    run, x, _, files = made
    right = data.stream

    def wrong(source, *args, **flags):
        for part in right(source, *args, **flags):
            if str(source).endswith(".tsv"):
                v = part.features
                v = {"columns": v[:, [1, 0, 2, 3]], "scale": v * SCALE, "digits": v.bfloat16()}[bug]
                part = replace(part, features=v.float())
            yield part

    monkeypatch.setattr(data, "stream", wrong)
    caught = different(run, x, files, monkeypatch)
    assert caught == ["n.tsv, 1024 at a time", "n.tsv, 7 at a time", "n.tsv"]


def test_evaluate_measures_what_predict_predicts(made, capsys):
    run, _, y, files = made
    saved = SavedModel.open(run)
    assert np.array_equal(saved.scored("test").labels.dense().numpy(), y)
    assert main(["evaluate", str(run), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["metrics"]
    schema = data.Schema.from_json(saved.about["schema"])
    csv_file = next(path for path in files if path.name == "n.csv")
    v = torch.cat([saved.score(part) for part in data.stream(csv_file, schema)])
    p = saved.predictor.probabilities(v)
    given = {"scores": v, "probabilities": p, "label sets": saved.predictor.decide(p)}
    for name, value in found.items():
        metric = ls.metrics.build(name)
        # training keeps scores that were added up in float32
        exact = metric.takes == "label sets"
        assert value == pytest.approx(metric(given[metric.takes], y), abs=0 if exact else 1e-6)


@pytest.mark.parametrize(
    "made",
    [
        "large",
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("scaled", *ESTIMATORS)),
    ],
    indirect=True,
)
def test_exported_programs_give_the_answer(made, tmp_path):
    run, x, _, _ = made
    saved = SavedModel.open(run)
    v = saved.score(Dataset.from_arrays(x, np.zeros((len(x), 1))))
    sets = saved.predictor.sets(v).dense() == 1
    to_onnx(saved, tmp_path / "m.onnx")
    to_torch(saved, tmp_path / "m.pt2")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    onnx = [torch.from_numpy(out) for out in session.run(None, {"features": x})]
    program = torch.export.load(tmp_path / "m.pt2").module()(torch.from_numpy(x))
    for logits, _, decisions in (onnx, program):
        assert torch.allclose(logits, v, atol=1e-5, rtol=1e-5)  # these add up in float32
        assert torch.equal(decisions, sets)


@pytest.mark.parametrize("made", ["large", "scaled"], indirect=True)  # others have the same rows
def test_the_scikit_learn_estimator_gives_the_answer_of_its_model(made, tmp_path):
    _, x, y, _ = made
    model = MultiLabelClassifier(max_iter=3, calibrate="platt", decide="per-class", random_state=0)
    model.fit(x, y.astype(int))
    parts = {"head": model.head_, "encoder": model.encoder_}
    parts |= {"calibrator": model.calibrator_, "rule": model.rule_}
    SavedModel(names=list("uvw"), loss="bce", **parts).save(tmp_path / "run")
    saved = SavedModel.open(tmp_path / "run")
    # what the estimator subtracts first belongs to it, not to the model
    near = x if model.offset_ is None else (x - model.offset_).astype(np.float32)
    v = saved.score(Dataset.from_arrays(near, np.zeros((len(x), 1)))).double()
    due = model.predict_proba(x)
    assert np.array_equal(saved.predictor.probabilities(v).numpy(), due)
    assert np.array_equal(saved.predictor.sets(v).dense().numpy(), model.predict(x))
    assert np.array_equal(model.predict_proba(np.asfortranarray(x)), due)
    assert np.array_equal(model.predict_proba(x.astype(np.float64)), due)
    for name, frame in frames(x):
        if name in ("pandas", "polars"):  # others of scikit-learn's have no names of columns
            named = MultiLabelClassifier(**model.get_params()).fit(frame, y.astype(int))
            assert np.array_equal(named.predict_proba(frame), due), name
