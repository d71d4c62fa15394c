"""Each thing is computed once of a model, stored beside it, and found again for its predictor."""

from collections import Counter

import numpy as np
import pytest
import torch

from labelset import Labels, decide, heads
from labelset.calibrate import ProbMap
from labelset.cli import main
from labelset.data import Dataset
from labelset.decide import Rule
from labelset.model import Predictor, SavedModel, Split
from labelset.report import write_report
from labelset.report.content import as_input
from labelset.runs import Judge, Judgement, Plan, compare, judge_again, judgement_of, judging


def data():
    g = np.random.default_rng(0)
    x = g.normal(size=(400, 6)).astype(np.float32)
    return Dataset.from_arrays(x, x[:, :4] + g.normal(size=(400, 4)) * 0.5 > 0.6)


def fitted_model(rows=80):
    g = torch.Generator().manual_seed(0)
    y = torch.rand(rows, 4, generator=g) < 0.4
    v = 2 * torch.randn(rows, 4, generator=g) + 1.5 * y
    splits = {name: Split(Labels.from_dense(y), v) for name in ("valid", "test")}
    head = heads.build("linear", features=3, labels=4)
    return Judge(SavedModel(list("abcd"), splits, "bce", head=head)).finish("f1-macro")


def test_a_comparison_with_its_report_computes_each_thing_once(tmp_path, monkeypatch):
    """Two losses, two seeds: four models, of which the two of the first seed are shown."""
    counts, whole = Counter(), Counter()

    def counting(owner, name, key, size=None):
        before = getattr(owner, name)

        def call(self, *args, **settings):
            counts[key] += 1
            if size is not None:
                whole[key, len(args[0])] += 1
            return before(self, *args, **settings)

        monkeypatch.setattr(owner, name, call)

    counting(Predictor, "probabilities", "probabilities")
    counting(Rule, "fit", "rule", size=True)
    counting(ProbMap, "fit", "calibrator", size=True)
    counting(judging, "verify", "proof")
    plan = Plan(losses=("bce", "asl"), seeds=2, training={"epochs": 2})
    found = compare(data(), plan, tmp_path / "run", jobs=1)
    write_report(as_input(found), tmp_path / "run" / "report.html")
    assert counts["probabilities"] == 4 * 2  # validation and test
    assert counts["proof"] == 2  # one for each head that is shown
    valid = len(found.run("bce+linear").splits["valid"])
    assert whole["rule", valid] == 4 * 3  # one for each F1, and none for what is saved
    assert whole["calibrator", valid] == 4 + 2  # the doctor tries one on what is shown
    halves = 4 * 3 * 2  # of validation rows, each judged by what the other taught
    # of what is shown the doctor cross-fits the thresholds in force and others, in five folds, to
    # see that these do no harm, and then what they find, by halves
    doctors = 2 * (5 + 5 + 2)
    assert counts["rule"] == whole["rule", valid] + halves + doctors
    counts.clear()
    assert main(["report", str(tmp_path / "run")]) == 0
    assert not counts


def test_what_is_stored_comes_back(tmp_path):
    model = fitted_model()
    model.save(tmp_path)
    first = judgement_of(model)
    first.save(tmp_path / "judgement.npz")
    again = Judgement.load(tmp_path / "judgement.npz")
    assert again.digest == first.digest == model.predictor.digest()
    assert torch.equal(again.probabilities, first.probabilities)
    assert torch.equal(again.intervals, first.intervals)
    assert (again.findings, again.proof) == (first.findings, first.proof)
    assert 0 <= first.expressible <= 1
    p = model.predictor.probabilities(model.splits["test"].scores)
    assert torch.equal(first.probabilities, p)


def test_another_rule_is_judged_anew_and_the_head_is_not_proven_twice(tmp_path, monkeypatch):
    model = fitted_model()
    model.save(tmp_path)
    judge_again(model)
    assert not (tmp_path / "judgement.npz").exists()  # nothing was stored that could be old
    first = judgement_of(model)
    first.save(tmp_path / "judgement.npz")
    monkeypatch.setattr(judging, "verify", lambda *_, **__: pytest.fail("proven again"))
    assert judgement_of(SavedModel.open(tmp_path)).digest == first.digest
    model.rule = decide.build("fixed", threshold=0.01)
    model.save_model()
    assert judgement_of(model).intervals is None
    judge_again(model)
    assert Judgement.load(tmp_path / "judgement.npz").digest == model.predictor.digest()


def test_a_damaged_judgement_is_made_again(tmp_path):
    model = fitted_model()
    model.save(tmp_path)
    path = tmp_path / "judgement.npz"
    for content in (b"", b"nothing", b"PK\x03\x04 half"):
        path.write_bytes(content)
        assert judgement_of(model).digest == model.predictor.digest()
    judge_again(model)
    assert Judgement.load(path).digest == model.predictor.digest()


def test_the_report_never_shows_an_old_rule(tmp_path, capsys):
    plan = Plan(losses=("bce",), seeds=1, training={"epochs": 2})
    found = compare(data(), plan, tmp_path / "run", jobs=1)
    before = Judgement.load(tmp_path / "run" / "best" / "judgement.npz")
    for command in (["decide", "--rule", "per-class"], ["calibrate", "--map", "isotonic"]):
        assert main([command[0], str(tmp_path / "run"), *command[1:]]) == 0
        best = SavedModel.open(tmp_path / "run")
        now = Judgement.load(tmp_path / "run" / "best" / "judgement.npz")
        assert now.digest == best.predictor.digest() != before.digest
        assert now.proof == before.proof
        shown = as_input(found).candidate(found.best).run
        assert judgement_of(shown).digest == now.digest
        before = now


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_of_very_many_entries_a_sample_of_the_rows_chooses(seed, monkeypatch):
    g = torch.Generator().manual_seed(seed)
    y = torch.rand(3000, 4, generator=g) < 0.4
    v = 2 * torch.randn(3000, 4, generator=g) + 1.5 * y
    splits = {name: Split(Labels.from_dense(y), v) for name in ("valid", "test")}
    every = Judge(SavedModel(list("abcd"), splits, "bce"))
    monkeypatch.setattr(judging, "CHOOSING", 4 * 1000)
    some = Judge(SavedModel(list("abcd"), splits, "bce"))
    assert len(every.part("valid")) == len(some.part("test")) == 3000
    assert len(some.part("valid")) == 1000
    for metric in ("f1-macro", "map@class"):
        assert some.unseen(metric) == pytest.approx(every.unseen(metric), abs=0.03)
        assert some.unseen(metric) != every.unseen(metric)
    model = some.finish("f1-macro")
    found = some.judgement()
    assert found.digest == model.predictor.digest()
    assert len(found.probabilities) == 3000
    assert model.rule.thresholds == pytest.approx(every.finish("f1-macro").rule.thresholds, abs=0.2)
