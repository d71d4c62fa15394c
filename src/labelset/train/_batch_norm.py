"""Batch norm over the global batch: means and variances of the rows of all ranks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, distributed, nn

from labelset.train._ranks import Ranks

__all__ = ["batch_norm_over"]

KINDS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


@contextmanager
def batch_norm_over(ranks: Ranks, model: nn.Module) -> Iterator[None]:
    """Inside, every batch norm of the model in training sees the rows of all ranks.

    torch's own SyncBatchNorm does not run on CPUs, nor for a rank without rows.
    """
    norms = [m for m in model.modules() if isinstance(m, KINDS)] if ranks.size > 1 else []
    for norm in norms:
        norm.forward = partial(_forward, norm)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for norm in norms:
            del norm.forward


def _forward(norm: Any, x: Tensor) -> Tensor:
    """y = (x - m) / sqrt(v + eps) weight + bias, with m and v of each channel over all ranks."""
    if not norm.training and norm.running_mean is not None:
        found: Tensor = type(norm).forward(norm, x)
        return found
    shape = (1, -1) + (1,) * (x.ndim - 2)
    over = [d for d in range(x.ndim) if d != 1]
    wide = x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
    count = wide.new_tensor(wide.numel() // max(wide.shape[1], 1))
    sums: Tensor = _Total.apply(torch.cat([wide.sum(over), count[None]]))  # type: ignore[no-untyped-call]
    count = sums[-1].detach()
    mean = sums[:-1] / count
    centred = wide - mean.view(shape)
    squares: Tensor = _Total.apply(centred.square().sum(over))  # type: ignore[no-untyped-call]
    variance = squares / count
    _remember(norm, mean.detach(), variance.detach(), count)
    y: Tensor = centred * (variance + norm.eps).rsqrt().view(shape)
    if norm.affine:
        y = y * norm.weight.view(shape) + norm.bias.view(shape)
    return y.to(x.dtype)


@torch.no_grad()
def _remember(norm: Any, mean: Tensor, variance: Tensor, count: Tensor) -> None:
    """The running statistics, as torch keeps them."""
    if norm.running_mean is None:
        return
    norm.num_batches_tracked.add_(1)
    share = norm.momentum
    if share is None:
        share = 1.0 / float(norm.num_batches_tracked)
    norm.running_mean.lerp_(mean.to(norm.running_mean), share)
    unbiased = variance * (count / (count - 1).clamp(min=1))
    norm.running_var.lerp_(unbiased.to(norm.running_var), share)


class _Total(torch.autograd.Function):
    """The sum over ranks; every rank's result depends on it, so that slopes are summed as well."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        found = x.detach().clone()
        distributed.all_reduce(found)
        return found

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Tensor:
        found = upstream.contiguous().clone()
        distributed.all_reduce(found)
        return found
