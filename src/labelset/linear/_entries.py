"""Values and slopes of the logits, one block of labels at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from labelset import _csr
from labelset.kernels import _native
from labelset.kernels._choice import choose
from labelset.kernels.separable import Pair
from labelset.labels import Labels
from labelset.losses import Separable

__all__ = ["Entries", "entries_of"]

# of logits in a block: few launches, little memory; on a GPU a multiple of the 132 processors of a
# large one, so that in products of usual sizes none is idle at the end of a block
BYTES = {"cuda": 132 * 2**20, "cpu": 2**23}


class Entries(ABC):
    """The blocks of labels, and the sum of the values in those that were added."""

    in_place = False
    """Whether slopes are written over the logits."""

    def __init__(self, x: Tensor, n: int, unit: int = 1) -> None:
        most = BYTES.get(x.device.type, 2**23) // max(len(x) * x.element_size(), 1)
        self.width = min(max(most // unit, 1) * unit, max(n, 1))
        ends = {*range(0, n, self.width), n // unit * unit, n}  # a rest of odd size stays small
        self.blocks = list(pairwise(sorted(ends)))

    @abstractmethod
    def add(self, logits: Tensor, first: int, last: int) -> Tensor:
        """Adds the values of the labels first ... last - 1; returns the slopes of their sum."""

    @abstractmethod
    def total(self) -> Tensor:
        """The sum of all values."""


def entries_of(loss: Separable, impl: str, labels: Tensor | Labels, x: Tensor) -> Entries:
    """By the implementation of that name, or the fastest that is there."""
    n = labels.shape[1]
    impl = choose(impl, x)
    pair = loss._pair(n, x.device) if impl in ("triton", "native") and len(x) else None
    if pair is None:
        return _Each(labels, x, lambda v, y, *ends: _eager(loss.given(n), n, v, y, *ends))
    if impl == "triton" and isinstance(labels, Labels):
        return _Stored(pair, labels, x)
    kernel = _by_triton if impl == "triton" else _by_native
    return _Each(labels, x, lambda v, y, *ends: kernel(pair, v, y, *ends))


class _Each(Entries):
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

    def add(self, logits: Tensor, first: int, last: int) -> Tensor:
        y = self.labels
        part = _columns(y, first, last) if isinstance(y, Labels) else y[:, first:last]
        value, slope = self.function(logits, part, first, last)
        self.sum += value
        return slope

    def total(self) -> Tensor:
        return self.sum.to(self.dtype)


class _Stored(Entries):
    """Stored labels on a GPU: the kernel finds them, and writes slopes over the logits."""

    in_place = True

    def __init__(self, pair: Pair, labels: Labels, x: Tensor) -> None:
        from labelset.kernels._entries import Sums, block_width

        block = block_width(labels.n, stored=True)
        super().__init__(x, labels.n, unit=block)
        self.sums, self.pair = Sums(labels, len(x), labels.n, block), pair
        self.function = pair.function(labels.values is not None, x.element_size() == 2)

    def add(self, logits: Tensor, first: int, last: int) -> Tensor:
        columns = _slices(self.pair, first, last)
        skipped = first // self.sums.block
        n, stride = last - first, logits.stride(0)
        self.sums.add(self.function, columns, logits, n, stride, logits, 1.0, skipped)
        return logits

    def total(self) -> Tensor:
        return self.sums.value(0, mean=False)[0]


def _by_triton(pair: Pair, v: Tensor, y: Tensor, first: int, last: int) -> tuple[Tensor, Tensor]:
    from labelset.kernels._entries import blocks_of_entries

    function = pair.function(y.is_floating_point(), v.element_size() == 2)
    value, slope, _ = blocks_of_entries(function, _slices(pair, first, last), v, y, False)
    return value, slope


def _by_native(pair: Pair, v: Tensor, y: Any, first: int, last: int) -> tuple[Tensor, Tensor]:
    value, _, slope = _native.separable(pair.program, _slices(pair, first, last), v, y, 1.0)
    return value, slope


def _eager(
    loss: Separable, n: int, v: Tensor, y: Any, first: int, last: int
) -> tuple[Tensor, Tensor]:
    part = loss.take(torch.arange(first, last, device=v.device), n)._with(reduction="sum")
    with torch.enable_grad():
        v = v.detach().requires_grad_()
        value = part.eager(v, y)
        (slope,) = torch.autograd.grad(value, v)
    return value.detach(), slope


def _slices(pair: Pair, first: int, last: int) -> list[Tensor]:
    return [t[first:last] if t.numel() > 1 else t for t in pair.columns]


def _columns(labels: Labels, first: int, last: int) -> Labels:
    """Some of the labels of every row."""
    inside = (labels.indices >= first) & (labels.indices < last)
    values = None if labels.values is None else labels.values[inside]
    indptr = _csr.pointers(labels.rows()[inside], len(labels))
    return Labels(indptr, labels.indices[inside] - first, last - first, values)
