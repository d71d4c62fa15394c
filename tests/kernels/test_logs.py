"""A logarithm taken out of a sum: the same value, and only where it is merely added."""

import numpy as np
import pytest
import torch

import labelset as ls
from labelset.formulas.formula import evaluate
from labelset.formulas.passes import split_log


def pair_of(name):
    return ls.losses.build(name)._pair(1000, torch.device("cpu"))


@pytest.mark.parametrize(
    ("name", "share"),
    [("bce", 1.0), ("spa", 0.2), ("wan", 1 / 999), ("asl", None), ("hill", None), ("focal", None)],
)
def test_what_is_taken_out(name, share):
    pair = pair_of(name)
    assert pair.off.share == (share if share is None else pytest.approx(share))
    v = np.linspace(-30, 30, 1001)
    formula, (_, value, _, slope) = pair.soft
    want = evaluate(formula, (value, slope), [v])
    got = evaluate(pair.off.formula, pair.off.outputs, [v])
    if share is not None:
        rest, e, slope = got
        assert ((e >= 0) & (e <= 1)).all()
        got = rest + pair.off.share * np.log1p(e), slope
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-15)


def test_the_formula_itself_stays_as_it_is():
    pair = pair_of("bce")
    formula, (_, value, _, slope) = pair.soft
    before = list(formula.steps)
    split_log(formula, value, slope)
    assert formula.steps == before
