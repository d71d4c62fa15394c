"""compare, train, tune, predict, report and data inspect, from files to files."""

import csv
import io
import json

import numpy as np
import pytest
import torch

from labelset.cli import main
from labelset.model import SavedModel


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
    run = SavedModel.open(trained)
    from labelset.data import Dataset

    scores = run.score(Dataset.from_arrays(x, np.zeros((300, 3))))
    want = run.predictor.sets(scores)
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
    assert "standard input: line 2: column 'j' must hold numbers" in capsys.readouterr().err


def test_the_other_verbs_read_a_comparison(trained, capsys):
    for verb in (["evaluate"], ["doctor"], ["query"], ["decide"], ["calibrate"]):
        more = ["'a b' & !c"] if verb == ["query"] else []
        assert main([*verb, str(trained), *more]) in (0, 1), verb
    assert SavedModel.open(trained).calibrator is not None


def test_a_run_can_be_verified_as_it_is(trained, capsys):
    assert main(["verify", str(trained), "--check"]) == 0
    assert "argmaxable" in capsys.readouterr().out


def test_csv_columns_are_found_by_name(tmp_path, capsys):
    g = torch.Generator().manual_seed(1)
    x = torch.randn(120, 3, generator=g)
    y = (x[:, :2] > 0).int()
    rows = [[f"r{i}", *x[i].tolist(), *y[i].tolist()] for i in range(120)]
    with open(tmp_path / "t.csv", "w", newline="") as file:
        csv.writer(file).writerows([["id", "f", "g", "h", "on", "off"], *rows])
    command = ["train", str(tmp_path / "t.csv"), "--data", "label_columns=on,off"]
    out = str(tmp_path / "r")
    assert main([*command, "--data", "id_column=id", "--epochs", "5", "--out", out]) == 0
    capsys.readouterr()
    assert main(["predict", out, str(tmp_path / "t.csv")]) == 0  # labels and ids are left alone
    want = capsys.readouterr().out
    with open(tmp_path / "u.csv", "w", newline="") as file:
        turned = [[h, g, name, f] for name, f, g, h, *_ in rows]
        csv.writer(file).writerows([["h", "g", "id", "f"], *turned])
    assert main(["predict", out, str(tmp_path / "u.csv")]) == 0
    assert capsys.readouterr().out == want
    (tmp_path / "v.csv").write_text("f,g\n1,2\n")
    assert main(["predict", out, str(tmp_path / "v.csv")]) == 2
    assert "v.csv: no column is called 'h'" in capsys.readouterr().err


