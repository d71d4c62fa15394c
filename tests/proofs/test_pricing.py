"""Working sets, pricing in single precision, and searches that resume, against plain numpy."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from labelset.proofs import _search, verify
from labelset.proofs._search import WorkingSets

needs_compiler = pytest.mark.skipif(_search.solver is None, reason="nothing was compiled")


def problem(n, d, seed=0):
    rng = np.random.default_rng(seed)
    unit = rng.standard_normal((n, d))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    signs = rng.choice([-1, 0, 1], (9, n), p=[0.6, 0.1, 0.3]).astype(np.int8)
    return unit, signs, rng.standard_normal((9, d)) * 1e-3


@needs_compiler
@pytest.mark.parametrize(
    ("n", "d", "most"), [(5, 2, 3), (64, 8, 16), (333, 7, 20), (1000, 33, 400)]
)
def test_the_worst_rows_are_found(n, d, most):
    """The same rows and least margins as in double precision, whatever the shape."""
    unit, signs, x = problem(n, d)
    live, upper = np.array([0, 1, 3, 4, 5, 6, 7, 8]), np.full(8, 0.05)
    size = np.linalg.norm(x, axis=1)[live]
    both = []
    with ThreadPoolExecutor(2) as pool:
        for kind in (lambda sets: _search.Single(sets, pool), _search.Double):
            sets = WorkingSets(unit, signs, False)
            sets.x[:, :d] = x
            lower, grown = kind(sets)(live, size, upper, most)
            added = [set(sets.rows[i, : sets.counts[i]].tolist()) for i in range(9)]
            assert not added[2]
            both.append((lower, grown.tolist(), added))
            for i in range(9):
                chosen = sets.rows[i, : sets.counts[i]]
                np.testing.assert_array_equal(sets.sides[i, : sets.counts[i]], signs[i, chosen])
                np.testing.assert_array_equal(np.flatnonzero(sets.has[i]), np.sort(chosen))
    np.testing.assert_allclose(both[0][0], both[1][0], rtol=0, atol=1e-15)
    assert both[0][1:] == both[1][1:]


@needs_compiler
def test_rows_that_single_precision_cannot_tell_apart_still_count():
    """Hundreds of rows within 1e-8 of one margin: the least is found in double precision."""
    rng = np.random.default_rng(3)
    ring = rng.standard_normal((700, 2))
    ring /= np.linalg.norm(ring, axis=1, keepdims=True)
    weight = np.column_stack([ring, 0.01 + 1e-8 * rng.random(700)])
    sets = np.ones((3, 700))
    sets[1, :350], sets[2, 5] = np.nan, np.nan
    fast = verify(weight, sets)
    fast.check()
    low, high = fast.bounds.T
    assert (fast.status == "argmaxable").all()
    assert (high - low <= 1e-6 * high).all()
    for i in range(3):
        x, known = fast.witness(i), ~np.isnan(sets[i])
        unit = weight[known] / np.linalg.norm(weight[known], axis=1, keepdims=True)
        assert (unit @ x).min() / np.linalg.norm(x) == pytest.approx(low[i], rel=1e-9)


@needs_compiler
@pytest.mark.parametrize(("n", "d"), [(700, 9), (901, 20)])
def test_many_rounds_end_where_plain_numpy_ends(monkeypatch, n, d):
    rng = np.random.default_rng(d)
    weight = rng.standard_normal((n, d))
    sets = rng.standard_normal((16, d)) @ weight.T > 0
    sets[8:] ^= rng.random((8, n)) < 0.002
    fast = verify(weight, sets)
    fast.check()
    monkeypatch.setattr(_search, "solver", None)
    slow = verify(weight, sets)
    assert slow.status.tolist() == fast.status.tolist()
    assert len(set(slow.status)) == 2
    np.testing.assert_allclose(slow.radius, fast.radius, rtol=1e-6)


@needs_compiler
def test_pairs_of_nearly_equal_rows_need_no_higher_precision(monkeypatch):
    """Rows 1e-6 apart: what is left of one beside the other is computed without cancellation."""
    from labelset.proofs import _prove

    monkeypatch.setattr(_prove, "_precisely", lambda *_: pytest.fail("taken to higher precision"))
    rng = np.random.default_rng(5)
    weight = rng.standard_normal((60, 80))
    weight[30:] = weight[:30] + 1e-6 * rng.standard_normal((30, 80))
    v = verify(weight, rng.standard_normal((20, 80)) @ weight.T > 0)
    low, high = v.bounds.T
    assert (high - low <= 1e-6 * high).all()
    v.check()
