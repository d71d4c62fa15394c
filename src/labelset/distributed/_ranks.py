"""Sums and log-sum-exps over ranks, differentiable.

Every rank computes the same value from the same total, so that the slope of the value by a rank's
own share needs no further exchange: backward is local.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed

__all__ = ["log_total", "ranks", "steeper", "total"]


def ranks(group: Any) -> int:
    """How many ranks there are; 1 where no process group was made."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return 1
    size = int(distributed.get_world_size(group))
    if size < 1:
        raise ValueError(
            "this rank is no member of the group it was given; call the loss only on its members"
        )
    return size


def total(x: Tensor, group: Any) -> Tensor:
    """The sum of x over ranks: sum_r x_r."""
    found: Tensor = _Total.apply(x, group)  # type: ignore[no-untyped-call]
    return found


def log_total(x: Tensor, group: Any) -> Tensor:
    """log sum_r exp(x_r) over ranks; -inf, with zero gradient, where every x_r is -inf."""
    found: Tensor = _LogTotal.apply(x, group)  # type: ignore[no-untyped-call]
    return found


def steeper(x: Tensor, factor: float) -> Tensor:
    """x itself, with a gradient that is `factor` times as large."""
    found: Tensor = _Steeper.apply(x, factor)  # type: ignore[no-untyped-call]
    return found


class _Once(torch.autograd.Function):
    """A slope that may not be differentiated again, which would need the other ranks' rows.

    torch's own `once_differentiable` lets `torch.autograd.grad` pass with a wrong number.
    """

    @staticmethod
    def forward(ctx: Any, slope: Tensor) -> Tensor:
        return slope.clone()

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        raise RuntimeError(
            "a loss of the columns of the global batch can be differentiated once; for second "
            "derivatives use one process, or a loss of rows or entries"
        )


class _Total(torch.autograd.Function):
    """d total / d x_r = 1."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        found = x.detach().clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(found, group=group)
        return found

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        return _Once.apply(upstream), None  # type: ignore[no-untyped-call]


class _LogTotal(torch.autograd.Function):
    """d log_total / d x_r = exp(x_r - log_total)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        top = x.detach().clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(top, distributed.ReduceOp.MAX, group=group)
        top = torch.where(top.isfinite(), top, torch.zeros_like(top))
        found = (x.detach() - top).exp()
        distributed.all_reduce(found, group=group)
        found = top + found.log()
        ctx.save_for_backward(x, found)
        return found

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        x, found = ctx.saved_tensors
        slope = upstream * (x - found).exp()
        slope = torch.where(x == -torch.inf, torch.zeros_like(x), slope)
        return _Once.apply(slope), None  # type: ignore[no-untyped-call]


class _Steeper(torch.autograd.Function):
    """Unlike x.detach() + factor (x - x.detach()), it keeps an infinite x as it is."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.clone()

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        return ctx.factor * upstream, None
