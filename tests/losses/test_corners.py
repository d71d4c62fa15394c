"""The named corner cases of the papers' errata, and of numerics."""

import pytest
import torch

from labelset import Labels, losses
from labelset.testing.cases import value_and_grad


def test_a_label_without_positives_costs_one_and_has_no_gradient():
    v = torch.randn(6, 3)
    y = torch.tensor([[1.0, 0, 0]]).expand(6, 3)
    for name in ("sigmoid-f1", "smooth"):
        values = losses.build(name, reduction="none")(v, y)
        assert values[1:].tolist() == [1.0, 1.0]
        assert (value_and_grad(losses.build(name), v, y)[1][:, 1:] == 0).all()


def test_two_way_leaves_out_what_has_no_positive_and_counts_what_has_no_negative():
    v = torch.randn(3, 4, dtype=torch.float64)
    y = torch.tensor([[0, 0, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0]])
    values = losses.build("two-way", way="sample", reduction="none")(v, y)
    assert values[:2].tolist() == [0.0, 0.0]
    mean = losses.build("two-way", way="sample")(v, y)
    assert float(mean) == pytest.approx(float(values[2]) / 2)
    value, grad = value_and_grad(losses.build("two-way"), v, torch.zeros_like(v))
    assert float(value) == 0
    assert (grad == 0).all()


def test_two_way_masks_exactly():
    """Logits in the hundreds: a constant in place of -inf would leak into the sum."""
    v = torch.tensor([[-300.0, -310.0, 400.0]], dtype=torch.float64)
    y = torch.tensor([[1, 0, 1]])
    got = losses.build("two-way", way="sample", temperature=1.0)(v, y)
    assert float(got) == pytest.approx(torch.nn.functional.softplus(torch.tensor(-10.0)).item())


def test_two_way_ignores_a_common_shift():
    v, y = torch.randn(5, 4, dtype=torch.float64), torch.rand(5, 4) < 0.4
    loss = losses.build("two-way")
    torch.testing.assert_close(loss(v + 17, y), loss(v, y))


def test_splc_gives_corrected_entries_the_positive_loss_without_margin():
    v = torch.tensor([[2.0, 0.2, -1.0]], dtype=torch.float64)
    y = torch.zeros(1, 3)
    splc = losses.build("splc", reduction="none")
    focal = losses.build("focal", reduction="none")
    corrected = focal(v, torch.ones(1, 3))[0, 0]
    torch.testing.assert_close(splc(v, y)[0, 0], corrected)
    torch.testing.assert_close(splc(v, y)[0, 1:], focal(v, y)[0, 1:])
    torch.testing.assert_close(splc.at(0)(v, y), focal(v, y))
    torch.testing.assert_close(splc.at(1)(v, y), splc(v, y))
    assert splc.at(0).reduction == "none"


@pytest.mark.parametrize("base", ["bce", "wan", "focal", "asl", "mse", "hill", "spa"])
def test_splc_around_any_separable_loss(base):
    v = torch.randn(6, 4, dtype=torch.float64) * 2
    y = (torch.rand(6, 4) < 0.3).double()
    inner = losses.build(base, reduction="none")
    fixed = torch.where((torch.sigmoid(v) > 0.6) & (y == 0), 1.0, y)
    want = torch.where(fixed == y, inner(v, y), inner.unmargined()(v, fixed))
    torch.testing.assert_close(losses.build("splc", base=base, reduction="none")(v, y), want)


@pytest.mark.parametrize(("name", "slope"), [("bce", 1), ("focal", 1), ("asl", 1), ("spa", 1)])
def test_a_confident_miss_keeps_its_gradient(name, slope):
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        v = torch.tensor([[-1e4]], dtype=dtype)
        value, grad = value_and_grad(losses.build(name), v, torch.ones(1, 1))
        assert float(grad) == -slope
        assert float(value) == pytest.approx(1e4, rel=2e-3)


def test_gammas_below_one_stay_finite_where_the_weight_is_zero():
    v = torch.tensor([[-1e4, -50.0, 50.0, 1e4]])
    for name, settings in (
        ("focal", {"gamma": 0.3}),
        ("asl", {"gamma_pos": 0.3, "gamma_neg": 0.3}),
    ):
        for y in (torch.zeros(1, 4), torch.ones(1, 4)):
            value, grad = value_and_grad(losses.build(name, **settings), v, y)
            assert value.isfinite()
            assert grad.isfinite().all()


def test_detached_weights_keep_the_value_and_change_the_gradient():
    v, y = torch.randn(5, 4, dtype=torch.float64), torch.rand(5, 4) < 0.4
    plain, cut = losses.build("asl"), losses.build("asl", detach_weight=True)
    torch.testing.assert_close(plain(v, y), cut(v, y))
    assert not torch.allclose(value_and_grad(plain, v, y)[1], value_and_grad(cut, v, y)[1])
    p = torch.sigmoid(v)
    z = (p - 0.05).clamp(min=0)
    want = torch.where(y, -(1 - p), z**4 / (1 - z) * p * (1 - p) * (z > 0)) / v.numel()
    torch.testing.assert_close(value_and_grad(cut, v, y)[1], want)


def test_means_count_known_entries_only():
    v = torch.zeros(2, 2, dtype=torch.float64)
    y = torch.tensor([[1.0, torch.nan], [torch.nan, torch.nan]])
    loss = losses.build("bce")
    assert float(loss(v, y)) == pytest.approx(0.6931471805599453)
    assert float(loss(v, Labels.from_dense(y))) == pytest.approx(0.6931471805599453)


