"""The C loops against float64: every step, every separable loss, counts and log-sum-exps."""

import platform
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
import torch

import labelset as ls
from labelset.formulas import Formula, trace
from labelset.formulas.passes import lower
from labelset.kernels.axes import LogSums, log_sums, log_sums_gradient
from labelset.kernels.confusion import soft_counts, soft_counts_gradient
from labelset.kernels.native.calls import available, separable_loop
from labelset.kernels.native.program import CODES, LOGISTIC, Program
from labelset.losses import dense_target, logsumexp, reduce_terms

pytestmark = pytest.mark.skipif(not available(), reason="built without the C extension")

ULP = 2.0**-23
SHAPES = [(1, 1), (3, 7), (41, 401), (300, 80), (5, 20011)]
KINDS = ["bits", "bytes", "sparse", "soft", "unknown", "sparse unknown"]
EXTREMES = torch.tensor([1e4, -1e4, 0.0, -0.0, 1e-40, -1e-40, 1e-6, 88.0, -88.0, 104.0, -104.0])


def built(name, **settings):
    settings = {"pos": "bce", "neg": "hill", **settings} if name == "mix" else settings
    return ls.losses.build(name, **settings)


CASES = [
    (name, dict(example))
    for name in ls.losses.names()
    for example in type(built(name)).examples
    if isinstance(built(name, **example), ls.losses.Separable)
]


def sides(loss):
    return lambda v: (loss.pos(v), loss.neg(v))


def program_of(function, n):
    formula, outputs, columns = trace(function, 1, n)
    v = formula.input(0)
    slopes = [formula.slope(y, v) for y in outputs]
    return Program(*lower(formula, [*outputs, *slopes])), columns


def scores_like(shape, seed=0):
    v = 4 * torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    if v.numel() > 100:
        v.view(-1)[: len(EXTREMES)] = EXTREMES
        v.view(-1)[-len(EXTREMES) :] = EXTREMES
    return v


def labels_like(kind, v, density=0.05, seed=1):
    """Labels of a kind, and the scores, NaN or infinite where a label is unknown."""
    rng = torch.Generator().manual_seed(seed)
    on = torch.rand(v.shape, generator=rng) < density
    soft = torch.where(
        on, torch.rand(v.shape, generator=rng).clamp(0.01, 0.99).round(decimals=1), 0
    )
    if kind.endswith("unknown"):
        soft = soft.masked_fill(torch.rand(v.shape, generator=rng) < 0.1, torch.nan)
        odd = torch.where(torch.rand(v.shape, generator=rng) < 0.5, torch.nan, torch.inf)
        v = torch.where(soft.isnan(), odd.to(v.dtype), v)
        return v, ls.Labels.from_dense(soft) if kind.startswith("sparse") else soft
    plain = {"bits": on, "bytes": on.to(torch.uint8), "soft": soft}
    return v, plain[kind] if kind in plain else ls.Labels.from_dense(on)


def dense(labels):
    return labels.dense() if isinstance(labels, ls.Labels) else labels


def eager(loss, v, labels):
    """Sum, known entries and gradient by the formula as it stands."""
    x = v.clone().requires_grad_()
    y = dense(labels)
    scores, target = dense_target(x, y.to(v.dtype) if y.is_floating_point() else y)
    values, weights = loss.terms(scores, target)
    value = reduce_terms(values, weights, "sum")
    (gradient,) = torch.autograd.grad(value, x)
    known = v.numel() if weights is None else int(weights.sum())
    return value.detach(), known, gradient.nan_to_num(torch.nan)


def sizes(loss, v, labels):
    """How large the two parts are whose difference the slope of a soft label is."""
    y = dense(labels).double().nan_to_num(0.0)
    x = torch.where(v.isfinite(), v, 0.0).double()
    on, off = (eager(loss, x, torch.full_like(x, k).bool())[2].abs() for k in (1, 0))
    return y * on + (1 - y) * off


