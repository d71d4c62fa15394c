"""The autograd side of `linear_loss`: gradients are kept, and handed over by backward."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from labelset.kernels._gradient import multiplied
from labelset.linear._job import Job

__all__ = ["LinearLoss"]


class LinearLoss(torch.autograd.Function):
    """Gradients are worked out with the value; backward gives away the only reference to them.

    A second backward through the same graph works them out anew; `create_graph=True` goes
    through the plain call.
    """

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, bias: Tensor | None, job: Job, learning: bool
    ) -> Tensor:
        wanted = tuple(learning and need for need in ctx.needs_input_grad[:3])
        outcome = job.run(features, weight, bias, wanted)
        ctx.job, ctx.wanted, ctx.gradients = job, wanted, outcome[1:]
        if job.step is None:
            ctx.save_for_backward(features, weight, bias)
        elif not weight.is_inference():
            torch.autograd.graph.increment_version(weight)  # a kernel does not say that it wrote
        return outcome.value

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        given = ctx.saved_tensors
        if torch.is_grad_enabled():
            return *_plain(ctx, given, upstream), None, None
        gradients, ctx.gradients = ctx.gradients, None
        if gradients is None and ctx.job.step is not None:
            raise RuntimeError("linear_sgd_step has moved the weights: call backward on it once")
        if gradients is None:
            gradients = ctx.job.run(*given, ctx.wanted)[1:]
        return *(g if g is None else multiplied(g, upstream) for g in gradients), None, None


def _plain(ctx: Any, given: tuple[Any, ...], upstream: Tensor) -> list[Tensor | None]:
    """The gradients as functions of what they depend on."""
    if ctx.job.step is not None:
        raise RuntimeError("linear_sgd_step has moved the weights: it has no second derivative")
    value = ctx.job.eager(*given)
    needed = [t for t, want in zip(given, ctx.wanted, strict=True) if want]
    found = iter(torch.autograd.grad(value, needed, upstream, create_graph=True))
    return [next(found) if want else None for want in ctx.wanted]
