"""Verdicts against full enumeration, linear programmes and exact fractions."""

import itertools
import time
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import labelset as ls
from labelset.heads import expressible
from labelset.proofs import (
    ProofFailed,
    Verification,
    _exact,
    _search,
    problem,
    verify,
)


def every_set(n):
    return np.array(list(itertools.product([0, 1], repeat=n)))


def exact_proof(v, i, weight, y, bias=None):
    """Re-prove one verdict with fractions alone, nothing of labelset's."""
    w = [[Fraction(float(x)) for x in row] for row in weight]
    b = [Fraction(0)] * len(w) if bias is None else [Fraction(float(x)) for x in bias]
    sign = [1 if on else -1 for on in y]
    if v.status[i] == "argmaxable":
        x = [Fraction(value) for value in v.witness(i).tolist()]
        for row, offset, s in zip(w, b, sign, strict=True):
            assert s * (sum(p * q for p, q in zip(row, x, strict=True)) + offset) > 0
    elif v.status[i] == "unargmaxable":
        rows, weights = v.certificate(i)
        assert len(rows) <= len(w[0]) + (2 if bias is not None else 1)
        assert all(weight >= 0 for weight in weights)
        assert any(weight > 0 for weight in weights)
        pairs = list(zip(rows.tolist(), weights, strict=True))
        for j in range(len(w[0])):
            assert sum(c * sign[r] * w[r][j] for r, c in pairs) == 0
        total = sum(c * sign[r] * b[r] for r, c in pairs)
        assert total == 0 if bias is None else total <= 0


def programme(weight, y, bias=None, box=1e4):
    """The paper's programme, dense, by another solver."""
    sign = np.where(y, 1.0, -1.0)
    rows = np.c_[-sign[:, None] * weight, np.linalg.norm(weight, axis=1)]
    right = np.zeros(len(weight)) if bias is None else sign * bias
    bounds = [(-box, box)] * weight.shape[1] + [(1e-8, None)]
    cost = np.r_[np.zeros(weight.shape[1]), -1.0]
    found = linprog(cost, A_ub=rows, b_ub=right, bounds=bounds, method="highs")
    return found.x[-1] if found.status == 0 else np.nan


@pytest.mark.parametrize(("n", "d"), [(3, 2), (5, 2), (6, 3), (8, 3), (7, 6), (5, 5), (4, 7)])
@pytest.mark.parametrize("with_bias", [False, True])
def test_full_enumeration_agrees_with_cover(n, d, with_bias):
    rng = np.random.default_rng(n * 10 + d)
    weight = rng.standard_normal((n, d))
    bias = rng.standard_normal(n) if with_bias else None
    sets = every_set(n)
    v = verify(weight, sets, bias)
    assert v.counts()["undecided"] == 0
    assert v.counts()["argmaxable"] == expressible(n, d, bias=with_bias)
    for i in range(len(sets)):
        exact_proof(v, i, weight, sets[i], bias)
    v.check()


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize(("n", "d"), [(60, 8), (200, 20)])
def test_verdicts_and_box_radii_agree_with_a_dense_programme(n, d, with_bias):
    rng = np.random.default_rng(d)
    weight = rng.standard_normal((n, d)) * rng.lognormal(size=(n, 1))
    bias = rng.standard_normal(n) if with_bias else None
    inputs = rng.standard_normal((12, d)) * 3
    said = inputs @ weight.T + (0 if bias is None else bias) > 0
    wrong = said[:8].copy()
    wrong[np.arange(8), rng.integers(0, n, 8)] ^= True
    sets = np.concatenate([said, wrong])
    v = verify(weight, sets, bias, radius="box")
    assert (v.status[:12] == "argmaxable").all()
    for i, y in enumerate(sets):
        want = programme(weight, y, bias)
        if v.status[i] == "argmaxable":
            assert v.radius[i] == pytest.approx(want, rel=1e-6)
        else:
            assert np.isnan(v.radius[i])
            assert np.isnan(want) or want < 1e-7
    v.check()


