"""Gradients of features, weight and bias, gathered from the slopes of block after block of labels.

The products of the size of a block are made by whatever is fastest for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from labelset.kernels import has_triton


def multiply_(
    a: Tensor, b: Tensor, out: Tensor, bias: Tensor | None = None, scale: float = 1.0
) -> Tensor:
    """out = scale a @ b + bias, all of one dtype."""
    if out.device.type == "cuda" and has_triton():
        from labelset.kernels.triton.product import fits, product_

        if fits(a, b, out):
            return product_(a, b, out, bias, scale)
    if bias is None:
        return torch.addmm(out, a, b, beta=0, alpha=scale, out=out)
    return torch.addmm(bias, a, b, alpha=scale, out=out)


class SumOfProducts:
    """a @ b of block after block, added up in a dtype of at least 32 bits."""

    def __init__(self, shape: torch.Size, dtype: torch.dtype, device: torch.device) -> None:
        self.total = torch.zeros(shape, dtype=dtype, device=device)
        self.parts: Tensor | None = None

    def add(self, a: Tensor, b: Tensor) -> None:
        """One more."""
        if a.device.type == "cuda" and has_triton():
            from labelset.kernels.triton.product import add_parts_, fits_parts, parts

            if fits_parts(a, b):
                self.parts = parts(a, b) if self.parts is None else self.parts
                return add_parts_(self.parts, a, b)
        if self.total.dtype == a.dtype:
            self.total.addmm_(a, b)
        elif _wide(a) and hasattr(torch.ops.aten.addmm, "dtype_out"):
            torch.addmm(self.total, a, b, out_dtype=self.total.dtype, out=self.total)
        else:
            self.total += a @ b
        return None

    def value(self) -> Tensor:
        """Their sum."""
        return self.total if self.parts is None else self.total + self.parts.sum(0)


def wide_product(a: Tensor, b: Tensor) -> Tensor:
    """a @ b, not rounded to 16 bits where the device can leave that out; never to float16."""
    if _wide(a) and hasattr(torch.ops.aten.mm, "dtype"):
        return torch.mm(a, b, out_dtype=torch.float32)
    return a.float() @ b.float() if a.dtype == torch.float16 else a @ b


def _wide(a: Tensor) -> bool:
    """Whether the product may be of another dtype: of 16-bit numbers, on a GPU."""
    return a.device.type == "cuda" and a.element_size() == 2


PIECE = 2**26  # numbers of a product that is not rounded, which is used up before the next one
EVEN = 256  # labels: every piece begins at an address that is read fast


class SgdStep(NamedTuple):
    """One step of SGD: w = shrink w - rate gradient."""

    rate: float
    shrink: float
    seed: int


class Gradients:
    """Those that are wanted; with a step, weight and bias are moved instead.

    Slopes are of the sum of the values: they are multiplied by `scale`, and by `share` where
    some entries are unknown. Both go into products that are made anyway, but for the share in
    float16, which features times a large one leave.
    """

    def __init__(
        self,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        wanted: tuple[bool, ...],
        scale: float,
        share: Tensor | None,
        step: SgdStep | None,
    ) -> None:
        self.held = weight, bias
        self.scale, self.share, self.step = scale, share, step
        self.wide = torch.float64 if features.dtype == torch.float64 else torch.float32
        self.dtype = features.dtype
        self.features = (
            SumOfProducts(features.shape, self.wide, features.device) if wanted[0] else None
        )
        self.weight = torch.empty_like(weight) if wanted[1] else None
        self.bias = torch.empty_like(bias) if bias is not None and wanted[2] else None

    def add(self, slope: Tensor, x: Tensor, w: Tensor, first: int, last: int) -> None:
        """The slopes of one block of labels, whose weights are `w`."""
        if self.features is not None:
            self.features.add(slope, w)
        if self.weight is not None:
            self._product(self.weight[first:last], slope, x)
        if self.bias is not None:
            self.bias[first:last] = self._summed(slope)
        if self.step is not None:
            self._move(self.step, slope, x, first, last)

    def result(self) -> tuple[Tensor | None, ...]:
        """The gradients of features, weight and bias."""
        x = None
        if self.features is not None:
            scale = self.scale if self.share is None else self.share * self.scale
            x = (self.features.value() * scale).to(self.dtype)
        return x, self.weight, self.bias

    def _product(self, out: Tensor, slope: Tensor, x: Tensor) -> None:
        x, rest = self._shared(x)
        if out.dtype == slope.dtype and rest is None:
            multiply_(slope.T, x, out, scale=self.scale)
            return
        for first, last, product in _wide_products(slope, x):
            out[first:last] = product.mul_(self.scale if rest is None else self.scale * rest)

    def _shared(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Features times the share; what of it is still missing."""
        if self.share is None or x.dtype == torch.float16:
            return x, self.share
        return (x * self.share).to(x.dtype), None

    def _summed(self, slope: Tensor) -> Tensor:
        total = slope.sum(0, dtype=self.wide) * self.scale
        return total if self.share is None else total * self.share

    def _move(self, step: SgdStep, slope: Tensor, x: Tensor, first: int, last: int) -> None:
        weight, bias = self.held
        x, rest = self._shared(x)
        if rest is None and _at_once(weight[first:last], slope, x):
            from labelset.kernels.triton.product import sgd_of_product_

            rate = step.rate * self.scale
            sgd_of_product_(weight[first:last], slope, x, rate, step.shrink, step.seed, first)
        else:
            for start, end, slopes in _wide_products(slope, x):
                slopes = slopes if rest is None else slopes * rest
                here = weight[first + start : first + end]
                descend_(here, slopes, self.scale, step, (first + start) * weight.shape[1])
        if bias is not None:
            bias[first:last] -= (step.rate * self._summed(slope)).to(bias.dtype)


