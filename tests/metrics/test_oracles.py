"""Values against scikit-learn, torchmetrics and plain loops, ties and unknown labels included."""

import itertools
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk
from sklearn.calibration import calibration_curve

import labelset as ls
from labelset.metrics import _order, build, reliability
from labelset.metrics.at_k import propensities


def batch(seed, rows=40, n=9, tied=False, density=0.3):
    rng = np.random.default_rng(seed)
    v = rng.standard_normal((rows, n))
    y = (rng.random((rows, n)) < density).astype(int)
    return (np.round(v) if tied else v), y


def quiet(function, *args, **kw):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **kw)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_average_precision_is_scikit_learns(seed, tied):
    v, y = batch(seed, tied=tied)
    y[:, 2], y[5] = 0, 0
    columns, rows = y.any(0), y.any(1)
    report = build("map@class").report(v, y)
    assert report.value == pytest.approx(
        sk.average_precision_score(y[:, columns], v[:, columns], average="macro"), abs=1e-12
    )
    assert report.left_out == 1
    assert report.each.isnan().tolist() == (~columns).tolist()
    report = build("map@sample").report(v, y)
    want = sk.average_precision_score(y[rows], v[rows], average="samples")
    assert report.value == pytest.approx(want, abs=1e-12)
    assert report.left_out == (~rows).sum()
    full = np.where(rows[:, None], y, 1)  # there it is label ranking average precision too
    assert build("map@sample")(v, full) == pytest.approx(
        sk.label_ranking_average_precision_score(full, v), abs=1e-12
    )


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("unknown", [0.0, 0.3])
@pytest.mark.parametrize("tied", [False, True])
def test_auroc_and_pooled_average_precision_are_scikit_learns(tied, unknown, compiled, monkeypatch):
    if not compiled:
        monkeypatch.setattr(_order, "_count", None)
        monkeypatch.setattr(_order, "CELLS", 100)  # several pieces of one line
    for seed in range(4):
        v, y = batch(seed, rows=60, tied=tied)
        y[:, 2], y[:, 4] = 0, 1
        free = np.random.default_rng(seed).random(y.shape) < unknown
        known = ~free
        each = np.full(9, np.nan)
        for j in (0, 1, 3, 5, 6, 7, 8):
            each[j] = sk.roc_auc_score(y[known[:, j], j], v[known[:, j], j])
        truth = np.where(free, np.nan, y)
        report = build("auroc@class").report(v, truth)
        np.testing.assert_allclose(report.each, each, atol=1e-12)
        assert report.value == pytest.approx(np.nanmean(each), abs=1e-12)
        assert report.left_out == 2
        want = sk.roc_auc_score(y[known], v[known])
        assert build("auroc-micro")(v, truth) == pytest.approx(want, abs=1e-12)
        want = sk.average_precision_score(y[known], v[known])
        assert build("map-micro")(v, truth) == pytest.approx(want, abs=1e-12)
    some = [0, 1, 3, 5, 6, 7, 8]
    want = sk.roc_auc_score(y[:, some], v[:, some], average="macro")
    assert build("auroc@class")(v, y) == pytest.approx(want, abs=1e-12)
    want = sk.roc_auc_score(y, v, average="micro")
    assert build("auroc-micro")(v, y) == pytest.approx(want, abs=1e-12)
    want = sk.average_precision_score(y, v, average="micro")
    assert build("map-micro")(v, y) == pytest.approx(want, abs=1e-12)


def test_average_precision_and_auroc_are_torchmetrics_too():
    torchmetrics = pytest.importorskip("torchmetrics.functional.classification")
    v, y = batch(3, rows=200)
    p = torch.sigmoid(torch.from_numpy(v)).float()
    for name, theirs, average in (
        ("map@class", torchmetrics.multilabel_average_precision, "macro"),
        ("map-micro", torchmetrics.multilabel_average_precision, "micro"),
        ("auroc@class", torchmetrics.multilabel_auroc, "macro"),
        ("auroc-micro", torchmetrics.multilabel_auroc, "micro"),
    ):
        want = theirs(p, torch.from_numpy(y), num_labels=9, average=average)
        assert build(name)(p, y) == pytest.approx(float(want), abs=1e-6), name