def relative(got, exact, size):
    """The relative error; what is below the smallest normal number may become 0."""
    error = ((got.double() - exact).abs() - 8 * 2.0**-126).clamp(min=0)
    return torch.where(error > 0, error / size, 0.0)


# ---- separable losses ------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "settings"), CASES, ids=lambda x: str(x))
@pytest.mark.parametrize("kind", KINDS)
def test_every_separable_loss_is_as_exact_as_eager(name, settings, kind):
    for density in (0.05, 0.6):
        v, y = labels_like(kind, scores_like((41, 401)), density)
        loss = built(name, **settings).bind(401)
        program, columns = program_of(sides(loss), 1)
        value, known, gradient = separable_loop(program, columns, v, y, 1.0)
        exact = eager(loss, v.double(), y)
        rough = eager(loss, v, y)
        assert known is None or int(known) == exact[1]
        assert abs(value - exact[0]) <= abs(rough[0] - exact[0]) + 4 * ULP * abs(exact[0])
        size = sizes(loss, v, y)
        mine, theirs = (relative(g, exact[2], size) for g in (gradient, rough[2]))
        # where a slope crosses 0 few digits are left of it, and which ones is chance: hence the 4
        assert mine.max() <= 4 * theirs.max() + 8 * ULP
        assert mine.quantile(0.99) <= theirs.quantile(0.99) + 4 * ULP
        assert mine.median() <= theirs.median() + ULP
        assert (gradient.double() - exact[2]).abs().max() <= 8 * ULP * exact[2].abs().max()


@pytest.mark.parametrize("shape", [*SHAPES, (0, 5)])
@pytest.mark.parametrize("kind", KINDS)
def test_odd_shapes(shape, kind):
    v, y = labels_like(kind, scores_like(shape))
    loss = built("focal")
    program, columns = program_of(sides(loss), 1)
    value, known, gradient = separable_loop(program, columns, v, y, 0.5)
    exact = eager(loss, v.double(), y)
    torch.testing.assert_close(value.double(), 0.5 * exact[0], rtol=1e-6, atol=0)
    assert gradient.shape == v.shape
    assert known is None or int(known) == exact[1]
    assert (relative(gradient, 0.5 * exact[2], 0.5 * sizes(loss, v, y)) <= 1e-5).all()


@pytest.mark.parametrize("n", [7, 401, 3000])
@pytest.mark.parametrize("kind", KINDS)
def test_numbers_per_label(n, kind):
    v, y = labels_like(kind, scores_like((23, n)))
    loss = built("bce", pos_weight=torch.linspace(0.5, 3, n), neg_weight=torch.linspace(2, 1, n))
    program, columns = program_of(sides(loss), n)
    assert len(columns) == 2
    value, _, gradient = separable_loop(program, columns, v, y, 1.0)
    exact = eager(loss, v.double(), y)
    torch.testing.assert_close(value.double(), exact[0], rtol=1e-6, atol=0)
    assert (relative(gradient, exact[2], sizes(loss, v, y)) <= 1e-6).all()


@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_is_the_float32_gradient_rounded(kind):
    v, y = labels_like(kind, scores_like((41, 401)).bfloat16())
    loss = built("asl")
    program, columns = program_of(sides(loss), 1)
    value, _, gradient = separable_loop(program, columns, v, y, 1.0)
    wide = separable_loop(program, columns, v.float(), y, 1.0)
    assert gradient.dtype == torch.bfloat16
    assert torch.equal(value, wide[0])
    assert torch.equal(gradient, wide[2].bfloat16())


def test_scores_and_labels_need_not_be_contiguous():
    v, y = scores_like((40, 30)), torch.rand(40, 30) < 0.2
    loss = built("hill")
    program, columns = program_of(sides(loss), 1)
    plain = separable_loop(program, columns, v.T.contiguous(), y.T.contiguous(), 1.0)
    turned = separable_loop(program, columns, v.T, y.T, 1.0)
    assert torch.equal(plain[0], turned[0])
    assert torch.equal(plain[2], turned[2])


