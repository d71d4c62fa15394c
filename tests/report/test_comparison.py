"""The report of a comparison: what it says about itself, and how to make it again."""

import shlex

import numpy as np
import pytest
import torch

from labelset import decide
from labelset.cli import make_parser
from labelset.cli.compare import plan_of
from labelset.data import Dataset
from labelset.report.content import as_input, command_of
from labelset.report.payload import payload
from labelset.runs import Plan, compare, threshold_intervals


@pytest.mark.parametrize(
    "plan",
    [
        Plan(),
        Plan(also=("sklearn.tree.DecisionTreeClassifier:max_depth=3",), single=True, seconds=90.0),
        Plan(effort="quick", max_ms=0.5, max_mb=20.0),
        Plan(training={"epochs": 3}),
        Plan(losses=("asl:gamma_neg=2,margin=0", "bce"), heads=("dft", "linear:rank=3")),
        Plan(seeds=1, baseline="spa", optimise="f1-macro", missing=0.4, encoder="tfidf:svd=20"),
        Plan(training={"epochs": 2, "lr": 0.01, "batch": 64, "monitor": "f1-micro", "ema": 0.9}),
        Plan(losses=("pseudo/bce", "bce"), training={"optimiser": "sgd", "seconds": 2.5}),
    ],
)
def test_the_command_makes_the_same_plan(plan):
    command = shlex.split(command_of(plan, "/home/x/my films.csv"))
    args = make_parser().parse_args(command[1:])
    assert args.source == "my films.csv"
    assert plan_of(args).as_json() == plan.as_json()


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    g = np.random.default_rng(0)
    x = g.normal(size=(240, 8)).astype(np.float32)
    y = x[:, :5] + g.normal(size=(240, 5)) * 0.3 > 0.4
    dataset = Dataset.from_arrays(x, y)
    out = tmp_path_factory.mktemp("compared") / "run"
    return compare(dataset, Plan(losses=("bce", "hill"), seeds=2, training={"epochs": 2}), out)


def test_what_the_reader_must_know_stands_below_the_table(found):
    given = as_input(found)
    assert "means over 2 seeds" in given.notes[0]
    assert "first seed" in given.notes[0]
    made = payload(given, seconds=1)
    assert made["notes"][0] == given.notes[0]
    assert set(made["settings"]) == {"command", "plan", "data", "versions"}
    assert str(found.out.parent) not in str(made["settings"])


def test_every_candidate_says_where_it_lies_and_every_file_is_there(found):
    given = as_input(found)
    folders = {each.key: each.folder for each in given.candidates}
    assert folders.pop(found.best) == "best"
    for folder in ("best", *folders.values()):
        assert (found.out / folder / "model.json").is_file()
    for path in given.files.values():
        assert (found.out / path).is_file()


@pytest.mark.parametrize("metric", ["f1-micro", "hamming", "f1-samples"])
def test_one_threshold_has_an_interval_from_drawing_rows_anew(make_run, metric):
    run = make_run(300, 6)
    part = run.splits["valid"]
    p = run.predictor.probabilities(part.scores)
    run.rule = decide.build("global", metric=metric).fit(p, part.labels)
    ends = threshold_intervals(run, p)
    assert ends.shape == (6, 2)
    assert bool((ends == ends[0]).all())
    draw = np.random.default_rng(0)
    again = []
    for _ in range(100):
        rows = torch.from_numpy(draw.integers(300, size=300))
        fitted = decide.build("global", metric=metric).fit(p[rows], part.labels[rows])
        again.append(fitted.thresholds.item())
    assert ends[0].tolist() == pytest.approx(np.quantile(again, [0.025, 0.975]).tolist())
    assert ends[0, 0] <= run.rule.thresholds <= ends[0, 1]


def test_no_interval_where_it_would_take_too_long_or_nothing_was_fitted(make_run, monkeypatch):
    run = make_run(50, 4)
    p = run.predictor.probabilities(run.splits["valid"].scores)
    run.rule = decide.build("global").fit(p, run.splits["valid"].labels)
    monkeypatch.setattr("labelset.runs.judging.FOLLOWED", 200 * 39)
    assert threshold_intervals(run, p) is None
    run.rule = decide.build("fixed", threshold=0.3)
    assert threshold_intervals(run, p) is None
