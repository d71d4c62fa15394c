"""Products of 16-bit matrices, in Triton's interpreter, which takes float16 but not bfloat16."""

import pytest
import torch

from labelset.kernels.triton import product


def draw(rows, columns, seed, padded=None):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(rows, padded or columns, generator=g).half()[:, :columns]


@pytest.fixture(autouse=True)
def small_results(monkeypatch):
    monkeypatch.setattr(product, "LEAST", 1)


@pytest.mark.parametrize(("rows", "columns", "depth"), [(3, 8, 8), (130, 300, 72), (260, 1000, 64)])
@pytest.mark.parametrize("bias", [False, True])
def test_scores_of_features_and_weights(rows, columns, depth, bias):
    x, w = draw(rows, depth, 0), draw(columns, depth, 1)
    b = draw(1, columns, 2)[0] if bias else None
    out = torch.full((rows, -(-columns // 64) * 64), torch.nan).half()
    assert product.fits(x, w.T, out[:, :columns])
    got = product.product_(x, w.T, out[:, :columns], b, scale=0.5)
    want = 0.5 * x.double() @ w.double().T + (0 if b is None else b.double())
    assert ((got - want).abs() <= 2e-3 * want.abs().clamp(min=1)).all()
    assert out[:, columns:].isnan().all()  # nothing is written beyond it


def test_a_bias_that_is_a_column_or_not_aligned():
    x, w = draw(3, 8, 0), draw(24, 8, 1)
    for b in (draw(24, 5, 2)[:, 0], draw(1, 25, 2)[0, 1:], draw(1, 1, 2)[0].expand(24)):
        got = product.product_(x, w.T, torch.empty(3, 24).half(), b)
        torch.testing.assert_close(
            got, (x.double() @ w.double().T + b).half(), rtol=2e-3, atol=2e-3
        )


def test_gradient_of_weights():
    slopes, x = draw(70, 515, 0, padded=576), draw(70, 264, 1)
    out = torch.full((515, 264), torch.nan).half()
    assert product.fits(slopes.T, x, out)
    want = 3 * slopes.double().T @ x.double()
    got = product.product_(slopes.T, x, out, scale=3.0)
    assert ((got - want).abs() <= 2e-3 * want.abs().clamp(min=1)).all()


def test_what_it_does_not_take(monkeypatch):
    x, w, out = draw(4, 16, 0), draw(24, 16, 1), torch.empty(4, 24).half()
    assert product.fits(x, w.T, out)
    assert not product.fits(x.float(), w.T.float(), out.float())
    assert not product.fits(x.bfloat16(), w.T, out)
    assert not product.fits(
        x[:, :15].contiguous(), w[:, :15].contiguous().T, out
    )  # rows of 30 bytes
    assert not product.fits(x[:, 1:9], w[:, 1:9].T, out)  # addresses between those read at once
    assert not product.fits(x, w.T, torch.empty(24, 4).half().T)
    monkeypatch.setattr(product, "LEAST", 97)
    assert not product.fits(x, w.T, out)


def test_long_sums_in_parts(monkeypatch):
    monkeypatch.setattr(product, "LONG", 1)
    monkeypatch.setattr(product, "processors", lambda device: 8)
    want = torch.zeros(130, 264, dtype=torch.float64)
    total = None
    for seed, labels in enumerate((1000, 136)):
        slopes, w = draw(130, labels, seed, padded=1024), draw(labels, 264, seed + 9)
        assert product.fits_parts(slopes, w)
        total = product.parts(slopes, w) if total is None else total
        assert total.shape == (2, 130, 264)  # tiles of 2 x 2
        product.add_parts_(total, slopes, w)
        want += slopes.double() @ w.double()
    torch.testing.assert_close(total.sum(0).double(), want, rtol=1e-5, atol=1e-3)
    assert (total != 0).all()  # each has its share


def test_sums_that_are_not_split(monkeypatch):
    monkeypatch.setattr(product, "LONG", 64)
    monkeypatch.setattr(product, "processors", lambda device: 8)
    slopes, w = draw(130, 64, 0), draw(64, 264, 1)
    assert product.fits_parts(slopes, w)
    assert not product.fits_parts(slopes[:, :56], w[:56])  # too short
    assert not product.fits_parts(draw(600, 64, 0), w)  # as many tiles as processors
    assert not product.fits_parts(slopes[:0], w)  # no rows at all
    assert not product.fits_parts(slopes.float(), w.float())
    assert not product.fits_parts(slopes.bfloat16(), w)
    assert not product.fits_parts(draw(64, 130, 0).T, w)