def test_sparse_rows_and_npz_are_predicted_too(tmp_path, table, trained, capsys):
    g = torch.Generator().manual_seed(2)
    with open(tmp_path / "t.svm", "w") as file:
        for _ in range(100):
            on = (torch.rand(3, generator=g) < 0.5).nonzero().flatten().tolist()
            cells = " ".join(
                f"{j + 1}:1" for j in [*on, 4 + int(torch.randint(3, (1,), generator=g))]
            )
            file.write(f"{','.join(map(str, on))} {cells}\n")
    out = str(tmp_path / "s")
    assert main(["train", str(tmp_path / "t.svm"), "--epochs", "2", "--out", out]) == 0
    capsys.readouterr()
    assert main(["predict", out, str(tmp_path / "t.svm")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 100
    np.save(tmp_path / "x.npy", np.zeros((4, SavedModel.open(out).encoder.fact("width"))))
    assert main(["predict", out, str(tmp_path / "x.npy")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert main(["predict", str(trained), str(table)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 300


def test_the_text_column_is_remembered(tmp_path, capsys, monkeypatch):
    lines = [f"{['red', 'green'][i % 2]} word {i},{'a|b' if i % 2 else 'a'}" for i in range(60)]
    (tmp_path / "b.csv").write_text("body,tags\n" + "\n".join(lines) + "\n")
    out = str(tmp_path / "r")
    command = ["train", str(tmp_path / "b.csv"), "--data", "label_column=tags", "--epochs", "2"]
    assert main([*command, "--data", "text_column=body", "--out", out]) == 0
    capsys.readouterr()
    assert main(["predict", out, str(tmp_path / "b.csv")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 60
    monkeypatch.setattr("sys.stdin", io.StringIO('{"text": "green"}\n'))
    assert main(["predict", out, "-"]) == 2
    assert "no key is called 'body': known: text" in capsys.readouterr().err


def test_force_gives_back_what_was_there_when_it_fails(table, tmp_path, capsys):
    out = str(tmp_path / "r")
    command = ["train", str(table), "--epochs", "1", "--out", out]
    assert main(command) == 0
    before = (tmp_path / "r" / "compare.json").read_text()
    assert main(command) == 2
    assert "--resume, or --force" in capsys.readouterr().err
    assert main([*command, "--force", "--lr", "1e30"]) == 2
    assert (tmp_path / "r" / "compare.json").read_text() == before
    assert main([*command, "--force"]) == 0
    assert [p.name for p in tmp_path.iterdir()] == ["r"]


@pytest.mark.parametrize("stopped", [False, True])
def test_force_replaces_what_a_comparison_wrote_and_nothing_else(
    stopped, table, tmp_path, monkeypatch, capsys
):
    run = tmp_path / "r"
    command = ["train", str(table), "--epochs", "1", "--out", str(run)]
    assert main(command) == 0
    written = {p.name for p in run.iterdir()}
    (run / "notes").mkdir()
    (run / "notes" / "mine.txt").write_text("mine")
    (run / "predicted.csv").write_text("mine")
    (run / "work" / "stray").write_text("of the run before")
    if stopped:

        def stop(*given):
            raise KeyboardInterrupt

        monkeypatch.setattr("labelset.runs.comparison.judged", stop)
    (tmp_path / "link").symlink_to(run)
    command[-1] = str(tmp_path / "link")
    assert main([*command, "--force", "--quiet"]) == (130 if stopped else 0)
    assert (run / "notes" / "mine.txt").read_text() == "mine"
    assert (run / "predicted.csv").read_text() == "mine"
    assert not (run / "work" / "stray").exists()
    assert stopped or {p.name for p in run.iterdir()} == written | {"notes", "predicted.csv"}
    monkeypatch.chdir(run / "work")
    assert main([*command, "--force"]) == 2
    assert "--force replaces the folder, and this runs in it" in capsys.readouterr().err


def test_another_search_needs_another_folder(table, tmp_path, capsys):
    pytest.importorskip("optuna")
    command = ["tune", str(table), "--epochs", "1", "--trials", "1", "--out", str(tmp_path / "t")]
    assert main([*command, "--loss", "focal", "--quiet"]) == 0
    for change, words in (
        (["--loss", "asl"], "holds another search (loss 'focal', not 'asl'); choose another"),
        (["--loss", "focal", "--epochs", "2"], "holds another search (epochs 1, not 2)"),
        (["--loss", "focal", "--lr", "0.1"], "(lr None, not 0.1)"),
        (["--loss", "focal", "--optimise", "map@class"], "(metric 'f1-micro', not 'map@class')"),
        (["--loss", "focal", "--seed", "3"], "(seed 0, not 3)"),
    ):
        assert main([*command, *change, "--quiet"]) == 2
        assert words in capsys.readouterr().err
    with np.load(table) as held:
        np.savez(tmp_path / "other.npz", **{**held, "X": held["X"] + 1})
    command[1] = str(tmp_path / "other.npz")
    assert main([*command, "--loss", "focal", "--quiet"]) == 2
    assert "holds another search (of other data); choose another" in capsys.readouterr().err


def test_rows_without_any_label_are_refused_before_anything_is_written(tmp_path, capsys):
    (tmp_path / "b.csv").write_text("x,tags\n" + "1.5,\n" * 40)
    out = tmp_path / "r"
    command = ["compare", str(tmp_path / "b.csv"), "--data", "label_column=tags"]
    assert main([*command, "--out", str(out)]) == 2
    assert "b.csv: has no labels" in capsys.readouterr().err
    assert not out.exists()


def test_texts_are_encoded_as_asked(tmp_path, capsys):
    words = ["red apple", "green apple", "red fork", "green knife"] * 20
    with open(tmp_path / "t.jsonl", "w") as file:
        for i, text in enumerate(words):
            item = {"text": f"{text} {i % 7}", "labels": [int("red" in text), 2] if i % 3 else [2]}
            file.write(json.dumps(item) + "\n")
    out = str(tmp_path / "r")
    command = ["train", str(tmp_path / "t.jsonl"), "--encoder", "tfidf:svd=4", "--epochs", "2"]
    assert main([*command, "--out", out]) == 0
    assert SavedModel.open(out).encoder.svd == 4
    assert main(["predict", out, str(tmp_path / "t.jsonl")]) == 0
    assert len(capsys.readouterr().out.splitlines()) >= 80
    assert main(["train", str(tmp_path / "t.jsonl"), "--encoder", "nope", "--out", "x"]) == 2


def test_train_writes_a_report_with_its_own_command(table, tmp_path, capsys):
    out = tmp_path / "r"
    command = ["train", str(table), "--loss", "spa", "--epochs", "2", "--out", str(out)]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert f"report: {out / 'report.html'}" in shown
    assert "on test rows" in shown
    page = (out / "report.html").read_text()
    assert "spa+linear reaches f1-micro" in page
    assert "labelset train " in page
    assert "labelset compare " not in page


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
    assert "--resume, or --force" in capsys.readouterr().err
    assert main([*command, "--force", "--quiet"]) == 0
    capsys.readouterr()
    assert main(["report", str(out), "--out", str(tmp_path / "again.html")]) == 0
    assert (tmp_path / "again.html").stat().st_size > 10_000
    assert main(["report", str(tmp_path)]) == 2


def test_tune_goes_on_where_it_stopped(table, tmp_path, capsys):
    pytest.importorskip("optuna")
    command = ["tune", str(table), "--loss", "focal", "--epochs", "2", "--out"]
    assert main([*command, str(tmp_path), "--trials", "2", "--quiet"]) == 0
    assert "2 trials" in capsys.readouterr().out
    assert main([*command, str(tmp_path), "--trials", "4"]) == 0
    got = capsys.readouterr()
    assert "4 trials" in got.out
    assert got.err.count("trial ") == 2
    assert SavedModel.open(tmp_path / "best").rule is not None
    assert main([*command, str(tmp_path / "at once"), "--trials", "4", "--quiet"]) == 0
    written = [json.loads((p / "tune.json").read_text()) for p in (tmp_path, tmp_path / "at once")]
    assert written[0] == written[1]
    assert "gamma" in written[0]["loss_settings"]
    assert len({trial["tried"]["gamma"] for trial in written[0]["history"]}) == 4


def test_tune_says_what_is_wrong_with_its_file(table, tmp_path, capsys):
    pytest.importorskip("optuna")
    command = ["tune", str(table), "--loss", "focal", "--epochs", "1", "--trials", "1", "--quiet"]
    assert main([*command, "--out", str(tmp_path)]) == 0
    (tmp_path / "tune.json").write_bytes(b"\xff")
    for out, more, words in (
        (tmp_path, [], "tune.json: is damaged; delete it to start the search again"),
        (tmp_path / "diverged", ["--lr", "1e38"], "none of 1 trials came to a value"),
    ):
        capsys.readouterr()
        assert main([*command, "--out", str(out), *more]) == 2
        said = capsys.readouterr().err
        assert words in said
        assert said.count("\n") == 1
    assert (tmp_path / "tune.json").read_bytes() == b"\xff"


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