@pytest.mark.slow
def test_rho_is_the_largest_margin():
    """Against the support vector machine as a quadratic problem: rho = 1 / |x|, a_i.x >= 1."""
    from sklearn.svm import SVC

    rng = np.random.default_rng(1)
    weight = rng.standard_normal((40, 6))
    y = weight @ rng.standard_normal(6) > 0
    v = verify(weight, y[None])
    unit = weight / np.linalg.norm(weight, axis=1, keepdims=True) * np.where(y, 1, -1)[:, None]
    both = np.concatenate([unit, -unit])  # symmetric, so that the bias of the machine is 0
    machine = SVC(kernel="linear", C=1e10, tol=1e-12).fit(both, np.repeat([1, -1], 40))
    assert v.radius[0] == pytest.approx(1 / np.linalg.norm(machine.coef_), rel=1e-5)
    low, high = v.bounds[0]
    assert low <= high
    assert high - low <= 1e-6 * high
    x = v.witness(0)
    assert (unit @ x).min() / np.linalg.norm(x) == pytest.approx(low, rel=1e-9)


@given(st.integers(1, 7), st.integers(1, 4), st.integers(0, 10_000), st.booleans())
def test_small_whole_number_weights_are_decided_exactly(n, d, seed, with_bias):
    """Zero, equal, opposite and dependent rows in plenty."""
    rng = np.random.default_rng(seed)
    weight = rng.integers(-2, 3, (n, d)).astype(float)
    bias = rng.integers(-1, 2, n).astype(float) if with_bias else None
    sets = every_set(n)[rng.permutation(2**n)[:12]]
    v = verify(weight, sets, bias)
    assert v.counts()["undecided"] == 0
    v.check()
    for i, y in enumerate(sets):
        exact_proof(v, i, weight, y, bias)


def test_a_head_of_many_features_is_its_rows_in_their_own_space():
    draw = np.random.default_rng(0)
    narrow = draw.integers(-3, 4, (6, 3)).astype(float)
    wide = np.zeros((6, 6000))
    wide[:, [5, 700, 5999]] = narrow  # the same inner products, exactly
    due, got = (verify(weight, every_set(6)) for weight in (narrow, wide))
    assert (got.status == due.status).all()
    assert {*got.status} == {"argmaxable", "unargmaxable"}
    got.check()


def test_equal_and_opposite_rows():
    weight = np.array([[1.0, 2.0], [1.0, 2.0], [-1.0, -2.0], [0.5, -1.0]])
    v = verify(weight, [[1, 1, 0, 1], [1, 0, 0, 1], [1, 1, 1, 0]])
    assert v.status.tolist() == ["argmaxable", "unargmaxable", "unargmaxable"]
    assert len(v.certificate(1)[0]) == 2
    assert set(v.certificate(1)[0].tolist()) <= {0, 1, 2}
    assert set(v.certificate(2)[0].tolist()) <= {0, 1, 2}


def test_zero_rows_can_be_neither_on_nor_off():
    weight = np.array([[1.0, 0.0], [0.0, 0.0]])
    v = verify(weight, [[1, 1], [1, 0]])
    assert v.status.tolist() == ["unargmaxable"] * 2
    assert v.certificate(0)[0].tolist() == [1]
    v.check()
    v = verify(weight, [[1, 1], [1, 0]], bias=[0.0, 3.0])
    assert v.status.tolist() == ["argmaxable", "unargmaxable"]
    v.check()


def test_unknown_labels_are_free():
    weight = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    nan = float("nan")
    v = verify(weight, [[1, 1, nan], [nan, nan, nan], [1, 1, 0]])
    assert v.status.tolist() == ["argmaxable", "argmaxable", "unargmaxable"]
    v.check()


def test_duplicates_are_solved_once_and_share_a_verdict():
    weight = np.random.default_rng(0).standard_normal((6, 3))
    v = verify(weight, [[1, 0, 0, 0, 0, 1]] * 5 + [[0] * 6])
    assert len(v) == 6
    assert len(v.verdicts) == 2
    assert len(set(v.status[:5])) == 1


@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1.0, 1e30, 1e200])
def test_the_size_of_the_weights_does_not_matter(scale):
    rng = np.random.default_rng(3)
    weight = rng.standard_normal((12, 3))
    sets = every_set(12)[::97]
    plain, scaled = verify(weight, sets), verify(weight * scale, sets)
    assert plain.status.tolist() == scaled.status.tolist()
    np.testing.assert_allclose(plain.radius, scaled.radius, rtol=1e-6)
    scaled.check()


