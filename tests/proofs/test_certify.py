"""Bounds of rounding errors against exact fractions: they hold, and they are not absurdly wide."""

from fractions import Fraction
from math import isqrt

import numpy as np
import pytest
import torch

from labelset.proofs import _certify, _exact


def unit_rows(rng, n, d):
    rows = rng.standard_normal((n, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("d", [1, 3, 50, 400])
def test_single_precision_is_off_by_less_than_its_bound(d):
    rng = np.random.default_rng(d)
    a, x = unit_rows(rng, 300, d), unit_rows(rng, 1, d)[0]
    close = a.astype(np.float32) @ x.astype(np.float32)
    error = np.abs(close.astype(np.float64) - a @ x).max()
    bound = _certify.single_error(d)
    assert error <= bound
    assert bound <= 1e-7 * (d + 8)


@pytest.mark.parametrize("seed", range(10))
def test_norms_of_points_in_hulls_are_bounded_from_above(seed):
    rng = np.random.default_rng(seed)
    d = 4
    rows = rng.integers(-9, 10, (8, d)).astype(float)
    rows[~rows.any(1), 0] = 1.0
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    signs = rng.choice([-1, 1], (3, 8)).astype(np.int8)
    which = [rng.permutation(8)[:m] for m in (1, 3, 5)]
    weights = [rng.random(len(some)) for some in which]
    bounds = _certify.hull_norms(unit, signs, which, weights)
    for i, (some, weight) in enumerate(zip(which, weights, strict=True)):
        total = sum(map(Fraction, weight.tolist()))
        # squared norm with exact rows over 40-digit roots
        point = [Fraction(0)] * d
        for row, w in zip(some, weight.tolist(), strict=True):
            square = int((rows[row] ** 2).sum())
            root = Fraction(isqrt(square * 10**80), 10**40)
            for j in range(d):
                point[j] += Fraction(w) * int(signs[i, row]) * int(rows[row, j]) / root / total
        norm = Fraction(isqrt(int(sum(v * v for v in point) * 10**80)), 10**40)
        assert Fraction(bounds[i]) >= norm
        assert bounds[i] <= float(norm) + 1e-13


@pytest.mark.parametrize("flat", [0.0, 1e-12, 1e-3, 1.0])
def test_the_origin_is_held_only_where_exact_weights_are_positive(flat):
    """Simplices around the origin, beside it, and so flat that it cannot be told."""
    rng = np.random.default_rng(7)
    d, count = 4, 60
    rows = rng.standard_normal((count, d + 1, d))
    rows[:, :, -1] *= flat
    shares = rng.random((count, d + 1))
    rows[: count // 2, -1] = -np.einsum(
        "ls,lsd->ld", shares[: count // 2, :-1], rows[: count // 2, :-1]
    )
    held = _certify.hold_origin(torch.from_numpy(rows), torch.from_numpy(shares)).numpy()
    exact = np.array([_exact.null_weights(some) is not None for some in rows])
    assert not (held & ~exact).any()
    if flat >= 1e-3:
        assert held.sum() >= count // 2
        np.testing.assert_array_equal(held, exact)
    elif flat == 0.0:
        assert not held.any()
