"""torch.export programs, safetensors, and the verb of the command line."""

import json

import pytest
import torch
from safetensors import safe_open

from labelset import calibrate, decide, encode, heads
from labelset.cli import make_parser
from labelset.data import Dataset
from labelset.export import to_onnx, to_safetensors, to_torch
from labelset.model import SavedModel

N, E = 4, 3
torch.manual_seed(0)
ROWS = torch.randn(200, E) * 3 + 1
LABELS = (torch.rand(200, N) < torch.sigmoid(ROWS @ torch.randn(E, N))).float()
NAMES = [f"label {i}" for i in range(N)]


def made_run():
    data = Dataset.from_arrays(ROWS, LABELS)
    head = heads.build("dft", features=E, labels=N, k=1, slack=1)
    run = SavedModel(names=NAMES, loss="asl", head=head, encoder=encode.build("features").fit(data))
    scores = run.score(data)
    run.calibrator = calibrate.build("histogram", bins=3, loss="asl").fit(scores, LABELS, folds=0)
    run.rule = decide.build("per-class").fit(run.predictor.probabilities(scores), LABELS)
    return run, data


def test_a_torch_program_gives_what_the_run_gives(tmp_path):
    run, data = made_run()
    to_torch(run, tmp_path / "m.pt2")
    extra = {"labelset.labels": ""}
    program = torch.export.load(tmp_path / "m.pt2", extra_files=extra).module()
    assert json.loads(extra["labelset.labels"]) == NAMES
    for rows in (200, 1, 0):
        v, p, on = program(ROWS[:rows])
        assert torch.allclose(v, run.score(data)[:rows], atol=1e-5)
        assert torch.allclose(p, run.predictor.probabilities(v), atol=1e-6)
        assert torch.equal(on, run.predictor.decide(p).dense() == 1)


@pytest.mark.parametrize("export", [to_onnx, to_torch, to_safetensors])
def test_the_folder_of_a_run_will_do(export, tmp_path):
    run, _ = made_run()
    run.save(tmp_path / "run")
    export(str(tmp_path / "run"), tmp_path / "one")
    assert (tmp_path / "one").stat().st_size > 500
    with pytest.raises(ValueError, match="not a run: there is no such folder"):
        export(tmp_path / "nothing", tmp_path / "two")
    with pytest.raises(
        TypeError, match=r"^run must be a SavedModel or the folder of one, got DFT$"
    ):
        export(run.head, tmp_path / "two")


def test_safetensors_are_a_head_with_all_that_its_logits_mean(tmp_path):
    run, data = made_run()
    to_safetensors(run, tmp_path / "head.safetensors")
    head = heads.load(tmp_path / "head.safetensors")
    features = run.encoder(data)
    assert torch.equal(head(features), run.head(features))
    with safe_open(tmp_path / "head.safetensors", framework="pt") as file:
        said = file.metadata()
    scores = head(features).detach()
    again = calibrate.from_json(json.loads(said["labelset.calibrator"]))
    rule = decide.from_json(json.loads(said["labelset.rule"]))
    assert torch.equal(rule(again(scores)).dense(), run.predictor.sets(scores).dense())
    scaling = json.loads(said["labelset.scaling"])
    assert torch.equal(torch.tensor(scaling["mean"]), run.encoder.learnt["mean"])


def test_scores_alone_have_no_tensors(tmp_path):
    with pytest.raises(ValueError, match="no head"):
        to_safetensors(SavedModel(names=NAMES), tmp_path / "head.safetensors")


def parsed(*words):
    return make_parser(["export"]).parse_args(["export", *map(str, words)])


def test_the_verb_writes_all_three(tmp_path, capsys):
    run, _ = made_run()
    run.save(tmp_path / "run")
    files = [tmp_path / name for name in ("m.onnx", "m.pt2", "head.safetensors")]
    options = ("--onnx", "--torch-export", "--safetensors")
    words = [word for pair in zip(options, files, strict=True) for word in pair]
    args = parsed(tmp_path / "run", *words)
    args.run(args)
    said = capsys.readouterr().out
    assert all(file.is_file() and str(file) in said for file in files)
    assert "output: logits, probabilities, decisions of 4 labels" in said


def test_files_without_a_name_lie_beside_the_run(tmp_path, monkeypatch):
    run, _ = made_run()
    run.save(tmp_path / "my.run")
    monkeypatch.chdir(tmp_path / "my.run")
    for folder, option in ((f"{tmp_path}/my.run/", "--onnx"), (".", "--safetensors")):
        args = parsed(folder, option)
        args.run(args)
    assert {path.name for path in tmp_path.iterdir()} == {
        "my.run",
        "my.run.onnx",
        "my.run.safetensors",
    }


def test_all_files_or_none(tmp_path):
    """Scores alone can be an ONNX file but have no tensors: then neither is written."""
    SavedModel(names=NAMES).save(tmp_path / "run")
    files = "--onnx", tmp_path / "m.onnx", "--safetensors", tmp_path / "head.safetensors"
    args = parsed(tmp_path / "run", *files)
    with pytest.raises(ValueError, match="no head"):
        args.run(args)
    assert {path.name for path in tmp_path.iterdir()} == {"run"}


def test_the_verb_refuses_before_it_writes(tmp_path):
    run, _ = made_run()
    run.rule = decide.build("budget", k=1)
    run.save(tmp_path / "run")
    args = parsed(tmp_path / "run")
    with pytest.raises(ValueError, match="--onnx FILE"):
        args.run(args)
    args = parsed(tmp_path / "run", "--onnx", tmp_path / "m.onnx")
    with pytest.raises(ValueError, match="--no-decisions"):
        args.run(args)
    same = tmp_path / "m.onnx"
    args = parsed(tmp_path / "run", "--onnx", same, "--safetensors", same)
    with pytest.raises(ValueError, match="name of its own"):
        args.run(args)
    args = parsed(tmp_path / "run", "--onnx", tmp_path / "nowhere" / "m.onnx")
    with pytest.raises(ValueError, match="cannot write"):
        args.run(args)
    assert {path.name for path in tmp_path.iterdir()} == {"run"}
    args = parsed(tmp_path / "run", "--onnx", tmp_path / "m.onnx", "--no-decisions")
    args.run(args)
    assert (tmp_path / "m.onnx").is_file()
