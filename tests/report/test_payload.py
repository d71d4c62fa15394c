"""The data of a report against scikit-learn and plain loops."""

import base64
import json
import zlib

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, precision_recall_fscore_support

from labelset import decide
from labelset.model import Split
from labelset.report import CandidateInput, ReportInput
from labelset.report.payload import (
    GRID,
    likely_missing,
    packed,
    packed_json,
    payload,
    plain,
    worst_rows,
)
from labelset.runs import findings_of

KINDS = {"u1": "<u1", "u2": "<u2", "u4": "<u4", "f4": "<f4", "f8": "<f8"}


def unpack(held):
    content = zlib.decompress(base64.b64decode(held["data"]))
    if held["kind"] == "json":
        return json.loads(content)
    return np.frombuffer(content, KINDS[held["kind"]])


@pytest.fixture(scope="module")
def made(small):
    return payload(small, seconds=5)


def counts_at(candidate, thresholds):
    """tp, fp, fn of each label as the page works them out."""
    own = unpack(candidate["thresholds"])
    n = len(own)
    table = unpack(candidate["histograms"]).reshape(n, 2, 256).astype(int)
    grid = GRID.numpy()
    out = []
    for j, t in enumerate(thresholds):
        below = int((grid < t).sum())
        cut = below + 1 + int(own[j] <= t and t != own[j])
        if t == own[j]:
            cut = below + 1
        tp, fp = table[j, 1, cut:].sum(), table[j, 0, cut:].sum()
        out.append((tp, fp, table[j, 1].sum() - tp))
    return np.array(out)


@pytest.mark.parametrize("at", [0, 20, 127, 128, 200, 253])
def test_counts_at_thresholds_of_the_grid_are_those_of_scikit_learn(small, made, at):
    threshold = float(GRID[at])
    for given, candidate in zip(small.candidates, made["candidates"], strict=True):
        part = given.run.splits["test"]
        p = given.run.predictor.probabilities(part.scores).double().numpy()
        y = part.labels.dense().numpy()
        found = counts_at(candidate, [threshold] * len(small.names))
        tp, fp, fn = found.T
        wanted = precision_recall_fscore_support(y, p >= threshold, zero_division=0)
        assert np.allclose(tp / np.maximum(tp + fp, 1), wanted[0])
        assert np.allclose(tp / np.maximum(tp + fn, 1), wanted[1])
        assert np.allclose(2 * tp / np.maximum(2 * tp + fp + fn, 1), wanted[2])


def test_saved_thresholds_decide_as_the_saved_rule_does(small, made):
    for given, candidate in zip(small.candidates, made["candidates"], strict=True):
        own = unpack(candidate["thresholds"])
        tp, fp, fn = counts_at(candidate, own).sum(0)
        assert candidate["exact"]
        assert candidate["decided"]["f1-micro"] == pytest.approx(2 * tp / (2 * tp + fp + fn))
        assert own.tolist() == given.run.rule.thresholds.tolist()


def test_average_precision_and_support(small, made):
    for given, candidate in zip(small.candidates, made["candidates"], strict=True):
        part = given.run.splits["test"]
        y = part.labels.dense().numpy()
        wanted = average_precision_score(y, part.scores.numpy(), average=None)
        assert np.allclose(unpack(candidate["ap"]), wanted, atol=1e-6)
        assert unpack(made["on"]).tolist() == y.sum(0).tolist()


def test_reliability_is_of_each_label_before_and_after(small, made):
    given, candidate = small.candidates[0], made["candidates"][0]
    part = given.run.splits["test"]
    y = part.labels.dense().numpy()[:, 3]
    for name, p in (
        ("before", torch.sigmoid(part.scores.double())),
        ("after", given.run.predictor.probabilities(part.scores)),
    ):
        curve = candidate["reliability"][name]
        count, on = (unpack(curve[key]).reshape(-1, 15)[3] for key in ("count", "on"))
        bins = np.clip(np.ceil(p.numpy()[:, 3] * 15) - 1, 0, 14).astype(int)
        assert count.tolist() == np.bincount(bins, minlength=15).tolist()
        assert on.tolist() == np.bincount(bins, y, minlength=15).tolist()


