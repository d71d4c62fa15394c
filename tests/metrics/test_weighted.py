"""Metrics with weighted rows are scikit-learn's; those of resamples, compiled or not."""

import numpy as np
import pytest
import torch
from sklearn import metrics as sk
from sklearn.metrics import average_precision_score

from labelset.metrics import _order, build

DRAW = np.random.default_rng(0)
V = DRAW.standard_normal((60, 5)).round(1)
Y = (DRAW.random((60, 5)) < 0.3).astype(int)
SETS = (V > 0).astype(int)
WEIGHT = DRAW.exponential(size=60)
P = 1 / (1 + np.exp(-V))
LONG = np.repeat(WEIGHT, 5)


def of_sets(function, **settings):
    return lambda: function(Y, SETS, sample_weight=WEIGHT, zero_division=0.0, **settings)


def of_scores(function, **settings):
    return lambda: function(Y, V, sample_weight=WEIGHT, **settings)


THEIRS = {
    ("map@class",): of_scores(sk.average_precision_score, average="macro"),
    ("map-micro",): of_scores(sk.average_precision_score, average="micro"),
    ("map@sample", ("undefined", 1.0)): of_scores(sk.label_ranking_average_precision_score),
    ("auroc@class",): of_scores(sk.roc_auc_score, average="macro"),
    ("auroc-micro",): of_scores(sk.roc_auc_score, average="micro"),
    ("coverage",): of_scores(sk.coverage_error),
    ("ranking-loss",): of_scores(sk.label_ranking_loss),
    ("ndcg@3", ("undefined", 0.0)): of_scores(sk.ndcg_score, k=3),
    ("hamming",): lambda: sk.hamming_loss(Y, SETS, sample_weight=WEIGHT),
    ("subset-accuracy",): lambda: sk.accuracy_score(Y, SETS, sample_weight=WEIGHT),
    ("brier",): lambda: sk.brier_score_loss(Y.ravel(), P.ravel(), sample_weight=LONG),
    ("nll",): lambda: sk.log_loss(Y.ravel(), P.ravel(), sample_weight=LONG),
} | {
    ours: of_sets(function, average=average)
    for average in ("micro", "macro", "weighted", "samples")
    for ours, function in {
        (f"f1-{average}",): sk.f1_score,
        ("precision", ("average", average)): sk.precision_score,
        ("recall", ("average", average)): sk.recall_score,
    }.items()
}


@pytest.mark.parametrize("named", THEIRS, ids=lambda named: "-".join(map(str, named)))
def test_weighted_rows_are_scikit_learns(named):
    metric = build(named[0], **dict(named[1:]))
    given = {"scores": V, "label sets": SETS, "probabilities": P}[metric.takes]
    assert metric(given, Y, sample_weight=WEIGHT) == pytest.approx(THEIRS[named](), abs=1e-12)


def test_classes_without_a_positive_count_zero_as_in_scikit_learn():
    y = Y.copy()
    y[:, 1] = 0
    with pytest.warns(UserWarning, match="No positive class"):
        due = sk.average_precision_score(y, V, average="macro")
    found = build("map@class", undefined=0.0).report(V, y)
    assert found.value == pytest.approx(due, abs=1e-12)
    assert found.each[1] == 0
    assert found.left_out == 0
    assert build("map@class")(V, y) == pytest.approx(due * 5 / 4, abs=1e-12)
    assert build("map-micro", undefined=0.0)(V, 0 * y) == 0
    with pytest.raises(ValueError, match="no entry is positive"):
        build("map-micro")(V, 0 * y)
    with pytest.raises(ValueError, match="undefined"):
        build("map@class", undefined=-1.0)


def test_metrics_that_know_no_weights_say_so():
    with pytest.raises(TypeError, match="takes no sample_weight"):
        build("ace", binning="mass")(P, Y, sample_weight=WEIGHT)


@pytest.fixture(params=["compiled", "torch"])
def way(request, monkeypatch):
    if request.param == "torch":
        monkeypatch.setattr(_order, "_count", None)
    elif _order._count is None:
        pytest.fail("the counter was not built")


@pytest.mark.parametrize("levels", [2, 7, 10_000])
@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("metric", ["precision", "auroc"])
def test_rows_drawn_several_times(levels, metric):
    g = torch.Generator().manual_seed(levels)
    rows, times = 300, 20
    v = torch.randint(levels, (rows,), generator=g) / 8
    on = torch.rand(rows, generator=g) < 0.3
    weights = torch.poisson(torch.ones(rows, times), generator=g)
    some = torch.randperm(rows, generator=g)[:200]  # the others are unknown
    mine, other = {
        "precision": (_order.weighted_precision, average_precision_score),
        "auroc": (_order.weighted_auroc, sk.roc_auc_score),
    }[metric]
    got = mine(v[some], on[some], some, weights)
    want = [other(on[some], v[some], sample_weight=weights[some, t]) for t in range(times)]
    np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.usefixtures("way")
def test_resamples_without_what_is_on_have_none():
    v, on = torch.tensor([3.0, 2.0, 1.0]), torch.tensor([True, False, False])
    weights = torch.tensor([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 5.0, 0.0]])
    got = _order.weighted_precision(v, on, torch.arange(3), weights)
    assert got[0] == 1
    assert got[1:].isnan().all()
    nothing = _order.weighted_precision(v, on & False, torch.arange(3), weights)
    assert nothing.isnan().all()
    empty = torch.zeros(0, dtype=torch.long)
    assert _order.weighted_precision(v[:0], on[:0], empty, weights).isnan().all()
