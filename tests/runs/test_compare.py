"""A comparison from data to answer: honest, reproducible, resumable."""

import csv
import json
import math
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, f1_score

from labelset import Labels
from labelset.cli import main
from labelset.data import Dataset
from labelset.decide import TUNED
from labelset.model import SavedModel
from labelset.runs import Judge, Plan, Standing, compare, parse
from labelset.runs.comparison import choose, recommend, standings

QUICK = {"epochs": 3}


def data(rows=240, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 6, generator=g)
    noise = torch.randn(rows, 4, generator=g)
    return Dataset.from_arrays(
        x,
        (x[:, :4] + 0.7 * noise) > torch.tensor([0.2, 0.5, 1.0, 1.5]),
        names=["a", "b", "c", "<d>"],
        split=[0] * (rows // 2) + [1] * (rows // 4) + [2] * (rows - rows // 2 - rows // 4),
    )


def plan(**kw):
    return Plan(**{"losses": ("bce", "asl"), "seeds": 2, "training": QUICK} | kw)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    out = tmp_path_factory.mktemp("compare") / "run"
    return compare(data(), plan(heads=("linear", "linear:rank=2")), out, jobs=1)


def test_every_figure_is_in_the_table(found):
    with open(found.out / "results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert set(rows[0]) == {"loss", "head", "seed", "split", "stage", "metric", "value"}
    kinds = {(r["loss"], r["head"], r["seed"], r["split"]) for r in rows}
    assert len(kinds) == 2 * 2 * 2 * 2
    assert len(rows) == len(kinds) * 21
    assert len({tuple(r.values())[:6] for r in rows}) == len(rows)


def test_figures_are_scikit_learns(found):
    run = found.run("asl+linear", 1)
    part = run.splits["test"]
    y, v = part.labels.dense().numpy(), part.scores.numpy()
    got = {
        (r.stage, r.metric): r.value
        for r in found.rows
        if (r.loss, r.head, r.seed, r.split) == ("asl", "linear", 1, "test")
    }
    assert got["raw", "map@class"] == pytest.approx(average_precision_score(y, v))
    p = run.predictor.probabilities(part.scores).numpy()
    want = f1_score(y, p >= 0.5, average="macro", zero_division=0)
    assert got["raw", "f1-macro"] == pytest.approx(want)
    assert got["tuned", "f1-macro"] >= got["raw", "f1-macro"] - 0.2


def test_the_recommended_model_is_ready_for_use(found):
    run = SavedModel.open(found.out)
    assert run.rule is not None
    assert run.names == ["a", "b", "c", "<d>"]
    test = data().part("test")
    np.testing.assert_allclose(run.score(test), run.splits["test"].scores, atol=1e-5)
    assert len(run.predictor.sets(run.score(test))) == len(test)
    about = json.loads((found.out / "compare.json").read_text())
    assert about["best"] == found.best
    assert about["versions"]["torch"] == torch.__version__
    assert found.recommendation.startswith("Use ")


def test_the_same_plan_gives_the_same_numbers_on_several_processes(found, tmp_path):
    again = compare(data(), plan(heads=("linear", "linear:rank=2")), tmp_path / "r", jobs=2)
    assert again.rows == found.rows
    assert again.standings == found.standings


def test_a_comparison_is_not_overwritten_and_resumes_only_itself(found):
    with pytest.raises(ValueError, match="there is a run already"):
        compare(data(), found.plan, found.out)
    with pytest.raises(ValueError, match="another plan"):
        compare(data(), plan(), found.out, resume=True)
    with pytest.raises(ValueError, match="another data"):
        compare(data(seed=1), found.plan, found.out, resume=True)
    again = compare(data(), found.plan, found.out, resume=True)  # nothing is left to do
    assert again.rows == found.rows


def test_stopped_half_way_it_goes_on_to_the_same_end(found, tmp_path):
    out, seen = tmp_path / "r", []

    def stop(task, news):
        seen.append(task)
        if len(set(seen)) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(data(), found.plan, out, jobs=1, progress=stop)
    assert not (out / "compare.json").exists()
    assert compare(data(), found.plan, out, jobs=1, resume=True).rows == found.rows


@pytest.mark.slow
def test_killed_it_goes_on_to_the_same_end(tmp_path):
    np.savez(tmp_path / "d.npz", X=data().features.numpy(), Y=data().labels.dense().numpy())
    outs = [tmp_path / "killed", tmp_path / "whole"]
    command = [sys.executable, "-m", "labelset", "compare", str(tmp_path / "d.npz"), "--quiet"]
    command += ["--losses", "bce", "asl", "--seeds", "2", "--epochs", "30", "--jobs", "2", "--out"]
    process = subprocess.Popen([*command, str(outs[0])], start_new_session=True)
    deadline = time.monotonic() + 120
    while not list(outs[0].glob("work/*/*/*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert main([*command[3:], str(outs[0]), "--resume"]) == 0
    assert main([*command[3:], str(outs[1])]) == 0
    first, second = ((out / "results.csv").read_text() for out in outs)
    assert first == second
    assert not list(outs[0].rglob(".*"))


def test_dropped_labels_leave_the_test_rows_whole(tmp_path):
    whole = data()
    got = compare(whole, plan(losses=("bce",), seeds=1, missing=1.0), tmp_path / "r", jobs=1)
    run = got.run("bce+linear")
    assert run.splits["test"].labels == whole.part("test").labels
    assert int(SavedModel.open(tmp_path / "r").splits["train"].labels.counts().max()) == 1


def test_pseudo_labels_are_a_candidate_in_two_stages(tmp_path):
    longer = plan(losses=("bce", "pseudo/bce"), seeds=1, training={"epochs": 40})
    got = compare(data(), longer, tmp_path / "r", jobs=1)
    first, second = (got.run(f"{loss}+linear").splits["test"].scores for loss in got.plan.losses)
    assert not torch.equal(first, second)


def test_rows_are_never_judged_by_what_they_were_fitted_on():
    """Scores that carry nothing: thresholds fitted on the judged rows would look good."""
    g = torch.Generator().manual_seed(0)
    y = torch.rand(60, 200, generator=g) < 0.03
    part = (Labels.from_dense(y), torch.randn(60, 200, generator=g))
    run = SavedModel(names=[str(i) for i in range(200)], splits={"valid": part}, loss="bce")
    tuned = next(
        v for v in Judge(run).views("valid") if (v.stage, v.metric) == ("tuned", "f1-macro")
    )
    from labelset import decide

    p = torch.sigmoid(part[1])
    inside = decide.build(*TUNED["f1-macro"][:1]).fit(p, part[0])(p)
    from labelset.metrics import build

    assert tuned.value(part[0]) < 0.1 < build("f1-macro")(inside, part[0])


def test_infinite_figures_have_no_interval_and_no_verdict():
    far = (torch.tensor([math.inf, math.inf]).double(), torch.full((2, 50), math.inf).double())
    got = standings({("test", "raw", "nll"): far}, {("test", "raw", "nll"): far}, False)[0]
    assert got.verdict == "no difference"
    assert json.loads(json.dumps(got.as_json()))["mean"] is None


def held(mean, delta, low, high, verdict, metric="map@class", stage="raw"):
    return Standing(stage, metric, mean, 0.0, delta, low, high, verdict)


def test_only_the_surely_better_is_recommended():
    base = [held(0.5, 0, 0, 0, "baseline")]
    sure = [held(0.6, 0.1, 0.05, 0.15, "better")]
    lucky = [held(0.7, 0.2, -0.1, 0.5, "no difference")]
    every = {"bce+linear": base, "spa+linear": sure, "asl+linear": lucky}
    assert choose(every, "bce+linear", "map@class") == "spa+linear"
    del every["spa+linear"]
    assert choose(every, "bce+linear", "map@class") == "bce+linear"
    text = recommend("bce+linear", "bce+linear", every, "map@class")
    assert text.startswith("Use bce with a linear head: no candidate beat it significantly")
    cost = held(0.3, 0.1, 0.05, 0.2, "worse", "ace", "calibrated")
    text = recommend("spa+linear", "bce+linear", {"spa+linear": [*sure, cost]}, "map@class")
    assert "+0.100 [+0.050, +0.150] against bce+linear" in text
    assert "significantly worse: ace +0.100 (calibrated)" in text
    raw = held(0.3, -0.4, -0.5, -0.3, "worse", "f1-micro")
    text = recommend("spa+linear", "bce+linear", {"spa+linear": [*sure, raw]}, "map@class")
    assert "untuned its f1-micro is 0.300: use it with its saved thresholds" in text
    text = recommend("spa+linear", "bce+linear", {"spa+linear": sure}, "map@class")
    assert "nothing measured here gets worse" in text


def test_candidates_are_named_with_their_settings():
    assert parse("asl:gamma_neg=2,margin=0") == ("asl", {"gamma_neg": 2, "margin": 0})
    assert parse("spa") == ("spa", {})
    with pytest.raises(ValueError, match="key=value"):
        parse("asl:gamma")


@pytest.mark.parametrize(
    ("kw", "message"),
    [
        ({"losses": ("nope",)}, "no loss is called 'nope'"),
        ({"losses": ("bce", "bce")}, "once each"),
        ({"heads": ("nope",)}, "no head is called"),
        ({"seeds": 0}, "seeds"),
        ({"optimise": "nope"}, "optimise"),
        ({"missing": 1.5}, "missing"),
        ({"losses": ("asl:gamma=x,nope=1",)}, "gamma"),
    ],
)
def test_a_wrong_plan_is_refused(kw, message):
    with pytest.raises((ValueError, TypeError), match=message):
        plan(**kw)