def test_tiny_regions_are_decided_in_higher_precision():
    """Rows that differ in the last bits: rho about 1e-12, below what a float64 search resolves."""
    base = np.array([1.0, 0.5, 0.25])
    weight = np.stack([base, base + np.array([0, 0, 2e-12]), [0, 0, 1.0]])
    v = verify(weight, [[1, 0, 0], [1, 0, 1], [0, 1, 1]])
    assert v.status.tolist() == ["argmaxable", "unargmaxable", "argmaxable"]
    assert 0 < v.radius[0] < 1e-11
    low, high = v.bounds[0]
    assert high - low <= 1e-6 * high
    v.check()
    assert not v.fragile[0]
    assert verify(torch.from_numpy(weight).float(), [[1, 0, 0]]).status[0] == "unargmaxable"


def test_fragile_and_eps():
    weight = torch.tensor([[1.0, 1.0], [1.0, 1.0 + 2**-23], [1.0, 0.0]])
    v = verify(weight, [[1, 0, 1], [1, 1, 1]])
    assert v.status.tolist() == ["argmaxable", "argmaxable"]
    assert v.fragile.tolist() == [True, False]
    assert v.at_least(1e-3).tolist() == ["no", "yes"]


def test_models_of_every_kind():
    layer = torch.nn.Linear(4, 6)
    sets = every_set(6)[:10]
    want = verify(layer.weight, sets, bias=layer.bias).status.tolist()
    assert verify(layer, sets).status.tolist() == want
    head = ls.heads.build("linear", features=4, labels=6)
    head.classifier.load_state_dict(layer.state_dict())
    assert ls.verify(head, sets).status.tolist() == want


@pytest.mark.parametrize("with_bias", [False, True])
def test_saved_verdicts_can_be_checked_by_others(tmp_path, with_bias):
    rng = np.random.default_rng(5)
    weight = rng.standard_normal((8, 3))
    bias = rng.standard_normal(8) if with_bias else None
    v = verify(weight, every_set(8)[::5], bias)
    v.save(tmp_path / "v.json")
    again = Verification.load(tmp_path / "v.json", weight, bias)
    again.check()
    assert again.status.tolist() == v.status.tolist()
    np.testing.assert_array_equal(again.bounds, v.bounds)
    with pytest.raises(ProofFailed, match="other weights"):
        Verification.load(tmp_path / "v.json", weight + 1e-16 + 1e-12, bias)


def test_a_forged_verdict_is_found(tmp_path):
    weight = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    text = '"status": "unargmaxable"'
    v = verify(weight, [[1, 1, 1], [1, 1, 0]])
    v.save(tmp_path / "v.json")
    honest = (tmp_path / "v.json").read_text()
    forgeries = {
        "witness": honest.replace('"witness": [\n    0.', '"witness": [\n    -0.'),
        "bounds": honest.replace('"rho": [\n    0.7', '"rho": [\n    0.9'),
        "certificate": honest.replace('"weights": [\n     "', '"weights": [\n     "7'),
    }
    assert text in honest
    for what, forged in forgeries.items():
        assert forged != honest, what
        (tmp_path / "v.json").write_text(forged)
        with pytest.raises(ProofFailed, match=what):
            Verification.load(tmp_path / "v.json", weight).check()