def interpolated(v, y):
    """The area under the best precision at no lower recall, point by point."""
    order = np.argsort(-v, kind="stable")
    hits = np.cumsum(y[order])
    last = np.r_[v[order][1:] != v[order][:-1], True]  # equal scores count together
    precision, recall = hits[last] / (np.arange(len(v)) + 1)[last], hits[last] / y.sum()
    area, before = 0.0, 0.0
    for i, r in enumerate(recall):
        area += (r - before) * precision[i:].max()
        before = r
    return area


@pytest.mark.parametrize("tied", [False, True])
def test_interpolated_average_precision_is_the_area_under_the_envelope(tied):
    v, y = batch(5, tied=tied)
    want = np.mean([interpolated(v[:, j], y[:, j]) for j in range(9)])
    assert build("map@class", interpolated=True)(v, y) == pytest.approx(want, abs=1e-12)
    some = y.any(1)
    want = np.mean([interpolated(v[i], y[i]) for i in np.flatnonzero(some)])
    assert build("map@sample", interpolated=True)(v, y) == pytest.approx(want, abs=1e-12)


@pytest.mark.parametrize("tied", [False, True])
def test_coverage_and_ranking_loss_are_scikit_learns(tied):
    v, y = batch(7, tied=tied)
    y[3], y[4] = 0, 1
    assert build("coverage")(v, y) == pytest.approx(sk.coverage_error(y, v))
    assert build("ranking-loss")(v, y) == pytest.approx(sk.label_ranking_loss(y, v))


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 40), st.booleans())
def test_both_ways_of_counting_ranks_agree_with_a_loop(seed, rows, n, by_class):
    rng = np.random.default_rng(seed)
    v = rng.choice([-np.inf, -1.0, -0.0, 0.0, 0.5, 2.0, np.inf], (rows, n))
    v = np.where(rng.random((rows, n)) < 0.5, v, rng.standard_normal((rows, n)))
    y = rng.choice([0.0, 1.0, np.nan], (rows, n), p=[0.6, 0.3, 0.1])
    lines = zip(v.T, y.T, strict=True) if by_class else zip(v, y, strict=True)
    want = []
    for line, (scores, truth) in enumerate(lines):
        known = scores[~np.isnan(truth)]
        own = np.sort(scores[truth == 1])
        for s in own:
            want.append((line, (known >= s).sum(), (known == s).sum(), (own >= s).sum()))
    labels = ls.Labels.from_dense(y)
    for dtype, use in itertools.product((torch.float32, torch.float64), (_order._count, None)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_order, "_count", use)
            patch.setattr(_order, "CELLS", 50)
            found = _order.positive_ranks(torch.from_numpy(v).to(dtype), labels, by_class)
        got = zip(found.line, found.at_least, found.level, found.on_at_least, strict=True)
        if dtype == torch.float64:
            assert [tuple(map(int, entry)) for entry in got] == want


def test_the_counter_is_compiled_here():
    assert _order._count is not None


def test_all_entries_in_one_line_are_ranked_by_pieces_as_by_one(monkeypatch):
    g = torch.Generator().manual_seed(0)
    v = torch.randn(3000, 100, generator=g).mul(20).round()
    y = ls.Labels.from_dense(torch.rand(3000, 100, generator=g) < 0.03)
    assert v.numel() >= _order.SMALL
    whole = _order.positive_ranks(v.reshape(1, -1), ls.Labels.from_dense(y.dense().reshape(1, -1)))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    pieces = _order.pooled_ranks(v, y)
    for name in ("starts", "line", "at_least", "level", "on_at_least"):
        assert torch.equal(getattr(whole, name), getattr(pieces, name)), name


def test_many_lines_of_every_length_are_ranked_alike():
    """Columns go through tiles, and sorting through runs and merges: sizes around their edges."""
    g = torch.Generator().manual_seed(0)
    v = torch.randn(1100, 70, generator=g).mul(20).round()
    y = torch.rand(1100, 70, generator=g) < torch.linspace(0, 1, 70)
    for by_class in (False, True):
        fast = _order.positive_ranks(v, ls.Labels.from_dense(y), by_class)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_order, "_count", None)
            slow = _order.positive_ranks(v, ls.Labels.from_dense(y), by_class)
        for name in ("starts", "line", "at_least", "level", "on_at_least"):
            assert torch.equal(getattr(fast, name), getattr(slow, name)), name


