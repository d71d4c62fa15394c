"""How many rows are right: against all outcomes, and by simulation."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labelset.retrieve import expected_right
from labelset.retrieve.protocol import _approximate, _exact


def distribution(p):
    """The chance of each count, over all 2^k outcomes."""
    chance = [0.0] * (len(p) + 1)
    for outcome in itertools.product([0, 1], repeat=len(p)):
        each = (q if on else 1 - q for q, on in zip(p, outcome, strict=True))
        chance[sum(outcome)] += math.prod(each)
    return chance


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.sampled_from([0.5, 0.8, 0.95, 0.999]))
def test_against_all_outcomes(p, level):
    found = expected_right(p, level)
    tail = (1 - level) / 2
    for k in range(1, len(p) + 1):
        chance = distribution(p[:k])
        low, high = int(found.low[k - 1]), int(found.high[k - 1])
        assert found.mean[k - 1].item() == pytest.approx(sum(p[:k]))
        assert 0 <= low <= high <= k
        assert sum(chance[:low]) <= tail + 1e-9  # no more lies outside than may
        assert sum(chance[high + 1 :]) <= tail + 1e-9
        assert sum(chance[: low + 1]) >= tail - 1e-9  # and the interval cannot be shorter
        assert high == 0 or sum(chance[high:]) >= tail - 1e-9


@pytest.mark.parametrize("scale", [1.0, 0.5, 0.05, 0.002])
@pytest.mark.parametrize("tail", [0.025, 0.1, 0.0005])
def test_the_approximation_beyond(scale, tail):
    p = scale * np.random.default_rng(0).random(2000)
    exact, near = _exact(p, tail), _approximate(p, tail)
    assert np.abs(exact - near)[500:].max() <= 1
    assert (exact == near)[500:].mean() > 0.8


def test_long_lists():
    p = torch.rand(5000, generator=torch.Generator().manual_seed(0)).sort(descending=True).values
    found = expected_right(p)
    assert found.mean[-1].item() == pytest.approx(p.double().sum().item())
    draws = (np.random.default_rng(1).random((2000, 5000)) < p.numpy()).cumsum(axis=1)
    for k in (1, 10, 100, 2000, 2001, 5000):
        inside = (draws[:, k - 1] >= found.low[k - 1].item()) & (
            draws[:, k - 1] <= found.high[k - 1].item()
        )
        assert inside.mean() > 0.93


def test_certain_rows_and_none():
    found = expected_right([1.0] * 3 + [0.0] * 3)
    assert found.low.tolist() == found.high.tolist() == [1, 2, 3, 3, 3, 3]
    sure = expected_right(torch.ones(3000))
    assert sure.low[-1] == sure.high[-1] == 3000
    assert len(expected_right([]).mean) == 0
    assert str(expected_right([])) == "no rows"


def test_bad_input():
    with pytest.raises(ValueError, match=r"got -0.1 at 1; for log_scores"):
        expected_right([0.5, -0.1])
    with pytest.raises(ValueError, match="got nan at 0"):
        expected_right([math.nan])
    with pytest.raises(ValueError, match="1-D"):
        expected_right([[0.5]])
    with pytest.raises(ValueError, match="level must be"):
        expected_right([0.5], level=1.0)
