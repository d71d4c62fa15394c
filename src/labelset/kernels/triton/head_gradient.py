"""Slopes of the loss of a linear head with sparse labels: no logits are written anywhere.

The product of features and weights goes through the side of labels that are off before it leaves
the processor; the few entries of labels that are on are worked out by themselves.

Worth it: 11.8 ms against 57.9 ms with the logits written (bce, 2,812,281 labels, 768 features, 512
rows, bfloat16): `python benchmarks/linear.py`, one H200, torch 2.11.0+cu130.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from labelset.kernels.separable import Pair
from labelset.kernels.triton.head_gradient_kernels import (
    gradient_of_negatives,
    gradient_of_positives,
)
from labelset.kernels.triton.launch import Launch, numbers
from labelset.kernels.triton.layout import block_starts
from labelset.kernels.triton.product import (
    LEAST,
    has_tiles,
    in_one_piece,
    processors,
    readable,
)
from labelset.labels import Labels

# of a tile of slopes, and of what is summed at a time: two programs share a processor, so that one
# multiplies while the other goes through the loss
HEIGHT, WIDTH, DEPTH, SHARING = 128, 128, 64, 2
TOGETHER, PIECE = 4, 1024  # labels that are on, and features, that a program takes at a time
LANES = 4  # programs that share the labels of a row
SPARSE = 256  # entries for one label that is on: with more of them, these would take the most time


def takes(pair: Pair, labels: Labels, x: Tensor, weight: Tensor) -> bool:
    """Whether these have such slopes: few hard labels, and hyperparameters that are numbers.

    The values of labels that are on are taken for off and put right later, so that those must not
    be so large that nothing else would be left.
    """
    entries = len(x) * len(weight)
    return (
        labels.values is None
        and not pair.columns
        and pair.mild
        and entries >= max(LEAST, SPARSE * labels.indices.numel())
        and x.dtype == weight.dtype
        and x.element_size() == 2
        and has_tiles(x.device)
        and x.stride(1) == weight.stride(1) == 1
        and readable(x)
        and readable(weight)
    )


class HeadGradient:
    """Slopes of block after block of labels, and the sum of all values."""

    def __init__(self, pair: Pair, labels: Labels, rows: int, width: int) -> None:
        self.off, self.share = pair.off_function, pair.off.share
        self.both = pair.function(soft=True, short=True)
        self.width, self.blocks = width, -(-labels.n // width)
        self.starts, self.stored = block_starts(labels, width), labels.indices
        tiles = -(-rows // HEIGHT) * -(-width // WIDTH)
        self.partial = numbers(labels.device, self.blocks * (tiles + rows * LANES))
        self.used = 0  # of these

    def write(self, x: Tensor, w: Tensor, bias: Tensor | None, first: int, out: Tensor) -> None:
        """Writes those of the labels from `first` on, which have the weights w."""
        from triton.tools.tensor_descriptor import TensorDescriptor

        rows, columns = out.shape
        tiles = -(-rows // HEIGHT) * -(-columns // WIDTH)
        programs = min(SHARING * processors(out.device), tiles)
        turns, steps = -(-tiles // programs), -(-x.shape[1] // DEPTH)
        has_bias, held = bias is not None, out if bias is None else in_one_piece(bias)
        off = _launch_off(self.off, self.share, has_bias, rows, columns, turns, steps, out.dtype)
        left = TensorDescriptor.from_tensor(x, [HEIGHT, DEPTH])
        right = TensorDescriptor.from_tensor(w, [WIDTH, DEPTH])
        result = TensorDescriptor.from_tensor(out, [HEIGHT, WIDTH // 2])
        off.described(programs, (left, right, result), (held, self.partial, self.used))
        self.used += tiles
        strides = x.stride(0), w.stride(0), out.stride(0)
        types = out.dtype, self.starts.dtype, self.stored.dtype
        on = _launch_on(self.both, has_bias, x.shape[1], strides, types)
        read = x, w, out, held, self.partial, self.starts, self.stored
        place = first, self.blocks, first // self.width, self.used
        on(rows * LANES, read, (*place, *strides))
        self.used += rows * LANES

    def total(self) -> Tensor:
        """The sum of the values of all blocks so far."""
        return self.partial[: self.used].sum(dtype=torch.float64).float()


@lru_cache(maxsize=256)
def _launch_off(
    formula: Any, share: float | None, bias: bool, rows: int, columns: int, turns: int, steps: int,
    dtype: torch.dtype,
) -> Launch:  # fmt: skip
    constants = {
        "formula": formula, "SHARE": share, "BIAS": bias,
        "EVEN": rows % HEIGHT == 0 and columns % WIDTH == 0, "ROWS": rows, "COLUMNS": columns,
        "DOWN": -(-rows // HEIGHT), "ACROSS": -(-columns // WIDTH),
        "TURNS": turns, "STEPS": steps,
        "HEIGHT": HEIGHT, "WIDTH": WIDTH, "DEPTH": DEPTH,
    }  # fmt: skip
    return Launch(gradient_of_negatives, constants, num_warps=4, num_stages=3)


@lru_cache(maxsize=256)
def _launch_on(
    formula: Any, bias: bool, features: int, strides: tuple[int, ...],
    types: tuple[torch.dtype, ...],
) -> Launch:  # fmt: skip
    constants = {
        "formula": formula, "BIAS": bias, "FEATURES": features,
        "LANES": LANES, "TOGETHER": TOGETHER, "PIECE": PIECE,
    }  # fmt: skip
    return Launch(gradient_of_positives, constants, num_warps=4)