BAD = {
    "weights must be finite, got nan at .0, 1.": lambda: verify([[1.0, np.nan]], [[1]]),
    "bias must be finite": lambda: verify([[1.0]], [[1]], bias=[np.inf]),
    "bias must have one entry per label": lambda: verify([[1.0]], [[1]], bias=[1.0, 2.0]),
    "weights must be 2-D": lambda: verify([1.0], [[1]]),
    "weights must be real numbers": lambda: verify([["a"]], [[1]]),
    "the weights have 2 labels, the label sets 3": lambda: verify(np.eye(2), [[1, 0, 1]]),
    "got a soft value of 0.5": lambda: verify(np.eye(2), [[0.5, 1]]),
    "radius must be one of": lambda: verify(np.eye(2), [[0, 1]], radius="cone"),
    "box must be": lambda: verify(np.eye(2), [[0, 1]], box=0),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input(message):
    with pytest.raises((ValueError, TypeError), match=message):
        BAD[message]()


def test_what_is_not_there_is_said():
    v = verify(np.eye(2), [[1, 1]])
    with pytest.raises(ValueError, match="is argmaxable: it has no certificate"):
        v.certificate(0)
    v = verify(np.array([[1.0], [1.0]]), [[1, 0]])
    with pytest.raises(ValueError, match="is unargmaxable: it has no witness"):
        v.witness(0)


def test_no_label_sets_at_all():
    v = verify(np.eye(2), ls.Labels.from_lists([], n=2))
    assert len(v) == 0
    v.check()
    assert "0 label sets" in v.table()


def test_without_the_compiled_solver(monkeypatch):
    rng = np.random.default_rng(8)
    weight, sets = rng.standard_normal((40, 5)), rng.random((30, 40)) < 0.5
    sets[:15] = rng.standard_normal((15, 5)) @ weight.T > 0
    fast = verify(weight, sets)
    monkeypatch.setattr(_search, "solver", None)
    slow = verify(weight, sets)
    assert slow.status.tolist() == fast.status.tolist()
    np.testing.assert_allclose(slow.radius, fast.radius, rtol=1e-6)
    slow.check()


def test_least_norm_points_by_hand():
    square = np.array([[1.0, 1.0], [1.0, -1.0], [2.0, 0.0]])
    corral, weight = _search.least_norm(square, [], np.empty(0), 1e-12, 1e-24, 100)
    np.testing.assert_allclose(weight @ square[corral], [1.0, 0.0], atol=1e-12)


def test_progress_is_told():
    calls = []
    verify(np.eye(3), every_set(3), progress=lambda done, all_: calls.append((done, all_)))
    assert calls[-1] == (8, 8)


def verdict(weight, y, bias=None, **more):
    v = verify(np.array(weight), [y], bias, **more)
    v.check()
    return v


def test_very_small_regions_are_bracketed():
    for size in (1e-10, 1e-14, 1e-16, 1e-30):
        v = verdict(np.eye(2) * size, [1, 1], bias=[1, -1])
        assert v.status[0] == "argmaxable"
        low, high = v.bounds[0]
        assert low <= size * 0.7072
        if size > 1e-20:
            assert high - low <= 1e-6 * high
            assert low == pytest.approx(size / np.sqrt(2), rel=1e-6)


def test_nearly_dependent_weights_are_decided():
    rng = np.random.default_rng(3)
    weight = rng.standard_normal((12, 3)) @ rng.standard_normal((3, 5))
    sets = rng.random((6, 12)) < 0.5
    v = verify(weight, sets)
    assert v.counts()["undecided"] == 0
    v.check()
    for i in range(6):
        exact_proof(v, i, weight, sets[i])


def test_exactly_opposite_rows_among_others():
    weight = [
        [1.0626975836671104, 0.26891806059358325],
        [-3.1880927510013315, -0.8067541817807498],
        [-1.0626975836671104, -0.26891806059358325],
    ]
    v = verdict(weight, [1, 1, 1])
    assert v.status[0] == "unargmaxable"
    assert "rows on one line" in v.table()


def test_far_away_witnesses():
    v = verdict([[2.0]], [0], bias=[1e300])
    assert v.status[0] == "argmaxable"
    assert v.witness(0)[0] < -4e299


def test_weights_that_float64_cannot_scale_are_refused():
    with pytest.raises(ValueError, match="row 0 of the weights"):
        verify(np.array([[1e200, 1e-200], [-1e200, 1e-200]]), [[1, 1]])


def test_certificates_with_a_bias_stay_small():
    weight = np.array([[2, 1], [0, -2], [-1, -3], [-3, -3], [-2, 2], [1, 3.0]])
    bias = np.array([0, 1, 3, 2, 1, 0.0])
    v = verdict(weight, [0, 0, 1, 0, 1, 0], bias)
    assert len(v.certificate(0)[0]) <= 3
    rng = np.random.default_rng(0)
    for _ in range(60):
        weight, bias = (
            rng.integers(-3, 4, (7, 2)).astype(float),
            rng.integers(-3, 4, 7).astype(float),
        )
        y = rng.random(7) < 0.5
        v = verdict(weight, y, bias)
        exact_proof(v, 0, weight, y, bias)
        if v.status[0] == "unargmaxable":
            assert len(v.certificate(0)[0]) <= 3


def test_box_radii_with_large_and_small_biases():
    rng = np.random.default_rng(0)
    for size in (1e-3, 1.0, 1e3, 1e6, 3e7):
        for _ in range(6):
            weight, bias = rng.standard_normal((5, 2)), rng.standard_normal(5) * size
            y = rng.random(5) < 0.5
            v = verify(weight, [y], bias, radius="box")
            want = programme(weight, y, bias)
            if np.isfinite(want) and want > 1e-6:
                assert v.radius[0] == pytest.approx(want, rel=1e-6)
    v = verify(np.array([[1.0, 0], [-1, 0]]), [[1, 1]], bias=np.ones(2), radius="box")
    assert v.radius[0] == pytest.approx(1.0)
    for size in (1e-200, 1e200):
        assert verify(np.eye(2) * size, [[1, 1]], radius="box").radius[0] == pytest.approx(1e4)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ('"status": "argmaxable"', '"status": "fine"'),
        ('"status": "argmaxable"', '"status": "unargmaxable"'),
        ('"set_of_row": [\n  0,', '"set_of_row": [\n  9,'),
        ('"sets"', '"stes"'),
    ],
)
def test_other_forgeries(tmp_path, wrong, right):
    weight = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    verify(weight, [[1, 1, 1], [1, 1, 0]]).save(tmp_path / "v.json")
    text = (tmp_path / "v.json").read_text()
    assert wrong in text
    (tmp_path / "v.json").write_text(text.replace(wrong, right, 1))
    with pytest.raises(ProofFailed):
        Verification.load(tmp_path / "v.json", weight).check()


