"""The protocol: against scikit-learn over queries listed by hand, unknown labels, sampling."""

import itertools
import json
import math
from collections import Counter

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from sklearn.metrics import average_precision_score

from labelset import Labels
from labelset.retrieve import evaluate, rank
from labelset.retrieve.protocol import _average_precision, possible, some_queries


def every_query(n, most):
    """All (P, N), by two nested choices."""
    labels = range(n)
    for size in range(1, most + 1):
        for asked in itertools.combinations(labels, size):
            others = [j for j in labels if j not in asked]
            for more in range(most - size + 1):
                for forbidden in itertools.combinations(others, more):
                    yield asked, forbidden


def by_hand(probs, y, most):
    """Average precisions by (length, |N|), with products of probabilities; NaN: no right row."""
    found = {}
    for asked, forbidden in every_query(y.shape[1], most):
        parts = [(y[:, j], probs[:, j]) for j in asked]
        parts += [(1 - y[:, k], 1 - probs[:, k]) for k in forbidden]
        wrong = np.any([t == 0 for t, _ in parts], axis=0)
        right = np.all([t == 1 for t, _ in parts], axis=0)
        decided = wrong | right
        score = np.prod([p for _, p in parts], axis=0)
        ap = average_precision_score(right[decided], score[decided]) if right.any() else math.nan
        found.setdefault((len(parts), len(forbidden)), []).append(ap)
    return found


def shape(found, length, forbidden):
    return next(g for g in found.by_shape if (g.length, g.forbidden) == (length, forbidden))


def data(rows, n, seed, unknown=0.0):
    rng = np.random.default_rng(seed)
    probs = rng.random((rows, n)) ** 2
    y = (rng.random((rows, n)) < probs).astype(float)
    y[rng.random((rows, n)) < unknown] = np.nan
    return probs, y


@pytest.mark.parametrize("unknown", [0.0, 0.3])
def test_against_scikit_learn(unknown):
    probs, y = data(40, 5, seed=0, unknown=unknown)
    found, want = evaluate(probs, y, most=4), by_hand(probs, y, 4)
    assert [g.length for g in found.by_length] == [1, 2, 3, 4]
    for group in found.by_length:
        each = [a for (length, _), many in want.items() if length == group.length for a in many]
        assert group.asked == group.possible == len(each)
        assert group.empty == sum(map(math.isnan, each))
        assert group.map == pytest.approx(np.nanmean(each), abs=1e-12)
        assert group.low == group.high == group.map
    assert {(g.length, g.forbidden) for g in found.by_shape} == set(want)
    for group in found.by_shape:
        each = want[group.length, group.forbidden]
        assert (group.possible, group.asked) == (len(each), len(each))
        assert group.empty == sum(map(math.isnan, each))
        good = [a for a in each if not math.isnan(a)]
        mean = np.mean(good) if good else math.nan
        assert group.map == pytest.approx(mean, abs=1e-12, nan_ok=True)
    everything = [a for many in want.values() for a in many]
    assert found.map == pytest.approx(np.nanmean(everything), abs=1e-12)


def test_the_ranking_is_that_of_rank():
    probs, y = data(60, 3, seed=1)
    order, _ = rank("a & !b", probs, ["a", "b", "c"])
    right = ((y[:, 0] == 1) & (y[:, 1] == 0))[order.numpy()]
    precision = right.cumsum() / np.arange(1, 61)
    one = shape(evaluate(probs[:, :2], y[:, :2], most=2), length=2, forbidden=1)
    other = rank("b & !a", probs, ["a", "b", "c"])[0].numpy()
    also = ((y[:, 1] == 1) & (y[:, 0] == 0))[other]
    both = [precision[right].mean(), (also.cumsum() / np.arange(1, 61))[also].mean()]
    assert one.map == pytest.approx(np.mean(both))


@pytest.mark.parametrize("levels", [1, 2, 5, 1000])
def test_average_precision_with_ties(levels):
    rng = np.random.default_rng(levels)
    for rows in (1, 2, 10, 300):
        truth = rng.random(rows) < 0.3
        truth[0] = True
        p = rng.integers(0, levels + 1, rows) / levels  # 0 gives a log score of -inf
        with np.errstate(divide="ignore"):
            got = _average_precision(np.log(p), truth)
        assert got == pytest.approx(average_precision_score(truth, p), abs=1e-12)


def test_equal_products_tie_whatever_the_order_of_their_factors():
    rng = np.random.default_rng(3)
    base = rng.random((30, 4))
    probs = np.concatenate([rng.permuted(base, axis=1) for _ in range(10)])
    y = (rng.random((300, 4)) < 0.7).astype(float)
    truth = y.all(axis=1)
    whole = np.tile(np.arange(30), 10)  # which product a row has
    ranks = np.argsort(np.argsort(base.prod(axis=1)))[whole]
    got = shape(evaluate(probs, y, most=4), length=4, forbidden=0)
    assert got.map == pytest.approx(average_precision_score(truth, ranks), abs=1e-12)


