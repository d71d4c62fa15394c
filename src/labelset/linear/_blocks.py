"""One block of labels at a time: values and slopes of the logits, and the gradients of features,
weight and bias that are gathered from the slopes.

The products of the size of a block are made by whatever is fastest for them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from labelset import csr
from labelset.kernels import choose, has_triton, label_types
from labelset.kernels.native.calls import separable_loop
from labelset.kernels.separable import Pair
from labelset.labels import Labels
from labelset.losses import Separable


class Buffer:
    """Room for this many labels of every row, used before the next block comes."""

    def __init__(self, x: Tensor, width: int) -> None:
        self.rows, self.memory = len(x), x.new_empty(len(x) * _even(width))

    def block(self, width: int) -> Tensor:
        """That many labels of every row."""
        return self.memory[: self.rows * _even(width)].view(self.rows, -1)[:, :width]


def _even(width: int) -> int:
    """At least that width, and such that every row begins at an address that is read fast."""
    return -(-width // 64) * 64


# of logits in a block: few launches, little memory; on a GPU a multiple of the 132 processors of a
# large one, so that in products of usual sizes none is idle at the end of a block
BYTES = {"cuda": 264 * 2**20, "cpu": 2**23}


class LossBlocks(ABC):
    """The blocks of labels, and the sum of the values in those whose slopes were asked for."""

    def __init__(self, x: Tensor, n: int, unit: int = 1) -> None:
        most = BYTES.get(x.device.type, 2**23) // max(len(x) * x.element_size(), 1)
        self.width = min(max(most // unit, 1) * unit, max(n, 1))
        self.blocks = list(pairwise((*range(0, n, self.width), n)))

    @abstractmethod
    def slopes(self, x: Tensor, w: Tensor, b: Tensor | None, first: int, last: int) -> Tensor:
        """Adds the values of the labels first ... last - 1; returns the slopes of their sum.

        Their weights are w, their biases b. The next call may write over the result.
        """

    @abstractmethod
    def total(self) -> Tensor:
        """The sum of all values."""


def entries_of(
    loss: Separable, impl: str, labels: Tensor | Labels, x: Tensor, weight: Tensor
) -> LossBlocks:
    """By the implementation of that name, or the fastest that is there."""
    n = labels.shape[1]
    named, impl = impl, choose(impl, x)
    if impl == "compiled":
        raise RuntimeError('nothing is compiled block by block; use impl="auto"')
    pair = loss._pair(n, x.device) if impl in ("triton", "native") and len(x) else None
    if pair is None and named in ("triton", "native") and len(x):
        raise RuntimeError(f'{type(loss).__name__} as it is built has no kernel; use impl="auto"')
    if pair is None:
        return _Each(labels, x, lambda v, y, *ends: _eager(loss.bind(n), n, v, y, *ends))
    if impl == "triton" and isinstance(labels, Labels):
        from labelset.kernels.triton.head_gradient import takes

        fused = takes(pair, labels, x, weight)
        return (_Unwritten if fused else _Stored)(pair, labels, x, weight)
    kernel = _by_triton if impl == "triton" else _by_native
    return _Each(labels, x, lambda v, y, *ends: kernel(pair, v, y, *ends))


class _Each(LossBlocks):
    """Each block by itself, with its own part of the labels."""

    def __init__(
        self,
        labels: Tensor | Labels,
        x: Tensor,
        function: Callable[[Tensor, Any, int, int], tuple[Tensor, Tensor]],
    ) -> None:
        super().__init__(x, labels.shape[1])
        self.labels, self.function = labels, function
        self.sum = torch.zeros((), dtype=torch.float64, device=x.device)
        self.dtype = torch.float64 if x.dtype == torch.float64 else torch.float32

    def slopes(self, x: Tensor, w: Tensor, b: Tensor | None, first: int, last: int) -> Tensor:
        y = self.labels
        part = columns_of(y, first, last) if isinstance(y, Labels) else y[:, first:last]
        value, slope = self.function(linear(x, w, b), part, first, last)
        self.sum += value
        return slope

    def total(self) -> Tensor:
        return self.sum.to(self.dtype)


class _Stored(LossBlocks):
    """Stored labels on a GPU: the kernel finds them, and writes slopes over the logits."""

    def __init__(self, pair: Pair, labels: Labels, x: Tensor, weight: Tensor) -> None:
        from labelset.kernels.triton.separable import Sums, block_width

        block = block_width(labels.n, stored=True)
        super().__init__(x, labels.n, unit=block)
        even = labels.n // block * block  # a rest of odd size stays small
        self.blocks = list(pairwise(sorted({*sum(self.blocks, ()), even, labels.n})))
        self.sums, self.pair = Sums(labels, len(x), labels.n, block), pair
        self.function = pair.function(labels.values is not None, x.element_size() == 2)
        in_place = weight.dtype == x.dtype and x.device.type == "cuda"
        self.buffer = Buffer(x, self.width) if in_place else None

    def slopes(self, x: Tensor, w: Tensor, b: Tensor | None, first: int, last: int) -> Tensor:
        if self.buffer is None:
            logits = linear(x, w, b)
        else:
            logits = multiply_(x, w.T, self.buffer.block(len(w)), b)
        columns = _slices(self.pair, first, last)
        skipped = first // self.sums.block
        n, stride = last - first, logits.stride(0)
        self.sums.add(self.function, columns, logits, n, stride, logits, 1.0, skipped)
        return logits

    def total(self) -> Tensor:
        return self.sums.value(0)[0]


class _Unwritten(LossBlocks):
    """The same for large blocks of 16-bit logits, which go through the loss unwritten."""

    def __init__(self, pair: Pair, labels: Labels, x: Tensor, weight: Tensor) -> None:
        from labelset.kernels.triton.head_gradient import WIDTH, HeadGradient

        super().__init__(x, labels.n, unit=WIDTH)
        self.kernels = HeadGradient(pair, labels, len(x), self.width)
        self.buffer = Buffer(x, self.width)

    def slopes(self, x: Tensor, w: Tensor, b: Tensor | None, first: int, last: int) -> Tensor:
        out = self.buffer.block(len(w))
        self.kernels.write(x, w, b, first, out)
        return out

    def total(self) -> Tensor:
        return self.kernels.total()


def _by_triton(pair: Pair, v: Tensor, y: Tensor, first: int, last: int) -> tuple[Tensor, Tensor]:
    from labelset.kernels.triton.separable import entries

    function = pair.function(y.is_floating_point(), v.element_size() == 2)
    value, slope, _ = entries(function, _slices(pair, first, last), v, label_types(y), False)(v, y)
    return value, slope


def _by_native(pair: Pair, v: Tensor, y: Any, first: int, last: int) -> tuple[Tensor, Tensor]:
    value, _, slope = separable_loop(pair.program, _slices(pair, first, last), v, y, 1.0)
    return value, slope


def _eager(
    loss: Separable, n: int, v: Tensor, y: Any, first: int, last: int
) -> tuple[Tensor, Tensor]:
    part = loss.select_labels(torch.arange(first, last, device=v.device), n)._with(reduction="sum")
    with torch.enable_grad():
        v = v.detach().requires_grad_()
        value = part.eager(v, y)
        (slope,) = torch.autograd.grad(value, v)
    return value.detach(), slope


def _slices(pair: Pair, first: int, last: int) -> list[Tensor]:
    return [t[first:last] if t.numel() > 1 else t for t in pair.columns]


def columns_of(labels: Labels, first: int, last: int) -> Labels:
    """Some of the labels of every row."""
    inside = (labels.indices >= first) & (labels.indices < last)
    values = None if labels.values is None else labels.values[inside]
    indptr = csr.pointers(labels.rows()[inside], len(labels))
    return Labels(indptr, labels.indices[inside] - first, last - first, values)


# ---- gradients -----------------------------------------------------------------------------------


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
