"""Formulas: traced from torch, differentiated, lowered, played back in float64."""

import math
import random

import pytest
import torch

from labelset import losses
from labelset.formulas import Formula, NotTraceable, trace
from labelset.formulas.passes import lower, prune, prune_branches, shared
from labelset.kernels.separable import traced_pair
from labelset.kernels.triton.source import compiled, source

WIDE = torch.linspace(-40, 40, 1601, dtype=torch.float64)
PLAYED = {
    "neg": lambda x: -x,
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "reciprocal": lambda x: 1 / x,
    "exp": torch.exp,
    "log": torch.log,
    "log1p": torch.log1p,
    "log1p_unit": torch.log1p,
    "sqrt": torch.sqrt,
    "tanh": torch.tanh,
    "abs": torch.abs,
    "decay": lambda x: (-x.abs()).exp(),
    "unit": lambda e: 1 / (1 + e),
    "where": torch.where,
    "min": torch.minimum,
    "max": torch.maximum,
    **{name: getattr(torch, name) for name in ("gt", "ge", "lt", "le", "eq")},
}


def play(formula, outputs, *inputs):
    """What a lowered formula gives, step by step in torch."""
    values = []
    for op, args, value in formula.steps:
        if op == "input":
            values.append(inputs[int(value)])
        elif op == "constant":
            values.append(torch.tensor(value, dtype=torch.float64))
        elif op == "power":
            values.append(values[args[0]] ** value)
        else:
            values.append(PLAYED[op](*(values[arg] for arg in args)))
    return [values[y].expand(inputs[0].shape) for y in outputs]


def separable_examples():
    for name in losses.names():
        cls = losses.catalog.classes[name]
        for example in cls.examples:
            loss = losses.build(name, **example)
            if isinstance(loss, losses.Separable):
                yield pytest.param(loss.bind(7), id=f"{name} {example}")


