"""Label pairs on the GPU: every label that is on against every one that is off, in registers."""

# mypy: ignore-errors
# (Triton's language is Python only to the eye.)

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from labelset import check
from labelset.kernels import _device_math as math
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


@triton.jit
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


@triton.jit
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


def value_and_gradient(
    odds: Tensor, slopes: Tensor, labels: Tensor | Labels, mean: bool, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Mean over the rows that have two known labels, or sum, and its gradient by the scores.

    Two passes over the pairs: sums over the labels on stay in registers in the first, sums over
    the labels off in the second, so that neither is ever stored in parts. Nothing is waited for.
    """
    rows, n = odds.shape
    target = _dense(labels)
    soft = target.is_floating_point()
    listed = torch.empty(rows, n, dtype=torch.int32, device=odds.device)
    counts, known = torch.empty(2, rows, dtype=torch.int32, device=odds.device)
    _list[(rows,)](
        target, listed, counts, known, n,
        BLOCK=min(LIST_BLOCK, max(128, triton.next_power_of_2(n))), num_warps=8,
    )  # fmt: skip
    scales = _scales(known, mean)
    tiles = triton.cdiv(n, BLOCK)
    gradient = torch.empty(rows, n, dtype=dtype, device=odds.device)
    partial = torch.empty(rows * tiles, device=odds.device)
    given = (odds, slopes, target, listed, counts, scales, gradient)
    _gradient_off[(rows * tiles,)](*given, partial, n, tiles, SOFT=soft, BLOCK=BLOCK, GROUP=GROUP)
    _gradient_on[(rows * LANES,)](*given, n, LANES, SOFT=soft, BLOCK=WIDE, GROUP=GROUP)
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


def _scales(known: Tensor, mean: bool) -> Tensor:
    """2 / (T (T - 1)), over the number of rows where T > 1 in a mean; 0 elsewhere."""
    t, defined = known.float(), known > 1
    scale = 2.0 / (t * (t - 1.0)).clamp(min=1.0)
    scale = scale / defined.sum().clamp(min=1) if mean else scale
    return torch.where(defined, scale, 0.0)