def test_weights_of_odd_kinds():
    weight = np.random.default_rng(0).standard_normal((4, 2))
    for odd in (weight[::-1], weight.astype(">f8"), weight.astype(np.longdouble), weight.tolist()):
        verdict(odd, [1, 0, 1, 0])
    with pytest.raises(TypeError, match="real numbers, got complex"):
        verify(weight.astype(complex), [[1, 0, 1, 0]])
    with pytest.raises(ValueError, match="too long for float64"):
        verify(np.array([[2**60 + 1, 1]]), [[1]])
    assert not verify(np.array([[1000, 1], [-1000, 1]]), [[1, 1]]).fragile[0]


def test_eps_is_remembered():
    v = verify(np.eye(2), [[1, 1]], eps=0.5)
    assert v.at_least().tolist() == ["yes"]
    with pytest.raises(ValueError, match="eps must be"):
        verify(np.eye(2), [[1, 1]], eps=float("nan"))


def test_without_flint(monkeypatch):
    """Python's own integers give the same certificates, slower."""
    rng = np.random.default_rng(4)
    weight, bias = rng.standard_normal((9, 3)), rng.standard_normal(9)
    sets = rng.random((8, 9)) < 0.5
    for offset in (None, bias):
        fast, slow = verify(weight, sets, offset), verify(weight, sets, offset)
        fast.check()
        monkeypatch.setattr(_exact, "flint", None)
        slow.check()
        for i in np.flatnonzero(slow.status == "unargmaxable"):
            exact_proof(slow, i, weight, sets[i], offset)
        monkeypatch.undo()


def test_reports_do_not_slow_down_with_the_square_of_the_rows():
    """Many distinct label sets: the table and the file look each one up directly."""
    rng = np.random.default_rng(2)
    weight = rng.standard_normal((12, 12))
    v = verify(weight, every_set(12))
    start = time.perf_counter()
    assert "4,096 label sets, 4,096 distinct" in v.table()
    assert len(v.as_json(proofs=False)["sets"]) == 4096
    assert time.perf_counter() - start < 5


def test_each_label_set_is_found_once_in_order(monkeypatch):
    rng = np.random.default_rng(0)
    dense = rng.choice([0.0, 1.0, np.nan], (60, 3))
    dense[20:30] = 0.0
    labels = ls.Labels.from_dense(dense)
    sets, which = problem.distinct(labels)
    seen = list(dict.fromkeys(row.tobytes() for row in dense))
    assert which.tolist() == [seen.index(row.tobytes()) for row in dense]
    assert len(sets) == len(seen)
    np.testing.assert_array_equal(problem.signs_of(sets)[which], problem.signs_of(labels))
    monkeypatch.setattr(problem, "_alike", lambda *_: False)  # sums that coincide by chance
    sets, which = problem.distinct(labels)
    assert (len(sets), which.tolist()) == (60, list(range(60)))
