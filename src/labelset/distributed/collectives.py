"""Sums and log-sum-exps over ranks, differentiable.

Every rank computes the same value from the same total, so that the slope of the value by a rank's
own share needs no further exchange: backward is local. `sum_gradient` is the other way round:
forward is local, and backward adds up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed

from labelset.ranks import all_reduce

ALONE = "alone"
"""In place of a group (where None is all ranks): nothing is spread over ranks."""

ONCE = (
    "a loss that compares what different ranks hold can be differentiated once; for second "
    "derivatives use one process, or a loss of single entries"
)


@dataclass(frozen=True)
class Grid:
    """Over which ranks the rows of the batch are spread, and over which its labels."""

    rows: Any = ALONE
    labels: Any = ALONE


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


def axis(group: Any) -> Any:
    """The group, or `ALONE` where it is one rank."""
    return ALONE if group is ALONE or ranks(group) == 1 else group


def members(group: Any) -> list[int]:
    """The global numbers of the ranks of a group."""
    world = distributed.group.WORLD
    return list(distributed.get_process_group_ranks(world if group is None else group))


def total(x: Tensor, *groups: Any) -> Tensor:
    """The sum of x over ranks: sum_r x_r, over the ranks of one group after the other."""
    for group in groups:
        if group is not ALONE:
            x = _Total.apply(x, group)  # type: ignore[no-untyped-call]
    return x


def log_total(x: Tensor, *groups: Any) -> Tensor:
    """log sum_r exp(x_r) over ranks; -inf, with zero gradient, where every x_r is -inf."""
    for group in groups:
        if group is not ALONE:
            x = _LogTotal.apply(x, group)  # type: ignore[no-untyped-call]
    return x


def sum_gradient(x: Tensor, group: Any) -> Tensor:
    """x, which every rank of the group holds and uses in part: its gradient is summed over them."""
    if group is ALONE:
        return x
    found: Tensor = _SumGradient.apply(x, group)  # type: ignore[no-untyped-call]
    return found


def scale_gradient(x: Tensor, factor: float) -> Tensor:
    """x itself, with a gradient that is `factor` times as large."""
    found: Tensor = _ScaleGradient.apply(x, factor)  # type: ignore[no-untyped-call]
    return found


def only_once() -> None:
    """For the backward of what has no graph of its own."""
    if torch.is_grad_enabled():
        raise RuntimeError(ONCE)


def once(slope: Tensor) -> Tensor:
    """A slope that may not be differentiated again, which would need what other ranks hold."""
    found: Tensor = _Once.apply(slope)  # type: ignore[no-untyped-call]
    return found


class _Once(torch.autograd.Function):
    """Torch's own `once_differentiable` lets `torch.autograd.grad` pass with a wrong number."""

    @staticmethod
    def forward(ctx: Any, slope: Tensor) -> Tensor:
        return slope.clone()

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        raise RuntimeError(ONCE)


class _Total(torch.autograd.Function):
    """d total / d x_r = 1."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        found = x.detach().clone(memory_format=torch.contiguous_format)
        all_reduce(found, group=group)
        return found

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        return once(upstream), None


class _LogTotal(torch.autograd.Function):
    """d log_total / d x_r = exp(x_r - log_total)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        top = x.detach().clone(memory_format=torch.contiguous_format)
        all_reduce(top, distributed.ReduceOp.MAX, group=group)
        top = torch.where(top.isfinite(), top, torch.zeros_like(top))
        found = (x.detach() - top).exp()
        all_reduce(found, group=group)
        found = top + found.log()
        ctx.save_for_backward(x, found)
        return found

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        x, found = ctx.saved_tensors
        slope = upstream * (x - found).exp()
        slope = torch.where(x == -torch.inf, torch.zeros_like(x), slope)
        return once(slope), None


class _SumGradient(torch.autograd.Function):
    """The gradient of what went in is the sum of what the ranks have made of it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        return total(upstream, ctx.group), None


class _ScaleGradient(torch.autograd.Function):
    """Unlike x.detach() + factor (x - x.detach()), it keeps an infinite x as it is."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.clone()

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        return ctx.factor * upstream, None
