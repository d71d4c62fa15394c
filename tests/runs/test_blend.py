"""A blend is chosen on some rows, and recommended only where others say that it is better."""

import math

import numpy as np
import pytest
import torch

from labelset import Labels, decide, metrics
from labelset.runs import blend
from labelset.runs.blend import nested, select

ROWS, LABELS = 600, 5
METRICS = [
    *("f1-micro", "f1-macro", "f1-samples", "map@class", "map@sample", "map-micro"),
    *("auroc@class", "auroc-micro", "precision@2", "ndcg@3", "ace", "mce", "brier", "nll"),
]


def noisy(logits, noise, seed):
    g = torch.Generator().manual_seed(seed)
    return (logits + noise * torch.randn(logits.shape, generator=g)).sigmoid()


@pytest.fixture(scope="module")
def truth():
    g = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(ROWS, LABELS, generator=g) - 2
    return logits, Labels.from_dense(logits.sigmoid() > torch.rand(ROWS, LABELS, generator=g))


@pytest.fixture(scope="module")
def with_unknown(truth):
    y = truth[1].dense()
    y[torch.rand(y.shape, generator=torch.Generator().manual_seed(9)) < 0.2] = torch.nan
    return Labels.from_dense(y)


@pytest.mark.parametrize("metric", METRICS)
def test_complementary_candidates_win(truth, metric):
    """Equal errors, independent of each other: their mean is better."""
    logits, labels = truth
    candidates = [noisy(logits, 3.0, seed) for seed in (1, 2)]
    found = nested(candidates, labels, metric, repeats=4)
    assert found.single.shape == found.blend.shape == (20,)
    higher = metrics.build(metric).higher_is_better
    assert found.difference == pytest.approx(
        float((found.blend - found.single).mean()) * (1 if higher else -1)
    )
    if metric == "f1-samples":  # the rows of nothing but noise leave no certainty
        assert found.difference > 0
    elif metric not in ("ace", "mce"):  # a mean of probabilities need not be better calibrated
        assert found.passes
        assert 0 < found.low < found.difference < found.high
        assert select(candidates, labels, metric).weights.min() > 0


@pytest.mark.parametrize("metric", ["f1-micro", "f1-macro", "f1-samples", "map@class", "nll"])
def test_copies_and_a_candidate_that_is_best_alone_are_not_blended(truth, metric):
    logits, labels = truth
    good = noisy(logits, 1.0, 1)
    copies = nested([good, good.clone(), good.clone()], labels, metric, repeats=3)
    assert copies.difference == pytest.approx(0, abs=1e-6)
    assert not copies.passes
    poor = [noisy(torch.zeros_like(logits), 3.0, seed) for seed in (2, 3)]
    assert not nested([*poor, good], labels, metric, repeats=3).passes
    alone = select([*poor, good], labels, metric)
    assert alone.single == 2
    assert alone.weights[2] > 0.7


def reference(metric, p, labels):
    """The metric with the thresholds that are best for it, by the rules that decide."""
    rules = {"f1-micro": "global", "f1-samples": "global", "f1-macro": "per-class"}
    if metric not in rules:
        return metrics.build(metric)(p, labels)
    rule = decide.build(rules[metric], metric=metric)
    return metrics.build(metric)(rule.fit(p, labels)(p), labels)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("unknown", [False, True])
def test_equal_to_brute_force(truth, with_unknown, metric, unknown):
    """Every pick is the one that is best by the metric itself, unknown labels left out."""
    labels = with_unknown if unknown else truth[1]
    free = labels.dense().isnan()
    # probabilities in the middle of the steps, so that a step holds one value only
    candidates = [
        ((noisy(truth[0], noise, seed) * 40).floor().clamp(0, 39) + 0.5) / 40
        for noise, seed in ((3.0, 1), (2.5, 2), (4.0, 3))
    ]
    sign = 1 if metrics.build(metric).higher_is_better else -1
    picks, values = [], []
    for _ in range(4):
        each = [
            sign
            * reference(metric, torch.stack([candidates[i] for i in (*picks, j)]).mean(0), labels)
            for j in range(3)
        ]
        picks.append(int(np.argmax(each)))
        values.append(max(each))
    spoiled = [p.masked_fill(free, 0.99) for p in candidates]
    chosen = select(spoiled, labels, metric, picks=4)
    assert sign * chosen.value == pytest.approx(max(values), abs=3e-3)
    assert chosen.picks[0] == picks[0] == chosen.single
    assert float(chosen.weights.sum()) == pytest.approx(1)
    mean = sum(w * p for w, p in zip(chosen.weights, candidates, strict=True))
    assert reference(metric, mean.float(), labels) == pytest.approx(chosen.value, abs=3e-3)


def chooses_on_other_rows_alone(metric, truth):
    """Other labels in the rows of a part change nothing that is chosen for this part."""
    logits, labels = truth
    candidates = [noisy(logits, 3.0, seed) for seed in range(4)]
    before = nested(candidates, labels, metric, repeats=1)
    for part in range(5):
        y = labels.dense()
        own = before.parts[0] == part
        y[own] = 1 - y[own]
        after = nested(candidates, Labels.from_dense(y), metric, repeats=1)
        assert torch.equal(after.parts, before.parts)
        assert after.chosen[part] == before.chosen[part]
        assert torch.equal(after.weights[part], before.weights[part])
        assert after.single[part] != before.single[part]


