"""Smooth metrics and way losses by Triton's kernels against the eager formula in float64."""

import gc
import math
import os
import subprocess
import sys
import weakref
from pathlib import Path

import pytest
import torch

import labelset as ls
from labelset.kernels import dispatch
from labelset.kernels.triton import axes, confusion, launch, layout
from labelset.testing.loss_laws import as_close_as_eager

METRICS, WAY_LOSSES = (
    [
        pytest.param(name, example, id=f"{name}-{i}", marks=[pytest.mark.slow] if i else [])
        for name in names
        for i, example in enumerate(ls.losses.catalog.get(name).examples)
        if example.get("way") != "joint"
    ]
    for names in (
        ("sigmoid-f1", "unbounded-f1", "smooth"),
        ("two-way", "softmax", "multi-similarity"),
    )
)
SLOW = pytest.mark.slow


def slow(names):
    """The same, left to the slow tier."""
    return [pytest.param(name, marks=SLOW) for name in names]


AVERAGES = ("macro", "micro", "weighted", "samples")
WAYS = ("sample", "class", "both")
BOTH = pytest.mark.parametrize("few", [0, 2**16], indirect=True, ids=["several", "one program"])
"""By several programs, as a large matrix is, and by the one that a small matrix takes."""
SEVERAL_SLOW = pytest.mark.parametrize(
    "few",
    [pytest.param(0, marks=SLOW), 2**16],
    indirect=True,
    ids=["several", "one program"],
)
KINDS = ("bool", "uint8", "float", "soft", "labels", "soft labels")
FAST = (("soft", 0), ("labels", 0), ("bool", 2**16))
OF_KINDS = pytest.mark.parametrize(
    ("kind", "few"),
    [
        pytest.param(kind, few, marks=() if (kind, few) in FAST else SLOW)
        for few, kinds in ((0, KINDS), (2**16, KINDS[:4]))
        for kind in kinds
    ],
    indirect=["few"],
)
"""The same, but for stored labels, which are always left to several; one of a kind for speed."""
ODD = pytest.mark.parametrize(
    ("shape", "few"),
    [(shape, few) for shape in ((1, 1), (1, 40), (40, 1)) for few in (0, 2**16)]
    + [((41, 70), 0), ((41, 401), 2**16)],
    indirect=["few"],
)
"""The last ones take more than one tile, and part of one, either way: several programs have small
tiles, each of which takes Triton's interpreter its time."""


@pytest.fixture(autouse=True)
def few(request, monkeypatch):
    """So many entries are a small matrix: none, unless a test says otherwise."""

    monkeypatch.setattr(layout, "SMALL", getattr(request, "param", 0))
    layout.layout.cache_clear()
    yield
    layout.layout.cache_clear()


