"""From scores of one's own to decisions, by the verbs of the command line."""

import json

import numpy as np
import pytest
import torch

from labelset import Labels, decide, heads
from labelset.cli import main
from labelset.data import read_labels
from labelset.model import SavedModel


@pytest.fixture
def files(tmp_path):
    g = torch.Generator().manual_seed(0)
    for part in ("valid", "test"):
        y = (torch.rand(80, 3, generator=g) < 0.3).float()
        v = 2 * torch.randn(80, 3, generator=g) + 2 * y - 1
        np.save(tmp_path / f"{part}.npy", v.numpy())
        np.savez(tmp_path / f"{part}_y.npz", Y=y.numpy(), label_names=["fork", "knife", "tea cup"])
    heads.save(heads.build("linear", features=4, labels=3), tmp_path / "head.safetensors")
    return tmp_path


def pack(files, *more):
    out = str(files / "run")
    parts = []
    for part in ("valid", "test"):
        parts += [f"--{part}", str(files / f"{part}.npy"), str(files / f"{part}_y.npz")]
    assert main(["pack", out, *parts, *more]) == 0
    return out


def test_the_way_from_scores_to_decisions(files, capsys):
    run = pack(files, "--loss", "bce", "--head", str(files / "head.safetensors"))
    assert "3 labels" in capsys.readouterr().out
    assert main(["evaluate", run, "--json"]) == 0
    before = json.loads(capsys.readouterr().out)["metrics"]
    assert main(["calibrate", run, "--map", "platt", "--diagram", str(files / "d.svg")]) == 0
    assert "cross-validation" in capsys.readouterr().out
    assert (files / "d.svg").read_text().startswith("<svg")
    assert main(["decide", run, "--rule", "per-class"]) == 0
    out = capsys.readouterr().out
    assert "tea cup" in out
    assert "95% interval" in out
    assert main(["evaluate", run, "--json", "--per-label", "f1-macro"]) == 0
    after = json.loads(capsys.readouterr().out)
    assert after["metrics"]["ace"] < before["ace"]
    assert set(after["per_label"]) == {"fork", "knife", "tea cup"}
    assert main(["query", run, "fork & !'tea cup'", "-k", "4"]) == 0
    assert "of the first 4 rows expected right" in capsys.readouterr().out
    assert main(["doctor", run]) in (0, 1)
    assert "labels that are positive" in capsys.readouterr().out
    assert (
        main(["predict", run, str(files / "test.npy"), "--scores", "--out", str(files / "p.jsonl")])
        == 0
    )
    held = SavedModel.open(run)
    predicted, _, _ = read_labels(files / "p.jsonl", n=3)
    assert predicted == held.predictor.sets(held.splits["test"].scores)


def test_values_are_those_of_the_library(files, capsys):
    run = pack(files)
    capsys.readouterr()
    assert main(["evaluate", run, "--metrics", "map@class", "precision@2", "--json"]) == 0
    from sklearn.metrics import average_precision_score

    v, y = np.load(files / "test.npy"), np.load(files / "test_y.npz")["Y"]
    got = json.loads(capsys.readouterr().out)["metrics"]
    assert got["map@class"] == pytest.approx(average_precision_score(y, v))
    best = np.argsort(-v, 1)[:, :2]
    assert got["precision@2"] == pytest.approx(np.take_along_axis(y, best, 1).mean())


def test_calibrating_again_fits_the_rule_again(files, capsys):
    run = pack(files)
    main(["decide", run, "--rule", "global", "--set", "metric=f1-macro"])
    before = SavedModel.open(run).rule
    main(["calibrate", run, "--map", "temperature", "--set", "per=pool"])
    assert "fitted again" in capsys.readouterr().out
    saved = SavedModel.open(run)
    assert saved.rule.settings() == before.settings()
    part = saved.splits["valid"]
    p = saved.predictor.probabilities(part.scores)
    assert (
        saved.rule.as_json()
        == decide.build("global", metric="f1-macro").fit(p, part.labels).as_json()
    )


def test_a_rule_can_come_from_a_file(files, capsys):
    run = pack(files)
    rule = decide.build("fixed", threshold=[0.2, 0.3, 0.4])
    (files / "rule.json").write_text(json.dumps(rule.as_json()))
    assert main(["decide", run, "--from", str(files / "rule.json")]) == 0
    assert SavedModel.open(run).rule.thresholds.tolist() == [0.2, 0.3, 0.4]