@pytest.mark.parametrize("bad", [torch.full((3, 4), 2), torch.full((3, 4), -0.5)])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float32, torch.float64])
def test_labels_outside_the_unit_interval_are_refused(bad, dtype):
    loss = built("bce")
    program, columns = program_of(sides(loss), 1)
    y = torch.zeros(3, 4, dtype=dtype)
    y[1, 2] = bad.to(dtype)[0, 0] if dtype.is_floating_point else 2
    with pytest.raises(ValueError, match="row 1, label 2"):
        separable_loop(program, columns, torch.randn(3, 4), y, 1.0)


@pytest.mark.parametrize("place", [0, 63, 64, 200, 255, 256, 299])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_one_wrong_label_is_found_wherever_it_is(place, dtype):
    program, columns = program_of(sides(built("bce")), 1)
    y = torch.zeros(3, 300, dtype=dtype)
    y[1, place] = 2
    with pytest.raises(ValueError, match=f"row 1, label {place}"):
        separable_loop(program, columns, torch.randn(3, 300), y, 1.0)


def test_every_label_is_found_wherever_it_is():
    """One label that is on at a time: its gradient, and no other, has the other sign."""
    program, columns = program_of(sides(built("bce")), 1)
    v = torch.randn(1, 333, generator=torch.Generator().manual_seed(5))
    for place in range(333):
        y = torch.arange(333)[None] == place
        gradient = separable_loop(program, columns, v, y, 1.0)[2]
        assert torch.equal(gradient < 0, y)


def test_shapes_and_kinds_are_checked():
    program, columns = program_of(lambda v: (v, v * v), 1)
    with pytest.raises(ValueError, match="shape"):
        separable_loop(program, columns, torch.randn(3, 4), torch.zeros(3, 5), 1.0)
    with pytest.raises(TypeError, match="float64"):
        separable_loop(program, columns, torch.randn(3, 4).double(), torch.zeros(3, 4), 1.0)


# ---- single steps ------------------------------------------------------------------------------


def applied(op, x, value=0.0):
    """One function of the C loops, entry by entry: as the slope of a label that is off."""
    formula = Formula()
    y, zero = formula.put(op, formula.input(0), value=value), formula.constant(0.0)
    program = Program(formula, (zero, zero, zero, y))
    v = torch.as_tensor(x, dtype=torch.float32).reshape(1, -1)
    return separable_loop(program, [], v, torch.zeros_like(v, dtype=torch.bool), 1.0)[2][0]


FUNCTIONS = {
    "exp": (torch.exp, torch.linspace(-103, 88.7, 300_001)),
    "log": (torch.log, torch.logspace(-44, 38, 300_001)),
    "log1p": (
        torch.log1p,
        torch.cat([torch.linspace(-1, 3, 300_001), torch.logspace(-44, 38, 999)]),
    ),
    "log1p_unit": (
        torch.log1p,
        torch.cat([torch.linspace(0, 1, 300_001), torch.logspace(-44, 0, 999)]),
    ),
    "tanh": (torch.tanh, torch.linspace(-12, 12, 300_001)),
    "sqrt": (torch.sqrt, torch.logspace(-44, 38, 3001)),
    "abs": (torch.abs, torch.linspace(-3, 3, 301)),
    "decay": (lambda x: torch.exp(-x.abs()), torch.linspace(-86.9, 86.9, 300_001)),
    "unit": (lambda x: 1 / (1 + x), torch.linspace(0, 1, 3001)),
    "reciprocal": (lambda x: 1 / x, torch.linspace(0.1, 9, 3001)),
}


@pytest.mark.parametrize("op", FUNCTIONS)
def test_functions_are_good_to_two_units_in_the_last_place(op):
    function, x = FUNCTIONS[op]
    got, exact = applied(op, x).double(), function(x.double())
    unit = np.spacing(exact.abs().clamp(min=2.0**-126).float().numpy()).astype(np.float64)
    error = (got - exact).abs() / torch.from_numpy(unit)
    small = (exact.abs() < 2.0**-126) & (got == 0)  # what is too small to be normal may become 0
    assert error[~exact.isinf() & ~small].max() <= 2
    assert torch.equal(got[exact.isinf()], exact[exact.isinf()])


