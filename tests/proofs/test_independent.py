"""Independence is claimed only where it holds, by exact rank."""

from fractions import Fraction

import numpy as np
import pytest

from labelset.proofs import independent, verify


def exact_rank(rows):
    rows = [[Fraction(x) for x in row] for row in rows.tolist()]
    rank = 0
    for column in range(len(rows[0])):
        pivot = next((i for i in range(rank, len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        for i in range(rank + 1, len(rows)):
            factor = rows[i][column] / rows[rank][column]
            rows[i] = [a - factor * b for a, b in zip(rows[i], rows[rank], strict=True)]
        rank += 1
    return rank


@pytest.mark.parametrize("seed", range(20))
def test_never_claimed_of_dependent_rows(seed):
    rng = np.random.default_rng(seed)
    w = rng.integers(-3, 4, (5, 6)).astype(float)
    w[4] = w[0] + w[1] if seed % 2 else w[4] * 2.0 ** rng.integers(-60, 60)
    assert not (independent(w) and exact_rank(w) < 5)


def test_claimed_of_ordinary_rows_and_true_of_their_label_sets():
    rng = np.random.default_rng(0)
    w = rng.standard_normal((30, 40))
    assert independent(w)
    sets = rng.random((10, 30)) < 0.5
    assert (verify(w, sets).status == "argmaxable").all()


def test_not_claimed_where_it_cannot_be():
    rng = np.random.default_rng(0)
    assert not independent(rng.standard_normal((5, 4)))
    nearly = rng.standard_normal((4, 6))
    nearly[3] = nearly[:3].sum(0) + 1e-9 * rng.standard_normal(6)
    assert not independent(nearly)
    assert not independent(np.zeros((2, 3)))
