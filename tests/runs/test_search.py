"""A search from data to answer: every family, on folds, with a blend where a test allows one."""

import json
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin

from labelset import Labels
from labelset.cli import main
from labelset.data import Dataset, SparseRows, ensure_split
from labelset.metrics import build
from labelset.model import Blend, SavedModel
from labelset.runs import (
    Plan,
    Task,
    choose_model,
    compare,
    families,
    reopened,
    search,
    table_rows,
)
from labelset.runs.choosing import affordable, choose_found
from labelset.runs.comparison import COSTS
from labelset.runs.folds import Development
from labelset.runs.shelf import InMemory
from labelset.train.fitted import LATE, Failed

FAMILIES = {"bce+linear", "frequency", "kernel-ridge", "extra-trees", "bce+mlp", "asl+mlp", "blend"}


def data(rows=260, valid=0, seed=0):
    """Labels that depend on features by a line, by a product and not at all."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 5, generator=g)
    noise = torch.randn(rows, 4, generator=g)
    truth = torch.stack([x[:, 0], x[:, 1], 2 * x[:, 2] * x[:, 3], torch.zeros(rows)], dim=1)
    test = rows // 4
    split = [0] * (rows - test - valid) + [1] * valid + [2] * test
    return Dataset.from_arrays(x, truth + 0.5 * noise > 0.6, names=[*"abcd"], split=split)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return compare(data(), Plan(), tmp_path_factory.mktemp("search") / "run")


def test_figures_are_those_of_the_models_that_one_walks_away_with(found):
    kept = set()
    for key, standings in found.standings.items():
        model = found.run(key)
        part = model.splits["test"]
        value = build("f1-micro")(model.predictor.sets(part.scores), part.labels)
        told = next(s for s in standings if (s.stage, s.metric) == ("tuned", "f1-micro"))
        assert told.mean == pytest.approx(value, abs=1e-9), key
        kept.add(model.calibrator is not None)
    assert True in kept


@pytest.mark.slow
def test_what_is_not_solved_is_tried_with_less_strength(tmp_path, monkeypatch):
    solve, strengths = families.solve, []

    def hard(features, labels, folds, problems, **keys):
        if keys.get("final") == "none" or type(problems[0].loss).__name__ != "ASL":
            return solve(features, labels, folds, problems, **keys)
        strengths.append(problems[0].strength)
        if len(strengths) < 3:
            return [Failed("it was not solved") for _ in problems]
        return solve(features, labels, folds, problems, **keys)

    monkeypatch.setattr(families, "solve", hard)
    plan = Plan(losses=("bce", "asl"), single=True, seconds=5.0)
    assert "asl+linear" in compare(data(120), plan, tmp_path / "run").standings
    assert strengths == [strengths[0], strengths[0] / 4, strengths[0] / 16]


def test_every_family_stands_in_one_table(found):
    assert set(found.standings) >= FAMILIES
    product = {key: _ap(found.run(key), 2) for key in FAMILIES}
    assert product["bce+linear"] < 0.6 < min(product["kernel-ridge"], product["blend"])
    assert found.search["left_out"]
    assert json.loads((found.out / "compare.json").read_text())["search"]["blend"]["weights"]


def _ap(run, label):
    part = run.splits["test"]
    return build("map@class")(part.scores[:, [label]], part.labels.dense()[:, [label]])


def test_an_answer_is_opened_again_as_it_was_given(found):
    again = reopened(found.out)
    assert again.plan.as_json() == found.plan.as_json()
    assert repr(replace(again, plan=found.plan)) == repr(found)


def test_the_recommended_model_is_ready_for_use(found):
    run, test = SavedModel.open(found.out), data().part("test")
    assert torch.equal(run.score(test), run.splits["test"].scores)
    assert run.rule is not None
    assert found.best in found.recommendation or "the blend of" in found.recommendation
    own = next(
        s for s in found.standings[found.best] if (s.stage, s.metric) == ("tuned", "f1-micro")
    )
    got = build("f1-micro")(run.predictor.sets(run.score(test)), test.labels)
    assert got == pytest.approx(own.mean, abs=0.05)


def test_all_training_rows_choose(found):
    valid = found.run("bce+linear").splits["valid"]
    assert valid.labels == data().part("train").labels
    assert bool((valid.scores != 0).all())


def test_a_blend_is_the_mean_of_its_parts(found, tmp_path):
    run = found.run("blend")
    assert isinstance(run.estimator, Blend)
    parts = run.estimator.parts
    weights = {part.name: part.weight for part in parts}
    assert weights == pytest.approx(found.search["blend"]["weights"])
    features = run.encoder(data().part("test"))
    mean = sum(
        part.weight * part.calibrator(found.run(part.name).splits["test"].scores) for part in parts
    )
    torch.testing.assert_close(
        run.estimator.scores(features).sigmoid(), mean.float(), atol=1e-5, rtol=0
    )
    run.save(tmp_path / "b")
    path = tmp_path / "b" / "estimator.safetensors"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"damaged run: estimator\.safetensors is not as it was"):
        SavedModel.open(tmp_path / "b")


@pytest.mark.slow
def test_stopped_half_way_it_goes_on_to_the_same_end(found, tmp_path):
    out, seen = tmp_path / "r", []

    def stop(task, news):
        seen.append(task.key)
        if task.key == "kernel-ridge":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(data(), Plan(), out, progress=stop)
    first = [*seen]
    seen.clear()
    again = compare(
        data(), Plan(), out, resume=True, progress=lambda task, _: seen.append(task.key)
    )
    assert "bce+linear" in first
    assert "bce+linear" not in seen
    assert again.rows == found.rows
    assert again.recommendation == found.recommendation


def test_given_validation_rows_choose_and_are_fitted_on_in_the_end(tmp_path):
    given = data(valid=60)
    found = compare(given, Plan(losses=("bce",)), tmp_path / "r")
    assert "chosen by 60 validation rows" in found.recommendation
    for key in ("bce+linear", "kernel-ridge", "extra-trees", "bce+mlp"):
        run = found.run(key)
        part = run.splits["valid"]
        assert part.labels == given.part("valid").labels
        seen = run.score(given.part("valid"))  # it has learned from them since
        assert not torch.allclose(seen, part.scores), key
        mean = build("map@class")
        assert mean(seen, part.labels) > mean(part.scores, part.labels), key


@pytest.mark.slow
def test_own_labels_have_no_say_in_a_rows_score(tmp_path):
    """With labels drawn at random, whatever is good on unseen rows has leaked."""
    g = torch.Generator().manual_seed(3)
    y = torch.rand(240, 3, generator=g) < 0.3
    noise = replace(data(240), labels=Labels.from_dense(y), names=[*"abc"])
    found = compare(noise, Plan(optimise="map@class"), tmp_path / "r")
    for key in found.standings:
        part = found.run(key).splits["valid"]
        auc = build("auroc@class")(part.scores, part.labels) if key != "frequency" else 0.5
        assert abs(auc - 0.5) < 0.12, key


def test_a_blend_is_chosen_only_where_the_nested_test_allows_it():
    values = {"bce+linear": 0.5, "extra-trees": 0.6, "blend": 0.7, "frequency": float("nan")}
    plan = Plan(optimise="map@class")
    assert choose_found(values, plan, {"passes": True}) == "blend"
    assert choose_found(values, plan, {"passes": False}) == "extra-trees"
    assert choose_found(values, replace(plan, single=True), {"passes": True}) == "extra-trees"


def test_in_memory_it_finds_what_a_comparison_finds_of_the_same_rows(found):
    train = replace(data().part("train"), split=None)
    choice = choose_model(train, Plan())
    assert choice.best == found.best
    assert {c.name for c in choice.candidates if not c.note} == set(found.standings)
    kept = found.run(found.best)
    assert torch.equal(choice.model.splits["valid"].scores, kept.splits["valid"].scores)
    assert choice.model.predictor.digest() == kept.predictor.digest()
    test = data().part("test")
    torch.testing.assert_close(choice.model.score(test), kept.splits["test"].scores)
    figures = {(s.stage, s.metric): s.mean for s in found.valid[found.best]}
    assert choice.candidates[0].value >= figures["tuned", "f1-micro"]
    assert "rows, each by a model fitted on" in choice.sentence


def test_in_memory_it_says_what_it_cannot_do():
    nothing = Dataset.from_arrays(torch.randn(20, 2), torch.zeros(20, 2))
    with pytest.raises(ValueError, match="no label is positive in any row"):
        choose_model(nothing, Plan())
    with pytest.raises(ValueError, match="a search needs features or texts in memory"):
        choose_model(data(), Plan(seeds=2))


@pytest.mark.slow
def test_an_estimator_that_no_file_can_hold_is_shown_and_not_chosen(tmp_path):
    spec = "sklearn.neighbors.KNeighborsClassifier:n_neighbors=5"
    broken = "sklearn.neighbors.KNeighborsClassifier:n_neighbors=0"
    found = compare(data(), Plan(losses=("bce",), also=(spec, broken)), tmp_path / "r")
    assert spec in found.standings
    assert "cannot be turned into" in found.run(spec).about["fit"]["unsaved"]
    assert not found.run(spec).can_score
    assert found.best != spec
    assert "n_neighbors" in found.failed[broken]


class Moody(ClassifierMixin, BaseEstimator):
    """Scores all rows but those of the test part."""

    def __init__(self, reply="fail"):
        self.reply = reply

    def fit(self, x, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, x):
        if len(x) == 65 and self.reply == "fail":
            raise KeyError("no such rows")
        return np.full((len(x), 2), np.nan if len(x) == 65 else 0.5)


@pytest.mark.slow
def test_a_candidate_that_cannot_score_the_test_rows_fails_alone(tmp_path):
    specs = tuple(f"{__name__}.Moody:reply={reply}" for reply in ("fail", "nan"))
    found = compare(data(), Plan(losses=("bce",), also=specs), tmp_path / "r")
    assert "Moody failed: KeyError" in found.failed[specs[0]]
    assert "it gave NaN for row 0 of 65" in found.failed[specs[1]]
    assert "extra-trees" in found.standings


@pytest.mark.slow
def test_huge_numbers_of_rows_that_are_not_scaled_have_scores(tmp_path):
    given = data()
    x = given.features.clone()
    x[200] = torch.tensor([3e38, -3e38, 3e38, 3e38, -3e38])
    starts, columns = torch.arange(261) * 5, torch.arange(5).repeat(260)
    rows = SparseRows.from_csr(starts, columns, width=5, values=x.flatten())  # which are not scaled
    given = replace(given, features=rows)
    found = compare(given, Plan(losses=("bce",)), tmp_path / "r")
    assert not found.failed
    for key in found.standings:
        assert not bool(found.run(key).splits["test"].scores.isnan().any()), key


def test_candidates_never_share_a_folder():
    keys = ["a.B:c=1", "a.B:c='1'", 'a.B:c="1"', "a.B-c=1", "a.B:" + "c" * 300, "a.B:" + "c" * 299]
    folders = {Task("", key, 0).folder.casefold() for key in keys}
    assert len(folders) == len(keys)
    assert max(len(part) for folder in folders for part in folder.split("/")) < 200
    with pytest.raises(ValueError, match="also must be named once each"):
        Plan(also=("a.B", "a.B"))


def test_an_estimator_that_there_is_not_is_refused_before_anything_is_fitted(tmp_path):
    with pytest.raises(ValueError, match=r"sklearn\.nope, which cannot be imported"):
        compare(data(), Plan(also=("sklearn.nope.X",)), tmp_path / "r")
    assert not (tmp_path / "r" / "work").exists()


@pytest.mark.parametrize(
    "kind",
    [
        *("one positive", "few"),
        *(
            pytest.param(kind, marks=pytest.mark.slow)
            for kind in ("always", "never", "constant", "unknown")
        ),
    ],
)
def test_bad_data_is_fitted_as_far_as_it_goes(kind, tmp_path):
    given = data(36 if kind == "few" else 120)
    y, x = given.labels.dense(), given.features.clone()
    if kind == "one positive":
        y[:, 3] = 0
        y[5, 3] = 1
    elif kind in ("always", "never"):
        y[:, 3] = float(kind == "always")
    elif kind == "constant":
        x[:, 1], x[:, 2] = 7.0, torch.nan
    elif kind == "unknown":
        y[torch.rand(y.shape, generator=torch.Generator().manual_seed(0)) < 0.3] = torch.nan
    given = replace(given, features=x, labels=Labels.from_dense(y))
    found = compare(given, Plan(losses=("bce",)), tmp_path / "r")
    best = SavedModel.open(found.out)
    assert bool(best.score(given.part("test")).isfinite().all())
    assert found.recommendation.startswith("Use ")


def test_too_few_rows_say_so(tmp_path):
    one = data(40).rows(torch.tensor([0, 39]))
    with pytest.raises(ValueError, match="too few"):
        compare(one, Plan(), tmp_path / "r")


@pytest.mark.parametrize("rows", [3, *(pytest.param(n, marks=pytest.mark.slow) for n in (4, 5)), 6])
@pytest.mark.parametrize("valid", [0, 1])
def test_as_few_rows_as_can_be_are_searched_to_the_end(rows, valid, tmp_path):
    given = data(rows + valid + 1)
    split = torch.tensor([0] * rows + [1] * valid + [2]).to(torch.int8)
    labels = torch.arange(rows + valid + 1)[:, None] % 2 == torch.tensor([0, 1, 0, 1])
    given = replace(given, split=split, labels=Labels.from_dense(labels))
    assert compare(given, Plan(losses=("bce",)), tmp_path / "r").best


def lacking(kind):
    """Rows that can never be compared, whatever is fitted, and what is to be said of them."""
    given = data(60, valid=10)
    y = given.labels.dense()
    part = {"valid": 1, "test": 2}.get(kind.split()[0], 0)
    if kind.endswith("unknown"):
        y[given.split == part] = torch.nan
    elif kind == "valid off":
        y[given.split == part] = 0
    elif kind == "soft":
        y[7, 2] = 0.25
    elif kind == "no features":
        given = replace(given, features=given.features[:, :0])
    elif kind == "equal inputs":
        given = replace(given.rows(given.split != 1), features=torch.ones(50, 5))
        return replace(given, card={"source": "d.npz"})
    return replace(given, labels=Labels.from_dense(y), card={"source": "d.npz"})


@pytest.mark.parametrize("seeds", [None, 1])
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("valid unknown", "no label of the 10 valid rows is known"),
        ("test unknown", "no label of the 15 test rows is known"),
        (
            "valid off",
            "no label is positive in the 10 valid rows, and map@class is not",
        ),
        ("soft", "row 7, label 'c' is 0.25"),
        ("no features", "its 60 rows have no features"),
        ("equal inputs", "too few to learn and to choose from|has no valid rows"),
    ],
)
def test_what_can_never_be_compared_is_said_before_anything_is_fitted(
    kind, message, seeds, tmp_path
):
    with pytest.raises(ValueError, match=f"^d.npz: .*({message})"):
        compare(lacking(kind), Plan(optimise="map@class", seeds=seeds), tmp_path / "r")
    assert not list((tmp_path / "r").glob("work/*/0/*"))


def test_test_rows_on_which_a_metric_is_not_defined_only_leave_it_out(tmp_path):
    given = data(60)
    y = given.labels.dense()
    y[given.split == 2] = 0
    given = replace(given, labels=Labels.from_dense(y))
    found = compare(given, Plan(losses=("bce",), optimise="map@class"), tmp_path / "r")
    assert "map@class is not defined on the test rows" in found.recommendation
    assert "nan" not in str(table_rows(found))
    for name in ("compare.json", "search.json"):
        assert "NaN" not in (found.out / name).read_text()


def test_out_of_time_the_baseline_is_there_all_the_same(tmp_path):
    found = compare(data(), Plan(seconds=1e-3), tmp_path / "r")
    assert found.best in found.standings
    assert "bce+linear" in found.standings
    assert found.failed


def test_without_time_nothing_is_tried_to_see_how_long_it_takes(monkeypatch):
    """A sample that tells the cost would itself take longer than is left."""
    looking = search.Search(
        data(80), Plan(seconds=1e-6, also=("sklearn.naive_bayes.GaussianNB",)), InMemory()
    )
    monkeypatch.setattr("labelset.train.trees._cost", None)
    monkeypatch.setattr("labelset.train.members._fit", None)
    monkeypatch.setattr("labelset.train.rivals._Classifiers", None)
    for family in (families.trees, families.networks, families.others):
        assert {fitted for _, fitted in family(looking)} == {LATE}


@pytest.mark.slow
def test_a_time_budget_bounds_all_that_is_done(tmp_path):
    """Twice the budget and what importing takes: unbounded it would be minutes."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(6_000, 60, generator=g)
    y = x @ torch.randn(60, 40, generator=g) + 6 * torch.randn(6_000, 40, generator=g) > 9
    np.savez(tmp_path / "d.npz", X=x.numpy(), Y=y.numpy())
    began = time.monotonic()
    command = ["compare", str(tmp_path / "d.npz"), "--out", str(tmp_path / "r"), "--quiet"]
    assert main([*command, "--time-budget", "15"]) == 0
    took = time.monotonic() - began
    found = reopened(tmp_path / "r")
    assert "bce+linear" in found.standings
    assert any("left" in why or "would take" in why for why in found.failed.values())
    assert took < 60


