"""Label pairs by kernels: the eager formula in float64 is the truth, and memory stays small."""

import subprocess
import sys

import pytest
import torch

import labelset as ls
from labelset.kernels import has_triton
from labelset.kernels.native.calls import available
from labelset.losses.lpr import LPR

THERE = {"native": available(), "triton": has_triton()}
IMPLS = [name for name, there in THERE.items() if there]


def batch(rows, n, on=0.15, seed=0, spread=4.0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(rows, n, generator=g) * spread, torch.rand(rows, n, generator=g) < on


def kinds(y, seed=1):
    """The same labels in every form; some unknown, some soft in the last ones."""
    g = torch.Generator().manual_seed(seed)
    lacking = torch.where(torch.rand(y.shape, generator=g) < 0.2, torch.nan, y.float())
    soft = torch.where(
        torch.rand(y.shape, generator=g) < 0.2, torch.rand(y.shape, generator=g), lacking
    )
    dense = {"bool": y, "int": y.long(), "float": y.float(), "lacking": lacking, "soft": soft}
    sparse = {f"sparse {k}": ls.Labels.from_dense(dense[k]) for k in ("bool", "lacking", "soft")}
    return {**dense, **sparse}


def both(loss, v, labels, upstream=1.0):
    leaf = v.detach().clone().requires_grad_()
    value = loss(leaf, labels)
    (upstream * value).backward()
    return value.detach().double(), leaf.grad.double()


def agree(impl, v, labels, upstream=1.0, rel=3e-6, **hyper):
    value, gradient = both(LPR(impl=impl, **hyper), v, labels, upstream)
    want, slope = both(LPR(impl="eager", **hyper), v.double(), labels, upstream)
    assert float(value) == pytest.approx(float(want), rel=1e-6, abs=1e-12)
    assert float((gradient - slope).abs().max()) <= rel * float(slope.abs().max())


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("hyper", [*LPR.examples, {"of": "asl"}], ids=lambda h: h.get("of", "-"))
@pytest.mark.slow
def test_value_and_gradient_with_every_link_and_kind_of_labels(impl, hyper):
    v, y = batch(3, 37)
    for labels in kinds(y).values():
        agree(impl, v, labels, upstream=3.0, **hyper)


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (3, 7), (2, 1025), (3, 401)])
def test_odd_shapes(impl, shape):
    v, y = batch(*shape, on=min(0.5, 12 / shape[1]))
    for labels in (y, ls.Labels.from_dense(y)):
        agree(impl, v, labels, of="spa")
    agree(impl, v.T.contiguous().T, y, reduction="sum")


@pytest.mark.parametrize("impl", IMPLS)
def test_no_rows_and_no_labels(impl):
    for shape in ((0, 3), (3, 0)):
        assert LPR(impl=impl)(torch.zeros(shape), torch.zeros(shape)) == 0


@pytest.mark.parametrize("impl", IMPLS)
def test_rows_without_positives_without_negatives_or_with_little_known(impl):
    v, y = batch(7, 30)
    y = y.float()
    y[0], y[1] = 0.0, 1.0
    y[2] = torch.nan
    y[3], y[3, 4] = torch.nan, 1.0
    y[4], y[4, 4] = torch.nan, 0.3
    y[5], y[5, 2], y[5, 9] = torch.nan, 1.0, 0.0
    v[2:5] = torch.where(y[2:5].isnan(), torch.nan, v[2:5])  # unknown entries are inert
    for labels in (y, ls.Labels.from_dense(y)):
        for reduction in ("mean", "sum"):
            agree(impl, v, labels, reduction=reduction)
    for rows in (slice(0, 2), slice(2, 5)):  # nothing to compare anywhere
        value, gradient = both(LPR(impl=impl), v[rows], y[rows])
        assert value == 0
        assert not gradient.any()


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_far_scores(impl, dtype):
    v, y = batch(6, 40, on=0.3)
    v = torch.where(torch.rand(v.shape) < 0.5, v.sign() * 1e4, v).to(dtype)
    for of in ("bce", "spa", "asl"):
        value, gradient = both(LPR(impl=impl, of=of), v, y)
        want, slope = both(LPR(impl="eager", of=of), v, y)
        assert value.isfinite()
        assert gradient.isfinite().all()
        assert float(value) == pytest.approx(float(want), rel=1e-5)
        assert torch.allclose(gradient, slope, rtol=0.01, atol=1e-5 * float(slope.abs().max()))


