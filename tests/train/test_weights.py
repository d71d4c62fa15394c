"""Laws of weights: a row that counts twice is a row that is there twice, in every family."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from labelset.calibrate import build as calibrator
from labelset.data import Dataset, SparseRows
from labelset.decide import build as rule
from labelset.labels import Labels
from labelset.losses import build
from labelset.metrics import build as metric
from labelset.train import Failed, MlpSettings, Settings, fit_members, train
from labelset.train.kernel_ridge import kernel_ridge
from labelset.train.rivals import estimator, frequencies
from labelset.train.solve import Problem, solve
from labelset.train.trees import Trees, extra_trees

G = torch.Generator().manual_seed(0)
X = torch.randn(120, 5, generator=G)
Y = (X[:, :3] + 0.5 * torch.randn(120, 3, generator=G) > 0.3).float()
Y[torch.rand(120, 3, generator=G) < 0.1] = torch.nan
TIMES = torch.randint(1, 4, (120,), generator=G)
AGAIN = torch.arange(120).repeat_interleave(TIMES)
FOLDS = torch.arange(120) % 3
PLAIN, REPEATED = Labels.from_dense(Y), Labels.from_dense(Y[AGAIN])
WEIGHTED = replace(PLAIN, weights=TIMES.double())
ENTRIES = replace(PLAIN, weights=torch.rand(120, 3, generator=G).double() + 0.2)


def sparse(x):
    starts = torch.arange(0, x.numel() + 1, x.shape[1])
    return SparseRows.from_csr(
        starts, torch.arange(x.shape[1]).repeat(len(x)), x.shape[1], x.flatten()
    )


def solved(loss, made=torch.Tensor.clone, **settings):
    def fit(x, y, folds):
        (fitted,) = solve(made(x), y, folds, [Problem(build(loss), 0.5, **settings)])
        return fitted

    return fit


WAYS = {
    "bce": (solved("bce"), 1e-4),
    "squared-hinge": (solved("squared-hinge"), 1e-4),
    "two-way": (solved("two-way"), 1e-4),
    "rank": (solved("bce", head="linear", head_settings={"rank": 2}), 1e-4),
    "passes": (solved("bce", sparse), 0.1),
    "kernel": (lambda *a: kernel_ridge(*a, [(0.1, 0.5)])[0], 1e-3),
    "frequency": (frequencies, 1e-6),
    "logistic": (lambda *a: estimator("sklearn.linear_model.LogisticRegression", *a), 1e-3),
    "neighbours": (lambda *a: estimator("sklearn.neighbors.KNeighborsClassifier", *a), 1e-6),
}


OTHERS = ("two-way", "neighbours", "rank")
"""Two know no weights of entries; the last takes long."""
SLOW = [pytest.param("rank", marks=pytest.mark.slow)]


@pytest.mark.parametrize("way", [*(way for way in WAYS if way != "rank"), *SLOW])
def test_whole_weights_are_repeated_rows(way):
    fit, close = WAYS[way]
    one, other = fit(X, WEIGHTED, FOLDS), fit(X[AGAIN], REPEATED, FOLDS[AGAIN])
    assert float((one.scores[AGAIN] - other.scores).abs().mean()) < close
    plain = fit(X, PLAIN, FOLDS)
    assert float((one.scores - plain.scores).abs().mean()) > 0.02 + close


def forest(x, y, folds):
    return extra_trees(x, y, folds, [Trees(trees=5)])[0]


def network(x, y, folds):
    settings = MlpSettings(width=8, layers=1, lr=0.02, epochs=15, batch=32)
    return fit_members(x, y, folds, [settings])[0]


ALL = WAYS | {"forest": (forest, 0.0), "network": (network, 0.0)}


@pytest.mark.parametrize("way", [*(way for way in ALL if way not in OTHERS), *SLOW])
def test_entries_count_what_they_are_said_to(way):
    """A label that is on in heavy entries alone has higher scores than where they are light."""
    fit, _ = ALL[way]
    share = torch.where(Y == 1, 1.7, 0.3).double().mul(1 + 0.01 * torch.rand(120, 3, generator=G))
    heavy = fit(X, replace(PLAIN, weights=share), FOLDS)
    light = fit(X, replace(PLAIN, weights=2 - share), FOLDS)
    assert not isinstance(heavy, Failed)
    assert bool((heavy.scores.mean(0) > light.scores.mean(0) + 0.2).all())


def test_what_knows_no_such_weights_says_so():
    for loss in ("two-way", "sigmoid-f1"):
        said = solved(loss)(X, ENTRIES, FOLDS).reason
        assert "compares rows with one another" in said
        assert "one whole number for each row" in said  # whole numbers for entries would not do
    some = replace(PLAIN, weights=TIMES / 1.5)
    said = estimator("sklearn.neighbors.KNeighborsClassifier", X, some, FOLDS).reason
    assert "KNeighborsClassifier.fit takes no sample_weight; give whole numbers" in said
    (failed,) = fit_members(X, some, FOLDS, [MlpSettings(loss="two-way", width=8, epochs=2)])
    assert "TwoWay compares rows with one another" in failed.reason


@pytest.mark.parametrize("way", ["forest", "network", "bce"])
def test_the_same_weights_for_entries_and_for_their_rows(way):
    fit, _ = ALL[way]
    each = replace(PLAIN, weights=TIMES.double()[:, None].repeat(1, 3))
    one, other = fit(X, WEIGHTED, FOLDS), fit(X, each, FOLDS)
    assert torch.allclose(one.scores, other.scores, atol=1e-4)


def test_the_loop_heeds_weights():
    split = [0] * 100 + [1] * 20
    data = Dataset.from_arrays(X, Y, split=split)
    settings = Settings(epochs=5, lr=0.05, monitor=None)
    heavy = torch.where(Y[:, 0] == 1, 3.0, 0.5).double()

    def first(weights):
        done = train(replace(data, labels=replace(data.labels, weights=weights)), settings)
        return float(done.scores["valid"][:, 0].mean())

    assert first(heavy) > first(None) + 0.3 > first(3.5 - heavy) + 0.6
    whole = train(replace(data, labels=WEIGHTED), replace(settings, loss="two-way"))
    assert whole.scores["valid"].shape == (20, 3)
    with pytest.raises(ValueError, match="compares rows with one another"):
        train(replace(data, labels=ENTRIES), replace(settings, loss="two-way"))


# ---- what is fitted and measured afterwards ------------------------------------------------------

P = torch.rand(120, 3, generator=G).double()


@pytest.mark.parametrize("name", ["f1-micro", "f1-macro", "f1-samples", "f1-weighted", "hamming"])
@pytest.mark.parametrize("kind", ["global", "per-class"])
def test_thresholds_for_weighted_rows_are_those_of_repeated_rows(kind, name):
    if kind == "per-class" and name == "f1-samples":
        return
    one = rule(kind, metric=name).fit(P, WEIGHTED).thresholds
    assert torch.allclose(one, rule(kind, metric=name).fit(P[AGAIN], REPEATED).thresholds)


@pytest.mark.parametrize("per", ["pool", "label", "shrunk"])
def test_a_map_for_weighted_rows_is_that_of_repeated_rows(per):
    v = torch.logit(P)
    one = calibrator("platt", per=per).fit(v, WEIGHTED, folds=0)
    assert torch.allclose(one(v), calibrator("platt", per=per).fit(v[AGAIN], REPEATED, folds=0)(v))


@pytest.mark.parametrize("name", ["map@class", "f1-micro", "ace", "precision@1", "auroc@class"])
def test_metrics_heed_the_weights_that_labels_carry(name):
    given = (P > 0.5).float() if name == "f1-micro" else P
    assert np.isclose(metric(name)(given, WEIGHTED), metric(name)(given[AGAIN], REPEATED))
