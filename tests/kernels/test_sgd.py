"""Steps of gradient descent: 16-bit weights that are rounded at random, in Triton's interpreter."""

import pytest
import torch

pytest.importorskip("triton")
from labelset.kernels.triton import product, product_kernels


def drawn(rows, labels, features):
    """Weights, and factors in float16: Triton's interpreter cannot multiply bfloat16."""
    g = torch.Generator().manual_seed(rows)
    a, b = torch.randn(rows, labels, generator=g), torch.randn(rows, features, generator=g)
    return torch.randn(labels, features, generator=g).bfloat16(), a.half(), b.half()


def step(weight, a, b, rate=0.25, shrink=0.5, seed=1, first=0):
    moved = weight.clone()
    product.sgd_of_product_(moved, a, b, rate, shrink, seed, first)
    return moved


@pytest.mark.parametrize("shape", [(1, 8, 8), (70, 304, 136), (64, 128, 128)])
def test_a_step_down_a_product(shape):
    weight, a, b = drawn(*shape)
    want = 0.5 * weight.double() - 0.25 * a.double().T @ b.double()
    torch.testing.assert_close(step(weight, a, b).double(), want, rtol=1 / 127, atol=1e-5)


@pytest.mark.slow
def test_bfloat16_is_rounded_to_a_neighbour_and_right_on_average():
    weight, a, b = drawn(20, 40, 136)
    want = 0.5 * weight.double() - 0.25 * a.double().T @ b.double()
    below = (want.float().view(torch.int32) & -65536).view(torch.float32).double()  # towards 0
    above = ((want.float().view(torch.int32) & -65536) + 65536).view(torch.float32).double()
    found = torch.stack([step(weight, a, b, seed=seed).double() for seed in range(60)])
    exact = (want - below).abs() < 1e-6 * want.abs()  # where a sum in float32 decides
    assert ((found == below) | (found == above) | exact).all()
    up, share = (found == above).double().mean(0), (want - below) / (above - below)
    for quarter in (up - share).where(~exact, 0).split(32, 1):
        assert quarter.abs().max() < 0.4  # six standard deviations of 60 draws
        assert abs(quarter.mean()) < 0.015


def test_numbers_beyond_all_others_stay():
    """The NaN that a GPU computes has all bits on: a carry must not make a number of it."""
    weight = torch.zeros(3, 8, dtype=torch.bfloat16)
    gradient = torch.tensor([0x7FFFFFFF, 0x7FC00000, -1, 0x7F800000]).int().view(torch.float32)
    gradient = gradient.repeat(6).view(3, 8)
    product.sgd_(weight, gradient, -1.0, 1.0, 3, 0)
    assert torch.equal(weight.isnan(), gradient.isnan())
    assert (weight[:, 3::4] == torch.inf).all()
    a, b = (torch.full((1, 8), x).half() for x in (torch.nan, 1.0))
    assert step(torch.zeros(8, 8, dtype=torch.bfloat16), a, b).isnan().all()


def test_what_is_drawn_depends_on_the_seed_and_on_the_place_of_a_weight():
    weight, a, b = drawn(20, 272, 136)
    whole = step(weight, a, b, seed=5)
    assert torch.equal(whole, step(weight, a, b, seed=5))
    assert not torch.equal(whole, step(weight, a, b, seed=5 + 2**40))
    assert not torch.equal(whole, step(weight, a, b, seed=5, first=1))
    rest = step(weight[136:], a[:, 136:].contiguous(), b, seed=5, first=136)
    assert torch.equal(whole[136:], rest)


def test_noise_is_even_and_neighbours_differ():
    """All bits are on half of the time, whatever their neighbours, in columns and rows, are."""
    import triton
    import triton.language as tl

    @triton.jit
    def drawn_noise(out, seed, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
        row, column = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
        found = product_kernels._noise(seed, row, column)
        tl.store(out + row[:, None] * COLUMNS + column[None, :], found.to(tl.int64))

    out = torch.zeros(256, 256, dtype=torch.int64)
    drawn_noise[(1,)](out, 3, ROWS=256, COLUMNS=256)
    bits = (out[..., None] >> torch.arange(32)) & 1
    assert out.min() >= 0
    assert len(out.unique()) > 256 * 256 - 10
    assert (bits.double().mean((0, 1)) - 0.5).abs().max() < 0.01
    for moved in (bits.roll(1, 0), bits.roll(1, 1), bits.roll(1, 2)):
        assert ((bits == moved).double().mean((0, 1)) - 0.5).abs().max() < 0.011


def test_what_it_takes(monkeypatch):
    monkeypatch.setattr(product, "LEAST", 1)
    weight, a, b = (t.bfloat16() for t in drawn(24, 40, 32))
    assert product.takes_sgd(weight, a, b)
    assert not product.takes_sgd(weight.half(), a.half(), b.half())
    assert not product.takes_sgd(weight.half(), a, b)
    assert not product.takes_sgd(weight, a.T.contiguous().T, b)
    assert not product.takes_sgd(weight, a, b.T.contiguous().T)
    assert not product.takes_sgd(
        weight[:, :-1], a, b[:, :-1].contiguous()
    )  # rows that are not aligned
    assert product.takes_sgd(weight[:, :-8], a, b[:, :-8])
