"""Differences and verdicts, by hand."""

import math

import numpy as np
import pytest
import torch

from labelset_studies import Expect
from labelset_studies._difference import Seeds, difference
from labelset_studies._store import Done
from labelset_studies._verdict import Sentence, claim_verdict, compared, sentence_verdict


def done(value, spread=0.001, metric="raw map@class", seed=0):
    noise = torch.randn(200, generator=torch.Generator().manual_seed(seed)).double() * spread
    return Done({metric: value}, {metric: value + noise}, 1.0)


def group(**values):
    return {name: {s: done(v, seed=9) for s, v in enumerate(of)} for name, of in values.items()}


def verdict(expect, held):
    return sentence_verdict(expect, compared(1, "t", expect, ("d", 0.0), held))


BETTER = Expect(says="a beats b", better="a", than=("b",), metrics=("raw map@class",))


def test_the_difference_is_paired_by_rows_and_seeds():
    # the same resamples on both sides: only the gap between seeds is left
    held = group(a=[0.5, 0.7], b=[0.4, 0.6])
    found = difference(*(Seeds.of(held[name], "raw map@class") for name in "ab"))
    assert found.delta == pytest.approx(0.1)
    assert found.low == pytest.approx(0.1) == found.high
    # by other rows for each side the interval is that of independent noise
    held = {"a": {0: done(0.5, 0.01, seed=1)}, "b": {0: done(0.5, 0.01, seed=2)}}
    found = difference(*(Seeds.of(held[name], "raw map@class") for name in "ab"))
    assert found.high - found.low == pytest.approx(2 * 1.96 * 0.01 * math.sqrt(2), rel=0.2)


def test_seeds_that_only_one_has_do_not_count():
    held = group(a=[0.5, 0.9], b=[0.4])
    found = difference(*(Seeds.of(held[name], "raw map@class") for name in "ab"))
    assert (found.own_mean, found.other_mean) == (0.5, 0.4)
    assert difference(Seeds({0: 1.0}, {}), Seeds({1: 1.0}, {})) is None


def test_seeds_alone_make_the_interval_where_rows_are_not_drawn():
    own = Seeds(dict(enumerate([1.0, 2.0, 3.0])), {})
    other = Seeds(dict.fromkeys(range(3), 0.0), {})
    found = difference(own, other)
    assert 1.0 <= found.low < 2.0 < found.high <= 3.0


@pytest.mark.parametrize(
    ("a", "b", "told"),
    [(0.6, 0.5, "holds"), (0.5, 0.6, "contradicted"), (0.5, 0.5, "open")],
)
def test_a_sentence_on_one_data_set(a, b, told):
    found = verdict(BETTER, group(a=[a, a], b=[b, b]))
    assert getattr(found, told) == ("d",)


def test_lower_is_better_for_calibration_errors():
    expect = Expect(says="s", better="a", than=("b",), metrics=("link ace",))
    held = {n: {0: done(v, metric="link ace")} for n, v in (("a", 0.1), ("b", 0.2))}
    assert verdict(expect, held).holds == ("d",)


def test_a_margin_forgives_so_much():
    expect = Expect(says="s", better="a", than=("b",), metrics=("raw map@class",), within=0.05)
    assert verdict(expect, group(a=[0.56], b=[0.6])).holds == ("d",)
    assert verdict(expect, group(a=[0.5], b=[0.6])).contradicted == ("d",)


def test_one_of_several_comparisons_is_enough_to_contradict():
    expect = Expect(says="s", better="a", than=("b", "c"), metrics=("raw map@class",))
    assert verdict(expect, group(a=[0.5], b=[0.4], c=[0.6])).contradicted == ("d",)
    assert verdict(expect, group(a=[0.5], b=[0.4], c=[0.5])).open == ("d",)
    assert verdict(expect, group(a=[0.5], b=[0.4])).open == ("d",)  # c was not trained


def test_a_value_is_reached_by_every_seed_or_not():
    expect = Expect(says="s", better="a", metrics=("head unsayable",), reaches=0.0)
    held = {"a": {s: Done({"head unsayable": v}, {}, 1.0) for s, v in enumerate([0.0, 0.0])}}
    assert verdict(expect, held).holds == ("d",)
    held["a"][1] = Done({"head unsayable": 0.01}, {}, 1.0)
    assert verdict(expect, held).contradicted == ("d",)


def sentence(holds, contradicted, still_open, extra=False):
    sets = [tuple(str(i) for i in range(n)) for n in (holds, contradicted, still_open)]
    return Sentence(1, "t", "s", extra, *sets)


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ((2, 0, 1), "reproduced"),
        ((1, 0, 1), "inconclusive"),
        ((5, 1, 0), "inconclusive"),
        ((1, 2, 3), "not reproduced"),
        ((0, 0, 4), "inconclusive"),
    ],
)
def test_over_data_sets(counts, told):
    assert sentence(*counts).verdict == told


def test_a_claim_is_as_its_weakest_sentence():
    good, bad, unsure = sentence(3, 0, 0), sentence(0, 3, 0), sentence(0, 0, 3)
    assert claim_verdict([good, good]) == "reproduced"
    assert claim_verdict([good, unsure]) == "inconclusive"
    assert claim_verdict([good, unsure, bad]) == "not reproduced"
    assert claim_verdict([good, sentence(0, 3, 0, extra=True)]) == "reproduced"


def test_intervals_cover_the_truth():
    """Two models of equal worth: one interval in twenty misses 0, or a little more."""
    random = np.random.default_rng(0)
    missed = 0
    for _ in range(200):
        sides = []
        for _ in range(2):
            rows = random.normal(size=400)
            again = random.integers(400, size=(200, 400))
            drawn = torch.from_numpy(rows[again].mean(1))
            sides.append(Seeds({0: float(rows.mean())}, {0: drawn}))
        found = difference(*sides)
        missed += not found.low <= 0 <= found.high
    assert 2 <= missed <= 24
