"""Heads: shapes, the Fourier matrix, both ways of its product, round trips, the guarantee."""

import itertools
import math

import numpy as np
import pytest
import torch

import labelset as ls
from labelset import heads

BOTH = [
    ("linear", {}),
    ("linear", {"rank": 3}),
    ("linear", {"rank": 3, "bias": False}),
    ("dft", {"k": 2}),
    ("dft", {"k": 3, "slack": 4, "product": "fft"}),
    ("dft", {"k": 3, "slack": 4, "order": list(range(9, -1, -1)), "product": "matrix"}),
]


@pytest.fixture(params=BOTH, ids=str)
def head(request):
    name, settings = request.param
    torch.manual_seed(0)
    return heads.build(name, features=6, labels=10, **settings)


def test_logits_are_the_matrix_times_the_projection(head):
    e = torch.randn(5, 6)
    weight, bias = head.matrix()
    x = head.project(e)
    want = x @ weight.T + (0 if bias is None else bias)
    torch.testing.assert_close(head(e), want)
    assert head(torch.randn(2, 3, 6)).shape == (2, 3, 10)


def test_dtypes_autocast_and_compile(head):
    e = torch.randn(5, 6)
    want = head(e)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(head(e).float(), want, rtol=0.05, atol=0.08)
    torch._dynamo.reset()
    fast = torch.compile(head, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(fast(e), want)
    wide = head.double()
    torch.testing.assert_close(wide(e.double()).float(), want)


def test_gradients(head):
    head.double()
    e = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: head(t), e)


def test_round_trips(head, tmp_path):
    e = torch.randn(5, 6)
    twin = heads.build(head.name, **head.settings)
    twin.load_state_dict(head.state_dict())
    torch.testing.assert_close(twin(e), head(e))
    heads.save(head, tmp_path / "head.safetensors")
    torch.testing.assert_close(heads.load(tmp_path / "head.safetensors")(e), head(e))


def test_a_head_is_the_last_layer_of_any_module(head):
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), head)
    loss = ls.losses.build("bce")
    optimiser = torch.optim.Adam(model.parameters(), lr=0.05)
    e, y = torch.randn(40, 4), torch.rand(40, 10) < 0.2
    first = loss(model(e), y).item()
    for _ in range(30):
        optimiser.zero_grad()
        loss(model(e), y).backward()
        optimiser.step()
    assert loss(model(e), y).item() < first


def fourier_by_hand(n, k):
    """Equation (8), row by row."""
    rows = []
    for i in range(n):
        t = 2 * math.pi * i / n
        row = [1 / math.sqrt(n)]
        for j in range(1, k + 1):
            row += [math.sqrt(2 / n) * math.cos(j * t), math.sqrt(2 / n) * math.sin(j * t)]
        rows.append(row)
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize(("n", "k"), [(7, 3), (8, 3), (50, 5), (101, 50), (1000, 7)])
def test_the_fourier_matrix(n, k):
    head = heads.build("dft", features=3, labels=n, k=k).double()
    weight, bias = head.matrix()
    assert bias is None
    torch.testing.assert_close(weight, fourier_by_hand(n, k), rtol=0, atol=1e-13)
    torch.testing.assert_close(weight.T @ weight, torch.eye(2 * k + 1, dtype=torch.float64))


