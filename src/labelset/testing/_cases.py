"""What the laws are tried on: batches of scores and labels, and how a broken law is reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

__all__ = ["LawBroken", "batches", "hold", "near", "random_batch", "value_and_grad"]


class LawBroken(AssertionError):
    """A loss does not keep a law that it must keep or claims to keep."""


def hold(condition: Any, message: str) -> None:
    """Raise unless the condition holds."""
    if not bool(condition):
        raise LawBroken(message)


def near(got: Tensor, want: Tensor, message: str, rtol: float = 1e-9, atol: float = 1e-11) -> None:
    """Raise unless two tensors agree, NaN never agreeing."""
    got, want = got.detach().double(), want.detach().double()
    hold(got.shape == want.shape, f"{message}: shape {tuple(got.shape)}, not {tuple(want.shape)}")
    error = (got - want).abs()
    hold(
        (error <= atol + rtol * want.abs()).all(),
        f"{message}: {got.flatten()[:6].tolist()} is not {want.flatten()[:6].tolist()}",
    )


def random_batch(
    rows: int, labels: int, seed: int, *, soft: bool = False, unknown: bool = False
) -> tuple[Tensor, Tensor]:
    """Scores and labels in float64, one label in three on; unknown entries are NaN."""
    g = torch.Generator().manual_seed(seed)
    v = torch.randn(rows, labels, generator=g, dtype=torch.float64) * 2
    y = (torch.rand(rows, labels, generator=g, dtype=torch.float64) < 1 / 3).double()
    if soft:
        y = torch.where(
            torch.rand(rows, labels, generator=g) < 0.5,
            y,
            torch.rand(rows, labels, generator=g, dtype=torch.float64),
        )
    if unknown:
        y[torch.rand(rows, labels, generator=g) < 0.3] = torch.nan
    return v, y


def batches(seed: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
    """Hard, soft and partly unknown batches, with the awkward shapes among them."""
    yield random_batch(5, 4, seed)
    yield random_batch(4, 3, seed + 1, soft=True)
    yield random_batch(6, 5, seed + 2, unknown=True)
    yield random_batch(1, 6, seed + 3)
    yield random_batch(7, 1, seed + 4)
    v, y = random_batch(5, 4, seed + 5)
    y[0], y[1], y[:, 2], y[2:, 3] = 0, 1, 0, 1  # rows and columns of one kind only
    yield v, y


def value_and_grad(loss: Callable[..., Tensor], v: Tensor, y: Any) -> tuple[Tensor, Tensor]:
    """The value, and the gradient of its sum with respect to the scores."""
    v = v.detach().clone().requires_grad_()
    value = loss(v, y)
    if not value.requires_grad:
        return value.detach(), torch.zeros_like(v)
    (grad,) = torch.autograd.grad(value.sum(), v)
    return value.detach(), grad
