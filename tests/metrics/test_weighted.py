"""Average precision with weighted rows is scikit-learn's, compiled or not."""

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from labelset.metrics import _order


@pytest.fixture(params=["compiled", "torch"])
def way(request, monkeypatch):
    if request.param == "torch":
        monkeypatch.setattr(_order, "_count", None)
    elif _order._count is None:
        pytest.fail("the counter was not built")


@pytest.mark.parametrize("levels", [2, 7, 10_000])
@pytest.mark.usefixtures("way")
def test_rows_drawn_several_times(levels):
    g = torch.Generator().manual_seed(levels)
    rows, times = 300, 20
    v = torch.randint(levels, (rows,), generator=g) / 8
    on = torch.rand(rows, generator=g) < 0.3
    weights = torch.poisson(torch.ones(rows, times), generator=g)
    some = torch.randperm(rows, generator=g)[:200]  # the others are unknown
    got = _order.weighted_precision(v[some], on[some], some, weights)
    want = [
        average_precision_score(on[some], v[some], sample_weight=weights[some, t])
        for t in range(times)
    ]
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
