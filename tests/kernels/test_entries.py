"""Separable losses by Triton, in its interpreter: every loss, every kind of labels."""

import pytest
import torch

from labelset import Labels, losses
from labelset.formulas import Formula
from labelset.kernels.triton.source import compiled, source
from labelset.losses import Separable

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")


@triton.jit
def apply(x, out, function: tl.constexpr, size: tl.constexpr):
    at = tl.arange(0, size)
    tl.store(out + at, function(tl.load(x + at)))


SHAPES = [(1, 1), (41, 401), (3, 2500), (7, 128)]


def examples():
    for name in losses.names():
        for i, example in enumerate(losses.catalog.classes[name].examples):
            if isinstance(losses.build(name, **example), Separable):
                marks = [pytest.mark.slow] if i else []
                yield pytest.param(name, example, id=f"{name} {example}", marks=marks)


def draw(rows, n, seed=0, unknown=0.0):
    generator = torch.Generator().manual_seed(seed)
    v = 6 * torch.randn(rows, n, generator=generator)
    y = (torch.rand(rows, n, generator=generator) < 0.1).float()
    return v, torch.where(torch.rand(rows, n, generator=generator) < unknown, torch.nan, y)


def kinds(y):
    """The same labels in every form that can hold them."""
    forms = [y, Labels.from_dense(y)]
    return forms if y.isnan().any() else [*forms, y.bool(), y.to(torch.uint8), y.long()]


def both(loss, v, y, upstream=1.0):
    v = v.clone().requires_grad_()
    value = loss(v, y)
    (upstream * value).backward()
    return value.detach(), v.grad


def as_close_as_eager(name, example, v, y, upstream=1.0, reduction="mean"):
    """Against float64 the kernel may err as much as the eager formula, and a few roundings."""
    kernel = losses.build(name, impl="triton", reduction=reduction, **example)
    eager = losses.build(name, impl="eager", reduction=reduction, **example)
    want, want_slope = both(eager, v.double(), y, upstream)
    plain, plain_slope = both(eager, v, y, upstream)
    got, slope = both(kernel, v, y, upstream)
    rounding = 4e-6 * want_slope.abs() + 1e-6 * want_slope.abs().max()
    assert ((slope - want_slope).abs() <= 2 * (plain_slope - want_slope).abs() + rounding).all()
    assert abs(got - want) <= 2 * abs(plain - want) + 2e-6 * abs(want)


@pytest.mark.parametrize(("name", "example"), list(examples()))
def test_every_separable_loss(name, example):
    v, y = draw(5, 300)
    for form in kinds(y):
        as_close_as_eager(name, example, v, form)
    for form in kinds(draw(5, 300, seed=1, unknown=0.2)[1]):
        as_close_as_eager(name, example, v, form, upstream=3.0)


@pytest.mark.parametrize("shape", SHAPES)
def test_odd_shapes(shape):
    v, y = draw(*shape)
    for form in kinds(y):
        as_close_as_eager("asl", {}, v, form, upstream=0.5, reduction="sum")


def test_soft_labels():
    v, y = draw(9, 130)
    soft = y * torch.rand(9, 130)
    for form in (soft, Labels.from_dense(soft)):
        as_close_as_eager("spa", {}, v, form)


def test_far_scores_stay_finite_and_right():
    v = torch.tensor([[1e4, -1e4, 88.0, -88.0, 0.0, -0.0, 1e-30, 30.0]])
    for name in ("bce", "focal", "asl", "hill", "splc", "spa", "mse"):
        for y in (torch.zeros(1, 8), torch.ones(1, 8)):
            as_close_as_eager(name, {}, v, y.bool())


def test_nan_and_infinity_go_through():
    v = torch.tensor([[torch.nan, 0.0, torch.inf]])
    loss = losses.build("bce", impl="triton")
    assert loss(v, torch.zeros(1, 3).bool()).isnan()
    assert loss(v[:, 1:], torch.zeros(1, 2).bool()) == torch.inf
    hidden = torch.tensor([[torch.nan, 0.0, torch.nan]])
    value, slope = both(loss, v, hidden)
    assert value == pytest.approx(0.6931, abs=1e-4)
    assert slope.tolist() == [[0.0, 0.5, 0.0]]


def test_nothing_known_costs_nothing():
    v, _ = draw(3, 4)
    value, slope = both(losses.build("focal", impl="triton"), v, torch.full((3, 4), torch.nan))
    assert value == 0
    assert not slope.any()


def test_no_rows():
    value = losses.build("asl", impl="triton")(torch.zeros(0, 5), torch.zeros(0, 5))
    assert value == 0


def test_scores_that_are_not_contiguous():
    v, y = draw(300, 6)
    assert not v.T.is_contiguous()
    as_close_as_eager("hill", {}, v.T, y.T.bool())


def test_numbers_per_label():
    weights = {"pos_weight": torch.rand(300) + 0.5, "neg_weight": torch.rand(300) + 0.5}
    v, y = draw(5, 300)
    for form in kinds(y):
        as_close_as_eager("bce", weights, v, form)
        as_close_as_eager("bce", {"pos_weight": weights["pos_weight"]}, v, form)
        strided = {"pos_weight": torch.rand(300, 3)[:, 1], "neg_weight": torch.rand(1).expand(300)}
        as_close_as_eager("bce", strided, v, form)


