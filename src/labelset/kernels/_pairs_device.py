"""Label pairs on the GPU: every label that is on against every one that is off, in registers."""

# mypy: ignore-errors
# (Triton's language is Python only to the eye.)

from __future__ import annotations

from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from labelset import check
from labelset.kernels import _device_math as math
from labelset.kernels._launch import Launch
from labelset.labels import Labels

__all__ = ["value_and_gradient"]

BLOCK = 1024  # labels of a row that one program sets against all those that are on
GROUP = 4  # labels that are on, taken together
WIDE = 512  # labels of a row at a time, where a program runs through all of them
LANES = 16  # programs that share the labels of a row that are on
LIST_BLOCK = 4096
LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def _list(target, listed, counts, known, n, BLOCK: tl.constexpr):
    """The labels of one row that are on, in order; how many they are; how many are known."""
    row = tl.program_id(0).to(tl.int64)
    found, told, start = 0, 0, 0
    while start < n:
        column = start + tl.arange(0, BLOCK)
        inside = column < n
        y = tl.load(target + row * n + column, mask=inside, other=0)
        on = y > 0
        place = found + tl.cumsum(on.to(tl.int32), 0) - 1
        tl.store(listed + row * n + place, column, mask=on)
        found += tl.sum(on.to(tl.int32), 0)
        told += tl.sum((inside & (y == y)).to(tl.int32), 0)
        start += BLOCK
    tl.store(counts + row, found)
    tl.store(known + row, told)


@triton.jit
def _off(odds, target, at, inside, SOFT: tl.constexpr):
    """Log-odds of a block of labels, infinitely low where they are not off; on, off."""
    u = tl.load(odds + at, mask=inside, other=0.0)
    y = tl.load(target + at, mask=inside, other=1)
    if SOFT:
        y = y.to(tl.float32)
        on = tl.where(y == y, y, 0.0)
        off = tl.where(y == y, 1.0 - y, 0.0)
    else:
        on = (y != 0).to(tl.float32)
        off = (y == 0).to(tl.float32)
    return tl.where(off > 0, u, float("-inf")), on, off


@triton.jit
def _on(listed, odds, target, base, first, count, SOFT: tl.constexpr, GROUP: tl.constexpr):
    """A group of labels that are on: which, log-odds (infinite past the last), how much."""
    place = first + tl.arange(0, GROUP)
    there = place < count
    label = tl.load(listed + base + place, mask=there, other=0)
    u = tl.load(odds + base + label, mask=there, other=float("inf"))
    share = tl.full([GROUP], 1.0, tl.float32)
    if SOFT:
        share = tl.load(target + base + label, mask=there, other=0).to(tl.float32)
    return label, there, u, share


