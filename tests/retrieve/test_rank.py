"""Ranking: against all worlds in exact fractions, ties, tiny scores, top-k, bad input."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from labelset import Labels, retrieve
from labelset.retrieve import And, Name, Not, Or, QueryError, log_scores, parse, rank

NAMES = ["fork", "apple", "knife", "hot dog", "x"]


def holds(formula, world):
    """Whether a formula holds where `world` says which names are on."""
    match formula:
        case Name():
            return world[formula.text]
        case Not():
            return not holds(formula.part, world)
        case And():
            return all(holds(part, world) for part in formula.parts)
        case Or():
            return any(holds(part, world) for part in formula.parts)


def by_worlds(query, row, names):
    """The probability as the sum over all 2^n worlds, in fractions."""
    formula = parse(query) if isinstance(query, str) else query
    total = Fraction(0)
    for world in itertools.product([False, True], repeat=len(names)):
        if holds(formula, dict(zip(names, world, strict=True))):
            chances = (
                Fraction(p) if on else 1 - Fraction(p) for p, on in zip(row, world, strict=True)
            )
            total += math.prod(chances, start=Fraction(1))
    return total


def exact_order(query, probs, names):
    exact = [by_worlds(query, row, names) for row in probs]
    return sorted(range(len(exact)), key=lambda i: (-exact[i], i)), exact


def exact_log(p):
    shift = p.denominator.bit_length() - p.numerator.bit_length()
    near = p * Fraction(2) ** shift  # between 1/2 and 2
    if p > Fraction(1, 2):
        return math.log1p(-float(1 - p))
    return math.log(near) - shift * math.log(2)


SOME = st.sampled_from([Name(name) for name in NAMES])
FORMULAS = st.recursive(
    SOME,
    lambda part: st.one_of(
        part.map(Not),
        st.lists(part, min_size=1, max_size=3).map(lambda parts: And(tuple(parts))),
        st.lists(part, min_size=1, max_size=3).map(lambda parts: Or(tuple(parts))),
    ),
    max_leaves=10,
)
PLAIN = st.one_of(
    st.sampled_from([0.0, 1.0, 0.1, 0.2, 0.3, 0.5, 0.9, 1e-300, 1e-17, 5e-324, 1 - 2**-53]),
    st.floats(0.0, 1.0),
)
MATRICES = st.lists(st.lists(PLAIN, min_size=5, max_size=5), min_size=1, max_size=8)


@given(FORMULAS, MATRICES)
def test_any_formula_against_all_worlds(formula, probs):
    want, exact = exact_order(formula, probs, NAMES)
    order, scores = rank(formula, probs, NAMES)
    assert order.tolist() == want
    assert order.dtype == torch.int64
    assert scores.dtype == torch.float64
    floats = [float(exact[i]) for i in want]
    torch.testing.assert_close(scores.tolist(), floats, rtol=1e-12, atol=1e-307)
    assert bool((scores.diff() <= 0).all())
    logs = log_scores(formula, probs, NAMES).tolist()
    for log, p in zip(logs, exact, strict=True):
        if p == 0:
            assert log == -math.inf
        else:
            assert log == pytest.approx(exact_log(p), rel=1e-12, abs=1e-15)


@given(FORMULAS, MATRICES, st.integers(1, 9))
def test_the_best_k_are_the_first_of_all(formula, probs, k):
    order, scores = rank(formula, probs, NAMES)
    best, their = rank(formula, probs, NAMES, k=k)
    assert best.tolist() == order[:k].tolist()
    assert their.tolist() == scores[:k].tolist()


def test_equation_23():
    rng = np.random.default_rng(0)
    probs = rng.random((500, 5))
    order, scores = rank("fork & apple & !knife & !'hot dog'", probs, NAMES)
    s = probs[:, 0] * probs[:, 1] * (1 - probs[:, 2]) * (1 - probs[:, 3])
    np.testing.assert_array_equal(order, np.argsort(-s))
    np.testing.assert_allclose(scores, np.sort(s)[::-1], rtol=1e-14)
    np.testing.assert_array_equal(rank("fork", probs, NAMES)[1], np.sort(probs[:, 0])[::-1])


def test_the_order_is_exact_where_sums_of_logarithms_are_not():
    rng = np.random.default_rng(1)
    base = rng.random((40, 5))
    probs = np.concatenate([rng.permuted(base, axis=1) for _ in range(10)])  # 40 products, tied
    probs = np.concatenate([probs, np.nextafter(probs, 1.0), np.nextafter(probs, 0.0)])
    query = "fork & apple & knife & 'hot dog' & x"
    want, _ = exact_order(query, probs.tolist(), NAMES)
    order, scores = rank(query, probs, NAMES)
    assert order.tolist() == want
    assert bool((scores.diff() <= 0).all())
    naive = np.argsort(-np.log(probs).sum(axis=1), kind="stable")
    assert naive.tolist() != want  # so that this test can fail
    for k in (1, 7, 333):
        assert rank(query, probs, NAMES, k=k)[0].tolist() == want[:k]


def test_rounded_probabilities():
    rng = np.random.default_rng(2)
    probs = rng.integers(0, 11, (300, 5)) / 10
    for query in ("fork & !apple & knife", "(fork | apple) & !(knife & x)", "!x"):
        want, _ = exact_order(query, probs.tolist(), NAMES)
        assert rank(query, probs, NAMES)[0].tolist() == want


def test_scores_below_the_smallest_double_still_differ():
    probs = np.array([[1e-200, 1e-200], [1e-200, 2e-200], [0.0, 1.0], [1e-200, 3e-200]])
    order, scores = rank("a & b", probs, ["a", "b"])
    assert order.tolist() == [3, 1, 0, 2]
    assert scores.tolist() == [0.0] * 4
    logs = log_scores("a & b", probs, ["a", "b"])
    np.testing.assert_allclose(logs[:2], [-400 * math.log(10), math.log(2) - 400 * math.log(10)])
    order, _ = rank("(a & b) | (a & b & a)", probs, ["a", "b"])
    assert order.tolist() == [3, 1, 0, 2]


def test_scores_next_to_one_still_differ():
    probs = np.array([[1e-30, 0.5], [1e-40, 0.5], [1e-20, 0.5], [0.0, 0.5]])
    assert rank("!a", probs, ["a", "b"])[0].tolist() == [3, 1, 0, 2]
    tiny = log_scores("!a & !a", probs, ["a", "b"]).tolist()
    assert tiny == pytest.approx([-1e-30, -1e-40, -1e-20, 0.0], rel=1e-12, abs=0)
    assert rank("!a | (!a & b)", probs, ["a", "b"])[0].tolist() == [3, 1, 0, 2]
    assert rank("!a | !b", probs.repeat(2, 0), ["a", "b"])[0].tolist() == [6, 7, 2, 3, 0, 1, 4, 5]


def test_ties_go_by_row_number():
    probs = torch.full((1000, 2), 0.5)
    assert rank("a & b", probs, ["a", "b"])[0].tolist() == list(range(1000))
    assert rank("a & b", probs, ["a", "b"], k=3)[0].tolist() == [0, 1, 2]
    probs[7] = torch.tensor([0.25, 1.0])  # the same product
    probs[900, 0] = 0.75
    assert rank("a & b", probs, ["a", "b"], k=9)[0].tolist() == [900, *range(8)]


def test_what_can_never_or_always_be():
    probs = [[0.3, 0.4], [0.5, 0.6]]
    for query, value in (("a & !a", 0.0), ("a | !a", 1.0), ("(a | b) & !a & !b", 0.0)):
        order, scores = rank(query, probs, ["a", "b"])
        assert order.tolist() == [0, 1]
        assert scores.tolist() == [value, value]
        assert log_scores(query, probs, ["a", "b"]).exp().tolist() == [value, value]
    assert rank("a & !a", probs, ["a", "b"], k=1)[0].tolist() == [0]
    assert rank("a & a", probs, ["a", "b"])[1].tolist() == [0.5, 0.3]


def test_long_queries():
    names = [f"n{i}" for i in range(3000)]
    probs = np.random.default_rng(0).random((4, 3000)) ** 0.01
    for joint in (" & ", " | ", " & !", " | !"):
        logs = log_scores(joint.join(names), probs, names)
        rest = 1 - probs[:, 1:] if "!" in joint else probs[:, 1:]
        each = np.concatenate([probs[:, :1], rest], axis=1)
        want = np.log(each).sum(1) if "&" in joint else np.log1p(-np.exp(np.log1p(-each).sum(1)))
        np.testing.assert_allclose(logs, want, rtol=1e-12, atol=1e-15)
    pairs = " | ".join(f"(n{2 * i} & n{2 * i + 1})" for i in range(1000))
    both = probs[:, :2000:2] * probs[:, 1:2000:2] * 0.001
    scaled = probs[:, :2000].copy()
    scaled[:, ::2] *= 0.001
    want = -np.expm1(np.log1p(-both).sum(1))
    np.testing.assert_allclose(log_scores(pairs, scaled, names[:2000]).exp(), want, rtol=1e-12)


def test_entangled_queries_are_refused():
    names = [f"n{i}" for i in range(60)]
    pairs = " | ".join(f"(n{i} & n{i + 30})" for i in range(30))
    assert len(rank(pairs, torch.rand(2, 60), names)[0]) == 2
    query = f"({' & '.join(names[:30])}) | {pairs}"  # first all of one side, then all of the other
    with pytest.raises(QueryError, match="too entangled"):
        rank(query, torch.rand(2, 60), names)
    deep = Name("n0")
    for i in range(5000):
        deep = Not(And((deep, Name(f"n{i % 60}"))))
    with pytest.raises(QueryError, match="too deep"):
        rank(deep, torch.rand(2, 60), names)


def test_kinds_of_input():
    want = rank("a & !b", [[0.25, 0.5], [0.75, 0.5]], ["a", "b"])
    probs = torch.tensor([[0.25, 0.5], [0.75, 0.5]])
    for given_probs in (
        probs.half(),
        probs.bfloat16(),
        probs.double(),
        probs.numpy(),
        probs.requires_grad_(),
    ):
        order, scores = rank("a & !b", given_probs, np.array(["a", "b"]))
        assert order.tolist() == want[0].tolist()
        assert scores.tolist() == want[1].tolist()
    order, scores = rank("a", torch.zeros(0, 2), ["a", "b"])
    assert order.shape == scores.shape == (0,)
    assert rank("a", torch.zeros(0, 2), ("a", "b"), k=3)[0].shape == (0,)
    assert rank("a", np.array([[0, 1], [1, 1]]), ["a", "b"], k=9)[0].tolist() == [1, 0]  # fmt: skip


def test_single_precision_is_taken_as_it_is():
    p = torch.tensor([[0.1, 0.3], [0.3, 0.1]])
    assert rank("a & b", p, ["a", "b"])[1].tolist() == [p[0, 0].item() * p[0, 1].item()] * 2


@pytest.mark.parametrize("bad", [1.5, -0.1, math.nan, math.inf])
@pytest.mark.parametrize("column", [0, 2])
def test_bad_probabilities(bad, column):
    probs = torch.full((3, 3), 0.5)
    probs[1, column] = bad
    with pytest.raises(ValueError, match=rf"in \[0, 1\], got {bad:g} at row 1, label {column}"):
        rank("a", probs, ["a", "b", "c"])


def test_bad_names_and_shapes():
    probs = torch.rand(3, 3)
    with pytest.raises(ValueError, match="names must be one per label, 3, got 2"):
        rank("a", probs, ["a", "b"])
    with pytest.raises(ValueError, match="got 'a' for labels 0 and 2"):
        rank("b", probs, ["a", "b", "a"])
    with pytest.raises(TypeError, match="list of strings"):
        rank("a", probs, "abc")
    with pytest.raises(TypeError, match="list of strings"):
        rank("a", probs, [0, 1, 2])
    with pytest.raises(ValueError, match="2-D"):
        rank("a", probs[0], ["a", "b", "c"])
    with pytest.raises(TypeError, match="got Labels"):
        rank("a", Labels.from_lists([[0]], n=3), ["a", "b", "c"])
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        rank("a", probs, ["a", "b", "c"], k=0)
    with pytest.raises(TypeError, match="k must be a whole number"):
        rank("a", probs, ["a", "b", "c"], k=2.0)
    with pytest.raises(TypeError, match="Name, Not, And and Or, got int 3"):
        rank(3, probs, ["a", "b", "c"])
    with pytest.raises(TypeError, match="list of strings, one per label, got None"):
        rank("a", probs, None)
    assert len(rank("a", probs, (name for name in "abc"))[0]) == 3


def test_unknown_names_offer_the_nearest():
    probs = torch.rand(2, 3)
    with pytest.raises(QueryError, match="unknown name 'aple': did you mean 'apple'") as caught:
        rank("fork & aple", probs, NAMES[:3])
    assert caught.value.at == 7
    assert str(caught.value).endswith("\n  fork & aple\n         ^")
    with pytest.raises(QueryError) as caught:
        rank("x" * 5000, probs, NAMES[:3])
    assert len(str(caught.value)) < 400
    with pytest.raises(QueryError, match="known: apple, fork, knife"):
        rank(Name("zzz"), probs, NAMES[:3])
    many = [f"label {i}" for i in range(5000)]
    with pytest.raises(QueryError, match=r"did you mean 'label 4321'.*5,000 names") as caught:
        rank("'Label 4321'", torch.rand(1, 5000), many)
    assert len(str(caught.value)) < 300


def test_a_large_table():
    probs = torch.rand(200_000, 3, generator=torch.Generator().manual_seed(0))
    want = np.argsort(-np.prod(probs.double().numpy(), axis=1), kind="stable")
    order, _ = rank("a & b & c", probs, ["a", "b", "c"], k=1000)
    np.testing.assert_array_equal(order, want[:1000])
    np.testing.assert_array_equal(rank("a & b & c", probs, ["a", "b", "c"])[0][:1000], order)


def test_the_room_is_complete():
    assert all(hasattr(retrieve, name) for name in retrieve.__all__)