def test_sixteen_bits_are_within_their_rounding():
    v, y = draw(5, 300)
    for name in ("asl", "splc", "spa"):
        want, want_slope = both(losses.build(name, impl="eager"), v.half().float(), y)
        got, slope = both(losses.build(name, impl="triton"), v.half(), y.bool())
        assert slope.dtype == torch.float16
        torch.testing.assert_close(got, want, rtol=2e-5, atol=0)
        assert (slope.float() - want_slope).norm() < 1e-2 * want_slope.norm()


def test_a_second_backward_and_a_second_derivative():
    v, y = draw(4, 50)
    loss, eager = (losses.build("focal", impl=impl) for impl in ("triton", "eager"))
    v = v.requires_grad_()
    value = loss(v, y)
    first = torch.autograd.grad(value, v, retain_graph=True)[0]
    assert torch.equal(first, torch.autograd.grad(value, v)[0])
    curved = [
        torch.autograd.grad(
            torch.autograd.grad(f(v, y), v, create_graph=True)[0].square().sum(), v
        )[0]
        for f in (loss, eager)
    ]
    torch.testing.assert_close(*curved)


def test_a_learnt_weight_is_learnt():
    weight = torch.nn.Parameter(torch.ones(6))
    v, y = draw(3, 6)
    losses.build("bce", pos_weight=weight)(v, y).backward()
    assert weight.grad.any()
    with pytest.raises(RuntimeError, match="no kernel"):
        losses.build("bce", pos_weight=weight, impl="triton")(v, y)


def test_a_loss_of_ones_own_is_fused_too():
    class Own(Separable):
        def pos(self, v):
            return torch.nn.functional.softplus(-2 * v)

        def neg(self, v):
            return (v.clamp(min=-1) + 1) ** 2

    v, y = draw(5, 300)
    got, want = (both(Own(impl=impl), v, y.bool()) for impl in ("triton", "eager"))
    torch.testing.assert_close(got, want)


def test_float64_goes_the_eager_way_and_says_so():
    v, y = draw(2, 3)
    assert losses.build("bce")(v.double(), y).dtype == torch.float64
    with pytest.raises(RuntimeError, match="float32"):
        losses.build("bce", impl="triton")(v.double(), y)


@pytest.mark.parametrize("bad", [torch.tensor([[2]]), torch.tensor([[1.5]]), torch.tensor([[-1]])])
def test_labels_out_of_range_are_refused(bad, monkeypatch):
    from triton.runtime import interpreter

    monkeypatch.setattr(  # on a GPU the one kernel that asserts is compiled with its assertion
        interpreter.interpreter_builder, "options", interpreter.InterpreterOptions(debug=True)
    )
    with pytest.raises(Exception, match=r"labels must"):
        losses.build("bce", impl="triton")(torch.zeros(1, 1), bad)


def test_a_wrong_implementation_is_named():
    with pytest.raises(ValueError, match="impl must be one of"):
        losses.build("bce", impl="cuda")


@pytest.mark.parametrize(
    ("name", "low", "high", "want"),
    [
        ("decay", -85, 85, lambda x: (-x.abs()).exp()),
        ("exp", -85, 88, torch.exp),
        ("log", 1e-6, 1e6, torch.log),
        ("log1p", -0.99, 50, torch.log1p),
        ("log1p_unit", 0, 1, torch.log1p),
        ("tanh", -20, 20, torch.tanh),
    ],
)
def test_special_functions_are_good_to_a_few_units_in_the_last_place(name, low, high, want):
    low_level = Formula()
    place = low_level.put(name, low_level.input(0))
    function = compiled(source(low_level, (place,), 1))
    x = torch.linspace(low, high, 4096)
    x[:512] = low + (x[:512] - low) / 1e4  # small ones too
    out = torch.empty_like(x)
    apply[(1,)](x, out, function=function, size=4096)
    exact = want(x.double())
    small = torch.finfo(torch.float32).tiny
    # the interpreter rounds a * b before it adds c, which on a GPU is one operation
    relative = 6e-6 if name in ("exp", "decay") else 1e-6
    assert ((out - exact).abs() <= relative * exact.abs() + small).all()


def test_a_loss_with_terms_of_its_own_is_left_to_them():
    class Own(Separable):
        def pos(self, v):
            return v

        def neg(self, v):
            return v

        def terms(self, logits, labels):
            return 0 * logits + 7, None

        groups = losses.Loss.groups

    v, y = draw(2, 3)
    assert Own()(v, y) == 7
    with pytest.raises(RuntimeError, match="no kernel"):
        Own(impl="triton")(v, y)


@pytest.mark.parametrize("form", [lambda y: y > 0, lambda y: y, Labels.from_dense])
def test_a_hyperparameter_per_label_may_be_changed_in_place(form):
    v, y = draw(3, 50)
    table = torch.ones(50, 2)
    loss = losses.build("bce", pos_weight=table[:, 0], impl="triton")
    loss(v, form(y))
    table.mul_(10)
    want = losses.build("bce", pos_weight=table[:, 0], impl="eager")(v, form(y))
    assert loss(v, form(y)).item() == pytest.approx(want.item(), rel=1e-5)


def test_results_that_are_infinite_constants():
    f = Formula()
    f.input(0)
    text = source(f, [f.constant(float("inf"))], 1)
    out = torch.zeros(4)
    apply[(1,)](torch.ones(4), out, compiled(text), 4)
    assert out.isposinf().all()