@pytest.mark.parametrize(("n", "k"), [(7, 3), (12, 4), (257, 30)])
def test_both_products_agree_in_value_and_gradient(n, k):
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0))
    made = {}
    for product in ("fft", "matrix"):
        torch.manual_seed(0)
        head = heads.build(
            "dft", features=5, labels=n, k=k, slack=2, order=order, product=product
        ).double()
        e = torch.linspace(-1, 1, 20, dtype=torch.float64).reshape(4, 5).requires_grad_()
        z = head(e)
        made[product] = (
            z.detach(),
            *torch.autograd.grad(z.square().sum(), [e, *head.parameters()]),
        )
    for a, b in zip(made["fft"], made["matrix"], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def test_every_label_starts_at_k_over_n():
    head = heads.build("dft", features=8, labels=200, k=10)
    p = torch.sigmoid(head(torch.zeros(1, 8)))
    torch.testing.assert_close(p, torch.full_like(p, 10 / 200))


@pytest.mark.parametrize("order", [None, [3, 1, 4, 0, 5, 9, 2, 6, 8, 7]])
def test_every_set_of_up_to_k_labels_can_be_said(order):
    head = heads.build("dft", features=4, labels=10, k=2, order=order).double()
    rows = [list(c) for size in range(3) for c in itertools.combinations(range(10), size)]
    v = ls.verify(head, ls.Labels.from_lists(rows, n=10))
    assert (v.status == "argmaxable").all()
    v.check()
    places = [0, 2, 4, 6, 8] if order is None else [order.index(i) for i in (0, 2, 4, 6, 8)]
    more = ls.verify(head, ls.Labels.from_lists([places], n=10))
    assert more.status.tolist() == ["unargmaxable"]  # ten changes of sign round the circle


def test_float32_cannot_keep_the_promise():
    """What is stored is verified: in float32 some 5-sets of 1,000 labels are impossible."""
    g = torch.Generator().manual_seed(0)
    rows = ls.Labels.from_lists(
        [torch.randperm(1000, generator=g)[:5].tolist() for _ in range(6)], 1000
    )
    head = heads.build("dft", features=4, labels=1000, k=5)
    assert (ls.verify(head.double(), rows).status == "argmaxable").all()
    low = ls.verify(head.float(), rows)
    assert "unargmaxable" in low.status.tolist()
    low.check()


BAD = {
    "2 k . 1 <= labels, got k = 5 for 10 labels; take k of at most 4": {"k": 5},
    "k must be at least 1": {"k": 0},
    "slack must be at least 0": {"k": 2, "slack": -1},
    "order must hold each of 0..9 once": {"k": 2, "order": [0] * 10},
    "product must be one of": {"k": 2, "product": "fast"},
    "did you mean 'slack'": {"k": 2, "slak": 1},
    "needs k": {},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_settings(message):
    with pytest.raises((ValueError, TypeError), match=message):
        heads.build("dft", features=3, labels=10, **BAD[message])


def test_counting_label_sets():
    assert heads.expressible(1000, 1000) == 2**1000
    assert heads.expressible(5, 9) == 2**5
    for n, d, bias in ((30, 7, False), (30, 7, True), (2000, 50, False), (500, 500, True)):
        exact = heads.expressible(n, d, bias)
        assert heads.log2_expressible(n, d, bias) == pytest.approx(math.log2(exact), rel=1e-9)
    with pytest.raises(ValueError, match="d must be at least 1"):
        heads.expressible(3, 0)


def test_the_figure_of_the_counts():
    svg = heads.draw_expressible(1000)
    assert "label sets of 1000 labels" in svg
    assert "features d" in svg
    assert "nan" not in svg


def test_order_by_cooccurrence():
    rng = np.random.default_rng(0)
    groups = torch.from_numpy(rng.permutation(30).reshape(6, 5))
    rows = [rng.choice(groups[i % 6], 3, replace=False).tolist() for i in range(300)]
    labels = ls.Labels.from_lists(rows, n=30)
    near = heads.order_by_cooccurrence(labels, apart=False)
    far = heads.order_by_cooccurrence(labels)
    for place in (near, far):
        assert sorted(place.tolist()) == list(range(30))
    for group in groups:
        assert int(near[group].max() - near[group].min()) == 4
        gaps = far[group].sort().values
        circle = torch.cat([gaps.diff(), gaps[:1] + 30 - gaps[-1:]])
        assert int(circle.min()) >= 3
    every_other = groups[0][near[groups[0]].argsort()][::2]
    on = ls.Labels.from_lists([every_other.tolist()], n=30)
    rho = [
        ls.verify(heads.build("dft", features=2, labels=30, k=3, order=p).double(), on).radius[0]
        for p in (near, far)
    ]
    assert rho[1] > 3 * rho[0]


def test_the_fixed_part_follows_the_learnt_one():
    torch.set_default_dtype(torch.float64)
    try:
        head = heads.build("dft", features=3, labels=50, k=5)
    finally:
        torch.set_default_dtype(torch.float32)
    torch.testing.assert_close(head.matrix()[0], fourier_by_hand(50, 5), rtol=0, atol=1e-13)
    with torch.device("meta"):
        empty = heads.build("dft", features=3, labels=50, k=5, slack=2)
    full = heads.build("dft", features=3, labels=50, k=5, slack=2, order=range(49, -1, -1))
    empty.load_state_dict(full.state_dict(), assign=True)
    e = torch.randn(2, 3)
    torch.testing.assert_close(empty(e), full(e))


def test_orders_must_be_permutations():
    with pytest.raises(TypeError, match="whole numbers"):
        heads.build("dft", features=3, labels=5, k=2, order=[0.7, 1, 2, 3, 4])
    head = heads.build("dft", features=3, labels=5, k=2)
    state = head.state_dict()
    state["order"] = torch.zeros(5, dtype=torch.long)
    with pytest.raises(ValueError, match=r"each of 0\.\.4 once"):
        head.load_state_dict(state)
