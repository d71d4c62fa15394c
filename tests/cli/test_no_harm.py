"""`decide`, `calibrate` and `doctor` make no run worse unless asked to, and can go back."""

import json
import shutil

import pytest
import torch

from labelset import decide
from labelset.cli import main
from labelset.doctor import diagnose
from labelset.model import Changes, SavedModel, Split, purpose

MAIN = ("f1-micro", "f1-macro", "subset-accuracy")
RUIN = ["--rule", "per-class", "--set", "shrink=0", "--set", "metric=f1-macro"]


def rare(seed=0, rows=600, sharp=3.0):
    """Two common labels and sixty that have a few positives each, which the scores rank at random:
    the best threshold of each alone, on few rows, predicts it for many."""
    g = torch.Generator().manual_seed(seed)
    often = torch.tensor([0.4, 0.3, *[0.006] * 60])
    y = (torch.rand(rows, len(often), generator=g) < often).float()
    signal = torch.tensor([sharp, sharp, *[0.7] * 60])
    v = signal * (2 * y - 1) + torch.randn(y.shape, generator=g) + torch.logit(often)
    return y, v


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    y, v = rare()
    parts = {"valid": Split(y, v), "test": Split(*rare(1))}
    run = SavedModel([f"label {i}" for i in range(y.shape[1])], parts, loss="bce")
    run.about["optimise"] = "f1-micro"
    run.rule = decide.tuned_for("f1-micro").fit(run.predictor.probabilities(v), y)
    run.save(tmp_path_factory.mktemp("made") / "run")
    return run.folder


@pytest.fixture
def run(made, tmp_path):
    return shutil.copytree(made, tmp_path / "run")


def content(run):
    return {path.name: path.read_bytes() for path in run.iterdir()}


def test_a_rule_that_does_harm_is_refused_in_one_line(run, capsys):
    before = content(run)
    assert main(["decide", str(run), *RUIN]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert "f1-micro 0." in shown.err
    assert " -> 0." in shown.err
    assert "--force" in shown.err
    assert content(run) == before


def test_force_saves_it_and_undo_goes_back_bit_by_bit(run, capsys):
    before = content(run)
    assert main(["decide", str(run), *RUIN, "--force"]) == 0
    assert SavedModel.open(run).rule.name == "per-class"
    assert main(["decide", str(run), "--undo"]) == 0
    assert "back in force: calibrator none, rule global" in capsys.readouterr().out
    assert content(run) == before
    assert main(["calibrate", str(run), "--undo"]) == 2
    assert "nothing to undo" in capsys.readouterr().err
    assert content(run) == before


def test_undo_goes_one_step_back_whichever_verb_went_there(run, capsys):
    assert main(["calibrate", str(run)]) == 0
    between = content(run)["model.json"]
    assert main(["decide", str(run)]) == 0  # the same rule: no step
    assert main(["decide", str(run), "--set", "metric=f1-samples"]) == 0
    assert content(run)["previous.json"] == between
    capsys.readouterr()
    assert main(["calibrate", str(run), "--undo", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"undone": True}
    assert content(run)["model.json"] == between


@pytest.mark.parametrize("damage", ["cut", "changed", "head"])
def test_what_was_before_is_named_where_it_is_damaged(run, capsys, damage):
    assert main(["calibrate", str(run)]) == 0
    previous, test = run / "previous.json", run / "test.npz"
    if damage == "cut":
        previous.write_bytes(previous.read_bytes()[:-9])
    elif damage == "changed":
        previous.write_text(previous.read_text().replace("f1-micro", "f1-macro"))
    else:  # another file of the run is not that of then
        test.write_bytes(test.read_bytes()[:-1])
    before = content(run)
    capsys.readouterr()
    assert main(["decide", str(run), "--undo"]) == 2
    assert "previous.json: damaged" in capsys.readouterr().err
    assert content(run) == before


def test_a_run_saved_anew_has_nothing_before_it(run):
    assert main(["calibrate", str(run)]) == 0
    SavedModel.open(run).save(run)
    with pytest.raises(ValueError, match="nothing to undo"):
        SavedModel.undo(run)


def test_what_decide_fits_by_default_is_for_the_metric_of_the_run(run):
    saved = SavedModel.open(run)
    for metric, name in (
        ("f1-micro", "global"),
        ("f1-macro", "per-class"),
        ("ndcg@5", "per-class"),
    ):
        saved.about["optimise"] = metric
        saved.rule = None
        saved.save_model()
        assert purpose(SavedModel.open(run)) == metric
        assert main(["decide", str(run), "--force"]) == 0
        rule = SavedModel.open(run).rule
        assert rule.name == name
        assert getattr(rule, "shrink", 5.0) == 5.0


@pytest.mark.parametrize("loss", ["bce", "hill", "spa"])
@pytest.mark.parametrize("ruled", [True, False])
def test_what_is_advised_does_no_harm(tmp_path, loss, ruled, capsys):
    """The law: after every command that the doctor names, no main metric is sharply worse."""
    y, v = rare(2, sharp=2.0)
    run = SavedModel([str(i) for i in range(y.shape[1])], {"valid": Split(y, v + 1.5)}, loss=loss)
    if ruled:
        p = run.predictor.or_sigmoid().probabilities(v + 1.5)
        run.rule = decide.tuned_for("f1-micro").fit(p, y)
    advised = [f.remedy.partition("labelset ")[2].rstrip(".") for f in diagnose(run).findings]
    for words in filter(None, advised):
        run.save(tmp_path / "run")
        argv = [str(tmp_path / "run") if word == "RUN" else word for word in words.split()]
        changes = Changes(run)
        assert main(argv) == 0, capsys.readouterr().err
        after = SavedModel.open(tmp_path / "run")
        assert changes.to(after.calibrator, after.rule).falls == []
    assert advised


def test_a_rule_by_hand_gives_way_where_a_calibrator_makes_it_harmful(run, capsys):
    saved = SavedModel.open(run)
    part = saved.splits["valid"]
    saved.splits["valid"] = Split(part.labels, part.scores - 3)  # as true, all too low
    saved.rule = decide.build("fixed", threshold=0.02)
    saved.save(run)
    assert main(["calibrate", str(run), "--set", "per=pool"]) == 0
    assert "would do harm here: global for f1-micro was fitted instead" in capsys.readouterr().out
    assert SavedModel.open(run).rule.name == "global"
    assert main(["calibrate", str(run), "--undo"]) == 0
    assert SavedModel.open(run).rule.thresholds == 0.02


def test_no_test_row_judges(run):
    saved = SavedModel.open(run)
    ruin = decide.build("per-class")
    found = Changes(saved).to(None, ruin)
    assert found.falls
    assert set(found.before) == {*MAIN}
    saved.splits["test"] = Split(1 - saved.splits["test"].labels.dense(), torch.zeros(600, 62))
    assert Changes(saved).to(None, ruin) == found
    del saved.splits["valid"]
    assert Changes(saved, "test").to(None, ruin).before == {}


def test_rows_are_judged_by_what_other_rows_taught():
    """Scores that carry nothing: thresholds fitted on the judged rows would look good."""
    g = torch.Generator().manual_seed(0)
    y, v = (torch.rand(60, 200, generator=g) < 0.03).float(), torch.randn(60, 200, generator=g)
    run = SavedModel([str(i) for i in range(200)], {"valid": Split(y, v)}, loss="bce")
    inside = decide.build("per-class").fit(v.sigmoid(), y)
    assert Changes(run).to(None, inside).after["f1-macro"] < 0.1
    assert Changes(run).to(None, inside, kept=(inside,)).after["f1-macro"] > 0.12
