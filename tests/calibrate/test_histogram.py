"""Histogram binning against a plain loop."""

import numpy as np
import pytest
import torch
from scipy.special import expit

from labelset import calibrate


def loop(x, y, edges, at):
    """Bins closed on the right; an empty one takes the nearest below, else the first seen."""
    number = np.searchsorted(edges, x)
    means = [y[number == k].mean() if (number == k).any() else None for k in range(len(edges) + 1)]
    first = next(mean for mean in means if mean is not None)
    filled = []
    for mean in means:
        filled.append(mean if mean is not None else (filled[-1] if filled else first))
    return np.array(filled)[np.searchsorted(edges, at)]


def data(seed=0, decimals=None):
    r = np.random.default_rng(seed)
    v = r.normal(size=(150, 4)) * 2 - 1
    v = v if decimals is None else np.round(v, decimals)
    y = (r.random(v.shape) < expit(v)).astype(float)
    y[r.random(v.shape) < 0.2] = np.nan
    y[0], y[1] = 0, 1
    return v, y


@pytest.mark.parametrize("bins", [1, 2, 7, 15, 400])
@pytest.mark.parametrize("decimals", [None, 0])
@pytest.mark.parametrize("binning", ["mass", "width"])
def test_values_are_frequencies_in_bins(bins, decimals, binning):
    v, y = data(decimals=decimals)
    m = calibrate.build("histogram", bins=bins, binning=binning, per="label").fit(v, y, folds=0)
    at = np.concatenate([v, v + 0.37, [[-1e4] * 4, [1e4] * 4]])
    got = m(at).numpy()
    for j in range(4):
        keep = ~np.isnan(y[:, j])
        x, t = v[keep, j], y[keep, j]
        if binning == "mass":
            edges = np.quantile(x, np.arange(1, bins) / bins)
            near = np.abs(x[:, None] - edges).min(1, initial=9) < 1e-12
            assert decimals is None or near.any() or bins == 1
            want = loop(x, t, edges, at[:, j])
        else:
            want = loop(expit(x), t, np.arange(1, bins) / bins, expit(at[:, j]))
        agree = np.abs(got[:, j] - want) < 1e-9
        # an edge is a rounded quantile: a score that is one may fall to either side
        assert agree.mean() > (0.99 if binning == "mass" and bins > 50 else 1 - 1e-9)


def test_calibrated_on_its_own_data_by_construction():
    v, y = data(seed=1)
    p = calibrate.build("histogram", per="pool", bins=10).fit(v, y, folds=0)(v).numpy()
    keep = ~np.isnan(y)
    for value in np.unique(p):
        assert y[keep & (p == value)].mean() == pytest.approx(value)


def test_mass_bins_hold_equally_many():
    v = np.random.default_rng(2).normal(size=(1500, 1))
    m = calibrate.build("histogram", per="label").fit(v, v > 0, folds=0)
    where = np.searchsorted(m.learnt["label_edges"][0].numpy(), v[:, 0])
    assert set(np.bincount(where)) <= {99, 100, 101}


def test_shrunk_is_the_documented_mixture():
    v, y = data(seed=3)

    def fitted(**how):
        return calibrate.build("histogram", **how).fit(v, y, folds=0)(v)

    m = torch.tensor(np.minimum(np.nansum(y, 0), np.nansum(1 - y, 0)))
    want = (m * fitted(per="label") + 5 * fitted(per="pool")) / (m + 5)
    torch.testing.assert_close(fitted(per="shrunk", strength=5), want)