def test_equal_inputs_share_a_fold():
    given = data(80)
    twice = replace(
        given, features=given.features[torch.arange(80) // 2], split=torch.zeros(80).to(torch.int8)
    )
    folds = Development.of(twice, 4).folds
    assert torch.equal(folds[0::2], folds[1::2])
    assert folds.bincount().tolist() == [20] * 4


def test_from_the_command_line(tmp_path, capsys):
    given = data(160)
    np.savez(tmp_path / "d.npz", X=given.features.numpy(), Y=given.labels.dense().numpy())
    out = tmp_path / "r"
    command = ["compare", str(tmp_path / "d.npz"), "--losses", "bce", "asl", "--out", str(out)]
    assert main(command) == 0
    shown = capsys.readouterr()
    assert "extra-trees" in shown.out
    assert "s] kernel-ridge: f1-micro 0." in shown.err
    page = (out / "report.html").read_text()
    assert "How the answer was found: folds, members, rivals, the blend" in page
    assert (
        main(["predict", str(out), str(tmp_path / "d.npz"), "--out", str(tmp_path / "p.csv")]) == 0
    )
    assert main(["evaluate", str(out)]) == 0
    assert main(["compare", *command[1:]]) == 2
    assert "--resume, or --force" in capsys.readouterr().err


def test_rows_of_a_group_are_in_one_fold_on_one_side_and_in_one_part_of_a_trial(tmp_path):
    groups = torch.arange(260) % 30
    grouped = ensure_split(replace(data(), split=None, groups=groups), (0.8, 0.0, 0.2))
    development = Development.of(grouped)
    sides = [{*groups[rows].tolist()} for rows in (development.rows, development.test)]
    assert not sides[0] & sides[1]
    for dealt in (development, development.sample(2_000), development.sample(150)):
        folds, own = dealt.folds, groups[dealt.rows]
        assert all(len(folds[own == group].unique()) == 1 for group in own.unique())
        assert len(folds.unique()) > 1
    found = compare(
        replace(grouped, split=None), Plan(losses=("bce",), seconds=0.01), tmp_path / "r"
    )
    assert found.run("bce+linear").splits["test"].labels == grouped.part("test").labels


def test_of_rows_with_times_newer_ones_choose_and_the_newest_judge(tmp_path):
    timed = replace(data(), split=None, times=torch.arange(260.0).flip(0))
    found = compare(timed, Plan(losses=("bce",), seconds=0.01), tmp_path / "r")
    run = found.run("bce+linear")
    assert run.splits["test"].labels == timed.labels[:52]
    assert run.splits["valid"].labels == timed.labels[52:94]
    assert "chosen by 42 validation rows" in found.recommendation


def test_bounds_on_time_and_size_leave_larger_models_out(found):
    costs = {name: dict(zip(COSTS, found.search["costs"][name], strict=True)) for name in FAMILIES}
    small = costs["bce+linear"]["megabytes"] * 1.01
    assert costs["extra-trees"]["megabytes"] > small
    able = affordable({t.key: found.run(t.key) for t in found.tasks}, Plan(max_mb=small))
    assert "bce+linear" in able
    assert not {"extra-trees", "blend", "bce+mlp"} & {*able}
    with pytest.raises(ValueError, match=r"no candidate does with 1e-12 ms for a row: .* takes"):
        affordable({t.key: found.run(t.key) for t in found.tasks}, Plan(max_ms=1e-12))


def test_an_effort_says_how_many_folds_and_trees(tmp_path, monkeypatch):
    few = replace(search.EFFORT["best"], folds=(2, 6), trees=5)
    monkeypatch.setitem(search.EFFORT, "best", few)
    found = compare(data(80), Plan(effort="best", losses=("bce",)), tmp_path / "r")
    assert found.run("extra-trees").about["fit"]["trees"] == 5
    assert "of 6 folds" in found.recommendation


def test_more_effort_tries_more(usual_effort):
    quick, normal, best = (usual_effort[name] for name in ("quick", "normal", "best"))
    for less, more in ((quick, normal), (normal, best)):
        for what in ("folds", "finalists", "trees", "trainings"):
            assert getattr(less, what) < getattr(more, what), what
        assert {*less.networks} < {*more.networks}
    assert not quick.rates
    assert best.rates


@pytest.mark.parametrize("count", [3, 4])
def test_of_many_losses_that_are_named_a_trial_leaves_the_best(count, monkeypatch):
    own = {name: families.FAMILIES[name] for name in ("linear", "networks")}
    monkeypatch.setattr(search, "FAMILIES", own)
    monkeypatch.setattr(families, "MANY", 3)
    monkeypatch.setitem(search.EFFORT, "normal", replace(search.EFFORT["normal"], finalists=2))
    named = ("bce", *(f"focal:gamma={gamma}" for gamma in range(1, count)))
    shelf, plan = InMemory(), Plan(losses=named)
    found = search.search(data(80), plan, shelf)
    fitted = {task.loss for task in found.tasks if task.head == "linear"}
    assert fitted | {key.rpartition("+")[0] for key in found.left_out} == {*named}
    assert len(fitted) == (3 if count <= 3 else 2)
    assert "bce" in fitted
    assert {task.loss for task in found.tasks if task.head == "mlp"} == fitted


def test_where_others_keep_the_cores_busy_the_usual_time_is_longer(monkeypatch):
    looking = search.Search(data(), Plan(), InMemory())
    for used, usual in ((90, 120), (50, 240), (1, 1200)):
        monkeypatch.setattr(search.time, "monotonic", lambda: looking.began + 100)
        monkeypatch.setattr(search.time, "process_time", lambda u=used: looking.used + u)
        assert looking.seconds == pytest.approx(usual, rel=0.2)


@pytest.mark.slow
def test_of_many_sparse_rows_strengths_about_the_trials_are_tried(
    tmp_path, monkeypatch, usual_effort
):
    monkeypatch.setitem(search.EFFORT, "normal", replace(usual_effort["normal"], trees=3))
    monkeypatch.setattr("labelset.runs.families.SAMPLE", 60)
    given = data()
    starts, columns = torch.arange(261) * 5, torch.arange(5).repeat(260)
    rows = SparseRows.from_csr(starts, columns, width=5, values=given.features.flatten())
    given = replace(given, features=rows)
    seen = []
    monkeypatch.setattr("labelset.runs.families.ABOUT", (1e-6, 1.0, 1e6))
    right = families.solve

    def solve(*arguments, **settings):
        seen.append([problem.strength for problem in arguments[3]])
        return right(*arguments, **settings)

    monkeypatch.setattr("labelset.runs.families.solve", solve)
    found = compare(given, Plan(losses=("bce", "hill")), tmp_path / "r")
    whole = [strengths for strengths in seen if len(strengths) == 3]
    assert len(whole) == 1  # of hill, which is not convex, one strength is enough
    assert whole[0][0] < whole[0][1] < whole[0][2]
    assert found.run("bce+linear").about["fit"]["strength"] == whole[0][1]


def test_a_baseline_may_be_of_sums_on_sparse_rows_too(tmp_path):
    given = data(60)
    starts, columns = torch.arange(61) * 5, torch.arange(5).repeat(60)
    rows = SparseRows.from_csr(starts, columns, width=5, values=given.features.flatten())
    plan = Plan(baseline="two-way", seconds=0.01)
    found = compare(replace(given, features=rows), plan, tmp_path / "r")
    assert "two-way+linear" in found.standings


def test_weights_are_heeded_remembered_and_no_feature(tmp_path, capsys):
    """Rows of weight 0 might as well not be there; those that count have their say in figures."""
    x = torch.randn(150, 3, generator=torch.Generator().manual_seed(0))
    heavy = [int(value > 0) + 1 for value in x[:, 2].tolist()]
    lines = ["a,b,count,fork,cup"]
    for (a, b, c), count in zip(x.tolist(), heavy, strict=True):
        lines.append(f"{a:.4f},{b:.4f},{count},{int(a > c)},{int(b > 0.3)}")
    plain = [*lines, *(f"{i},{i},0,1,0" for i in range(30))]
    for name, rows in (("a.csv", lines), ("b.csv", plain)):
        (tmp_path / name).write_text("\n".join(rows))
    options = ["--data", "label_columns=fork,cup", "--weights", "count", "--losses", "bce", "hill"]
    options += ["--time-budget", "0.01s", "--quiet"]
    for name in ("a", "b"):
        out = str(tmp_path / name)
        assert main(["compare", str(tmp_path / f"{name}.csv"), "--out", out, *options]) == 0
    capsys.readouterr()
    a, b = (SavedModel.open(tmp_path / name) for name in ("a", "b"))
    assert torch.equal(a.head.matrix()[0], b.head.matrix()[0])
    assert a.about["schema"]["columns"] == ["a", "b"]
    assert a.splits["valid"].labels.weights.unique().tolist() == [1, 2]
    assert main(["predict", str(tmp_path / "a"), str(tmp_path / "a.csv")]) == 0
    assert len(capsys.readouterr().out.splitlines()) >= 150
    part = a.scored("test")
    again = torch.arange(len(part)).repeat_interleave(part.labels.weights.long())
    assert len(again) > len(part)
    found = reopened(tmp_path / "a")
    value = next(s.mean for s in found.standings["bce+linear"] if s.metric == "map@class")
    repeated = build("map@class")(part.scores[again], replace(part.labels, weights=None)[again])
    assert value == pytest.approx(repeated)


def test_time_for_judging_is_kept_back():
    here = search.Search(data(60), Plan(seconds=100.0, losses=("bce",)), InMemory())
    before = here.seconds
    here.judging = 20.0
    assert before - 60.0 - 5.0 < here.seconds < before - 60.0 + 1e-3
    here.judging = 50.0
    assert here.seconds == 0.0
    assert search.Search(data(60), Plan(losses=("bce",)), InMemory()).seconds > 0