@pytest.mark.parametrize(
    "metric",
    [
        *("f1-micro", "brier"),
        *(pytest.param(m, marks=pytest.mark.slow) for m in ("f1-macro", "f1-samples", "map@class")),
    ],
)
def test_what_judges_does_not_choose(truth, metric, monkeypatch):
    chooses_on_other_rows_alone(metric, truth)

    def leaking(rows, blocks):
        return lambda taken: rows.gain(taken, range(len(rows._truth)))

    monkeypatch.setattr(blend, "_on", leaking)
    with pytest.raises(AssertionError):
        chooses_on_other_rows_alone(metric, truth)


@pytest.mark.parametrize("metric", ["f1-micro", "f1-macro", "f1-samples"])
def test_thresholds_are_fitted_to_other_rows(truth, metric):
    """A part with all labels on would be judged perfect by thresholds fitted to itself."""
    logits, labels = truth
    candidates = [noisy(logits, 1.0, 1)]
    parts = nested(candidates, labels, metric, repeats=1).parts[0]
    y = labels.dense()
    y[parts == 0] = 1
    found = nested(candidates, Labels.from_dense(y), metric, repeats=1)
    assert found.single[0] < 0.9


def test_noise_is_not_better_in_the_mean():
    """Among many candidates that know nothing one looks good on the rows that chose it."""
    chosen, judged = [], []
    for seed in range(8):
        g = torch.Generator().manual_seed(seed)
        labels = Labels.from_dense(torch.rand(200, 3, generator=g) < 0.3)
        noise = [torch.rand(200, 3, generator=g) for _ in range(6)]
        chosen.append(select(noise, labels, "auroc@class", picks=3).value)
        found = nested(noise, labels, "auroc@class", picks=3, repeats=1)
        judged.append(float(found.blend.mean()))
        assert not found.passes
    assert abs(np.mean(judged) - 0.5) < 0.025 < np.mean(chosen) - np.mean(judged)


def test_families(truth):
    """Of each family those best alone take part."""
    logits, labels = truth
    candidates = [noisy(logits, noise, i) for i, noise in enumerate((3.0, 2.8, 2.6, 3.2))]
    families = ["trees", "trees", "trees", "linear"]
    one = select(candidates, labels, "map@class", families=families, per_family=1)
    assert len({*one.picks} - {3}) <= 1
    alone = [metrics.build("map@class")(p, labels) for p in candidates[:3]]
    two = select(candidates, labels, "map@class", families=families, per_family=2)
    assert int(np.argmin(alone)) not in two.picks
    found = nested(candidates, labels, "map@class", families=families, per_family=1)
    assert bool(((found.weights[:, :3] > 0).sum(1) <= 1).all())


def test_many_rows_are_sampled(truth, monkeypatch):
    logits, labels = truth
    candidates = [noisy(logits, 3.0, seed) for seed in (1, 2)]
    assert select(candidates, labels, "f1-micro").rows == ROWS
    monkeypatch.setattr(blend._Pooled, "cells", 2000)
    sampled = select(candidates, labels, "f1-micro")
    assert sampled.rows == 400
    assert torch.equal(sampled.weights, select(candidates, labels, "f1-micro").weights)
    found = nested(candidates, labels, "f1-micro")
    assert 100 <= found.rows <= 115
    assert found.difference > 0  # thresholds of some 80 rows leave a wide interval


def test_rare_labels_leave_parts_undefined():
    labels = Labels.from_lists([[0], *([] for _ in range(59))], n=1)
    candidates = [torch.rand(60, 1, generator=torch.Generator().manual_seed(i)) for i in range(2)]
    found = nested(candidates, labels, "map@class")
    assert int(found.single.isnan().sum()) == 40
    assert not found.passes
    nothing = Labels.from_dense(torch.full((60, 1), torch.nan))
    assert math.isnan(nested(candidates, nothing, "f1-micro").difference)
    with pytest.raises(ValueError, match="f1-micro is not defined on the rows"):
        select(candidates, nothing, "f1-micro")


def test_errors_say_what_is_due(truth):
    labels = truth[1]
    p = torch.full((ROWS, LABELS), 0.5)
    with pytest.raises(ValueError, match="needs candidates, got none"):
        select([], labels, "f1-micro")
    with pytest.raises(ValueError, match="one per candidate, 1, got 2"):
        select([p], labels, "f1-micro", families=["a", "b"])
    with pytest.raises(ValueError, match="probabilities have shape"):
        select([p[:9]], labels, "f1-micro")
    with pytest.raises(ValueError, match="got 'hamming'"):
        select([p], labels, "hamming")
    with pytest.raises(ValueError, match="5 parts need as many rows, got 3"):
        nested([p[:3]], labels[:3], "f1-micro")