def _wide_products(slope: Tensor, x: Tensor) -> Iterator[tuple[int, int, Tensor]]:
    """slope.T @ x not rounded to 16 bits, some labels at a time: the first, the last + 1."""
    labels = max(1, PIECE // max(1, x.shape[1] * EVEN)) * EVEN
    for first in range(0, slope.shape[1], labels):
        last = min(first + labels, slope.shape[1])
        yield first, last, wide_product(slope[:, first:last].T, x)


def _at_once(weight: Tensor, slope: Tensor, x: Tensor) -> bool:
    """Whether a kernel makes the step down slope.T @ x without ever writing that."""
    if weight.device.type != "cuda" or not has_triton():
        return False
    from labelset.kernels.triton.product import takes_sgd

    return takes_sgd(weight, slope, x)


def descend_(weight: Tensor, slopes: Tensor, scale: float, step: SgdStep, first: int) -> None:
    """One step; bfloat16 weights are rounded up or down at random.

    `first` is the place of the first of these numbers among all weights.
    """
    rate = step.rate * scale
    here = weight.device.type == "cuda" and weight.is_contiguous()
    if here and weight.dtype == torch.bfloat16:
        from labelset.kernels.triton.product import sgd_

        sgd_(weight, slopes, rate, step.shrink, step.seed, first)
        return
    new = weight.to(slopes.dtype) if weight.dtype != torch.bfloat16 else weight.float()
    new = new * step.shrink - rate * slopes
    weight.copy_(rounded(new, step.seed + first) if weight.dtype == torch.bfloat16 else new)


def rounded(values: Tensor, seed: int) -> Tensor:
    """float32 numbers whose last 16 bits are rounded away, up or down at random; NaN stays."""
    generator = torch.Generator(values.device).manual_seed(seed)
    noise = torch.randint(
        0, 1 << 16, values.shape, generator=generator, dtype=torch.int32, device=values.device
    )
    bits = (values.contiguous().view(torch.int32) + noise) & -65536
    return torch.where(values.isnan(), values, bits.view(torch.float32))