@pytest.mark.parametrize("loss", list(separable_examples()))
def test_both_sides_and_their_slopes_are_those_of_autograd(loss):
    formula, (on, off), _ = trace(lambda v: (loss.pos(v), loss.neg(v)), 1)
    v = formula.input(0)
    outputs = (on, off, formula.slope(on, v), formula.slope(off, v))
    got = play(*lower(formula, outputs), WIDE)
    for side, value, slope in ((loss.pos, got[0], got[2]), (loss.neg, got[1], got[3])):
        v = WIDE.clone().requires_grad_()
        want = side(v[None])[0]
        (want_slope,) = torch.autograd.grad(want.sum(), v)
        torch.testing.assert_close(value, want.detach(), rtol=1e-12, atol=1e-13)
        torch.testing.assert_close(slope, want_slope, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("loss", list(separable_examples()))
def test_the_choice_of_a_side_gives_that_side(loss):
    formula, (on, off), _ = trace(lambda v, y: (loss.pos(v), loss.neg(v)), 2)
    value = formula.where(formula.input(1), on, off)
    slope = formula.slope(value, formula.input(0))
    truth = torch.arange(len(WIDE)) % 3 == 0
    low = shared(*lower(formula, (value, slope)), chosen_by=1)
    got, got_slope = play(*low, WIDE, truth)
    v = WIDE.clone().requires_grad_()
    want = torch.where(truth, loss.pos(v[None])[0], loss.neg(v[None])[0])
    (want_slope,) = torch.autograd.grad(want.sum(), v)
    torch.testing.assert_close(got, want.detach(), rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(got_slope, want_slope, rtol=1e-9, atol=1e-13)


def count(name, op):
    loss = losses.build(name)
    formula, (on, off), _ = trace(lambda v, y: (loss.pos(v), loss.neg(v)), 2)
    value = formula.where(formula.input(1), on, off)
    low = lower(formula, (value, formula.slope(value, formula.input(0))))
    return sum(step.op == op for step in shared(*low, chosen_by=1)[0].steps)


@pytest.mark.parametrize("name", ["bce", "wan", "focal", "focal-margin", "spa", "splc"])
def test_two_sides_that_are_one_function_are_computed_once(name):
    assert count(name, "decay") == 1
    assert count(name, "log1p_unit") == 1


@pytest.mark.parametrize("op", ["decay", "unit", "log1p_unit"])
def test_two_sides_that_are_not_share_what_they_can(op):
    """Positives of hill are judged one below their score, negatives at it."""
    assert count("hill", op) == 1


def test_what_both_sides_need_is_not_joined_with_what_one_needs():
    f = Formula()
    v, on = f.input(0), f.input(1)
    both, off = f.function("exp", v), f.function("exp", f.neg(v))
    value = f.add(both, f.put("where", on, f.constant(0.0), off))
    low, outputs = shared(*prune(f, (value,)), chosen_by=1)
    (got,) = play(low, outputs, WIDE, WIDE > 1)
    want = WIDE.exp() + torch.where(WIDE > 1, 0.0, (-WIDE).exp())
    torch.testing.assert_close(got, want)
    assert sum(step.op == "exp" for step in low.steps) == 2


NESTED = {
    "sqrt of softplus": (
        lambda v: torch.nn.functional.softplus(-v).sqrt(),
        lambda v: torch.nn.functional.softplus((v * v + 1).sqrt()),
    ),
    "exp of tanh": (lambda v: torch.tanh(-v).exp(), lambda v: torch.tanh((v / 9).exp())),
}


@pytest.mark.parametrize("name", NESTED)
def test_functions_nested_the_other_way_round_on_the_other_side(name):
    pos, neg = NESTED[name]
    truth = torch.arange(len(WIDE)) % 2 == 0
    value, slope = play(*traced_pair(pos, neg, 1, "cpu").hard, WIDE, truth)
    v = WIDE.clone().requires_grad_()
    want = torch.where(truth, pos(v), neg(v))
    (want_slope,) = torch.autograd.grad(want.sum(), v)
    torch.testing.assert_close(value, want.detach())
    torch.testing.assert_close(slope, want_slope)


def drawn_formula(random):
    """Steps at random, with choices by an input and by comparisons."""
    f = Formula()
    v, w = f.input(0), f.input(2)
    numbers = [v, w, f.constant(0.0), f.constant(1.0), f.constant(-2.0)]
    truths = [f.input(1), f.put("gt", v, numbers[2])]
    for _ in range(random.choice([8, 15, 30, 60])):
        a, b = random.choice(numbers[-8:]), random.choice(numbers)
        kind = random.choice(["where", "where", "of one", "of one", "of two", "truth"])
        if kind == "where":
            numbers.append(f.put("where", random.choice(truths), a, b))
        elif kind == "of one":
            numbers.append(f.put(random.choice(["exp", "tanh", "neg", "abs", "decay"]), a))
        elif kind == "of two":
            numbers.append(f.put(random.choice(["add", "mul", "sub", "min", "max"]), a, b))
        else:
            truths.append(f.put(random.choice(["gt", "le"]), a, b))
    return f, tuple(random.choice(numbers[-6:]) for _ in range(2))


@pytest.mark.parametrize("seed", range(150))
def test_a_formula_written_anew_gives_the_same(seed):
    formula, outputs = drawn_formula(random.Random(seed))
    v = torch.cat([torch.linspace(-3, 3, 25), torch.tensor([math.inf, -math.inf, math.nan])])
    v = v.double().repeat(2)
    given = v, torch.arange(len(v)) < len(v) // 2, v.flip(0) / 2
    want = play(formula, outputs, *given)
    kept = prune_branches(formula, outputs)
    for low in (prune(formula, outputs), kept, shared(*kept, 1), shared(formula, outputs, 1)):
        for one, other in zip(play(*low, *given), want, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-12, atol=0, equal_nan=True)
    again = prune_branches(*kept)
    assert again[0].steps == kept[0].steps


def test_a_deep_formula_needs_no_deep_stack():
    def deep(v):
        for _ in range(400):
            v = torch.sigmoid(v)
        return v

    formula, outputs, _ = trace(lambda v: (deep(v),), 1)
    low, _ = lower(formula, outputs)
    assert sum(step.op == "decay" for step in low.steps) == 400


def test_a_choice_that_is_needed_on_one_side_only_is_not_made():
    f = Formula()
    v, zero = f.input(0), f.constant(0.0)
    positive = f.compare("gt", v, zero)
    safe = f.put("where", positive, v, f.constant(1.0))
    value = f.put("where", positive, f.function("log", safe), zero)
    low, outputs = prune_branches(f, (value,))
    assert [step.op for step in low.steps].count("where") == 1
    (got,) = play(low, outputs, WIDE)
    torch.testing.assert_close(got, torch.where(WIDE > 0, WIDE.clamp(min=1e-300).log(), 0.0))
    (kept,) = play(
        *prune_branches(f, (f.add(value, safe),)), WIDE
    )  # where both sides need it, it stays
    torch.testing.assert_close(kept, got + torch.where(WIDE > 0, WIDE, 1.0))


def test_signs_go_outwards_so_that_equal_things_are_seen():
    f = Formula()
    v, one = f.input(0), f.constant(1.0)
    assert f.sub(one, v) == f.neg(f.sub(v, one))
    assert f.mul(f.neg(v), f.neg(v)) == f.mul(v, v)
    assert f.add(v, v) == f.mul(f.constant(2.0), v)
    assert f.mul(f.constant(2.0), f.mul(f.constant(3.0), v)) == f.mul(f.constant(6.0), v)
    assert f.exp(f.mul(f.constant(2.0), f.put("logsigmoid", v))) == f.power(f.put("sigmoid", v), 2)
    assert f.compare("gt", f.put("sigmoid", v), f.constant(0.5)) == f.put("gt", v, f.constant(0.0))


def test_what_is_detached_has_no_slope():
    formula, (y,), _ = trace(lambda v: (v.detach() * v.exp(),), 1)
    (got,) = play(*lower(formula, (formula.slope(y, formula.input(0)),)), WIDE[:100])
    torch.testing.assert_close(got, WIDE[:100] * WIDE[:100].exp())


@pytest.mark.parametrize(
    "function",
    [
        lambda v: v.clamp(-1.5, 2.0) ** 3,
        lambda v: torch.logaddexp(v, 2 * v + 1),
        lambda v: torch.nn.functional.softplus(v, beta=2.0),
        lambda v: torch.relu(v) - torch.maximum(v, v * 0.5),
        lambda v: (v.square() + 1).sqrt() * v.tanh(),
        lambda v: (v.abs() + 0.5) ** 0.3,
        lambda v: 1 / (v.square() + 2) + torch.reciprocal(v.square() + 1),
    ],
)
def test_operations_a_user_may_write(function):
    formula, (y,), _ = trace(lambda v: (function(v),), 1)
    v = torch.linspace(-8, 8, 333, dtype=torch.float64).requires_grad_()
    got, slope = play(*lower(formula, (y, formula.slope(y, formula.input(0)))), v.detach())
    want = function(v)
    (want_slope,) = torch.autograd.grad(want.sum(), v)
    torch.testing.assert_close(got, want.detach())
    torch.testing.assert_close(slope, want_slope)


def test_what_has_no_formula_is_refused():
    with pytest.raises(NotTraceable, match="cumsum"):
        trace(lambda v: (v.cumsum(1),), 1)


def test_numbers_per_label_become_inputs():
    weight = torch.rand(5)
    formula, (y,), columns = trace(lambda v: (weight * v,), 1, width=5)
    assert columns[0] is weight
    (got,) = play(*lower(formula, (y,)), torch.ones(5), weight)
    torch.testing.assert_close(got, weight)


def test_a_constant_result_is_a_block():
    formula, (y,), _ = trace(lambda v: (torch.zeros_like(v),), 1)
    assert "tl.full(x0.shape" in source(*lower(formula, (y,)), 1)


def test_a_bound_on_a_sigmoid_is_a_bound_on_its_argument():
    f = Formula()
    place = f.compare("gt", f.put("sigmoid", f.input(0)), f.constant(0.6))
    assert f.known(f.steps[place].args[1]) == pytest.approx(math.log(1.5))


def test_every_formula_has_a_name_of_its_own():
    """Triton takes two functions of one name in one kernel for the same."""
    texts = [source(*lower(*traced), 1) for traced in (squared(), cubed())]
    assert len({compiled(text).__name__ for text in texts}) == 2


def squared():
    formula, outputs, _ = trace(lambda v: (v**2,), 1)
    return formula, outputs


def cubed():
    formula, outputs, _ = trace(lambda v: (v**3,), 1)
    return formula, outputs


def test_a_choice_times_the_other_choice_is_a_product():
    f = Formula()
    v, e = f.input(0), f.input(1)
    positive = f.compare("ge", v, f.constant(0.0))
    product = f.mul(f.put("where", positive, v, e), f.put("where", positive, e, v))
    assert f.steps[product] == ("mul", (v, e), 0.0)
    assert f.steps[f.mul(f.put("where", positive, v, e), e)].op == "mul"
