"""Products of 16-bit matrices on a GPU, where a library leaves a third of its speed unused.

A head of millions of labels makes products of two kinds: sums over a few hundred features or rows,
and results of hundreds of thousands of rows or columns. Each program here stays on its processor,
and begins to read the next tile of the result while it writes the last one.

Worth it: `linear_loss` at 2,812,281 labels, 768 features, 512 rows in bfloat16, products and loss
together, takes 11.8 ms, 0.95 of the time of cuBLAS for the three products alone, and 0.20 of that
of `loss(x @ weight.T)`: `python benchmarks/linear.py`, one H200, torch 2.11.0+cu130.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from labelset.kernels.dispatch import interpreting
from labelset.kernels.triton.launch import ALIGNED, Launch, current
from labelset.kernels.triton.product_kernels import part_of_sum, product_tiles, sgd, sgd_of_product

HEIGHT, WIDTH, DEPTH = 128, 256, 64  # of a tile of the result, and of what is summed at a time
LEAST = 2**22  # entries of a result that are worth a launch of ours
LONG = 2**14  # products in a sum that is worth being split
HOPPER = (9, 0)  # GPUs whose processors read and write whole tiles, and have room for four


def fits(a: Tensor, b: Tensor, out: Tensor) -> bool:
    """Whether `product_` takes these, and is worth it."""
    return (
        out.numel() >= LEAST
        and a.dtype == b.dtype == out.dtype
        and out.element_size() == 2
        and has_tiles(out.device)
        and out.stride(1) == 1
        and all(map(readable, (a, b, out)))
    )


def product_(
    a: Tensor, b: Tensor, out: Tensor, bias: Tensor | None = None, scale: float = 1.0
) -> Tensor:
    """out = scale a @ b + bias for 16-bit matrices, summed in float32."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    a_turned, b_turned = a.stride(1) != 1, b.stride(0) == 1
    tile = (DEPTH, HEIGHT) if a_turned else (HEIGHT, DEPTH)
    left = TensorDescriptor.from_tensor(a.T if a_turned else a, list(tile))
    tile = (WIDTH, DEPTH) if b_turned else (DEPTH, WIDTH)
    right = TensorDescriptor.from_tensor(b.T if b_turned else b, list(tile))
    result = TensorDescriptor.from_tensor(out, [HEIGHT, WIDTH // 2])
    down, across = -(-out.shape[0] // HEIGHT), -(-out.shape[1] // WIDTH)
    programs, steps = min(processors(out.device), down * across), -(-a.shape[1] // DEPTH)
    turns = -(-down * across // programs)
    columns = 0 if bias is None else out.shape[1]
    sizes = down, across, columns, turns, steps
    launch = _launch(bias is not None, a_turned, b_turned, *sizes, out.dtype)
    held = out if bias is None else in_one_piece(bias)
    launch.described(programs, (left, right, result), (held, scale))
    return out


def in_one_piece(bias: Tensor) -> Tensor:
    """The same numbers one after the other, from an aligned address on."""
    if bias.stride(0) == 1 and bias.data_ptr() % ALIGNED == 0:
        return bias
    return bias.clone(memory_format=torch.contiguous_format)


def fits_parts(a: Tensor, b: Tensor) -> bool:
    """Whether `add_parts_` takes these, and is worth it: long sums, and a small result."""
    return (
        a.shape[1] >= LONG
        and a.dtype == b.dtype
        and a.element_size() == 2
        and has_tiles(a.device)
        and a.stride(1) == b.stride(1) == 1
        and all(map(readable, (a, b)))
        and 0 < 2 * _tiles_of(len(a), b.shape[1]) <= processors(a.device)
    )


def parts(a: Tensor, b: Tensor) -> Tensor:
    """Nothing yet: zeros (parts, rows, columns), as many as there are processors for."""
    rows, columns = len(a), b.shape[1]
    count = processors(a.device) // _tiles_of(rows, columns)
    return torch.zeros(count, rows, columns, dtype=torch.float32, device=a.device)


def add_parts_(total: Tensor, a: Tensor, b: Tensor) -> None:
    """Adds a @ b, in float32, to these parts: the sum over them is the result."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    count, rows, columns = total.shape
    left = TensorDescriptor.from_tensor(a, [HEIGHT, DEPTH])
    right = TensorDescriptor.from_tensor(b, [DEPTH, WIDTH])
    programs, steps = count * _tiles_of(rows, columns), -(-a.shape[1] // (count * DEPTH))
    _launch_parts(rows, columns, steps, a.dtype).described(programs, (left, right), (total,))


@lru_cache(maxsize=256)
def _launch_parts(rows: int, columns: int, steps: int, dtype: torch.dtype) -> Launch:
    constants = {
        "ROWS": rows, "COLUMNS": columns, "DOWN": -(-rows // HEIGHT),
        "ACROSS": -(-columns // WIDTH), "STEPS": steps,
        "HEIGHT": HEIGHT, "WIDTH": WIDTH, "DEPTH": DEPTH,
    }  # fmt: skip
    return Launch(part_of_sum, constants, num_warps=8, num_stages=4)


def _tiles_of(rows: int, columns: int) -> int:
    return -(-rows // HEIGHT) * -(-columns // WIDTH)


@lru_cache(maxsize=256)
def _launch(
    bias: bool, a_turned: bool, b_turned: bool, down: int, across: int, columns: int, turns: int,
    steps: int, dtype: torch.dtype,
) -> Launch:  # fmt: skip
    constants = {
        "BIAS": bias, "A_TURNED": a_turned, "B_TURNED": b_turned, "DOWN": down, "ACROSS": across,
        "COLUMNS": columns, "TURNS": turns, "STEPS": steps,
        "HEIGHT": HEIGHT, "WIDTH": WIDTH, "DEPTH": DEPTH,
    }  # fmt: skip
    return Launch(product_tiles, constants, num_warps=8, num_stages=4)


def readable(t: Tensor) -> bool:
    """Whether rows, or columns, lie one after the other, each beginning at an aligned address."""
    step = max(t.stride())
    return (
        t.numel() > 0
        and min(t.stride()) == 1
        and step * 2 % ALIGNED == 0
        and t.data_ptr() % ALIGNED == 0
    )


@lru_cache(maxsize=16)
def has_tiles(device: torch.device) -> bool:
    """Whether its processors read and write whole tiles."""
    if device.type != "cuda":
        return interpreting()
    return not torch.version.hip and torch.cuda.get_device_capability(device) == HOPPER


@lru_cache(maxsize=16)
def processors(device: torch.device) -> int:
    """How many there are; a few for the interpreter, so that tests have several turns."""
    if device.type != "cuda":
        return 3
    return torch.cuda.get_device_properties(device).multi_processor_count


SGD_BLOCK = 1024
# of a tile of weights, and of what is summed at a time: two programs share a processor, so that
# one multiplies while the other moves its weights
SGD_HEIGHT, SGD_WIDTH, SGD_DEPTH, SGD_SHARING = 128, 128, 64, 2
SGD_WARPS, SGD_STAGES = 4, 3


def sgd_(
    weight: Tensor, gradient: Tensor, rate: float, shrink: float, seed: int, first: int
) -> None:
    """weight = shrink weight - rate gradient, in place, for weights in bfloat16.

    Both are contiguous.
    `first` is the place of the weight's first number among all of them, on which what is drawn
    for it depends.
    """
    size = weight.numel()
    with current(weight.device):
        sgd[(-(-size // SGD_BLOCK),)](
            weight, gradient, rate, shrink, seed, first, size, BLOCK=SGD_BLOCK
        )


def takes_sgd(weight: Tensor, a: Tensor, b: Tensor) -> bool:
    """Whether `sgd_of_product_` takes these, and is worth it."""
    rows = a.stride(1) == b.stride(1) == 1
    return weight.dtype == torch.bfloat16 and rows and fits(a.T, b, weight)


def sgd_of_product_(
    weight: Tensor, a: Tensor, b: Tensor, rate: float, shrink: float, seed: int, first: int
) -> None:
    """weight = shrink weight - rate a.T @ b, which is never written, for weights in bfloat16.

    `first` is the place of the weight's first row among all of them, on which what is drawn for
    it depends.
    """
    from triton.tools.tensor_descriptor import TensorDescriptor

    down, across = -(-weight.shape[0] // SGD_HEIGHT), -(-weight.shape[1] // SGD_WIDTH)
    programs = min(SGD_SHARING * processors(weight.device), down * across)
    sizes = down, across, -(-down * across // programs), -(-len(a) // SGD_DEPTH)
    left = TensorDescriptor.from_tensor(a, [SGD_DEPTH, SGD_HEIGHT])
    right = TensorDescriptor.from_tensor(b, [SGD_DEPTH, SGD_WIDTH])
    moved = TensorDescriptor.from_tensor(weight, [SGD_HEIGHT, SGD_WIDTH // 4])
    short = (seed + 1) * 0x9E3779B97F4A7C15 % 2**64 >> 33  # 31 bits: always a small number
    _launch_sgd(*sizes, a.dtype).described(
        programs, (left, right, moved), (rate, shrink, short, first)
    )


@lru_cache(maxsize=256)
def _launch_sgd(down: int, across: int, turns: int, steps: int, dtype: torch.dtype) -> Launch:
    constants = {
        "DOWN": down, "ACROSS": across, "TURNS": turns, "STEPS": steps,
        "HEIGHT": SGD_HEIGHT, "WIDTH": SGD_WIDTH, "DEPTH": SGD_DEPTH,
    }  # fmt: skip
    return Launch(sgd_of_product, constants, num_warps=SGD_WARPS, num_stages=SGD_STAGES)