def test_a_loss_without_a_link_still_has_its_ranking_judged(files, capsys):
    run = pack(files, "--loss", "hill")
    assert main(["evaluate", run]) == 0
    out = capsys.readouterr().out
    assert "fit a map" in out
    assert "map@class" in out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["evaluate", "RUN", "--metrics", "nope"], "no metric is called 'nope'"),
        (["evaluate", "RUN", "--on", "train"], "no scores of the train part"),
        (["calibrate", "RUN", "--map", "nope"], "no map is called"),
        (["calibrate", "RUN", "--on", "test"], "must not be fitted on the test part"),
        (["decide", "RUN", "--set", "metric"], "KEY=VALUE"),
        (["decide", "RUN", "--set", "nope=1"], "no hyperparameter 'nope'"),
        (["decide", "RUN", "--from", "nothing.json"], "nothing.json"),
        (["query", "RUN", "fork & spoon"], "unknown name 'spoon'"),
        (["query", "RUN", "fork &"], "query"),
        (["predict", "RUN", "nothing.npy", "--scores"], "no such file"),
        (["predict", "RUN", "nothing.npy"], "no such file"),
        (["predict", "RUN", "nothing.txt"], "no such file"),
        (["predict", "RUN", "nothing.csv"], "no such file"),
        (["doctor", "nowhere"], "not a run"),
        (["pack", "RUN", "--valid", "a", "b"], "not empty"),
        (["pack", "elsewhere"], "nothing to pack"),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(files, capsys, args, message):
    run = pack(files)
    before = {p.name: p.read_bytes() for p in (files / "run").iterdir()}
    capsys.readouterr()
    assert main([run if a == "RUN" else a for a in args]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert {p.name: p.read_bytes() for p in (files / "run").iterdir()} == before


def test_scores_of_another_width_are_refused(files, capsys):
    run = pack(files)
    np.save(files / "wide.npy", np.zeros((2, 7)))
    assert main(["predict", run, str(files / "wide.npy"), "--scores"]) == 2
    assert "7 labels" in capsys.readouterr().err


def test_labels_without_names_get_numbers(files):
    y = Labels.from_lists([[0], [1]], n=2).dense().numpy()
    np.save(files / "y.npy", y)
    np.save(files / "v.npy", y - 0.5)
    out = str(files / "plain")
    assert main(["pack", out, "--valid", str(files / "v.npy"), str(files / "y.npy")]) == 0
    assert SavedModel.open(out).names == ["0", "1"]


def test_a_comparison_keeps_what_is_fitted_on_it(files, capsys):
    run = pack(files)
    (files / "cmp").mkdir()
    (files / "run").rename(files / "cmp" / "best")
    (files / "cmp" / "compare.json").write_text("{}")
    assert run
    assert main(["calibrate", str(files / "cmp"), "--map", "isotonic"]) == 0
    assert type(SavedModel.open(files / "cmp").calibrator).__name__ == "Isotonic"
    assert not (files / "cmp" / "model.json").exists()


def test_pack_keeps_the_files_that_are_there(files, capsys):
    scores, labels = str(files / "valid.npy"), str(files / "valid_y.npz")
    before = (files / "valid_y.npz").read_bytes()
    assert main(["pack", str(files), "--valid", scores, labels]) == 2
    assert "not empty" in capsys.readouterr().err
    assert (files / "valid_y.npz").read_bytes() == before


def test_parts_must_agree_on_their_names(files, capsys):
    y = np.load(files / "test_y.npz")["Y"]
    np.savez(files / "test_y.npz", Y=y, label_names=["tea cup", "knife", "fork"])
    args = ["pack", str(files / "r")]
    for part in ("valid", "test"):
        args += [f"--{part}", str(files / f"{part}.npy"), str(files / f"{part}_y.npz")]
    assert main(args) == 2
    assert "other label names" in capsys.readouterr().err


def test_unknown_labels_are_not_shown_as_on(files, capsys):
    np.save(files / "v.npy", np.array([[3.0, 1, 1], [2, 1, 1]]))
    np.save(files / "y.npy", np.array([[1, np.nan, 0], [np.nan] * 3]))
    out = str(files / "u")
    assert main(["pack", out, "--test", str(files / "v.npy"), str(files / "y.npy")]) == 0
    capsys.readouterr()
    assert main(["query", out, "0", "--json"]) == 0
    assert [r["labels"] for r in json.loads(capsys.readouterr().out)["rows"]] == [["0"], []]


def test_json_is_json_where_a_figure_is_infinite(files, capsys):
    np.save(files / "v.npy", np.array([[1000.0], [-1000.0]]))
    np.save(files / "y.npy", np.array([[0.0], [1.0]]))
    out = str(files / "far")
    assert main(["pack", out, "--test", str(files / "v.npy"), str(files / "y.npy")]) == 0
    capsys.readouterr()
    assert main(["evaluate", out, "--metrics", "nll", "brier", "--json"]) == 0
    got = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(name))
    assert got["metrics"] == {"nll": None, "brier": 1.0}
    assert "infinite" in got["notes"]["nll"]


def test_names_that_move_the_cursor_are_shown_escaped(files, capsys):
    (files / "names.txt").write_text("\ufefffork\nesc\x1b[31mred\nc\n", encoding="utf-8")
    run = pack(files, "--names", str(files / "names.txt"))
    assert SavedModel.open(run).names == ["fork", "esc\x1b[31mred", "c"]
    capsys.readouterr()
    assert main(["evaluate", run, "--per-label", "map@class"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_training_labels_serve_propensities(files, capsys):
    (files / "t.jsonl").write_text('{"labels": [0]}\n{"labels": [0, 1]}\n')  # label 2 never occurs
    run = pack(files, "--train-labels", str(files / "t.jsonl"))
    capsys.readouterr()
    assert main(["evaluate", run, "--metrics", "psp@2", "--json"]) == 0
    assert 0 < json.loads(capsys.readouterr().out)["metrics"]["psp@2"] <= 1
