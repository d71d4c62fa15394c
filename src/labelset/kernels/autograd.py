"""A loss whose gradient is computed with its value, and handed over when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from labelset import check
from labelset.kernels.selection import has_triton
from labelset.labels import Labels

SMALL = 2**18  # entries for which a pass costs less than a look

Result = tuple[Tensor, Tensor, Tensor | None]
"""Value; its gradient by the scores; what that is still to be multiplied by (None: nothing)."""
Kernel = Callable[[Tensor, Any], Result]
"""Of scores and labels, all of one kind."""


def differentiable(
    scores: Tensor, labels: Any, kernel: Kernel, eager: Callable[[Tensor, Any], Tensor]
) -> Tensor:
    """The value of `kernel`, with its gradient; `eager`: the same loss, for second derivatives."""
    value: Tensor = _Fused.apply(scores, (labels, kernel, eager))  # type: ignore[no-untyped-call]
    return value


class _Fused(torch.autograd.Function):
    """Keeps the gradient, unlike the values from which autograd would work it out.

    Backward gives away the only reference to it, so that nothing is copied. A second backward
    through the same graph computes it again; `create_graph=True` goes through the eager formula.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, job: tuple[Any, Kernel, Any]) -> Tensor:
        labels, kernel, _ = job
        value, ctx.gradient, ctx.factor = kernel(scores, labels)
        ctx.job = job
        ctx.save_for_backward(scores)
        return value

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        if torch.is_grad_enabled():
            (scores,), (labels, _, eager) = ctx.saved_tensors, ctx.job
            value = eager(scores, labels)
            (slope,) = torch.autograd.grad(value, scores, upstream, create_graph=True)
            return slope, None
        gradient, ctx.gradient = ctx.gradient, None
        if gradient is None:
            (scores,), (labels, kernel, _) = ctx.saved_tensors, ctx.job
            gradient = kernel(scores, labels)[1]
        return multiplied(gradient, upstream, ctx.factor), None


def multiplied(gradient: Tensor, upstream: Tensor, factor: Tensor | None = None) -> Tensor:
    """The gradient times one or two numbers, in place; no pass is made where that is one.

    On a GPU it is the kernel that looks at the numbers: the host does not wait for them.
    """
    if gradient.is_cuda and gradient.numel() > SMALL and has_triton():
        from labelset.kernels.triton.launch import multiply_

        return multiply_(gradient, upstream, factor)
    times = upstream if factor is None else upstream * factor
    if gradient.is_cpu and bool(times == 1):
        return gradient
    return gradient.mul_(times)


def compiled(eager: Callable[[Tensor, Any], Tensor]) -> Kernel:
    """The loss of that formula, for scores and labels of every kind."""

    def both(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        found: tuple[Tensor, Tensor] = torch.func.grad_and_value(eager)(scores, labels)
        return found

    both = torch.compile(both)

    def kernel(scores: Tensor, labels: Tensor | Labels) -> Result:
        if isinstance(labels, Labels):
            labels = labels.dense(scores.dtype)
        else:
            check.unit_interval(labels)
        gradient, value = both(scores.detach(), labels)
        return value, gradient, None

    return kernel