@pytest.mark.parametrize("name", ["asl", "sigmoid-f1", "two-way"])
@pytest.mark.skipif(platform.machine() != "x86_64", reason="elsewhere small numbers are kept")
def test_gradients_hold_no_numbers_too_small_to_be_normal(name):
    """Products with them, later in the network, take many times as long."""
    v = torch.linspace(-130, 130, 90_000).reshape(1000, 90).T.clone().requires_grad_()
    y = torch.zeros(90, 1000, dtype=torch.bool)
    y[:, ::7] = True
    (g,) = torch.autograd.grad(ls.losses.build(name, impl="native")(v, y), v)
    assert not ((g != 0) & (g.abs() < 2.0**-126)).any()
    assert (g == 0).any()
    assert float(torch.tensor(1e-40) * torch.tensor(0.5)) > 0  # the processor is as it was before


@pytest.mark.parametrize("op", ["exp", "log", "log1p", "tanh", "sqrt", "abs", "decay"])
def test_functions_at_the_ends(op):
    x = torch.tensor(
        [torch.inf, -torch.inf, torch.nan, 0.0, -1.0, -2.0, 1e38, -1e38, 200.0, -200.0]
    )
    torch.testing.assert_close(
        applied(op, x), FUNCTIONS[op][0](x), rtol=1e-6, atol=0, equal_nan=True
    )


