"""Each loss recomputed entry by entry with `math`, from the papers' equations as corrected."""

import math

import pytest
import torch

from labelset import Labels, losses
from labelset.testing.cases import value_and_grad


def sig(x):
    return 1 / (1 + math.exp(-x))


def sp(x):
    return math.log1p(math.exp(-abs(x))) + max(x, 0)


def asl_pair(v, gp, gn, m):
    p = sig(v)
    z = max(p - m, 0)
    return (1 - p) ** gp * -math.log(p), z**gn * -math.log(1 - z)


def focal_pair(v, g, m=0.0):
    p, q = sig(v), sig(v - m)
    return (1 - q) ** g * -math.log(q), p**g * -math.log(1 - p)


def splc_pair(v):
    pos, neg = focal_pair(v, 2, 1)
    return pos, focal_pair(v, 2, 0)[0] if sig(v) > 0.6 else neg


PAIRS = {
    "bce": ({}, lambda v: (-math.log(sig(v)), -math.log(1 - sig(v)))),
    "bce weighted": (
        {"pos_weight": 3.0, "neg_weight": 0.5},
        lambda v: (3 * sp(-v), 0.5 * sp(v)),
    ),
    "bce smoothed": (
        {"smoothing": 0.2},
        lambda v: (0.9 * sp(-v) + 0.1 * sp(v), 0.1 * sp(-v) + 0.9 * sp(v)),
    ),
    "focal": ({}, lambda v: focal_pair(v, 2)),
    "focal other": (
        {"gamma": 0.7, "alpha_pos": 2.0, "alpha_neg": 0.3},
        lambda v: (2 * focal_pair(v, 0.7)[0], 0.3 * focal_pair(v, 0.7)[1]),
    ),
    "asl": ({}, lambda v: asl_pair(v, 0, 4, 0.05)),
    "asl other": (
        {"gamma_pos": 1.0, "gamma_neg": 0.5, "margin": 0.2},
        lambda v: asl_pair(v, 1, 0.5, 0.2),
    ),
    "focal-margin": ({}, lambda v: focal_pair(v, 2, 1)),
    "mse": ({}, lambda v: ((1 - sig(v)) ** 2, sig(v) ** 2)),
    "squared-hinge": ({}, lambda v: (max(0, 1 - v) ** 2, max(0, 1 + v) ** 2)),
    "squared-hinge other": (
        {"margin": 2.5},
        lambda v: (max(0, 2.5 - v) ** 2, max(0, 2.5 + v) ** 2),
    ),
    "hill": ({}, lambda v: (focal_pair(v, 2, 1)[0], (1.5 - sig(v)) * sig(v) ** 2)),
    "splc": ({}, splc_pair),
    "spa": ({}, lambda v: (sp(-v), sp(3 * (v - 1)) / 5)),
    "spa other": (
        {"zeta_pos": 2.0, "k_pos": 0.5, "b_pos": -1.0, "zeta_neg": 1.5, "k_neg": 2.0, "b_neg": 0.3},
        lambda v: (sp(-0.5 * (v + 1)) / 2, sp(2 * (v - 0.3)) / 1.5),
    ),
    "wan": ({}, lambda v: (sp(-v), sp(v) / 6)),
    "mix": (
        {"pos": "focal-margin", "neg": "hill"},
        lambda v: (focal_pair(v, 2, 1)[0], (1.5 - sig(v)) * sig(v) ** 2),
    ),
}


@pytest.fixture
def batch():
    g = torch.Generator().manual_seed(7)
    v = torch.randn(9, 7, generator=g, dtype=torch.float64) * 3
    y = (torch.rand(9, 7, generator=g) < 0.3).double()
    y[0], y[1], y[:, 3] = 0, 1, 0
    return v, y


