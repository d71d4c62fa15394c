"""Smooth metrics and way losses through the C loops: equal to their eager formula."""

import pytest
import torch

from labelset import Labels, losses
from labelset.kernels.native.calls import available

pytestmark = pytest.mark.skipif(not available(), reason="built without its C extension")
NAMES = ("sigmoid-f1", "unbounded-f1", "smooth", "two-way", "softmax", "multi-similarity")
EXAMPLES = [
    pytest.param(name, example, id=f"{name} {example}")
    for name in NAMES
    for example in losses.catalog.classes[name].examples
    if example.get("way") != "joint"
]


def both(loss, v, y):
    v = v.clone().requires_grad_()
    value = loss(v, y)
    (3 * value).backward()
    return value.detach(), v.grad


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_equal_to_the_eager_formula(name, example, reduction):
    g = torch.Generator().manual_seed(3)
    v, y = 3 * torch.randn(23, 130, generator=g), torch.rand(23, 130, generator=g) < 0.05
    y[4], y[:, 7] = False, False
    soft = torch.where(torch.rand(23, 130, generator=g) < 0.2, torch.nan, y * 0.7)
    soft[2], soft[:, 9] = torch.nan, torch.nan
    native, eager = (
        losses.build(name, impl=impl, reduction=reduction, **example)
        for impl in ("native", "eager")
    )
    for labels in (y, y.long(), soft, Labels.from_dense(y), Labels.from_dense(soft)):
        want, want_slope = both(eager, v.double(), labels)
        got, slope = both(native, v, labels)
        assert abs(got - want) <= 2e-6 * abs(want) + 1e-7
        assert (slope - want_slope).abs().max() <= 5e-6 * want_slope.abs().max() + 1e-9


def test_joint_has_no_kernel():
    v, y = torch.randn(3, 4), torch.eye(3, 4)
    assert losses.build("two-way", way="joint")(v, y) > 0
    with pytest.raises(RuntimeError, match="no kernel"):
        losses.build("two-way", way="joint", impl="native")(v, y)


@pytest.mark.parametrize("name", ["bce", "asl", "sigmoid-f1", "two-way", "lpr"])
def test_a_first_call_in_inference_mode_is_like_any_other(name):
    v, y = torch.randn(9, 40), torch.rand(9, 40) < 0.2
    loss = losses.build(name, impl="native")
    with torch.inference_mode():
        seen = loss(v.clone(), y)
    value, slope = both(loss, v, y)
    assert seen == value
    assert slope.abs().max() > 0
