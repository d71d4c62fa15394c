"""Values and slopes of the logits, one block of labels at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from labelset import csr
from labelset.kernels import choose, label_types
from labelset.kernels.native.calls import separable_loop
from labelset.kernels.separable import Pair
from labelset.labels import Labels
from labelset.linear._gradients import multiply_
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
