"""16-bit heads whose logits are never written, in Triton's interpreter, which takes float16."""

import pytest
import torch
from torch.nn.functional import linear

import labelset as ls
from labelset.kernels.triton import head_gradient
from labelset.linear import _blocks

N = 700


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Several blocks, the last one smaller and odd, also at the sizes of a test."""
    monkeypatch.setattr(head_gradient, "LEAST", 1)
    monkeypatch.setattr(head_gradient, "SPARSE", 1)


def draw(rows, width, monkeypatch, on=0.02):
    monkeypatch.setitem(_blocks.BYTES, "cpu", rows * 2 * 300)
    g = torch.Generator().manual_seed(rows)
    x, w = torch.randn(rows, width, generator=g), torch.randn(N, width, generator=g) / width**0.5
    b, y = torch.randn(N, generator=g) / 2, torch.rand(rows, N, generator=g) < on
    return [t.half() for t in (x, w, b)], ls.Labels.from_dense(y)


@pytest.fixture
def used(monkeypatch):
    """How often slopes were written without logits."""
    calls = []
    honest = head_gradient.HeadGradient.write
    monkeypatch.setattr(
        head_gradient.HeadGradient, "write", lambda *given: (calls.append(1), honest(*given))[1]
    )
    return calls


@pytest.mark.parametrize(
    ("name", "example", "shape", "bias"),
    [
        ("bce", {"reduction": "sum"}, (17, 24), True),
        pytest.param("bce", {"reduction": "sum"}, (130, 136), False, marks=pytest.mark.slow),
        pytest.param("spa", {"reduction": "sum"}, (3, 72), True, marks=pytest.mark.slow),
        pytest.param("asl", {"reduction": "sum"}, (128, 64), False, marks=pytest.mark.slow),
        ("hill", {}, (5, 8), True),
        pytest.param("wan", {}, (5, 8), True, marks=pytest.mark.slow),
        ("splc", {"reduction": "sum"}, (5, 8), False),
        pytest.param("mse", {"reduction": "sum"}, (5, 8), False, marks=pytest.mark.slow),
    ],
)
def test_equal_to_the_plain_call(name, example, shape, bias, monkeypatch, used):
    loss = ls.losses.build(name, **example)
    parts, labels = draw(*shape, monkeypatch, on=0.2 / shape[0])
    parts = parts if bias else parts[:2]
    given = [t.clone().requires_grad_() for t in parts]
    value = ls.linear_loss(given[0], given[1], labels, loss, *given[2:], impl="triton")
    value.backward()
    assert len(used) == -(-N // 256)
    exact = [t.double().requires_grad_() for t in parts]
    want = loss.eager(linear(*exact), labels)
    want.backward()
    assert value.item() == pytest.approx(want.item(), rel=1e-4)
    for t, truth in zip(given, exact, strict=True):
        wrong = (t.grad.double() - truth.grad).abs()
        assert (wrong <= 2e-3 * truth.grad.abs() + 2e-3 * truth.grad.abs().max()).all()


@pytest.mark.slow
def test_rows_with_more_labels_than_are_taken_together(monkeypatch, used):
    (x, w, _), labels = draw(3, 16, monkeypatch, on=0.2)
    value = ls.linear_loss(x, w, labels, ls.losses.build("bce", reduction="sum"), impl="triton")
    want = ls.losses.build("bce", reduction="sum").eager(x.double() @ w.double().T, labels)
    assert used
    assert value.item() == pytest.approx(want.item(), rel=1e-4)


def test_far_logits_have_exact_tails(monkeypatch, used):
    (x, w, _), labels = draw(4, 8, monkeypatch)
    x = x * 100
    w.requires_grad_()
    value = ls.linear_loss(x, w, labels, ls.losses.build("bce", reduction="sum"), impl="triton")
    exact = w.detach().double().requires_grad_()
    want = ls.losses.build("bce", reduction="sum").eager(x.double() @ exact.T, labels)
    assert value.item() == pytest.approx(want.item(), rel=1e-4)
    value.backward()
    want.backward()
    assert used
    assert (w.grad.double() - exact.grad).abs().max() <= 2e-3 * exact.grad.abs().max()


def test_values_far_below_one_are_not_lost_in_products(monkeypatch, used):
    (x, w, _), _ = draw(40, 8, monkeypatch)
    b = torch.linspace(-17, -9, N).half()
    nothing = ls.Labels.from_lists([[]] * 40, n=N)
    loss = ls.losses.build("bce", reduction="sum")
    value = ls.linear_loss(x / 8, w, nothing, loss, b, impl="triton")
    want = loss.eager(linear((x / 8).double(), w.double(), b.double()), nothing)
    assert used
    assert value.item() == pytest.approx(want.item(), rel=2e-5)


class Steep(type(ls.losses.build("bce"))):
    """One whose values, taken for those of labels that are off, would leave nothing of others."""

    def pos(self, v):
        return torch.exp(-v)

    def neg(self, v):
        return torch.exp(v)


def test_well_separated_labels_keep_their_value(monkeypatch, used):
    (x, w, _), _ = draw(16, 16, monkeypatch)
    x, w = torch.eye(16).half(), torch.full_like(w, -12.0)
    for i in range(16):
        w[40 * i, i] = 12.0
    labels = ls.Labels.from_lists([[40 * i] for i in range(16)], n=N)
    for loss, which in ((ls.losses.build("bce", reduction="sum"), True), (Steep(), False)):
        value = ls.linear_loss(x, w, labels, loss, impl="triton")
        want = loss.eager(x.double() @ w.double().T, labels)
        assert bool(used) == which
        used.clear()
        assert value.item() == pytest.approx(want.item(), rel=2e-3)


def test_who_goes_the_other_way(monkeypatch, used):
    (x, w, _), labels = draw(5, 8, monkeypatch)
    per_label = ls.losses.build("bce", pos_weight=torch.linspace(0.5, 2, N))
    soft = ls.Labels(
        labels.indptr, labels.indices, labels.n, torch.full((len(labels.indices),), 0.5)
    )
    for features, weight, y, loss in (
        (x, w, labels, per_label),
        (x, w, soft, "bce"),
        (x.float(), w.float(), labels, "bce"),
        (x[:, 1:], w[:, 1:], labels, "bce"),  # addresses between those read at once
    ):
        ls.linear_loss(features, weight, y, loss, impl="triton")
    for name in ("LEAST", "SPARSE"):
        with monkeypatch.context() as patch:
            patch.setattr(head_gradient, name, 2**22)
            ls.linear_loss(x, w, labels, "bce", impl="triton")
    ls.linear_loss(x.repeat(1, 4)[:, 8:8], w.repeat(1, 4)[:, 8:8], labels, "bce", impl="triton")
    assert not used