@triton.jit(do_not_specialize=["tiles"])
def _gradient_off(
    odds, slopes, target, listed, counts, scales, gradient, partial, n, tiles,
    SOFT: tl.constexpr, BLOCK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """One block of labels against those on in its row: value, and gradient by the labels off."""
    program = tl.program_id(0)
    row, tile = program // tiles, program % tiles
    column = tile * BLOCK + tl.arange(0, BLOCK)
    inside = column < n
    base = row.to(tl.int64) * n
    own, on, off = _off(odds, target, base + column, inside, SOFT)
    value = tl.zeros([BLOCK], tl.float32)
    rate = tl.zeros([BLOCK], tl.float32)
    count = tl.load(counts + row)
    first = 0
    while first < count:
        _, _, rival, share = _on(listed, odds, target, base, first, count, SOFT, GROUP)
        x = own[None, :] - rival[:, None]
        e = math.decay(x)
        near = math.unit(e)
        cost = tl.maximum(x, 0.0, tl.PropagateNan.ALL) + math.log1p_unit(e)
        slope = tl.where(x >= 0, near, e * near)
        if SOFT:
            cost *= share[:, None]
            slope *= share[:, None]
        value += tl.sum(cost, 0)
        rate += tl.sum(slope, 0)
        first += GROUP
    scale = tl.load(scales + row)
    if SOFT:  # a soft label is no pair with itself
        value = value * off - LN_2 * on * off
        rate *= off
    counted = tl.where(scale > 0, off, 0.0) > 0
    rate *= tl.load(slopes + base + column, mask=inside, other=0.0) * scale
    rate = tl.where(counted, rate, 0.0).to(gradient.dtype.element_ty)
    tl.store(gradient + base + column, rate, mask=inside)
    tl.store(partial + program, tl.sum(tl.where(counted, value * scale, 0.0), 0))


@triton.jit(do_not_specialize=["lanes"])
def _gradient_on(
    odds, slopes, target, listed, counts, scales, gradient, n, lanes,
    SOFT: tl.constexpr, BLOCK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Groups of labels on against all those off in their row: gradient by the labels on."""
    row, lane = tl.program_id(0) // lanes, tl.program_id(0) % lanes
    base = row.to(tl.int64) * n
    scale = tl.load(scales + row)
    count = tl.where(scale > 0, tl.load(counts + row), 0)
    first = lane * GROUP
    while first < count:
        label, there, rival, share = _on(listed, odds, target, base, first, count, SOFT, GROUP)
        rate = tl.zeros([GROUP, BLOCK], tl.float32)
        start = 0
        while start < n:
            column = start + tl.arange(0, BLOCK)
            own, _, off = _off(odds, target, base + column, column < n, SOFT)
            x = own[None, :] - rival[:, None]
            e = math.decay(x)
            near = math.unit(e)
            slope = tl.where(x >= 0, near, e * near)
            rate += slope * off[None, :] if SOFT else slope
            start += BLOCK
        at = base + label
        chain = tl.load(slopes + at, mask=there, other=0.0) * scale
        before = tl.load(gradient + at, mask=there, other=0.0).to(tl.float32)
        after = before - tl.sum(rate, 1) * share * chain
        tl.store(gradient + at, after.to(gradient.dtype.element_ty), mask=there)
        first += lanes * GROUP


@triton.jit(do_not_specialize=["rows"])
def _scale(known, scales, rows, MEAN: tl.constexpr, BLOCK: tl.constexpr):
    """2 / (T (T - 1)), over the number of rows where T > 1 in a mean; 0 elsewhere."""
    count, start = tl.zeros([BLOCK], tl.int32), 0
    while start < rows:
        row = start + tl.arange(0, BLOCK)
        count += (tl.load(known + row, mask=row < rows, other=0) > 1).to(tl.int32)
        start += BLOCK
    share = 2.0
    if MEAN:
        share = 2.0 / tl.maximum(tl.sum(count, 0), 1).to(tl.float32)
    start = 0
    while start < rows:
        row = start + tl.arange(0, BLOCK)
        t = tl.load(known + row, mask=row < rows, other=0).to(tl.float32)
        scale = tl.where(t > 1.5, share / tl.maximum(t * (t - 1.0), 1.0), 0.0)
        tl.store(scales + row, scale, mask=row < rows)
        start += BLOCK


@lru_cache(maxsize=256)
def _launches(
    types: tuple[torch.dtype, ...], n: int, soft: bool, mean: bool
) -> tuple[Launch, Launch, Launch, Launch]:
    """The kernels for rows of n labels and tensors of these types."""
    wide = min(LIST_BLOCK, max(128, 1 << (n - 1).bit_length()))
    return (
        Launch(_list, {"BLOCK": wide}, num_warps=8),
        Launch(_scale, {"MEAN": mean, "BLOCK": 1024}),
        Launch(_gradient_off, {"SOFT": soft, "BLOCK": BLOCK, "GROUP": GROUP}),
        Launch(_gradient_on, {"SOFT": soft, "BLOCK": WIDE, "GROUP": GROUP}),
    )


def value_and_gradient(
    odds: Tensor, slopes: Tensor, labels: Tensor | Labels, mean: bool, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Mean over the rows that have two known labels, or sum, and its gradient by the scores.

    Two passes over the pairs: sums over the labels on stay in registers in the first, sums over
    the labels off in the second, so that neither is ever stored in parts. Nothing is waited for.
    """
    rows, n = odds.shape
    target = _dense(labels)
    soft, device = target.is_floating_point(), odds.device
    listed = torch.empty(rows, n, dtype=torch.int32, device=device)
    counts, known = (torch.empty(rows, dtype=torch.int32, device=device) for _ in range(2))
    lister, scaler, by_off, by_on = _launches((target.dtype, dtype), n, soft, mean)
    lister(rows, (target, listed, counts, known), (n,))
    scales, gradient = torch.empty(rows, device=device), torch.empty_like(odds, dtype=dtype)
    scaler(1, (known, scales), (rows,))
    tiles = -(-n // BLOCK)
    partial = torch.empty(rows * tiles, dtype=torch.float32, device=device)
    given = (odds, slopes, target, listed, counts, scales, gradient)
    by_off(rows * tiles, (*given, partial), (n, tiles))
    by_on(rows * LANES, given, (n, LANES))
    return partial.sum(), gradient


def _dense(labels: Tensor | Labels) -> Tensor:
    """(rows, n) labels as the kernels read them: bytes, or floating-point numbers."""
    if isinstance(labels, Labels):
        if labels.values is not None:
            return labels.dense()
        stored = torch.ones_like(labels.indices, dtype=torch.uint8)
        out = torch.zeros(labels.shape, dtype=torch.uint8, device=labels.device)
        return out.index_put_((labels.rows(), labels.indices.long()), stored)
    check.unit_interval(labels)
    labels = labels.contiguous()
    return labels.view(torch.uint8) if labels.dtype == torch.bool else labels