def drawn(rows, n, seed=0, size=2.0):
    """Scores, and hard labels with a row of none, a column of none and a column of all."""
    g = torch.Generator().manual_seed(seed)
    v = size * torch.randn(rows, n, generator=g)
    y = torch.rand(rows, n, generator=g) < 0.3
    y[rows // 2], y[:, n // 2], y[:, -1] = False, False, True
    return v, y


def softened(y, seed=1):
    """Soft and unknown labels, nothing known of the first column and of the last row."""
    g = torch.Generator().manual_seed(seed)
    soft = torch.where(torch.rand(y.shape, generator=g) < 0.3, torch.rand(y.shape, generator=g), y)
    soft[torch.rand(y.shape, generator=g) < 0.1] = torch.nan
    soft[:, 0], soft[-1] = torch.nan, torch.nan
    return soft


def thinned(labels, seed=3):
    """Most of them off, so that few are stored: all that are in a tile are compared in turn."""
    g = torch.Generator().manual_seed(seed)
    return ls.Labels.from_dense(labels.where(torch.rand(labels.shape, generator=g) < 0.05, 0.0))


def kinds(y):
    soft = softened(y)
    return {
        "bool": y,
        "uint8": y.to(torch.uint8),
        "float": y.float(),
        "soft": soft,
        "labels": ls.Labels.from_dense(y),
        "soft labels": ls.Labels.from_dense(soft),
    }


def gradient(loss, v, labels, upstream=1.0):
    leaf = v.clone().requires_grad_()
    value = loss(leaf, labels)
    (upstream * value).backward()
    return value.detach().double(), leaf.grad.double()


def agrees(name, v, labels, upstream=1.0, **settings):
    """No further from float64 than eager in float32 is, give or take rounding."""
    as_close_as_eager(ls.losses.build(name, **settings), "triton", v, labels, upstream)


@pytest.mark.parametrize(("name", "example"), METRICS)
def test_every_example_is_as_exact_as_eager_of_metrics(name, example):
    v, y = drawn(19, 23)
    for labels in (y, softened(y)):
        agrees(name, v, labels, upstream=3.0, **example)


@OF_KINDS
@pytest.mark.parametrize("average", AVERAGES)
def test_every_kind_of_labels_and_average(kind, average):
    v, y = drawn(19, 23)
    for reduction in ("mean", "sum"):
        agrees("sigmoid-f1", v, kinds(y)[kind], average=average, beta=2.0, reduction=reduction)


@BOTH
@pytest.mark.parametrize("average", AVERAGES)
def test_steepness_and_offset_per_label(average):
    v, y = drawn(19, 23)
    g = torch.Generator().manual_seed(2)
    beta, eta = torch.rand(23, generator=g) + 0.5, torch.randn(23, generator=g)
    agrees("sigmoid-f1", v, y, average=average, beta=beta, eta=eta)
    agrees("smooth", v, softened(y), average=average, beta=beta, eta=0.3)


@ODD
@pytest.mark.parametrize("average", [AVERAGES[0], *slow(AVERAGES[1:])])
def test_odd_shapes_of_metrics(shape, average):
    v, y = drawn(*shape)
    agrees("sigmoid-f1", v, y, average=average)


@pytest.mark.parametrize(
    ("shape", "average"), [((2100, 5), "macro"), pytest.param((2, 2100), "samples", marks=SLOW)]
)
def test_groups_that_several_programs_share_of_metrics(shape, average):
    v, y = drawn(*shape)
    agrees("sigmoid-f1", v, y, average=average)
    agrees("sigmoid-f1", v, thinned(softened(y)), average=average)


@BOTH
@pytest.mark.parametrize("average", AVERAGES)
def test_nothing_known_costs_nothing(average):
    v, _ = drawn(5, 7)
    kernel = ls.losses.build("sigmoid-f1", impl="triton", average=average)
    value, slope = gradient(kernel, v, torch.full((5, 7), torch.nan))
    assert value == 0
    assert (slope == 0).all()


@BOTH
@pytest.mark.parametrize("average", AVERAGES)
def test_huge_scores_stay_finite(average):
    v, y = drawn(19, 23, size=1e4)
    agrees("sigmoid-f1", v, y, average=average)
    agrees("sigmoid-f1", v, softened(y), average=average)


def test_unknown_scores_are_inert_of_metrics():
    v, y = drawn(19, 23)
    soft = softened(y)
    spoiled = torch.where(soft.isnan(), torch.nan, v)
    kernel = ls.losses.build("sigmoid-f1", impl="triton")
    assert all(map(torch.equal, gradient(kernel, spoiled, soft), gradient(kernel, v, soft)))


@pytest.mark.parametrize("size", [1.0, 1e3])
def test_labels_beyond_0_and_1_are_refused_of_metrics(size):
    v, y = drawn(19, 23, size=size)
    kernel = ls.losses.build("sigmoid-f1", impl="triton")
    for wrong in (y.to(torch.uint8), y.float()):
        wrong[4, 5] = 2
        with pytest.raises(ValueError, match=r"\[0, 1\]"):
            kernel(v, wrong)


def test_scores_that_are_not_contiguous_of_metrics():
    v, y = drawn(23, 19)
    agrees("sigmoid-f1", v.T, y.T)
    agrees("sigmoid-f1", v[:, ::2], y[:, ::2], average="samples")


@BOTH
@pytest.mark.parametrize("average", AVERAGES)
def test_reduced_precision_of_metrics(average):
    v, y = drawn(19, 23)
    v = v.bfloat16()
    kernel = ls.losses.build("sigmoid-f1", impl="triton", average=average)
    value, slope = gradient(kernel, v, y)
    truth = gradient(ls.losses.build("sigmoid-f1", impl="eager", average=average), v.double(), y)
    assert value == pytest.approx(truth[0].item(), rel=1e-4)
    assert (slope - truth[1]).abs().max() <= 2e-2 * truth[1].abs().max()


def test_learnt_settings_have_no_kernel():
    v, y = drawn(5, 7)
    beta = torch.nn.Parameter(torch.ones(7))
    with pytest.raises(RuntimeError, match="has no kernel"):
        ls.losses.build("sigmoid-f1", impl="triton", beta=beta)(v, y)


def test_a_second_backward_gives_the_same():
    v, y = drawn(5, 7)
    leaf = v.requires_grad_()
    value = ls.losses.build("sigmoid-f1", impl="triton")(leaf, y)
    first, second = (torch.autograd.grad(value, leaf, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.parametrize(("name", "example"), WAY_LOSSES)
def test_every_example_is_as_exact_as_eager_of_ways(name, example):
    v, y = drawn(19, 23)
    for labels in (y, softened(y)):
        agrees(name, v, labels, upstream=3.0, **example)


@OF_KINDS
@pytest.mark.parametrize("way", [*slow(WAYS[:2]), WAYS[2]])
def test_every_kind_of_labels_and_way(kind, way):
    v, y = drawn(19, 23)
    for name, reduction in (("two-way", "mean"), ("softmax", "sum"), ("multi-similarity", "mean")):
        agrees(name, v, kinds(y)[kind], way=way, reduction=reduction)


@ODD
def test_odd_shapes_of_ways(shape):
    v, y = drawn(*shape)
    agrees("two-way", v, y)
    agrees("softmax", v, y, way="both")


@pytest.mark.parametrize(
    ("shape", "way"), [((600, 5), "both"), pytest.param((3, 600), "sample", marks=SLOW)]
)
def test_groups_that_several_programs_share_of_ways(shape, way):
    v, y = drawn(*shape)
    agrees("two-way", v, y, way=way)
    agrees("softmax", v, thinned(softened(y)), way=way)


@BOTH
@pytest.mark.parametrize("name", ["two-way", *slow(("softmax", "multi-similarity"))])
def test_huge_scores(name):
    for size in (50.0, 1e4):
        v, y = drawn(19, 23, size=size)
        for way in WAYS:
            agrees(name, v, y, way=way)
        agrees(name, v, softened(y), way="both")


@SEVERAL_SLOW
def test_one_huge_score_among_small_ones():
    v, y = drawn(41, 70)
    v[3, 60], v[30, 2] = -1e4, 1e4
    agrees("two-way", v, y)
    agrees("softmax", v, ls.Labels.from_dense(softened(y)), way="both")


def test_faintly_soft_labels():
    v, y = drawn(19, 23, size=8.0)
    agrees("two-way", v, torch.where(y, 1e-30, 0.0))


@pytest.mark.parametrize("name", ["two-way", *slow(("softmax", "multi-similarity"))])
@pytest.mark.parametrize("way", WAYS)
def test_no_label_on_and_nothing_known(name, way):
    v, y = drawn(5, 7)
    agrees(name, v, torch.zeros_like(y), way=way)
    agrees(name, v, torch.ones_like(y), way=way)
    kernel = ls.losses.build(name, impl="triton", way=way)
    value, slope = gradient(kernel, v, torch.full((5, 7), torch.nan))
    assert value == 0
    assert (slope == 0).all()


def test_unknown_scores_are_inert_of_ways():
    v, y = drawn(19, 23)
    soft = softened(y)
    spoiled = torch.where(soft.isnan(), torch.nan, v)
    kernel = ls.losses.build("two-way", impl="triton")
    assert all(map(torch.equal, gradient(kernel, spoiled, soft), gradient(kernel, v, soft)))


def test_a_score_that_is_not_a_number_is_not_hidden():
    v, y = drawn(19, 23)
    v[4, 5] = torch.nan
    assert ls.losses.build("two-way", impl="triton")(v, y).isnan()


@pytest.mark.parametrize("size", [1.0, 1e3])
def test_labels_beyond_0_and_1_are_refused_of_ways(size):
    v, y = drawn(19, 23, size=size)
    kernel = ls.losses.build("two-way", impl="triton")
    for wrong in (y.to(torch.uint8), y.float()):
        wrong[4, 5] = 2
        with pytest.raises(ValueError, match=r"\[0, 1\]"):
            kernel(v, wrong)


def test_scores_that_are_not_contiguous_of_ways():
    v, y = drawn(23, 19)
    agrees("two-way", v.T, y.T)
    agrees("softmax", v[:, ::2], y[:, ::2])


@BOTH
@pytest.mark.parametrize("way", WAYS)
def test_reduced_precision_of_ways(way):
    v, y = drawn(19, 23)
    v = v.bfloat16()
    value, slope = gradient(ls.losses.build("two-way", impl="triton", way=way), v, y)
    truth = gradient(ls.losses.build("two-way", impl="eager", way=way), v.double(), y)
    assert value == pytest.approx(truth[0].item(), rel=1e-4)
    assert (slope - truth[1]).abs().max() <= 2e-2 * truth[1].abs().max()


def test_joint_has_no_kernel_and_is_computed_all_the_same():
    v, y = drawn(5, 7)
    with pytest.raises(RuntimeError, match="has no kernel"):
        ls.losses.build("two-way", impl="triton", way="joint")(v, y)
    joint = [ls.losses.build("two-way", impl=i, way="joint")(v, y) for i in ("auto", "eager")]
    assert joint[0] == joint[1]


@pytest.mark.slow
def test_the_kernels_compile_for_a_gpu(tmp_path):
    script = Path(__file__).with_name("compile_for_gpu.py")
    there = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, str(script), "confusion", "ways", "product", "slopes", "steps"]
    done = subprocess.run(command, env=there, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@BOTH
@pytest.mark.parametrize("name", ["two-way", "sigmoid-f1"])
def test_the_default_dtype_of_torch_changes_nothing(name):
    v, y = drawn(19, 23)
    kernel = ls.losses.build(name, impl="triton")
    first = gradient(kernel, v, y)
    torch.set_default_dtype(torch.float64)
    try:
        value = kernel(v, y)
        again = gradient(kernel, v, y)
    finally:
        torch.set_default_dtype(torch.float32)
    assert value.dtype == torch.float32
    assert all(map(torch.equal, first, again))


@pytest.mark.parametrize("name", ["two-way", "sigmoid-f1"])
def test_what_is_launched_is_forgotten_with_the_loss(name):
    v, y = drawn(19, 23)
    loss = ls.losses.build(name, impl="triton")
    loss(v, y)
    held = loss._traced if name == "two-way" else loss._metric(23, v.device)
    assert len(loss._kernels) == 1
    loss(v, y)
    loss(v[:5], y[:5])
    assert len(loss._kernels) == 2
    gone = weakref.ref(held)
    del loss, held
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("kind", ["bool", "labels"])
@pytest.mark.slow
def test_sums_on_the_way_take_the_memory_of_the_gradient(kind, monkeypatch):
    """What is made beside it is small, however large the matrix."""
    made = []

    def numbers(device, *shape):
        made.append(math.prod(shape))
        return torch.empty(shape, dtype=torch.float32, device=device)

    for module in (launch, confusion, axes):
        monkeypatch.setattr(module, "numbers", numbers)
    rows, n = 100, 200
    v, y = drawn(rows, n)
    labels = thinned(y.float()) if kind == "labels" else y
    agrees("two-way", v, labels)
    assert 0 < sum(made) < 0.12 * rows * n


@pytest.mark.parametrize("name", ["asl", *slow(("two-way", "sigmoid-f1"))])
def test_more_stored_labels_than_32_bits_can_count(name, monkeypatch):
    """They are counted in 64, by other kernels; here a few must do for so many."""
    v, y = drawn(41, 70)
    labels, loss = thinned(y.float()), ls.losses.build(name, impl="triton")
    narrow, few = gradient(loss, v, labels), dispatch.signature(v, labels)
    monkeypatch.setattr(dispatch, "NARROW", labels.indices.numel())
    wide, many = gradient(loss, v, labels), dispatch.signature(v, labels)
    assert few != many
    assert layout.block_starts(labels, 16).dtype == torch.int64
    assert all(torch.equal(*pair) for pair in zip(narrow, wide, strict=True))