@pytest.mark.parametrize("case", PAIRS)
def test_separable_losses(case, batch):
    v, y = batch
    settings, pair = PAIRS[case]
    loss = losses.build(case.split()[0], **settings, reduction="none")
    want = [
        [
            y[i, j] * pair(float(v[i, j]))[0] + (1 - y[i, j]) * pair(float(v[i, j]))[1]
            for j in range(7)
        ]
        for i in range(9)
    ]
    torch.testing.assert_close(loss(v, y), torch.tensor(want), rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("case", PAIRS)
def test_separable_gradients(case, batch):
    v, y = batch
    settings, pair = PAIRS[case]
    loss = losses.build(case.split()[0], **settings, reduction="sum")
    _, grad = value_and_grad(loss, v, y)
    h = 1e-6
    for i, j in ((0, 0), (1, 1), (2, 2), (5, 6), (8, 4)):
        x, side = float(v[i, j]), int(1 - y[i, j])
        slope = (pair(x + h)[side] - pair(x - h)[side]) / (2 * h)
        assert float(grad[i, j]) == pytest.approx(slope, rel=1e-5, abs=1e-8)


def row_two_way(x, y, tp=4.0, tn=1.0):
    on = [a for a, b in zip(x, y, strict=True) if b]
    off = [a for a, b in zip(x, y, strict=True) if not b]
    if not on:
        return None
    if not off:
        return 0.0
    hard_off = tn * math.log(sum(math.exp(a / tn) for a in off))
    hard_on = tp * math.log(sum(math.exp(-a / tp) for a in on))
    return sp(hard_off + hard_on)


def row_softmax(x, y):
    total, count = math.log(sum(map(math.exp, x))), sum(y)
    return sum(b / count * (total - a) for a, b in zip(x, y, strict=True)) if count else None


def row_multi_similarity(x, y, t=2.0):
    on = sum(math.exp(-a / t) for a, b in zip(x, y, strict=True) if b)
    off = sum(math.exp(a) for a, b in zip(x, y, strict=True) if not b)
    return (sp(t * math.log(on)) if on else 0.0) + math.log1p(off)


ROWS = {
    "two-way": ({}, row_two_way),
    "softmax": ({}, row_softmax),
    "multi-similarity": ({"temperature": 2.0}, row_multi_similarity),
}


@pytest.mark.parametrize("way", ["sample", "class", "both"])
@pytest.mark.parametrize("name", ROWS)
def test_losses_by_rows_and_columns(name, way, batch):
    v, y = batch
    settings, row = ROWS[name]

    def mean(a, b):
        each = [row(x, t) for x, t in zip(a.tolist(), b.tolist(), strict=True)]
        each = [value for value in each if value is not None]
        return sum(each) / len(each)

    by_way = {"sample": mean(v, y), "class": mean(v.T, y.T)}
    want = sum(by_way.values()) if way == "both" else by_way[way]
    got = losses.build(name, **settings, way=way)(v, y)
    assert float(got) == pytest.approx(want, rel=1e-11)


def test_joint_way(batch):
    v, y = batch
    want = row_two_way(v.flatten().tolist(), y.flatten().tolist())
    assert float(losses.build("two-way", way="joint")(v, y)) == pytest.approx(want, rel=1e-11)


METRICS = {
    "f1": lambda tp, fp, fn, tn: 2 * tp / (2 * tp + fp + fn),
    "fbeta": lambda tp, fp, fn, tn: 5 * tp / (5 * tp + 4 * fn + fp),
    "jaccard": lambda tp, fp, fn, tn: tp / (tp + fp + fn),
    "accuracy": lambda tp, fp, fn, tn: (tp + tn) / (tp + fp + fn + tn),
    "precision": lambda tp, fp, fn, tn: tp / (tp + fp),
    "recall": lambda tp, fp, fn, tn: tp / (tp + fn) if tp + fn else 0.0,
    "specificity": lambda tp, fp, fn, tn: tn / (tn + fp) if tn + fp else 0.0,
    "npv": lambda tp, fp, fn, tn: tn / (tn + fn),
}


def smooth_by_hand(v, y, metric, average, soft):
    def cost(entries):
        tp = sum(soft(a) * b for a, b in entries)
        fp = sum(soft(a) * (1 - b) for a, b in entries)
        fn = sum((1 - soft(a)) * b for a, b in entries)
        tn = sum((1 - soft(a)) * (1 - b) for a, b in entries)
        return 1 - METRICS[metric](tp, fp, fn, tn)

    def cells(a, b):
        return [list(zip(x, t, strict=True)) for x, t in zip(a.tolist(), b.tolist(), strict=True)]

    if average == "micro":
        return cost([pair for row in cells(v, y) for pair in row])
    groups = cells(v, y) if average == "samples" else cells(v.T, y.T)
    weights = [sum(b for _, b in g) if average == "weighted" else 1.0 for g in groups]
    return sum(w * cost(g) for w, g in zip(weights, groups, strict=True)) / sum(weights)


@pytest.mark.parametrize("average", ["macro", "micro", "weighted", "samples"])
@pytest.mark.parametrize("metric", METRICS)
def test_smooth_metrics(metric, average, batch):
    v, y = batch
    extra = {"f_beta": 2.0} if metric == "fbeta" else {}
    loss = losses.build("smooth", metric=metric, average=average, beta=2.5, eta=-0.4, **extra)
    want = smooth_by_hand(v, y, metric, average, lambda a: sig(2.5 * (a - 0.4)))
    assert float(loss(v, y)) == pytest.approx(want, rel=1e-10)


@pytest.mark.parametrize("average", ["macro", "micro", "weighted", "samples"])
def test_f1_losses(average, batch):
    v, y = batch
    want = smooth_by_hand(v, y, "f1", average, lambda a: sig(9 * (a + 1)))
    got = losses.build("sigmoid-f1", beta=9, eta=1, average=average)(v, y)
    assert float(got) == pytest.approx(want, rel=1e-10)
    want = smooth_by_hand(v, y, "f1", average, lambda a: a)
    got = losses.build("unbounded-f1", average=average)(v, y)
    assert float(got) == pytest.approx(want, rel=1e-9)


def logit(p):
    return math.log(p / (1 - p))


@pytest.mark.parametrize("of", ["bce", "spa", "focal"])
def test_label_pairs(of, batch):
    v, y = batch
    base = losses.build(of)
    p = base.link(v).tolist()
    total = 0.0
    for i in range(9):
        for t in range(7):
            for u in range(7):
                if y[i, t] == 1 and y[i, u] == 0:
                    beta = p[i][t] * (1 - p[i][u])
                    beta = beta / (beta + p[i][u] * (1 - p[i][t]))
                    total += -math.log(beta) * 2 / (7 * 6)
    assert float(losses.build("lpr", of=of)(v, y)) == pytest.approx(total / 9, rel=1e-7)
    both = losses.build("spa+lpr", lam=0.7)(v, y)
    parts = losses.build("spa")(v, y) + 0.7 * losses.build("lpr", of="spa")(v, y)
    assert float(both) == pytest.approx(float(parts), rel=1e-12)


def test_unknown_labels_leave_the_pair_count(batch):
    """T of (20) counts the known labels of a row: dropping a column and not knowing it agree."""
    v, y = batch
    hidden = y.clone()
    hidden[:, 2] = torch.nan
    keep = [0, 1, 3, 4, 5, 6]
    for name in ("lpr", "two-way", "softmax", "multi-similarity", "bce", "sigmoid-f1"):
        loss = losses.build(name)
        torch.testing.assert_close(loss(v, hidden), loss(v[:, keep], y[:, keep]))
        torch.testing.assert_close(loss(v, Labels.from_dense(hidden)), loss(v, hidden))
