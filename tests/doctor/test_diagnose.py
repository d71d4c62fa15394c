"""Each cause is planted, found, and not found where it is not."""

import json

import pytest
import torch

from labelset import Labels, calibrate, decide, heads, losses
from labelset.doctor import diagnose
from labelset.model import SavedModel, Split

ROWS, N = 800, 5


def world(seed=0, signal=3.0, rate=0.3):
    """Log-odds that are true, and labels drawn from them."""
    g = torch.Generator().manual_seed(seed)
    u = signal * torch.randn(ROWS, N, generator=g, dtype=torch.float64)
    u = u + torch.logit(torch.tensor(rate, dtype=torch.float64))
    y = (torch.rand(ROWS, N, generator=g, dtype=torch.float64) < u.sigmoid()).double()
    return u, y


def packed(v, y, train=None, **kw):
    parts = {"train": Split(y if train is None else train), "valid": Split(y, v)}
    return SavedModel(names=[f"label {i}" for i in range(y.shape[1])], splits=parts, **kw)


def test_a_sound_run_has_no_findings():
    found = diagnose(packed(*world(), loss="bce"))
    assert found.findings == []
    assert "5 are found" in found.summary
    assert "These checks found no problem" in str(found)


def test_a_dead_label_is_named():
    v, y = world()
    train = y.clone()
    train[:, 2] = 0
    v[:, 2] = -9.0
    found = diagnose(packed(v, y, train, loss="bce"))
    assert found.causes[0] == "dead"
    assert found.findings[0].labels == ["label 2"]
    assert "leave them out" in found.findings[0].remedy
    assert all("label 2" not in f.labels for f in found.findings[1:])


def test_a_label_the_scores_do_not_carry_is_named():
    v, y = world()
    noise = torch.randn(ROWS, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    v[:, 1] = noise - 3
    found = diagnose(packed(v, y, loss="bce"))
    first = found.findings[0]
    assert (first.cause, first.labels) == ("not-carried", ["label 1"])
    assert "features do not carry" in first.remedy


def spa_scores(u):
    """The scores whose link under spa is sigmoid(u), by bisection."""
    loss = losses.build("spa")
    low, high = torch.full_like(u, -50.0), torch.full_like(u, 50.0)
    for _ in range(80):
        middle = (low + high) / 2
        under = loss.link(middle) < u.sigmoid()
        low, high = torch.where(under, middle, low), torch.where(under, high, middle)
    return low


@pytest.mark.parametrize("loss", ["spa", None])
def test_sigmoid_on_spa_is_the_wrong_link(loss):
    u, y = world(rate=0.1)
    v = spa_scores(u)
    run = packed(v, y, loss=loss)
    run.calibrator = calibrate.build("link")  # the sigmoid
    found = diagnose(run)
    assert "wrong-link" in found.causes
    assert "miscalibrated" not in found.causes
    finding = next(f for f in found.findings if f.cause == "wrong-link")
    assert finding.numbers["loss"] == "spa"
    assert "--loss spa" in finding.remedy
    run.calibrator = calibrate.build("link", loss="spa")
    assert "wrong-link" not in diagnose(run).causes


def test_a_loss_without_a_link_needs_a_map():
    v, y = world()
    run = packed(v, y, loss="hill")
    assert diagnose(run).causes[0] == "wrong-link"
    run.calibrator = calibrate.build("platt").fit(v, y)
    assert "wrong-link" not in diagnose(run).causes


def test_overconfident_scores_are_miscalibrated_and_not_mislinked():
    v, y = world(signal=1.0)
    found = diagnose(packed(5 * v, y, loss="bce"))
    assert found.causes[0] == "miscalibrated"
    assert "wrong-link" not in found.causes
    assert found.findings[0].numbers["ace_after"] < found.findings[0].numbers["ace"] / 2


def test_a_rare_label_cut_off_by_its_threshold():
    v, y = world(signal=1.0, rate=0.05)
    found = diagnose(packed(v, y, loss="bce"))
    finding = next(f for f in found.findings if f.cause == "threshold")
    assert finding.labels
    assert finding.numbers["f1_macro_tuned"] > finding.numbers["f1_macro"] + 0.02
    run = packed(v, y, loss="bce")
    run.rule = decide.build("per-class").fit(run.predictor.probabilities(v), y)
    assert "threshold" not in diagnose(run).causes


def test_a_label_set_that_the_head_cannot_say():
    g = torch.Generator().manual_seed(0)
    head = heads.build("linear", features=2, labels=6, bias=False)
    v = torch.randn(40, 6, generator=g)
    y = Labels.from_dense(torch.rand(40, 6, generator=g) < 0.5)
    run = SavedModel(names=list("abcdef"), splits={"valid": Split(y, v)}, head=head)
    finding = next(f for f in diagnose(run).findings if f.cause == "unargmaxable")
    assert finding.numbers["count"] > 0
    assert 1 <= len(finding.labels) <= 3  # at most one more than there are features
    assert "dft" in finding.remedy


def test_rare_silent_labels_are_left_undecided():
    v, y = world()
    y[:, 4] = 0
    y[:2, 4] = 1
    v[:, 4] = -5
    found = diagnose(packed(v, y, loss="bce"))
    assert next(f for f in found.findings if f.cause == "too-few").labels == ["label 4"]


def test_odd_runs_are_diagnosed_too():
    one = SavedModel(names=["a"], splits={"valid": Split([[1]], [[0.5]])})
    assert isinstance(str(diagnose(one)), str)
    unknown = SavedModel(
        names=["a", "b"], splits={"valid": Split([[1, float("nan")]] * 20, [[0.5, 1]] * 20)}
    )
    assert isinstance(str(diagnose(unknown)), str)


def test_findings_are_plain_data():
    v, y = world(signal=1.0)
    found = diagnose(packed(5 * v, y, loss="bce"))
    again = json.loads(json.dumps(found.as_json()))
    assert again["findings"][0]["cause"] == "miscalibrated"


def test_rows_without_known_labels_do_not_matter():
    v, y = world(signal=1.0, rate=0.05)
    y[1::2] = torch.nan
    found = diagnose(packed(v, y, loss="bce"))
    assert "threshold" in found.causes


def test_evidence_counts_known_entries_only():
    v, y = world(signal=1.0)
    y[torch.rand(y.shape, generator=torch.Generator().manual_seed(3)) < 0.9] = torch.nan
    text = str(diagnose(packed(5 * v, y, loss="bce")))
    share = float(y[~y.isnan()].mean())
    assert f"share on {share:.3f}" in " ".join(text.split())


def test_nothing_can_be_judged_where_nothing_is_on():
    v, y = world()
    found = diagnose(packed(v, torch.zeros_like(y), loss="bce"))
    assert found.causes == ["too-few"]
    assert "nothing can be judged" in found.summary
