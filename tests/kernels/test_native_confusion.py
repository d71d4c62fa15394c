"""Smooth metrics in C: lines one by one or all in two passes, and the losses of their sums."""

import numpy as np
import pytest
import torch

from labelset import Labels, losses
from labelset.formulas import Formula
from labelset.formulas.formula import OPERATIONS, evaluate
from labelset.kernels import confusion as native_confusion
from labelset.kernels import differentiable
from labelset.kernels.confusion import confusion, ratio, traced_metric
from labelset.kernels.native.calls import available, loops

pytestmark = pytest.mark.skipif(not available(), reason="built without its C extension")
AVERAGES = ("macro", "micro", "weighted", "samples")
SHAPES = [(40, 5000), (1100, 90), (60, 700), (3, 4100), (257, 16)]
TWO = ("add", "sub", "mul", "min", "max", "gt", "ge", "lt", "le", "eq")


def drawn(shape):
    """Scores, and labels of every kind, with rows and columns where nothing is on or known."""
    g = torch.Generator().manual_seed(0)
    v, y = 3 * torch.randn(shape, generator=g), torch.rand(shape, generator=g) < 0.03
    y[1], y[:, 7] = False, False
    soft = torch.where(torch.rand(shape, generator=g) < 0.2, torch.nan, y * 0.7)
    soft[2], soft[:, 9] = torch.nan, torch.nan
    return v, [y, soft, Labels.from_dense(y), Labels.from_dense(soft)]


def both(loss, v, y):
    v = v.clone().requires_grad_()
    value = loss(v, y)
    value.backward()
    return value.detach(), v.grad


@pytest.fixture
def one_by_one(monkeypatch):
    """Counts the calls that do lines one by one."""
    calls, at_once = [], native_confusion._at_once

    def counted(*args):
        calls.append(args)
        return at_once(*args)

    monkeypatch.setattr(native_confusion, "_at_once", counted)
    return calls


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_equal_to_the_eager_formula(shape, average, reduction):
    native, eager = (
        losses.build("smooth", metric="accuracy", impl=impl, average=average, reduction=reduction)
        for impl in ("native", "eager")
    )
    v, kinds = drawn(shape)
    for y in kinds:
        want, want_slope = both(eager, v.double(), y)
        for scores, rounding in ((v, 5e-6), (v.bfloat16(), 2e-2)):
            got, slope = both(native, scores, y)
            assert slope.dtype == scores.dtype
            assert abs(got - want) <= rounding * abs(want)
            assert (slope - want_slope).abs().max() <= rounding * want_slope.abs().max()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("average", ["macro", "samples"])
def test_one_by_one_is_what_two_passes_are(monkeypatch, one_by_one, shape, average):
    loss = losses.build("sigmoid-f1", impl="native", average=average)
    v, kinds = drawn(shape)
    found = [both(loss, v, y) for y in kinds]
    assert len(one_by_one) == (0 if (shape, average) == ((1100, 90), "macro") else len(kinds))
    monkeypatch.setattr(native_confusion, "NEAR", 0)
    for (value, slope), y in zip(found, kinds, strict=True):
        again, other = both(loss, v, y)
        torch.testing.assert_close(value, again, rtol=1e-6, atol=0)
        torch.testing.assert_close(slope, other, rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("shape", [(40, 5000), (1100, 90)])
def test_the_number_of_threads_changes_no_bit(average, shape):
    loss, before = (
        losses.build("sigmoid-f1", impl="native", average=average),
        torch.get_num_threads(),
    )
    v, kinds = drawn(shape)
    try:
        found = []
        for number in (1, 2, 5):
            torch.set_num_threads(number)
            found.append([t for y in kinds for t in both(loss, v, y)])
    finally:
        torch.set_num_threads(before)
    for one, *others in zip(*found, strict=True):
        assert all(torch.equal(one, other) for other in others)


@pytest.mark.parametrize(
    "decide",
    [
        lambda v: (torch.sigmoid(v), torch.exp(-v.square())),
        lambda v: (torch.exp(v), 1 - torch.exp(v)),  # a decision that is its own slope
        lambda v: (v, 1 - v),
    ],
    ids=["slopes that are not opposite", "exp", "scores"],
)
@pytest.mark.parametrize("average", AVERAGES)
def test_any_decision_and_any_loss_of_sums(decide, average):
    def loss(tp, fp, fn, tn):
        return torch.log1p(tp.square()) * torch.tanh(fn) - torch.sqrt(1 + fp.abs()) / (
            2 + tn.square()
        )

    def eager(v, y):
        on, off, dim = y.nan_to_num(0.0), (1 - y).nan_to_num(0.0), int(average == "samples")
        yes, no = decide(v)
        sums = [a * b for a, b in ((yes, on), (yes, off), (no, on), (no, off))]
        sums = [m.sum() if average == "micro" else m.sum(dim) for m in sums]
        weights = on.sum(dim) if average == "weighted" else ((on + off) > 0).any(dim).to(v.dtype)
        if average == "micro":
            return loss(*sums)
        return (loss(*sums) * weights).sum() / weights.sum()

    metric = traced_metric(decide, loss, 1, "cpu")
    v, (_, soft, *_) = drawn((40, 500))
    v = 0.3 * v
    want, want_slope = both(eager, v.double(), soft.double())
    kernel = confusion(metric, "native", v, soft, average, True)
    got, slope = both(lambda v, y: differentiable(v, y, kernel, eager), v, soft)
    torch.testing.assert_close(got.double(), want, rtol=5e-6, atol=0)
    assert (slope - want_slope).abs().max() <= 1e-5 * want_slope.abs().max()


@pytest.mark.parametrize("op", [*OPERATIONS, "power"])
def test_operations_on_sums_are_those_of_numpy(op):
    formula = Formula()
    inputs = [formula.input(k) for k in range(3 if op == "where" else 1 + (op in TWO))]
    y = formula.put(op, *inputs, value=1.7 if op == "power" else 0.0)
    odd = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 1e-9, 40.0, np.inf, -np.inf, np.nan])
    sums = np.zeros((6, len(odd) ** 2 * 3))
    sums[:3] = np.resize(odd, sums.shape[1]), np.repeat(odd, 33), np.arange(sums.shape[1])
    (exact,) = evaluate(formula, [y], [*sums])
    program, total = ratio(formula, [y] * 5), np.zeros(2)
    how = *program.address, False, 1.0, 1
    assert loops.weigh(how, sums.shape[1], sums.ctypes.data, total.ctypes.data)
    np.testing.assert_allclose(sums[:4], np.tile(exact, (4, 1)), rtol=1e-14, atol=0)
    np.testing.assert_array_equal(total[1], sums.shape[1])