@pytest.mark.parametrize("zero_division", [0.0, 1.0])
@pytest.mark.parametrize("beta", [1.0, 0.5])
@pytest.mark.parametrize("average", ["micro", "macro", "weighted", "samples"])
def test_f_is_scikit_learns(average, beta, zero_division):
    for seed in range(5):
        v, y = batch(seed, density=0.2)
        predicted = (v > 0.7).astype(int)
        y[:, 1], predicted[:, 1], y[0], predicted[0] = 0, 0, 0, 0
        want = quiet(
            sk.fbeta_score, y, predicted, beta=beta, average=average, zero_division=zero_division
        )
        metric = build(f"f1-{average}", beta=beta, zero_division=zero_division)
        assert metric(predicted, y) == pytest.approx(want, abs=1e-12)


def test_names_of_the_papers_mean_what_the_errata_say():
    v, y = batch(1)
    predicted = v > 0
    assert build("of1")(predicted, y) == build("f1-micro")(predicted, y)
    assert build("cf1")(predicted, y) == build("f1-macro")(predicted, y)


@pytest.mark.parametrize("average", ["micro", "macro"])
def test_precision_recall_hamming_and_accuracy_are_scikit_learns(average):
    v, y = batch(2)
    predicted = (v > 1).astype(int)
    predicted[:, 3] = 0
    want = quiet(sk.precision_score, y, predicted, average=average, zero_division=0)
    assert build("precision", average=average)(predicted, y) == pytest.approx(want)
    want = quiet(sk.recall_score, y, predicted, average=average, zero_division=0)
    assert build("recall", average=average)(predicted, y) == pytest.approx(want)
    want = sk.hamming_loss(y, predicted)
    assert build("hamming")(predicted, y) == pytest.approx(want, abs=1e-15)
    predicted[:5] = y[:5]
    assert build("subset-accuracy")(predicted, y) == pytest.approx(sk.accuracy_score(y, predicted))


@pytest.mark.parametrize("k", [1, 3, 20])
@pytest.mark.parametrize("tied", [False, True])
def test_metrics_at_k_are_means_over_all_ways_of_breaking_ties(k, tied):
    rng = np.random.default_rng(0)
    v, y = batch(9, rows=30, tied=tied)
    some = y.any(1)
    hits = np.zeros(30)
    ways = 400 if tied else 1
    for _ in range(ways):
        order = np.argsort(-(v + 1e-9 * rng.random(v.shape)), axis=1)[:, :k]
        hits += np.take_along_axis(y, order, 1).sum(1) / ways
    near = {"abs": 0.02 if tied else 1e-12}
    assert build("precision@k", k=k)(v, y) == pytest.approx((hits / k).mean(), **near)
    on = y.sum(1)[some]
    assert build("recall@k", k=k)(v, y) == pytest.approx((hits[some] / on).mean(), **near)
    assert build("f1@k", k=k)(v, y) == pytest.approx((2 * hits[some] / (k + on)).mean(), **near)
    want = sk.ndcg_score(y[some], v[some], k=k)
    assert build("ndcg@k", k=k)(v, y) == pytest.approx(want, abs=1e-12)


def test_propensity_scored_precision_by_hand():
    train = ls.Labels.from_lists([[0]] * 20 + [[1]] * 3 + [[2]], n=3)
    p = propensities(train).numpy()
    rows, a, b = 24, 0.55, 1.5
    c = (np.log(rows) - 1) * (b + 1) ** a
    np.testing.assert_allclose(p, 1 / (1 + c * (np.array([20, 3, 1]) + b) ** -a))
    v = [[0.9, 0.8, 0.1], [0.9, 0.1, 0.8]]
    y = [[1, 0, 1], [0, 1, 1]]
    had = 1 / p[0] + 1 / p[2]  # hits among the two best of each row
    best = (1 / p[0] + 1 / p[2]) + (1 / p[1] + 1 / p[2])
    assert build("psp@2", train=train)(v, y) == pytest.approx(had / best)
    assert build("psp@2", propensity=[1, 1, 1])(v, y) == pytest.approx(2 / 4)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_reliability_is_scikit_learns_curve(strategy):
    rng = np.random.default_rng(0)
    p = np.round(rng.random((300, 4)), 2)
    y = (rng.random((300, 4)) < p**2).astype(int)
    binning = {"uniform": "width", "quantile": "mass"}[strategy]
    curve = reliability(p, y, bins=10, binning=binning)
    seen, said = calibration_curve(y.ravel(), p.ravel(), n_bins=10, strategy=strategy)
    some = curve.count > 0
    np.testing.assert_allclose(curve.frequency[some], seen)
    np.testing.assert_allclose(curve.confidence[some], said)
    gaps, shares = np.abs(seen - said), (curve.count[some] / curve.count.sum()).numpy()
    for name, want in (("ace", gaps.mean()), ("mce", gaps.max()), ("ece", (gaps * shares).sum())):
        got = build(name, bins=10, binning=binning)(p, y)
        assert got == pytest.approx(want)
    each = [build("ace", bins=10, binning=binning)(p[:, [j]], y[:, [j]]) for j in range(4)]
    classwise = build("ace", bins=10, binning=binning, average="class")(p, y)
    assert classwise == pytest.approx(np.mean(each))


