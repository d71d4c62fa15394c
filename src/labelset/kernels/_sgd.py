"""A step of gradient descent in reduced precision, rounded at random so that none is lost."""

# mypy: ignore-errors
# (Triton's language is Python only to the eye.)

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from labelset.kernels._launch import current

__all__ = ["sgd_"]

BLOCK = 1024


@triton.jit
def _sgd(weight, gradient, rate, shrink, seed, first, size, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    w = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    g = tl.load(gradient + at, mask=inside, other=0.0).to(tl.float32)
    new = w * shrink - rate * g
    if weight.dtype.element_ty == tl.bfloat16:
        # adding 16 random bits below the last kept one, and cutting them off, rounds up as often
        # as the part that is cut off is large
        noise = (tl.randint(seed, first + at) & 0xFFFF).to(tl.int32)
        bits = (new.to(tl.int32, bitcast=True) + noise) & -65536
        new = bits.to(tl.float32, bitcast=True)
    tl.store(weight + at, new.to(weight.dtype.element_ty), mask=inside)


def sgd_(
    weight: Tensor, gradient: Tensor, rate: float, shrink: float, seed: int, first: int
) -> None:
    """weight = shrink weight - rate gradient, in place; bfloat16 is rounded at random.

    Both are contiguous.
    `first` is the place of the weight's first number among all of them, so that the random
    numbers do not depend on how the weights are cut into blocks.
    """
    size = weight.numel()
    with current(weight.device):
        _sgd[(triton.cdiv(size, BLOCK),)](
            weight, gradient, rate, shrink, seed, first, size, BLOCK=BLOCK
        )