def test_worst_rows_and_likely_missing_by_plain_loops():
    g = torch.Generator().manual_seed(1)
    p = torch.rand(40, 5, generator=g)
    truth = torch.randint(0, 3, (40, 5), generator=g).to(torch.uint8)
    decided = p >= 0.5
    loss = [
        sum(
            -np.log(float(p[i, j]) if truth[i, j] == 1 else 1 - float(p[i, j]))
            for j in range(5)
            if truth[i, j] < 2
        )
        for i in range(40)
    ]
    found = worst_rows(p, decided, truth, most=7)
    assert [entry["row"] for entry in found] == np.argsort(loss)[::-1][:7].tolist()
    assert [entry["loss"] for entry in found] == pytest.approx(sorted(loss)[::-1][:7], rel=1e-3)
    first = found[0]
    assert {j for j, *_ in first["on"]} == set(np.flatnonzero(truth[first["row"]] == 1))
    assert all(truth[first["row"], j] == 0 and said for j, _, said in first["extra"])
    off = sorted((-float(p[i, j]), i, j) for i in range(40) for j in range(5) if truth[i, j] == 0)
    missing = likely_missing(p, truth, most=4)
    assert [(i, j) for i, j, _ in missing] == [(i, j) for _, i, j in off[:4]]


def test_sets_that_cannot_be_said_are_named_with_their_labels(small, made):
    narrow, wide = made["candidates"][0]["proof"], made["candidates"][1]["proof"]
    assert narrow["counts"]["unargmaxable"] > 0
    assert narrow["never"][0]["blame"]
    assert sum(narrow["counts"].values()) == 300
    assert wide["counts"]["argmaxable"] == 300
    assert sum(wide["radii"]["count"]) == 300


def test_proofs_that_run_out_of_time_say_so(small):
    made = payload(small, seconds=0.0)
    for candidate in made["candidates"]:
        assert sum(candidate["proof"]["counts"].values()) == 300


def test_unknown_labels_are_left_out_everywhere(make_run):
    run = make_run(200, 6, unknown=0.3)
    made = payload(ReportInput([CandidateInput("a", "bce", "linear", run)]))
    y = run.splits["test"].labels.dense()
    table = unpack(made["candidates"][0]["histograms"]).reshape(6, 2, 256)
    assert table.sum((1, 2)).tolist() == (~y.isnan()).sum(0).tolist()
    assert any("unknown" in note for note in made["notes"])


@pytest.mark.parametrize(("name", "more"), [("top-k", {"k": 2}), ("expected-f1", {})])
def test_rules_that_are_no_thresholds_start_at_a_half(make_run, name, more):
    run = make_run(100, 5)
    run.rule = decide.build(name, **more)
    p = run.predictor.probabilities(run.splits["valid"].scores)
    run.rule.fit(p, run.splits["valid"].labels)
    candidate = payload(ReportInput([CandidateInput("a", "bce", "linear", run)]))["candidates"][0]
    assert not candidate["exact"]
    assert set(unpack(candidate["thresholds"]).tolist()) == {0.5}


@pytest.mark.parametrize(("rows", "n"), [(30, 1), (1, 4), (50, 40)])
def test_small_and_odd_shapes(make_run, rows, n):
    run = make_run(rows, n, valid=False)
    made = payload(ReportInput([CandidateInput("a", "bce", "linear", run)]))
    json.dumps(made, allow_nan=False)
    assert made["count"] == rows


def test_no_label_is_on_anywhere(make_run):
    run = make_run(20, 3, valid=False)
    part = run.splits["test"]
    run.splits["test"] = type(part)(torch.zeros(20, 3), part.scores)
    made = payload(ReportInput([CandidateInput("a", "bce", "linear", run)]))
    assert np.isnan(unpack(made["candidates"][0]["ap"])).all()


def test_the_doctor_flags_labels_and_takes_fewer_rows_where_they_are_many(make_run, monkeypatch):
    run = make_run(300, 4)
    part = run.splits["valid"]
    blind = part.scores.clone()
    blind[:, 2] = torch.randn(300, generator=torch.Generator().manual_seed(3))
    run.splits["valid"] = Split(part.labels, blind)
    found = findings_of(run)
    flagged = {f["cause"]: f["labels"] for f in found["findings"]}
    assert 2 in flagged["not-carried"]
    assert found["rows"] == [300, 300]
    monkeypatch.setattr("labelset.runs.judging.DIAGNOSED", 400)
    assert findings_of(run)["rows"] == [100, 300]


def test_packing_and_plain_json():
    for array in (
        np.arange(7, dtype=np.uint32),
        np.array([2**31], dtype=np.uint32),
        np.linspace(0, 1, 5),
    ):
        assert unpack(packed(array)).tolist() == array.tolist()
    assert packed(np.arange(7, dtype=np.uint32))["kind"] == "u1"
    assert unpack(packed_json(["é", "\ud800"])) == ["é", "\ud800"]
    assert plain({"a": [float("nan"), {1}]}) == {"a": [None, "{1}"]}