@pytest.mark.parametrize("impl", IMPLS)
def test_reduced_precision_is_rounded_once(impl):
    v, y = batch(4, 50)
    v = v.bfloat16()
    value, gradient = both(LPR(impl=impl, of="spa"), v, y)
    want, slope = both(LPR(impl="eager", of="spa"), v.double(), y)
    assert float(value) == pytest.approx(float(want), rel=1e-6)
    rounding = 2**-8 if impl == "native" else 2**-7  # Triton's interpreter cuts off instead
    assert torch.allclose(gradient, slope, rtol=rounding, atol=1e-9)


@pytest.mark.parametrize("impl", IMPLS)
def test_a_weight_per_label_is_read_and_a_learnt_one_is_left_to_autograd(impl):
    v, y = batch(4, 30)
    weight = torch.rand(30) + 0.5
    agree(impl, v, y, of=ls.losses.build("bce", pos_weight=weight))
    learnt = torch.nn.Parameter(weight.clone())
    loss = LPR(of=ls.losses.build("bce", pos_weight=learnt))
    loss(v, y).backward()
    assert learnt.grad is not None
    with pytest.raises(RuntimeError, match="has no kernel"):
        LPR(of=loss.of, impl=impl)(v, y)


@pytest.mark.parametrize("impl", IMPLS)
def test_links_that_are_derived_in_float64_stay_accurate(impl):
    class Derived(ls.losses.Separable):
        def pos(self, v):
            return torch.exp(-v / 4)

        def neg(self, v):
            return torch.exp(v / 4)

    v, y = batch(3, 40)
    loss = LPR(of=Derived(), impl=impl)
    agree(impl, v, y, of=loss.of)
    assert loss._odds._traced(40, v.device) is None


def test_links_of_the_catalogue_are_traced():
    for hyper in LPR.examples:
        assert LPR(**hyper)._odds._traced(9, torch.device("cpu")) is not None


@pytest.mark.parametrize("impl", IMPLS)
def test_second_derivatives_go_through_the_formula(impl):
    v, y = batch(3, 9)
    leaf = v.requires_grad_()
    (slope,) = torch.autograd.grad(LPR(impl=impl)(leaf, y), leaf, create_graph=True)
    (curve,) = torch.autograd.grad(slope.square().sum(), leaf)
    (want,) = torch.autograd.grad(LPR(impl="eager")(leaf, y), leaf, create_graph=True)
    (truth,) = torch.autograd.grad(want.square().sum(), leaf)
    assert torch.allclose(curve, truth, rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("impl", IMPLS)
def test_labels_out_of_range_are_refused(impl):
    v, y = batch(3, 9)
    with pytest.raises(ValueError, match=r"labels must lie in \[0, 1\]"):
        LPR(impl=impl)(v, y.float() + 0.5)


@pytest.mark.parametrize("impl", IMPLS)
def test_both_parts_of_spa_lpr_go_through_kernels(impl, monkeypatch):
    v, y = batch(4, 30)
    loss = ls.losses.build("spa+lpr", impl=impl, lam=0.5)
    want = both(ls.losses.build("spa+lpr", impl="eager", lam=0.5), v.double(), y)
    monkeypatch.setattr(ls.losses.Loss, "eager", None)  # no part may fall back on the formula
    for part, truth in zip(both(loss, v, y), want, strict=True):
        assert torch.allclose(part, truth, rtol=1e-5, atol=1e-8)


MEMORY = """
import re, torch, labelset as ls
torch.set_num_threads(1)
def highest():  # of this process alone, unlike getrusage, which begins at its parent's
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
def run(rows, n):
    g = torch.Generator().manual_seed(0)
    y = torch.zeros(rows, n, dtype=torch.bool)
    y[torch.arange(rows)[:, None], torch.rand(rows, n, generator=g).topk(50).indices] = True
    v = torch.randn(rows, n, generator=g).requires_grad_()
    before = highest()
    ls.losses.build("lpr", of="spa", impl=IMPL)(v, y).backward()
    return (highest() - before) / 1024
run(16, 200)
print(run(64, 20_000))
"""


@pytest.mark.parametrize("impl", [*IMPLS[: THERE["native"]], "eager"])
@pytest.mark.slow
def test_memory_is_a_few_times_the_scores(impl):
    """The scores are 5 MB; the formula as it is written needs 50 times that, more than once."""
    code = MEMORY.replace("IMPL", repr(impl))
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (float(run.stdout) < 8 * 5.12) == (impl == "native")
