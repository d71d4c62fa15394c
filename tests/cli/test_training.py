"""compare, train, tune, predict, report and data inspect, from files to files."""

import csv
import io
import json

import numpy as np
import pytest
import torch

from labelset.artefact import Run
from labelset.cli import main


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(300, 5, generator=g)
    y = (x[:, :3] + 0.5 * torch.randn(300, 3, generator=g)) > 0.5
    path = tmp_path_factory.mktemp("data") / "d.npz"
    np.savez(path, X=x.numpy(), Y=y.numpy(), label_names=["a b", "<i>", "c"])
    return path


@pytest.fixture(scope="module")
def trained(table, tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "r"
    assert main(["train", str(table), "--loss", "spa", "--epochs", "5", "--out", str(out)]) == 0
    return out


def test_a_trained_model_predicts_new_rows_batch_by_batch(trained, table, tmp_path, capsys):
    x = np.load(table)["X"]
    np.save(tmp_path / "x.npy", x)
    assert main(["predict", str(trained), str(tmp_path / "x.npy"), "--to", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 300
    run = Run.open(trained)
    from labelset.data import Dataset

    scores = run.score(Dataset.from_arrays(x, np.zeros((300, 3))))
    want = run.predict(scores)
    names = [[run.names[j] for j in want[i].indices.tolist()] for i in range(300)]
    assert [row["labels"].split("|") if row["labels"] else [] for row in rows] == names
    with open(tmp_path / "x.jsonl", "w") as file:
        file.writelines(json.dumps({"features": row.tolist()}) + "\n" for row in x[:7])
    assert main(["predict", str(trained), str(tmp_path / "x.jsonl")]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["names"] for line in lines] == names[:7]


def test_standard_input_is_read_as_it_comes(trained, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO('{"features": [1, 2, 3, 4, 5]}\n'))
    assert main(["predict", str(trained), "-"]) == 0
    assert json.loads(capsys.readouterr().out)["row"] == 0
    monkeypatch.setattr("sys.stdin", io.StringIO("f,g,h,i,j\n1,2,3,4,five\n"))
    assert main(["predict", str(trained), "-", "--format", "csv"]) == 2
    assert "not all features are numbers" in capsys.readouterr().err


def test_the_other_verbs_read_a_comparison(trained, capsys):
    for verb in (["evaluate"], ["doctor"], ["query"], ["decide"], ["calibrate"]):
        more = ["'a b' & !c"] if verb == ["query"] else []
        assert main([*verb, str(trained), *more]) in (0, 1), verb
    assert Run.open(trained).map is not None


def test_a_run_can_be_verified_as_it_is(trained, capsys):
    assert main(["verify", str(trained), "--check"]) == 0
    assert "argmaxable" in capsys.readouterr().out


def test_texts_are_encoded_as_asked(tmp_path, capsys):
    words = ["red apple", "green apple", "red fork", "green knife"] * 20
    with open(tmp_path / "t.jsonl", "w") as file:
        for i, text in enumerate(words):
            item = {"text": f"{text} {i % 7}", "labels": [int("red" in text), 2] if i % 3 else [2]}
            file.write(json.dumps(item) + "\n")
    out = str(tmp_path / "r")
    command = ["train", str(tmp_path / "t.jsonl"), "--encoder", "tfidf:svd=4", "--epochs", "2"]
    assert main([*command, "--out", out]) == 0
    assert Run.open(out).encoder.svd == 4
    assert main(["predict", out, str(tmp_path / "t.jsonl")]) == 0
    assert len(capsys.readouterr().out.splitlines()) >= 80
    assert main(["train", str(tmp_path / "t.jsonl"), "--encoder", "nope", "--out", "x"]) == 2


def test_compare_writes_what_it_promises(table, tmp_path, capsys):
    out = tmp_path / "r"
    command = ["compare", str(table), "--losses", "bce", "asl:gamma_neg=2", "--seeds", "2"]
    command += ["--heads", "linear", "dft:k=1", "--epochs", "3", "--jobs", "1", "--out", str(out)]
    assert main([*command, "--optimise", "map@class", "--quiet"]) == 0
    shown = capsys.readouterr().out
    assert "asl:gamma_neg=2+dft:k=1" in shown
    assert "Use " in shown
    names = {p.name for p in out.iterdir()}
    assert {"results.csv", "summary.csv", "compare.json", "report.html", "best"} <= names
    page = (out / "report.html").read_text()
    assert "<i>" not in page  # a label's name is data, never markup
    assert main([*command, "--quiet"]) == 2
    assert "--resume or --force" in capsys.readouterr().err
    assert main([*command, "--force", "--quiet"]) == 0
    capsys.readouterr()
    assert main(["report", str(out), "--out", str(tmp_path / "again.html")]) == 0
    assert (tmp_path / "again.html").stat().st_size > 10_000
    assert main(["report", str(tmp_path)]) == 2


def test_tune_goes_on_where_it_stopped(table, tmp_path, capsys):
    pytest.importorskip("optuna")
    command = ["tune", str(table), "--loss", "focal", "--epochs", "2", "--out", str(tmp_path)]
    assert main([*command, "--trials", "2", "--quiet"]) == 0
    assert "2 trials" in capsys.readouterr().out
    assert main([*command, "--trials", "4"]) == 0
    got = capsys.readouterr()
    assert "4 trials" in got.out
    assert got.err.count("trial ") == 2
    assert "gamma" in json.loads((tmp_path / "tune.json").read_text())["loss_settings"]
    assert Run.open(tmp_path / "best").rule is not None


def test_inspect_says_what_was_understood(table, capsys):
    assert main(["data", "inspect", str(table)]) == 0
    assert "300" in capsys.readouterr().out
    assert main(["data", "inspect", str(table), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["labels"] == 3


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["compare", "nothing.npz", "--out", "OUT"], "nothing.npz"),
        (["compare", "DATA", "--out", "OUT", "--losses", "nope"], "no loss is called 'nope'"),
        (["compare", "DATA", "--out", "OUT", "--time-budget", "soon"], "90s, 10m or 2h"),
        (["compare", "DATA", "--out", "OUT", "--train", "nope=1"], "nope"),
        (["compare", "DATA", "--out", "OUT", "--data", "nope=1"], "no key is called 'nope'"),
        (["train", "DATA", "--out", "OUT", "--head", "nope"], "no head is called"),
        (["tune", "DATA", "--out", "OUT", "--loss", "nope"], "no loss is called"),
        (["report", "OUT"], "no comparison"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(table, tmp_path, capsys, args, message):
    out = tmp_path / "out"
    named = {"DATA": str(table), "OUT": str(out)}
    assert main([named.get(a, a) for a in args]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert not out.exists()
