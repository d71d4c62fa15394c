"""What the laws are tried on: batches of scores and labels, and how a broken law is reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from labelset import check
from labelset.losses import Loss


class LawBroken(AssertionError):
    """A loss does not keep a law that it must keep or claims to keep."""


def hold(condition: Any, message: str) -> None:
    """Raise unless the condition holds."""
    if not bool(condition):
        raise LawBroken(message)


def hold_to(
    laws: Mapping[str, Callable[[Any], None]], names: Iterable[str] | None, subject: Any, who: str
) -> None:
    """Run the named laws, or all; the first that is broken raises `LawBroken` with its name."""
    chosen = [names] if isinstance(names, str) else list(laws if names is None else names)
    for name in chosen:
        if name not in laws:
            raise ValueError(f"no law is called {name!r}: {check.nearest(str(name), laws)}")
        try:
            laws[name](subject)
        except Exception as broken:
            what = "" if isinstance(broken, LawBroken) else f"raises {type(broken).__name__}: "
            raise LawBroken(f"{who} breaks the law {name!r}: {what}{broken}") from broken


def near(
    got: Tensor, want: Tensor, message: str, rtol: float = 1e-9, atol: float | Tensor = 1e-11
) -> None:
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


class Cases:
    """Batches that fit a loss: one that holds a number per label is tried with that many."""

    def __init__(self, loss: Any) -> None:
        self.width = loss.per_label() if isinstance(loss, Loss) else None

    def __call__(self, rows: int, labels: int, seed: int, **kinds: bool) -> tuple[Tensor, Tensor]:
        return random_batch(rows, self.width or labels, seed, **kinds)

    def all(self, seed: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Hard, soft and partly unknown batches, with the awkward shapes among them."""
        yield self(5, 4, seed)
        yield self(4, 3, seed + 1, soft=True)
        yield self(6, 5, seed + 2, unknown=True)
        yield self(6, 5, seed + 3, soft=True, unknown=True)
        yield self(1, 6, seed + 4)
        yield self(7, 1, seed + 5)
        yield self(3, 17, seed + 6)
        v, y = self(5, 4, seed + 7)
        y[0], y[1], y[:, -2:-1], y[2:, -1] = 0, 1, 0, 1  # rows and columns of one kind only
        yield v, y

    def far(self, seed: int = 0) -> tuple[Tensor, Tensor]:
        """Scores far out, on the right side and on the wrong one."""
        v, y = self(6, 4, seed)
        g = torch.Generator().manual_seed(seed)
        size = torch.tensor([7.0, 9.5, 15.0, 50.0, 500.0], dtype=torch.float64)
        return v.sign() * size[torch.randint(5, v.shape, generator=g)] + 0.01 * v, y


def value_and_grad(loss: Callable[..., Tensor], v: Tensor, y: Any) -> tuple[Tensor, Tensor]:
    """The value, and the gradient of its sum with respect to the scores."""
    v = v.detach().clone().requires_grad_()
    value = loss(v, y)
    if not value.requires_grad:
        return value.detach(), torch.zeros_like(v)
    (grad,) = torch.autograd.grad(value.sum(), v)
    return value.detach(), grad