@pytest.mark.parametrize("exponent", [0.5, -0.5, 1.7, -3.0, 9.0, 12.0, -2.0, 0.3])
def test_powers(exponent):
    x = torch.logspace(-30, 30, 3001)
    x = torch.cat([x, -x, torch.tensor([0.0, torch.inf, torch.nan, 1e-42])])
    got, exact = applied("power", x, exponent), (x.double() ** exponent).float()
    normal = (exact.abs() >= 2.0**-126) | (exact == 0) | exact.isnan()
    torch.testing.assert_close(got[normal], exact[normal], rtol=2 * ULP, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", ["asl", "focal", "hill", "mse", "splc"])
def test_no_exponential_is_computed_twice(name):
    """What is made of a sigmoid and its slope comes from one exp(-|x|)."""
    program, _ = program_of(lambda v: (built(name).pos(v), built(name).neg(v)), 1)
    steps, _ = program.off
    codes = steps[8 + 2 * steps[3] :: 8]
    logistic = codes >= LOGISTIC
    assert logistic.sum() == 1
    assert not np.isin(codes, [CODES["decay"], CODES["exp"]]).any()


def test_choices_and_sums_are_torchs():
    """Whatever steps are melted into one, the outcome is that of the formula."""

    def both(v):
        w = torch.where(v > 0.5, v * 2 + 1, 3 - v) * torch.minimum(v, -v)
        u = torch.where(v.abs() <= v * v, torch.maximum(v, 0.25 * v), v * v * v - 0.5 * v)
        t = torch.where(v == w, u, u * w - v) + torch.where(v < 1, v, w) / (2 + v * v)
        return t - (3 * u - 2 * w), -(u * w) * (v - 4) + torch.clamp(w, -2, 3)

    v = scores_like((9, 300)).clamp(-50, 50) + 0.01  # not at 0, where |v| has no slope
    program, _ = program_of(both, 1)
    x = v.double().requires_grad_()
    one, two = both(x)
    for y, side in ((torch.ones_like(v).bool(), one), (torch.zeros_like(v).bool(), two)):
        (slope,) = torch.autograd.grad(side.sum(), x, retain_graph=True)
        value, _, gradient = separable_loop(program, [], v, y, 1.0)
        scale = float(side.detach().abs().sum())
        assert abs(float(value) - float(side.detach().sum())) <= 1e-6 * scale
        torch.testing.assert_close(gradient.double(), slope, rtol=1e-5, atol=1e-4)


# ---- sums of soft decisions ----------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by_row", [False, True])
def test_soft_counts(shape, kind, by_row):
    n, lines = shape[1], shape[0] if by_row else shape[1]
    v, y = labels_like(kind, scores_like(shape), 0.1)
    loss = built("sigmoid-f1", beta=torch.linspace(0.5, 2, n), eta=0.3)
    program, columns = program_of(lambda v: loss.decide(v), n)
    found = soft_counts(program, columns, v, y, by_row)
    x, target = dense_target(v.double(), dense(y).double())
    x = x.requires_grad_()
    yes, no = loss.decide(x)
    on, off, dim = target.positive, target.negative, int(by_row)
    exact = torch.stack([(a * b).sum(dim) for a in (yes, no) for b in (on, off)])
    torch.testing.assert_close(found.sums, exact.detach(), rtol=1e-5, atol=1e-30)
    first = soft_counts(program, columns, v, y, by_row, last=False)
    torch.testing.assert_close(first.sums[:3], found.sums[:3], rtol=1e-6, atol=1e-30)
    assert not first.sums[3].any()
    torch.testing.assert_close(found.on, on.sum(dim))
    assert torch.equal(found.known, (on + off > 0).double().sum(dim))
    factors = torch.randn(4, lines, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    for f in (factors, factors[:, :1]):
        (slope,) = torch.autograd.grad((f * exact).sum(), x, retain_graph=True)
        got = soft_counts_gradient(program, columns, v, y, by_row, f)
        torch.testing.assert_close(got.double(), slope, rtol=2e-5, atol=1e-7)


def test_what_numbers_torch_makes_by_default_does_not_matter():
    v, y = labels_like("bits", scores_like((9, 300)).clamp(-9, 9), 0.2)
    loss, found = built("sigmoid-f1", impl="native"), []
    for kind in (torch.float32, torch.float64):
        torch.set_default_dtype(kind)
        try:
            x = v.clone().requires_grad_()
            loss(x, y).backward()
        finally:
            torch.set_default_dtype(torch.float32)
        found.append(x.grad)
    assert torch.equal(*found)


def test_slopes_of_yes_and_no_need_not_be_opposite():
    v, y = labels_like("soft", scores_like((20, 30)), 0.2)
    program, columns = program_of(lambda v: (torch.sigmoid(v), torch.exp(-(v.square()))), 1)
    assert not program.opposite
    x, target = dense_target(v.double(), y.double())
    x = x.requires_grad_()
    sides = torch.sigmoid(x), torch.exp(-x.square())
    exact = torch.stack([(a * b).sum(0) for a in sides for b in (target.positive, target.negative)])
    factors = torch.randn(4, 30, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    (slope,) = torch.autograd.grad((factors * exact).sum(), x)
    got = soft_counts_gradient(program, columns, v, y, False, factors)
    torch.testing.assert_close(got.double(), slope, rtol=2e-5, atol=1e-6)


def test_decisions_may_be_the_scores_themselves():
    v, y = labels_like("bits", scores_like((20, 30)), 0.2)
    program, columns = program_of(lambda v: (v * 1, 1 - v), 1)
    sums = soft_counts(program, columns, v, y, False).sums
    exact = torch.stack([(a * b).sum(0) for a in (v, 1 - v) for b in (y.float(), 1 - y.float())])
    torch.testing.assert_close(sums, exact.double(), rtol=1e-5, atol=1e-3)


# ---- log-sum-exps --------------------------------------------------------------------------------


def ways_exactly(v, y, a, b):
    """Per line: the two log-sum-exps, sum y v, sum y, how many are known; along dimension 1."""
    on, off = y.nan_to_num(0.0), (1 - y).nan_to_num(0.0)
    return (
        logsumexp(a * v, on),
        logsumexp(b * v, off),
        (on * v).sum(1),
        on.sum(1),
        (on + off).sum(1),
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("density", [0.01, 0.3])
def test_log_sums_and_their_gradient(shape, kind, density):
    v, y = labels_like(kind, scores_like(shape), density)
    a, b = -0.25, 1.5
    full = dense(y).double()
    x = torch.where(full.isnan(), 0.0, v.double()).requires_grad_()
    rough = torch.where(full.isnan(), 0.0, v)
    found = log_sums(v, y, a, b, rows=True, columns=True)
    rng, slopes, loss = torch.Generator().manual_seed(5), [], 0.0
    for turn, sums in zip((lambda m: m, lambda m: m.T), found, strict=True):
        exact = ways_exactly(turn(x), turn(full), a, b)
        near = ways_exactly(turn(rough), turn(full).float(), a, b)
        for got, want, eager32 in zip(sums, exact, near, strict=True):
            empty = want.detach().isinf()
            assert torch.equal(got[empty], want[empty])
            error, theirs = (got - want).abs()[~empty], (eager32.double() - want).abs()[~empty]
            allowed = theirs.max().item() if len(theirs) else 0.0
            assert (error <= allowed + 16 * ULP * (1 + want.detach().abs()[~empty])).all()
        f = torch.randn(3, len(sums.on), dtype=torch.float64, generator=rng)
        slopes.append(LogSums(*f, f[0], f[0]))
        for k in range(3):
            loss = loss + (f[k] * torch.where(exact[k].isinf(), 0.0, exact[k])).sum()
    (slope,) = torch.autograd.grad(loss, x)
    gradient = log_sums_gradient(v, y, a, b, found, tuple(slopes))
    assert gradient.isfinite().all()
    torch.testing.assert_close(gradient.double(), slope, rtol=2e-3, atol=2e-6)
    calm = (v.abs() < 100) & (v.abs().nan_to_num(1e9).amax(1, keepdim=True) < 100)
    calm &= v.abs().nan_to_num(1e9).amax(0, keepdim=True) < 100
    torch.testing.assert_close(gradient.double()[calm], slope[calm], rtol=2e-5, atol=5e-6)


def test_rows_and_columns_alone_are_what_they_are_together():
    v, y = labels_like("sparse unknown", scores_like((37, 5000)), 0.05)
    rows, columns = log_sums(v, y, 1.0, 2.0, rows=True, columns=True)
    alone, nothing = log_sums(v, y, 1.0, 2.0, rows=True, columns=False)
    none, other = log_sums(v, y, 1.0, 2.0, rows=False, columns=True)
    assert nothing is None
    assert none is None
    for one, two in zip((*rows, *columns), (*alone, *other), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-6)
    slopes = LogSums(*(torch.ones(37, dtype=torch.float64) for _ in range(5)))
    both = LogSums(*(torch.zeros(5000, dtype=torch.float64) for _ in range(5)))
    one = log_sums_gradient(v, y, 1.0, 2.0, (rows, None), (slopes, None))
    two = log_sums_gradient(v, y, 1.0, 2.0, (rows, columns), (slopes, both))
    torch.testing.assert_close(one, two)


def test_two_way_from_its_log_sums():
    """The way a loss uses them: its own small formula, differentiated, and one pass back."""
    v, y = labels_like("bits", scores_like((64, 500)).clamp(-9, 9), 0.02)
    loss = built("two-way", way="sample")
    x = v.double().requires_grad_()
    value, weights = loss.terms(*dense_target(x, y))
    exact = reduce_terms(value, weights, "mean")
    (slope,) = torch.autograd.grad(exact, x)
    (sums, _) = log_sums(v, y, -0.25, 1.0, rows=True, columns=False)
    on, off = sums.on.clone().requires_grad_(), sums.off.clone().requires_grad_()
    some = sums.weight > 0
    rows = torch.nn.functional.softplus(off + 4 * torch.where(some, on, 0.0))
    got = torch.where(some, rows, 0.0).sum() / some.sum()
    parts = torch.autograd.grad(got, (on, off))
    slopes = LogSums(*parts, torch.zeros_like(on), parts[0], parts[0])
    gradient = log_sums_gradient(v, y, -0.25, 1.0, (sums, None), (slopes, None))
    torch.testing.assert_close(got, exact, rtol=1e-6, atol=0)
    torch.testing.assert_close(gradient.double(), slope, rtol=1e-5, atol=1e-9)


# ---- threads -------------------------------------------------------------------------------------


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("shape", [(1100, 90), (40, 5000)])
@pytest.mark.parametrize("kind", ["bits", "sparse unknown"])
def test_the_number_of_threads_changes_no_bit(threads, shape, kind):
    v, y = labels_like(kind, scores_like(shape), 0.03)
    loss, metric = built("asl"), built("sigmoid-f1")
    pair, columns = program_of(sides(loss), 1)
    decision, _ = program_of(lambda v: metric.decide(v), 1)

    def everything():
        value, known, gradient = separable_loop(pair, columns, v, y, 1.0)
        sums = log_sums(v, y, -0.5, 1.0, rows=True, columns=True)
        counts = [soft_counts(decision, [], v, y, by_row) for by_row in (False, True)]
        back = soft_counts_gradient(decision, [], v, y, False, counts[0].sums)
        through = log_sums_gradient(v, y, -0.5, 1.0, sums, sums)
        parts = [t for group in (*sums, *counts) for t in group]
        return [value, gradient, back, through, *parts, *([] if known is None else [known])]

    threads(1)
    alone = everything()
    for number in (2, 3, 5):
        threads(number)
        for one, many in zip(alone, everything(), strict=True):
            assert torch.equal(one.nan_to_num(), many.nan_to_num())


@pytest.mark.slow
def test_ctrl_c_at_any_moment_leaves_memory_alone():
    """Threads may outlive the call that was interrupted, but not what they write into."""
    script = """
import random, signal, time, torch, labelset as ls
torch.set_num_threads(3)
def interrupt(*_): raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
scores, y = torch.randn(256, 4000), torch.rand(256, 4000) < 0.01
losses = [ls.losses.build(name, impl="native") for name in ("bce", "sigmoid-f1", "two-way")]
for loss in losses: loss(scores, y)
came, end = 0, time.perf_counter() + 3
while time.perf_counter() < end:
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 5e-3))
        random.choice(losses)(scores.clone().requires_grad_(), y).backward()
        time.sleep(0.005)
    except KeyboardInterrupt:
        came += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
time.sleep(0.3)  # what outlives the last call ends before Python does, which kills threads harshly
print(came)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 50


def own_loss(pos, neg, **settings):
    """A loss that a user writes."""

    @dataclass(frozen=True, kw_only=True, eq=False)
    class Own(ls.losses.Separable):
        def pos(self, v):
            return pos(v)

        def neg(self, v):
            return neg(v)

    return Own(**settings)


def long_formula(v):
    """More numbers at a time than the C loops keep."""
    parts = [torch.sigmoid((i + 1) * v) for i in range(40)]
    return sum(a * b.exp() for a, b in zip(parts, parts[::-1], strict=True)) + sum(parts)


def test_a_formula_too_long_for_the_loops_is_left_to_torch():
    v, y = torch.randn(5, 7), torch.rand(5, 7) < 0.3
    got = own_loss(long_formula, lambda v: long_formula(-v))(v, y)
    torch.testing.assert_close(got, torch.where(y, long_formula(v), long_formula(-v)).mean())
    with pytest.raises(RuntimeError, match="has no kernel"):
        own_loss(long_formula, long_formula, impl="native")(v, y)


def test_sides_that_do_not_look_at_the_score():
    v, y = torch.randn(5, 7, requires_grad=True), torch.rand(5, 7) < 0.3
    value = own_loss(lambda v: torch.full_like(v, 0.25), lambda v: torch.full_like(v, 0.75))(v, y)
    value.backward()
    torch.testing.assert_close(value.detach(), torch.where(y, 0.25, 0.75).mean())
    assert not v.grad.any()