def test_wilson_intervals_against_scipy():
    from scipy.stats import binomtest

    curve = reliability([[0.3]] * 10, [[1]] * 3 + [[0]] * 7, bins=1)
    low, high = curve.interval(0.9)
    want = binomtest(3, 10).proportion_ci(0.9, method="wilson")
    assert (float(low), float(high)) == pytest.approx((want.low, want.high))


def test_brier_and_log_loss_are_scikit_learns():
    v, y = batch(4)
    p = 1 / (1 + np.exp(-v))
    assert build("brier")(p, y) == pytest.approx(sk.brier_score_loss(y.ravel(), p.ravel()))
    assert build("nll")(p, y) == pytest.approx(sk.log_loss(y.ravel(), p.ravel()))
    assert build("nll")([[0.0]], [[1]]) == float("inf")
    assert build("nll")([[0.0, 1.0]], [[0, 1]]) == 0.0
    assert build("brier")([[0.5]], [[0.5]]) == 0.0  # soft labels are labels


def test_unknown_entries_are_as_if_they_were_not_there():
    """One row or class at a time, by leaving the entries out."""
    rng = np.random.default_rng(0)
    v, y = batch(6, rows=60)
    y = np.where(rng.random(y.shape) < 0.3, np.nan, y)
    known = ~np.isnan(y)
    aps = [
        sk.average_precision_score(y[known[:, j], j], v[known[:, j], j]) for j in range(y.shape[1])
    ]
    assert build("map@class")(v, y) == pytest.approx(np.mean(aps))
    rows = [i for i in range(60) if np.nansum(y[i]) > 0]
    aps = [sk.average_precision_score(y[i, known[i]], v[i, known[i]]) for i in rows]
    assert build("map@sample")(v, y) == pytest.approx(np.mean(aps))
    losses = [
        sk.label_ranking_loss(y[[i]][:, known[i]], v[[i]][:, known[i]])
        for i in range(60)
        if known[i].any()
    ]
    assert build("ranking-loss")(v, y) == pytest.approx(np.mean(losses))
    p, predicted = 1 / (1 + np.exp(-v)), v > 0
    assert build("brier")(p, y) == pytest.approx(np.mean((p - y)[known] ** 2))
    wanted = sk.f1_score(y[known], predicted[known])
    assert build("f1-micro")(predicted, y) == pytest.approx(wanted)
    f = [sk.f1_score(y[known[:, j], j], predicted[known[:, j], j]) for j in range(9)]
    assert build("f1-macro")(predicted, y) == pytest.approx(np.mean(f))
    assert build("hamming")(predicted, y) == pytest.approx(np.mean((predicted != y)[known]))


@pytest.mark.parametrize("unknown", [0.0, 0.2])
def test_confusion_shares_every_missed_label_over_what_is_wrongly_predicted(unknown):
    g = np.random.default_rng(4)
    y = (g.random((300, 7)) < 0.3).astype(np.float32)
    y[g.random(y.shape) < unknown] = np.nan
    said = g.random(y.shape) < 0.25
    wanted = np.zeros((7, 8))
    for row in range(300):
        extra = np.flatnonzero(said[row] & (y[row] == 0))
        for label in np.flatnonzero(~said[row] & (y[row] == 1)):
            cells = extra if len(extra) else [7]
            wanted[label, cells] += 1 / len(cells)
    found = ls.metrics.confusion(said, y)
    assert found.numpy() == pytest.approx(wanted)
    misses = (~said & (y == 1)).sum(0)
    assert found.sum(1).numpy() == pytest.approx(misses)
    assert ls.metrics.confusion(y == 1, y).sum() == 0
    assert ls.metrics.confusion(np.zeros((0, 3)), np.zeros((0, 3))).shape == (3, 4)
