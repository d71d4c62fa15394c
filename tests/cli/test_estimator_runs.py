"""Every verb works on a run whose model is an estimator or a blend, or says in one line why not."""

import json
import shutil

import numpy as np
import pytest
import torch

from labelset import model
from labelset.cli import main
from labelset.data import Dataset
from labelset.model import SavedModel
from labelset.runs import Plan, compare, reopened

KINDS = {"extra-trees": "forest", "kernel-ridge": "kernel", "bce+mlp": "mlp", "blend": "blend"}


def made(rows=160):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(rows, 4, generator=g)
    truth = torch.stack([x[:, 0], x[:, 1] * x[:, 2], x[:, 3]], dim=1)
    noise = torch.randn(rows, 3, generator=g)
    split = [0] * (rows - 40) + [2] * 40
    return Dataset.from_arrays(x, truth + 0.4 * noise > 0.3, names=[*"abc"], split=split)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    plan = Plan(losses=("bce",))
    return compare(made(), plan, tmp_path_factory.mktemp("compared") / "run")


@pytest.fixture(params=KINDS)
def run(request, found, tmp_path):
    """The folder of a candidate, to write to, and the kind of its model."""
    task = next(task for task in found.tasks if task.key == request.param)
    shutil.copytree(found.out / task.folder, tmp_path / "run")
    return tmp_path / "run", KINDS[request.param]


def test_fitting_again_keeps_the_model_and_judges_anew(run, tmp_path, capsys):
    folder, kind = run
    kept = (folder / "estimator.safetensors").read_bytes()
    stored = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert main(["calibrate", str(folder), "--map", "isotonic"]) == 0
    assert main(["decide", str(folder), "--rule", "global"]) == 0
    saved = SavedModel.open(folder)
    assert (saved.estimator.kind, saved.rule.name) == (kind, "global")
    assert (folder / "estimator.safetensors").read_bytes() == kept
    changed = {name for name, content in stored.items() if (folder / name).read_bytes() != content}
    assert changed == {"model.json", "judgement.npz"}
    x = made().part("test").features.numpy()
    np.savez(tmp_path / "rows.npz", X=x)
    capsys.readouterr()
    assert main(["predict", str(folder), str(tmp_path / "rows.npz")]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    due = saved.predictor.sets(saved.splits["test"].scores)
    assert [line["labels"] for line in lines] == [row.tolist() for row in lists(due)]


def lists(labels):
    return [labels.indices[a:b] for a, b in zip(labels.indptr, labels.indptr[1:], strict=False)]


VERBS = (
    "doctor RUN --json",
    "evaluate RUN --json",
    "query RUN a --json",
    "predict RUN test --json",
    "export RUN --safetensors OUT.st --onnx OUT.onnx",
)


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_that_read_a_run(run, verb, tmp_path, capsys):
    folder, _ = run
    words = verb.replace("RUN", str(folder)).replace("OUT", str(tmp_path / "out")).split()
    assert main(words) in (0, 1)  # the doctor says 1 where it finds something
    said = capsys.readouterr()
    assert said.out
    assert not said.err


def test_a_comparison_is_read_again_as_it_was(found, tmp_path):
    again = reopened(found.out)
    assert (again.best, again.recommendation) == (found.best, found.recommendation)
    assert again.search == found.search
    assert again.tasks == found.tasks
    assert again.standings.keys() == found.standings.keys()
    assert main(["report", str(found.out), "--out", str(tmp_path / "report.html")]) == 0
    assert "blend" in (tmp_path / "report.html").read_text()


def test_verify_names_the_candidates_that_have_a_head(found, tmp_path, capsys):
    assert SavedModel.open(found.out).head is None
    assert main(["verify", str(found.out)]) == 2
    said = capsys.readouterr().err.strip()
    assert "no head to verify; of its candidates bce+linear, frequency have one: " in said
    command = said.partition(": labelset ")[2]
    assert main([*command.split(), "--quiet"]) in (0, 1)
    assert "argmaxable" in capsys.readouterr().out
    SavedModel(names=["a"]).save(tmp_path / "scores")
    assert main(["verify", str(tmp_path / "scores")]) == 2
    assert "holds scores alone, and has no head to verify\n" in capsys.readouterr().err


def test_a_comparison_is_not_tuned_over(found, tmp_path):
    from labelset.runs import tune

    with pytest.raises(ValueError, match="there is a run already"):
        tune(made(), "bce", found.out, trials=1)


def test_prediction_makes_one_scorer(run, tmp_path, monkeypatch):
    folder, _ = run
    count = []
    scorer = model.Scorer.__init__

    def counted(self, given, encoder=None):
        count.append(encoder)
        scorer(self, given, encoder)

    monkeypatch.setattr(model.Scorer, "__init__", counted)
    monkeypatch.setattr("labelset.cli.predict.ROWS", 8)
    np.savez(tmp_path / "rows.npz", X=made().part("test").features.numpy())
    out = str(tmp_path / "out.jsonl")
    assert main(["predict", str(folder), str(tmp_path / "rows.npz"), "--out", out]) == 0
    assert sum(encoder is not None for encoder in count) == 1