def test_counting_and_listing():
    for n, length in itertools.product(range(1, 6), range(1, 5)):
        want = Counter(
            (len(p) + len(q), len(q)) for p, q in every_query(n, 4) if len(p) + len(q) == length
        )
        listed = some_queries(n, length, most=10**6, seed=0)
        assert len(listed) == possible(n, length) == sum(want.values())
        for forbidden in range(length):
            assert possible(n, length, forbidden) == want[length, forbidden]
        if n >= length:
            assert len({tuple(sorted(q)) for q in listed.tolist()}) == len(listed)
            assert (np.diff(listed % n, axis=1) > 0).all()  # no label twice
            assert (listed < n).any(axis=1).all()  # something is asked for
    assert possible(80, 5) == math.comb(80, 5) * 31


def test_samples_are_different_queries_drawn_evenly():
    total = possible(5, 3)
    counts = Counter()
    for seed in range(3000):
        some = some_queries(5, 3, most=7, seed=seed).tolist()
        assert len({tuple(q) for q in some}) == 7
        counts.update(map(tuple, some))
    assert len(counts) == total
    assert set(counts) == set(map(tuple, some_queries(5, 3, most=total, seed=0).tolist()))
    # without replacement the counts vary less than in chisquare's model: never more
    assert chisquare(list(counts.values())).pvalue > 0.01
    assert len(some_queries(5, 3, most=total - 1, seed=0)) == total - 1
    assert some_queries(30, 29, most=50, seed=0).shape == (50, 29)
    assert some_queries(10**6, 5, most=50, seed=0).shape == (50, 5)


def test_a_sample_estimates_the_whole():
    probs, y = data(200, 8, seed=4)
    whole = evaluate(probs, y, most=4, queries=10**6)
    inside, means, errors = 0, [], []
    for seed in range(40):
        part = evaluate(probs, y, most=4, queries=150, seed=seed).by_length[3]
        assert part.asked == 150
        assert part.low < part.map < part.high
        inside += part.low <= whole.by_length[3].map <= part.high
        means.append(part.map)
        errors.append((part.high - part.low) / 2 / 1.96)
    assert inside >= 34
    assert 0.7 < np.mean(errors) / np.std(means) < 1.4


def test_the_seed_decides():
    probs, y = data(50, 10, seed=5)
    first = evaluate(probs, y, queries=20).as_json()
    assert evaluate(probs, y, queries=20).as_json() == first
    assert evaluate(probs, y, queries=20, seed=1).as_json() != first
    again = evaluate(torch.tensor(probs), Labels.from_dense(y), queries=20)
    assert again.as_json() == first


def test_a_perfect_and_a_blind_model():
    _, y = data(100, 4, seed=6)
    for group in evaluate(y, y).by_length:
        assert group.map == 1.0
    blind = evaluate(np.full(y.shape, 0.5), y, most=1).by_length[0]
    assert blind.map == pytest.approx(y.mean(axis=0).mean())


def test_few_labels_no_rows_nothing_right():
    assert [g.length for g in evaluate([[0.5, 0.5]], [[1, 0]], most=9).by_length] == [1, 2]
    for probs in (torch.zeros(0, 2), torch.full((3, 2), 0.5)):
        none = evaluate(probs, torch.zeros(len(probs), 2), most=1)
        assert math.isnan(none.map)
        assert [(g.asked, g.empty) for g in none.by_length] == [(2, 2)]
        assert math.isnan(none.by_length[0].low)
        assert "nan" in str(none)
        assert none.as_json()["map"] is none.as_json()["by_length"][0]["high"] is None
    nowhere = evaluate([[0.5, 0.5]], [[math.nan, math.nan]])
    assert all(g.empty == g.asked for g in nowhere.by_length)


def test_as_text_and_json():
    probs, y = data(30, 4, seed=7)
    found = evaluate(probs, y)
    lines = str(found).splitlines()
    assert len(lines) == 2 + 4
    assert f"{found.by_length[0].map:.4f}" in lines[1]
    saved = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert saved["by_length"][1]["possible"] == 18


def test_bad_input():
    probs, y = data(5, 3, seed=8)
    with pytest.raises(ValueError, match="got 2 at row 1, label 0"):
        evaluate(_with(probs, 2.0), y)
    unknown = y.copy()
    unknown[1, 0] = np.nan
    with pytest.raises(ValueError, match="got nan at row 1, label 0"):
        evaluate(_with(probs, np.nan), unknown)
    with pytest.raises(ValueError, match="shape"):
        evaluate(probs, y[:, :2])
    with pytest.raises(ValueError, match="soft"):
        evaluate(probs, np.full(y.shape, 0.5))
    with pytest.raises(ValueError, match="at least one label"):
        evaluate(torch.zeros(3, 0), torch.zeros(3, 0))
    for name in ("most", "queries"):
        with pytest.raises(ValueError, match=f"{name} must be at least 1"):
            evaluate(probs, y, **{name: 0})


def _with(probs, bad):
    changed = probs.copy()
    changed[1, 0] = bad
    return changed
