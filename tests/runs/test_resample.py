"""Resamples by weights are what the metric says of the drawn rows themselves."""

import pytest
import torch

from labelset import Labels
from labelset.metrics import build
from labelset.runs import draws, resampled

NAMES = [
    *("map@class", "map@sample", "f1-micro", "f1-macro", "f1-weighted", "f1-samples", "hamming"),
    *("auroc@class", "map-micro", "auroc-micro", "subset-accuracy", "coverage"),
    *("precision@2", "ndcg@3", "ace", "mce", "ece", "brier", "nll"),
]


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_resample_is_the_metric_of_its_rows(name, unknown, tied):
    g = torch.Generator().manual_seed(0)
    v = torch.randn(40, 5, generator=g, dtype=torch.float64)
    v = v.round() if tied else v
    y = (torch.rand(40, 5, generator=g) < 0.4).double()
    if unknown:
        y[torch.rand(40, 5, generator=g) < 0.2] = torch.nan
    metric = build(name)
    given = {"scores": v, "probabilities": v.sigmoid(), "label sets": v > 0}[metric.takes]
    weights = draws(40, 6, seed=1)
    got = resampled(metric, given, Labels.from_dense(y), weights)
    for value, drawn in zip(got, weights, strict=True):
        rows = torch.repeat_interleave(torch.arange(40), drawn.long())
        assert len(rows) == 40
        assert float(value) == pytest.approx(metric(given[rows], y[rows]), abs=1e-12)


def test_draws_depend_on_the_seed_alone():
    assert torch.equal(draws(9, 4, 3), draws(9, 4, 3))
    assert not torch.equal(draws(9, 4, 3), draws(9, 4, 4))
    assert draws(9, 4, 3).sum(1).tolist() == [9.0] * 4
