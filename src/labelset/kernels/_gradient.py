"""A loss whose gradient is computed with its value, and handed over when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from labelset.kernels._choice import has_triton

__all__ = ["Result", "differentiable"]

SMALL = 2**18  # entries for which a pass costs less than a look

Result = tuple[Tensor, Tensor, Tensor | None]
"""Value; its gradient by the scores; what that is still to be multiplied by (None: nothing)."""


def differentiable(
    scores: Tensor, fused: Callable[[Tensor], Result], eager: Callable[[Tensor], Tensor]
) -> Tensor:
    """The value of `fused`, with its gradient; `eager` is the same loss, for second derivatives."""
    value: Tensor = _Fused.apply(scores, fused, eager)  # type: ignore[no-untyped-call]
    return value


class _Fused(torch.autograd.Function):
    """Keeps the gradient, unlike the values from which autograd would work it out.

    Backward gives away the only reference to it, so that nothing is copied. A second backward
    through the same graph computes it anew; `create_graph=True` goes through the eager formula.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, fused: Any, eager: Any) -> Tensor:
        value, ctx.gradient, ctx.factor = fused(scores.detach())
        ctx.fused, ctx.eager = fused, eager
        ctx.save_for_backward(scores)
        return value  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        if torch.is_grad_enabled():
            (scores,) = ctx.saved_tensors
            value = ctx.eager(scores)
            (slope,) = torch.autograd.grad(value, scores, upstream, create_graph=True)
            return slope, None, None
        gradient, ctx.gradient = ctx.gradient, None
        if gradient is None:
            gradient = ctx.fused(*ctx.saved_tensors)[1]
        return multiplied(gradient, upstream, ctx.factor), None, None


def multiplied(gradient: Tensor, upstream: Tensor, factor: Tensor | None = None) -> Tensor:
    """The gradient times one or two numbers, in place; no pass is made where that is one.

    On a GPU it is the kernel that looks at the numbers: the host does not wait for them.
    """
    if gradient.numel() > SMALL and gradient.device.type == "cuda" and has_triton():
        from labelset.kernels._multiply import multiply_

        return multiply_(gradient, upstream, factor)
    times = upstream if factor is None else upstream * factor
    if gradient.device.type == "cpu" and bool(times == 1):
        return gradient
    return gradient.mul_(times)
