"""The loss of a linear head, block by block: equal to the plain call in value and gradients."""

import pytest
import torch
from torch.nn.functional import linear

import labelset as ls
from labelset.linear import _blocks
from labelset.linear._blocks import rounded

ROWS, N, WIDTH = 17, 900, 12


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Several blocks, the last one smaller, also at the sizes of a test."""
    monkeypatch.setitem(_blocks.BYTES, "cpu", ROWS * 4 * 250)


def draw(dtype=torch.float32, unknown=0.0, seed=0):
    g = torch.Generator().manual_seed(seed)
    x, w = torch.randn(ROWS, WIDTH, generator=g), torch.randn(N, WIDTH, generator=g) / 3
    b, y = torch.randn(N, generator=g) / 5, (torch.rand(ROWS, N, generator=g) < 0.02).float()
    y = torch.where(torch.rand(ROWS, N, generator=g) < unknown, torch.nan, y)
    return [t.to(dtype) for t in (x, w, b)], y


def plain(loss, parts, y, upstream=1.0):
    parts = [t.double().requires_grad_() for t in parts]
    value = loss.eager(linear(*parts), y)
    (upstream * value).backward()
    return value.detach(), [t.grad for t in parts]


def close(got, want, tolerance=2e-6):
    assert (got - want).abs().max() <= tolerance * want.abs().max() + 1e-12


EXAMPLES = [
    ("asl", {}),
    ("spa", {"reduction": "sum"}),
    ("bce", {}),
    ("bce", {"pos_weight": torch.linspace(0.5, 2, N)}),
    ("wan", {}),
    ("splc", {"base": "hill"}),
]


@pytest.mark.parametrize(
    ("name", "example", "impl"),
    [
        pytest.param(*example, impl, marks=pytest.mark.slow if impl == "triton" and i > 1 else ())
        for i, example in enumerate(EXAMPLES)
        for impl in ("eager", "auto", "triton")  # the last by its interpreter
    ],
)
def test_equal_to_the_plain_call(name, example, impl):
    loss = ls.losses.build(name, **example)
    for unknown in (0.0, 0.1):
        parts, y = draw(unknown=unknown)
        for labels in (y, ls.Labels.from_dense(y), *([] if unknown else [y.bool()])):
            given = [t.clone().requires_grad_() for t in parts]
            value = ls.linear_loss(given[0], given[1], labels, loss, bias=given[2], impl=impl)
            (3 * value).backward()
            want, gradients = plain(loss, parts, labels, upstream=3.0)
            close(value.detach(), want)
            for t, gradient in zip(given, gradients, strict=True):
                close(t.grad, gradient)


def test_float64_to_rounding():
    parts, y = draw(torch.float64)
    given = [t.clone().requires_grad_() for t in parts]
    value = ls.linear_loss(given[0], given[1], y, "focal", bias=given[2])
    value.backward()
    want, gradients = plain(ls.losses.build("focal"), parts, y)
    torch.testing.assert_close(value.detach(), want, rtol=1e-12, atol=0)
    for t, gradient in zip(given, gradients, strict=True):
        torch.testing.assert_close(t.grad, gradient, rtol=1e-10, atol=1e-15)


def test_only_what_is_wanted_is_worked_out():
    (x, w, _), y = draw()
    w.requires_grad_()
    ls.linear_loss(x, w, y, "bce").backward()
    assert x.grad is None
    assert w.grad is not None
    with torch.no_grad():
        assert not ls.linear_loss(x, w, y, "bce").requires_grad


def test_bfloat16_and_autocast():
    parts, y = draw()
    want, gradients = plain(ls.losses.build("asl"), [t.bfloat16() for t in parts], y)
    given = [t.bfloat16().requires_grad_() for t in parts]
    ls.linear_loss(given[0], given[1], y, "asl", bias=given[2]).backward()
    masters = [t.clone().requires_grad_() for t in parts]
    with torch.autocast("cpu", torch.bfloat16):
        value = ls.linear_loss(masters[0], masters[1], y, "asl", bias=masters[2])
    value.backward()
    assert abs(value - want) < 0.01 * want
    for sixteen, master, gradient in zip(given, masters, gradients, strict=True):
        assert (sixteen.dtype, master.grad.dtype) == (torch.bfloat16, torch.float32)
        for got in (sixteen.grad, master.grad):
            assert (got - gradient).norm() < 0.02 * gradient.norm()


def test_second_backward_and_second_derivative():
    (x, w, _), y = draw()
    x, w = x.requires_grad_(), w.requires_grad_()
    value = ls.linear_loss(x, w, y, "focal")
    first = torch.autograd.grad(value, (x, w), retain_graph=True)
    again = torch.autograd.grad(value, (x, w))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    curved = []
    for f in (lambda: ls.linear_loss(x, w, y, "focal"), lambda: plain_focal(x, w, y)):
        (slope,) = torch.autograd.grad(f(), x, create_graph=True)
        curved.append(torch.autograd.grad(slope.square().sum(), w)[0])
    torch.testing.assert_close(*curved)


def plain_focal(x, w, y):
    return ls.losses.build("focal").eager(x @ w.T, y)


def test_a_step_is_the_step_of_sgd():
    (x, w, b), y = draw()
    moved = [w.clone(), b.clone()]
    x = x.requires_grad_()
    value = ls.linear_sgd_step(x, moved[0], y, "bce", lr=50.0, bias=moved[1], weight_decay=1e-3)
    value.backward()
    want, gradients = plain(ls.losses.build("bce"), [x.detach(), w, b], y)
    close(value.detach(), want)
    close(x.grad, gradients[0])
    close(moved[0], w - 50.0 * (gradients[1] + 1e-3 * w))
    close(moved[1], b - 50.0 * gradients[2])


def test_bfloat16_steps_too_small_to_see_are_made_on_average():
    (x, w, _), y = draw()
    w, x = w.bfloat16(), x.bfloat16()
    _, (_, gradient, _) = plain(ls.losses.build("bce"), [x, w, torch.zeros(N)], y)
    rate = 1e-4 * float(w.float().abs().mean() / gradient.abs().mean())  # far below 8 bits
    moved, steps = w.clone(), 200
    for seed in range(steps):
        ls.linear_sgd_step(x, moved, y, "bce", lr=rate, seed=seed)
    drift = (moved.float() - w.float()).flatten().double()
    wanted = -steps * rate * gradient.flatten()
    slope = float(drift @ wanted / (wanted @ wanted))
    assert 0.9 < slope < 1.1  # rounding to nearest would leave 0
    assert not torch.equal(moved, w)


def test_a_step_is_repeated_by_its_seed():
    (x, w, _), y = draw()
    results = []
    for seed in (1, 1, 2):
        moved = w.bfloat16()
        ls.linear_sgd_step(x.bfloat16(), moved, y, "bce", lr=1.0, seed=seed)
        results.append(moved)
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


def test_no_rows_and_no_labels():
    value = ls.linear_loss(torch.zeros(0, 3), torch.zeros(4, 3), torch.zeros(0, 4), "bce")
    assert value == 0
    value = ls.linear_loss(torch.zeros(2, 3), torch.zeros(0, 3), torch.zeros(2, 0), "bce")
    assert value == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": torch.zeros(2, 4)}, "columns"),
        ({"weight": torch.zeros(5)}, "2-D"),
        ({"features": [[1.0]]}, "2-D"),
        ({"bias": torch.zeros(4)}, "bias must have shape"),
        ({"labels": torch.zeros(2, 4)}, "labels must have the shape"),
        ({"labels": torch.full((2, 5), 7)}, r"\[0, 1\]"),
        ({"loss": "two-way"}, "Separable"),
        ({"loss": ls.losses.build("bce", reduction="none")}, "reduction"),
        ({"impl": "cuda"}, "impl must be one of"),
    ],
)
def test_bad_input(change, message):
    good = {
        "features": torch.zeros(2, 3),
        "weight": torch.zeros(5, 3),
        "labels": torch.zeros(2, 5),
        "loss": "bce",
    }
    with pytest.raises((TypeError, ValueError), match=message):
        ls.linear_loss(**(good | change))


class Doubled(type(ls.losses.build("bce"))):
    """A loss that is not all told by its two sides."""

    def terms(self, logits, labels):
        values, weights = super().terms(logits, labels)
        return 2 * values, weights


def test_a_loss_with_terms_of_its_own_goes_by_them():
    (x, w, _), y = draw()
    assert ls.linear_loss(x, w, y, Doubled()) == pytest.approx(Doubled()(x @ w.T, y).item())
    with pytest.raises(RuntimeError, match="no kernel"):
        ls.linear_loss(x, w, y, Doubled(), impl="triton")
    with pytest.raises(RuntimeError, match="block by block"):
        ls.linear_loss(x, w, y, "bce", impl="compiled")


def test_no_gradient_is_lost_in_silence():
    (x, w, _), y = draw()
    learnt = ls.losses.build("bce", pos_weight=torch.ones(N, requires_grad=True))
    for labels, loss in ((y, learnt), (y.requires_grad_(), "bce")):
        with pytest.raises(ValueError, match="no gradient here"):
            ls.linear_loss(x, w, labels, loss)
        with torch.no_grad():  # where nobody asks for one
            assert ls.linear_loss(x, w, labels, loss) > 0


def test_second_derivatives_of_features_and_weights_of_two_dtypes():
    (x, w, _), y = draw()
    x, w = x.requires_grad_(), w.double().requires_grad_()
    (slope,) = torch.autograd.grad(ls.linear_loss(x, w, y, "bce"), x, create_graph=True)
    assert torch.autograd.grad(slope.square().sum(), w)[0].abs().sum() > 0


def test_never_more_than_a_block_of_logits(monkeypatch):
    seen = []
    honest = _blocks.linear
    monkeypatch.setattr(
        _blocks, "linear", lambda *given: (seen.append(honest(*given)), seen[-1])[1]
    )
    (x, w, _), y = draw()
    ls.linear_loss(x, w, y, "bce")
    assert len(seen) == 4
    assert max(v.numel() for v in seen) * 4 <= _blocks.BYTES["cpu"]


def test_float16_neither_overflows_with_many_unknown_nor_in_sums():
    x, w = torch.full((40, 8), 300.0).half(), (torch.zeros(900, 8)).half().requires_grad_()
    b, y = torch.zeros(900).half().requires_grad_(), torch.full((40, 900), torch.nan)
    y[:, 0] = 0.0  # one of 900 is known, so that what is known counts 900 times
    ls.linear_loss(x, w, y, "bce", bias=b).backward()
    assert w.grad[0, 0].item() == pytest.approx(150, rel=1e-3)
    assert b.grad[0].item() == pytest.approx(0.5, rel=1e-3)
    x, w, b = x / 300, w.detach().requires_grad_(), b.detach().requires_grad_()
    heavy = ls.losses.build("bce", pos_weight=torch.tensor(9000.0))
    ls.linear_loss(x, w, torch.ones(40, 900), heavy, bias=b).backward()
    assert b.grad[0].item() == pytest.approx(-5.0, rel=1e-2)


def test_a_nan_of_whatever_bits_is_not_rounded_away():
    bits = torch.tensor([0x7FFFFFFF, -1, 0x7FC00000, 0x7F800000, 0x3F800000]).int()
    found = rounded(bits.view(torch.float32), seed=0)
    assert found.isnan().tolist() == [True, True, True, False, False]
    assert found[3:].tolist() == [torch.inf, 1.0]


def test_where_a_kernel_makes_the_step_it_is_the_same_step(monkeypatch):
    """What it is handed, block by block; the kernel itself has tests of its own."""
    handed = []

    def by_kernel(weight, a, b, rate, shrink, seed, first):
        handed.append((len(weight), seed, first))
        weight.copy_(shrink * weight.float() - rate * a.float().T @ b.float())

    pytest.importorskip("triton")
    from labelset.kernels.triton import product

    monkeypatch.setattr(_blocks, "_at_once", lambda *given: True)
    monkeypatch.setattr(product, "sgd_of_product_", by_kernel)
    (x, w, _), y = draw()
    moved, y = w.bfloat16(), torch.where(torch.rand(y.shape) < 0.2, torch.nan, y.float())
    monkeypatch.setitem(_blocks.BYTES, "cpu", len(x) * 2 * 30)
    ls.linear_sgd_step(x.bfloat16(), moved, y, "bce", lr=500.0, weight_decay=1e-4, seed=7)
    assert handed == [(min(30, N - first), 7, first) for first in range(0, N, 30)]
    given = [x.bfloat16().double(), w.bfloat16().double(), torch.zeros(N, dtype=torch.float64)]
    _, (_, gradient, _) = plain(ls.losses.build("bce"), given, y)
    want = given[1] - 500.0 * (gradient + 1e-4 * given[1])
    assert (moved.double() - want).abs().max() < 0.01 * want.abs().max()
    assert (want - given[1]).abs().max() > 0.1 * want.abs().max()  # a step that is seen


def test_a_step_is_known_to_graphs_that_hold_the_weight(monkeypatch):
    pytest.importorskip("triton")
    from labelset.kernels.triton import product

    monkeypatch.setattr(_blocks, "_at_once", lambda *given: True)
    monkeypatch.setattr(product, "sgd_of_product_", lambda *given: None)
    (x, w, _), y = draw()
    x.requires_grad_()
    kept = (x @ w.T).sum()
    steps = [ls.linear_sgd_step(x, w, y, "bce", lr=1.0) for _ in range(2)]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept.backward()
    sum(steps).backward()  # neither needs the weight as it was
    assert x.grad.isfinite().all()