def test_per_label_weights_follow_their_labels_in_every_form():
    v, y = torch.randn(6, 4, dtype=torch.float64), torch.rand(6, 4) < 0.4
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0])
    loss = losses.build("bce", pos_weight=weights, neg_weight=[4.0, 3.0, 2.0, 1.0])
    want = torch.nn.functional.binary_cross_entropy_with_logits(
        v, y.double(), reduction="none"
    ) * torch.where(y, weights, weights.flip(0))
    torch.testing.assert_close(loss(v, y), want.mean())
    torch.testing.assert_close(loss(v, Labels.from_dense(y)), want.mean())
    with pytest.raises(ValueError, match="4 labels, the logits have 3"):
        loss(v[:, :3], y[:, :3])
    shifted = torch.sigmoid(v + (weights.flip(0) / weights).double().log())
    torch.testing.assert_close(loss.link(v), shifted)


def test_beta_and_eta_can_be_learnt():
    v, y = torch.randn(30, 3), torch.rand(30, 3) < 0.4
    beta = torch.nn.Parameter(torch.full((3,), 2.0))
    eta = torch.nn.Parameter(torch.zeros(()))
    loss = losses.build("sigmoid-f1", beta=beta, eta=eta)
    torch.testing.assert_close(loss(v, y), losses.build("sigmoid-f1", beta=2.0)(v, y))
    assert list(loss.parameters()) == [beta, eta]
    before = loss(v, y).item()
    optimiser = torch.optim.SGD(loss.parameters(), lr=0.5)
    for _ in range(20):
        optimiser.zero_grad()
        loss(v, y).backward()
        optimiser.step()
    assert loss(v, y).item() < before
    assert float((beta.detach() - 2).abs().min()) > 0


def test_million_labels_need_no_dense_target():
    """A separable loss of sparse labels holds a few copies of the logits, never of the labels."""
    labels = Labels.from_lists([[5, 999_999], []], n=1_000_000)
    v = torch.zeros(2, 1_000_000, requires_grad=True)
    losses.build("asl", reduction="sum")(v, labels).backward()
    assert float(v.grad[0, 5]) == pytest.approx(-0.5)
    assert float(v.grad[0, 6]) > 0


def test_per_label_weights_inside_other_losses():
    v = torch.randn(6, 4, dtype=torch.float64)
    weighted = losses.build("bce", pos_weight=[1.0, 2.0, 3.0, 4.0])
    for on in ([3], [0, 1, 3]):
        labels = Labels.from_lists([on if i < 4 else [] for i in range(6)], n=4)
        for loss in (
            losses.build("splc", base=weighted),
            losses.build("mix", pos=weighted, neg="asl"),
            weighted + losses.build("spa"),
        ):
            torch.testing.assert_close(loss(v, labels), loss(v, labels.dense()))
    link = (weighted + losses.build("spa")).link(v)
    assert (link > 0).all()
    one = losses.build("bce", pos_weight=[2.0])
    torch.testing.assert_close(one(v, labels), losses.build("bce", pos_weight=2.0)(v, labels))


def test_infinite_scores_of_known_labels():
    v = torch.tensor([[torch.inf, -torch.inf]])
    for name in ("bce", "focal", "spa", "hill", "asl"):
        for y in ([[1.0, 0.0]], [[True, False]], Labels.from_lists([[0]], n=2)):
            assert float(losses.build(name)(v, y)) == 0


def test_a_soft_label_is_no_pair_with_itself():
    v, y = torch.tensor([[0.3, -0.2]], dtype=torch.float64), torch.tensor([[0.5, 0.25]])
    d = float(v[0, 1] - v[0, 0])
    sp = lambda x: torch.nn.functional.softplus(torch.tensor(x)).item()  # noqa: E731
    want = 0.5 * 0.75 * sp(d) + 0.25 * 0.5 * sp(-d)
    assert float(losses.build("lpr")(v, y)) == pytest.approx(want, rel=1e-6)


def test_lpr_of_a_flat_link_does_not_depend_on_precision():
    v, y = torch.tensor([[-5.0, 1.0, 2.0]]), torch.tensor([[1.0, 0.0, 0.0]])
    loss = losses.build("lpr", of="asl")
    assert float(loss(v, y)) == pytest.approx(float(loss(v.double(), y)), rel=1e-5)
    assert loss.saturates_positives


def test_no_labels_at_all():
    for name in losses.names():
        loss = losses.build(name, **losses.catalog.get(name).examples[0])
        assert float(loss(torch.zeros(3, 0), torch.zeros(3, 0))) == 0


@pytest.mark.parametrize(
    "name",
    ["splc", *(pytest.param(n, marks=pytest.mark.slow) for n in ("wan", "spa+lpr", "sigmoid-f1"))],
)
def test_compiled_with_changing_shapes(name):
    torch._dynamo.reset()
    loss = losses.build(name)
    fast = torch.compile(loss, fullgraph=True, dynamic=True, backend="aot_eager")
    for rows, labels in ((4, 3), (5, 7), (6, 9)):
        v, y = torch.randn(rows, labels), torch.rand(rows, labels) < 0.4
        torch.testing.assert_close(fast(v, y), loss(v, y))


def test_a_margin_too_small_for_the_dtype_stays_finite():
    v = torch.tensor([[1e4, 40.0, -1e4]], requires_grad=True)
    value = losses.build("asl", gamma_neg=0, margin=2.5e-289)(v, torch.zeros(1, 3))
    value.backward()
    assert bool(value.isfinite())
    assert bool(v.grad.isfinite().all())
