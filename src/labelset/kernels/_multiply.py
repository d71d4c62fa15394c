"""A tensor times a number that lies on the GPU, without a pass over it where that number is 1."""

# mypy: ignore-errors
# (Triton's language is Python only to the eye.)

from __future__ import annotations

from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from labelset.kernels._launch import Launch

__all__ = ["multiply_"]

BLOCK, PROGRAMS = 4096, 1056  # eight programs for each multiprocessor of a large GPU


@triton.jit(do_not_specialize=["size"])
def _multiply(values, factor, other, size, SECOND: tl.constexpr, BLOCK: tl.constexpr):
    times = tl.load(factor).to(tl.float32)
    if SECOND:
        times *= tl.load(other).to(tl.float32)
    if times != 1.0:
        start = tl.program_id(0).to(tl.int64) * BLOCK
        while start < size:
            at = start + tl.arange(0, BLOCK)
            inside = at < size
            value = tl.load(values + at, mask=inside).to(tl.float32)
            tl.store(values + at, (value * times).to(values.dtype.element_ty), mask=inside)
            start += tl.num_programs(0).to(tl.int64) * BLOCK


@lru_cache(maxsize=64)
def _launch(types: tuple[torch.dtype, ...], second: bool, wide: bool) -> Launch:
    """For tensors of these types, and sizes that need 64 bits or do not."""
    return Launch(_multiply, {"SECOND": second, "BLOCK": BLOCK}, num_warps=8)


def multiply_(values: Tensor, factor: Tensor, other: Tensor | None = None) -> Tensor:
    """`values *= factor * other`, in place."""
    size = values.numel()
    if size:
        second = factor if other is None else other
        types = values.dtype, factor.dtype, second.dtype
        launch = _launch(types, other is not None, size >= 2**31)
        launch(min(PROGRAMS, -(-size // BLOCK)), (values, factor, second), (size,))
    return values
