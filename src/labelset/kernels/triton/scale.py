"""A tensor times a number that lies on the GPU, without a pass over it where that number is 1."""

# mypy: ignore-errors
# (Triton's language is Python only to the eye.)

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["size"])
def scale(values, factor, other, size, SECOND: tl.constexpr, BLOCK: tl.constexpr):
    """values *= factor * other, or values *= factor."""
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
