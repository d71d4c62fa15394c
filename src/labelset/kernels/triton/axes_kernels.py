"""Losses of log-sum-exps along rows and columns on the device: sums, losses, the gradient."""

# mypy: ignore-errors
# (Triton's language is Python only to the eye.)

from __future__ import annotations

import triton
import triton.language as tl

from labelset.kernels.triton import device_math as math
from labelset.kernels.triton.tile import checked, place, read_tile

# Up to here exponentials are summed as they are: neither they nor one over their sum overflow.
SAFE = tl.constexpr(40.0)


LEAST_WEIGHT = tl.constexpr(1e-8)  # a softer label takes the careful way too


NOTHING = tl.constexpr(float("-inf"))


@triton.jit(do_not_specialize=["rows", "tiles", "parts", "blocks", "steps"])
def log_sums(
    scores, target, stored, soft, row_parts, column_parts, state,
    rows, n, tiles, parts, blocks, steps, a, b,
    KIND: tl.constexpr, SOFT: tl.constexpr, EVEN: tl.constexpr, AXIS: tl.constexpr,
    BY_ROW: tl.constexpr, BY_COLUMN: tl.constexpr, MEAN: tl.constexpr, SHORT: tl.constexpr,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """log sum_on exp(a v) and log sum_off exp(b v) of the part of rows and columns in a block.

    A block of columns is gone down (AXIS 0) with a sum for each column, and one for each row and
    tile; a block of rows is gone along (AXIS 1). Row parts are (kinds, rows, parts), column parts
    (kinds, parts, columns), the kinds on, off and, with MEAN, the sum of v and the number on.
    """
    block, chunk = tl.program_id(0) % blocks, tl.program_id(0) // blocks
    begin = chunk * steps * (HEIGHT if AXIS == 0 else WIDTH)
    end = tl.minimum(
        (chunk + 1) * steps * (HEIGHT if AXIS == 0 else WIDTH), rows if AXIS == 0 else n
    )
    on_sum = tl.zeros([HEIGHT, WIDTH], tl.float32)
    off_sum, v_sum, count, most = on_sum, on_sum, on_sum, on_sum
    start = begin
    while start < end:
        for _ in tl.static_range(UNROLL):
            row, column, tile = place(block, start, AXIS, HEIGHT, WIDTH)
            v, on, off, _at, _inside = read_tile(
                scores, target, stored, soft, row, column, tile, rows, n, tiles, KIND, SOFT, EVEN
            )
            checked(on, KIND)
            e_on, e_off, size = _exponentials(v, on, off, a, b, SOFT, SHORT)
            most = tl.maximum(most, size)
            if BY_COLUMN or AXIS == 1:
                on_sum += e_on
                off_sum += e_off
            if MEAN and (BY_COLUMN or AXIS == 1):
                v_sum += v * on
                count += on
            if BY_ROW and AXIS == 0:
                at = row.to(tl.int64) * parts + block
                there = row < rows
                size = rows.to(tl.int64) * parts
                tl.store(row_parts + at, _short_log(tl.sum(e_on, 1)), mask=there)
                tl.store(row_parts + size + at, _short_log(tl.sum(e_off, 1)), mask=there)
                if MEAN:
                    tl.store(row_parts + 2 * size + at, tl.sum(v * on, 1), mask=there)
                    tl.store(row_parts + 3 * size + at, tl.sum(on, 1), mask=there)
            start += HEIGHT if AXIS == 0 else WIDTH
    widest = tl.max(tl.max(most, 1), 0)
    log_on, log_off = logarithm(tl.sum(on_sum, AXIS)), logarithm(tl.sum(off_sum, AXIS))
    if widest > SAFE:
        tl.atomic_max(state, widest)
        log_on, log_off = _careful_sums(
            scores, target, stored, soft, row_parts, rows, n, tiles, parts, block, begin, end,
            a, b, KIND, SOFT, EVEN, AXIS, BY_ROW, HEIGHT, WIDTH,
        )  # fmt: skip
    if BY_COLUMN or AXIS == 1:
        if AXIS == 0:
            group = block * WIDTH + tl.arange(0, WIDTH)
            size = (tl.num_programs(0) // blocks).to(tl.int64) * n
            at, there = column_parts + chunk.to(tl.int64) * n + group, group < n
        else:
            group, size = block * HEIGHT + tl.arange(0, HEIGHT), rows.to(tl.int64) * parts
            at, there = row_parts + group.to(tl.int64) * parts + chunk, group < rows
        tl.store(at, log_on, mask=there)
        tl.store(at + size, log_off, mask=there)
        if MEAN:
            tl.store(at + 2 * size, tl.sum(v_sum, AXIS), mask=there)
            tl.store(at + 3 * size, tl.sum(count, AXIS), mask=there)


@triton.jit
def _exponentials(v, on, off, a, b, SOFT: tl.constexpr, SHORT: tl.constexpr):
    """on exp(a v), off exp(b v), and how far they are from the range in which that is safe."""
    if SOFT:
        size = tl.maximum(tl.abs(a * v), tl.abs(b * v))
        faint = (on > 0) & (on < LEAST_WEIGHT)
        size = tl.where(faint, float("inf"), size)
        return on * exponential(a * v, SHORT), off * exponential(b * v, SHORT), size
    else:
        x = v * tl.where(on > 0, a, b)
        e = exponential(x, SHORT)
        return e * on, e * off, tl.abs(x)


@triton.jit
def exponential(x, SHORT: tl.constexpr):
    """exp(x) for |x| up to a few hundred; to 16 bits where SHORT."""
    if SHORT:
        return math.exp2(x * math.LOG2_E)
    else:
        return math.bounded_exp(x)


@triton.jit
def _short_log(x):
    """log(x), -inf for 0, by the hardware alone: off by 2e-7 at most, as the sum itself may be."""
    return tl.where(x == 0, NOTHING, math.log2(tl.where(x == 0, 1.0, x)) * math.LN_2)


@triton.jit
def logarithm(x):
    """log(x), -inf for 0"""
    return tl.where(x > 0, math.log(tl.where(x > 0, x, 1.0)), tl.where(x == 0, NOTHING, x))


@triton.jit
def _careful_sums(
    scores, target, stored, soft, row_parts, rows, n, tiles, parts, block, start, end, a, b,
    KIND: tl.constexpr, SOFT: tl.constexpr, EVEN: tl.constexpr, AXIS: tl.constexpr,
    BY_ROW: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """The same sums for scores of any size: exponentials are taken relative to the largest."""
    SIZE: tl.constexpr = WIDTH if AXIS == 0 else HEIGHT
    top_on = tl.full([SIZE], NOTHING, tl.float32)
    top_off, sum_on, sum_off = top_on, tl.zeros([SIZE], tl.float32), tl.zeros([SIZE], tl.float32)
    while start < end:
        row, column, tile = place(block, start, AXIS, HEIGHT, WIDTH)
        v, on, off, _at, _inside = read_tile(
            scores, target, stored, soft, row, column, tile, rows, n, tiles, KIND, SOFT, EVEN
        )
        x_on, x_off = weighted(a * v, on, SOFT), weighted(b * v, off, SOFT)
        top_on, sum_on = joined(top_on, sum_on, x_on, AXIS)
        top_off, sum_off = joined(top_off, sum_off, x_off, AXIS)
        if BY_ROW and AXIS == 0:
            at = row.to(tl.int64) * parts + block
            none, zero = tl.full([HEIGHT], NOTHING, tl.float32), tl.zeros([HEIGHT], tl.float32)
            top, sums = joined(none, zero, x_on, 1)
            tl.store(row_parts + at, top + logarithm(sums), mask=row < rows)
            top, sums = joined(none, zero, x_off, 1)
            size = rows.to(tl.int64) * parts
            tl.store(row_parts + size + at, top + logarithm(sums), mask=row < rows)
        start += HEIGHT if AXIS == 0 else WIDTH
    return top_on + logarithm(sum_on), top_off + logarithm(sum_off)


@triton.jit
def weighted(x, weight, SOFT: tl.constexpr):
    """x + log(weight): weight exp(x) as a power of e; nothing where the weight is 0."""
    if SOFT:
        x += math.log(tl.where(weight > 0, weight, 1.0))
    return tl.where(weight > 0, x, tl.where(weight == 0, NOTHING, weight))


@triton.jit
def joined(top, sums, x, AXIS: tl.constexpr):
    """Sums of exponentials relative to their largest, with those of x along an axis added."""
    new = tl.maximum(top, tl.max(x, AXIS))
    level = tl.where(new > NOTHING, new, 0.0)
    more = tl.sum(math.exp(x - tl.expand_dims(level, AXIS)), AXIS)
    return new, sums * math.exp(top - level) + more


# Of each row and column: the weights of exp(a v) and exp(b v) in the gradient; both log-sum-exps
# and both slopes, from which these come; and what is added to the gradient of a label on.
KEPT = tl.constexpr(7)


@triton.jit(do_not_specialize=["rows", "n", "parts", "chunks", "row_programs"])
def finish(
    state, row_parts, column_parts, row_kept, column_kept, values,
    rows, n, parts, chunks, row_programs, a, b,
    value: tl.constexpr, NEEDS_ON: tl.constexpr, MEAN: tl.constexpr,
    BY_ROW: tl.constexpr, BY_COLUMN: tl.constexpr,
    ROWS: tl.constexpr, ROW_PARTS: tl.constexpr, COLUMNS: tl.constexpr, COLUMN_PARTS: tl.constexpr,
):  # fmt: skip
    """A block of rows, or of columns. `state` is the largest exponent, rows and columns counted."""
    finish_part(
        tl.program_id(0), state, row_parts, column_parts, row_kept, column_kept, values,
        rows, n, parts, chunks, row_programs, a, b, value, NEEDS_ON, MEAN, BY_ROW, BY_COLUMN,
        ROWS, ROW_PARTS, COLUMNS, COLUMN_PARTS,
    )  # fmt: skip


@triton.jit
def finish_part(
    program, state, row_parts, column_parts, row_kept, column_kept, values,
    rows, n, parts, chunks, row_programs, a, b,
    value: tl.constexpr, NEEDS_ON: tl.constexpr, MEAN: tl.constexpr,
    BY_ROW: tl.constexpr, BY_COLUMN: tl.constexpr,
    ROWS: tl.constexpr, ROW_PARTS: tl.constexpr, COLUMNS: tl.constexpr, COLUMN_PARTS: tl.constexpr,
):  # fmt: skip
    """What the program of that number does."""
    if program < row_programs:
        if BY_ROW:
            _finish(
                row_parts, row_kept, values + program, state + 1, program * ROWS, rows, parts,
                parts, 1, a, b, value, NEEDS_ON, MEAN, ROWS, ROW_PARTS,
            )  # fmt: skip
    else:
        if BY_COLUMN:
            _finish(
                column_parts, column_kept, values + program, state + 2,
                (program - row_programs) * COLUMNS, n, chunks,
                1, n, a, b, value, NEEDS_ON, MEAN, COLUMNS, COLUMN_PARTS,
            )  # fmt: skip


@triton.jit
def _finish(
    given, kept, values, counted, first, groups, parts, group_step, part_step, a, b,
    value: tl.constexpr, NEEDS_ON: tl.constexpr, MEAN: tl.constexpr,
    GROUPS: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    group = first + tl.arange(0, GROUPS)
    there = group < groups
    at = given + group.to(tl.int64) * group_step
    size = groups.to(tl.int64) * parts
    on = _log_sum(at, there, parts, part_step, GROUPS, PARTS)
    off = _log_sum(at + size, there, parts, part_step, GROUPS, PARTS)
    count = tl.full([GROUPS], 1.0, tl.float32)
    mean = on * 0.0
    if MEAN:
        count = _sum(at + 3 * size, there, parts, part_step, GROUPS, PARTS)
        count = tl.where(count > 0, count, 1.0)
        mean = _sum(at + 2 * size, there, parts, part_step, GROUPS, PARTS) / count
    counts = on != NOTHING  # (and not >: what is not a number counts)
    if not NEEDS_ON:
        counts = counts | (off != NOTHING)
    counts = counts & there
    loss, by_on, by_off, by_mean = value(tl.where(counts, on, 0.0), off, mean)
    tl.store(values, tl.sum(tl.where(counts, loss, 0.0), 0))
    tl.atomic_add(counted, tl.sum(tl.where(counts, 1.0, 0.0), 0))
    size = groups.to(tl.int64)
    _keep(kept + group, size, 0, on, by_on * a, counts, there)
    _keep(kept + group, size, 1, off, by_off * b, counts, there)
    if MEAN:
        tl.store(kept + group + 6 * size, tl.where(counts, by_mean / count, 0.0), mask=there)


@triton.jit
def _keep(kept, size, side: tl.constexpr, level, slope, counts, there):
    """A log-sum-exp and a slope, and exp(-level) slope, which is safe where all scores are."""
    some = (level != NOTHING) & counts
    slope = tl.where(some, slope, 0.0)
    tl.store(kept + side * size, tl.where(some, slope * math.exp(-level), 0.0), mask=there)
    tl.store(kept + (2 + side) * size, tl.where(some, level, float("inf")), mask=there)
    tl.store(kept + (4 + side) * size, slope, mask=there)


@triton.jit
def _log_sum(at, there, parts, part_step, GROUPS: tl.constexpr, PARTS: tl.constexpr):
    top = tl.full([GROUPS], NOTHING, tl.float32)
    sums = tl.zeros([GROUPS], tl.float32)
    start = parts * 0
    while start < parts:
        x = _part(at, there, start, parts, part_step, NOTHING, PARTS)
        top, sums = joined(top, sums, x, 1)
        start += PARTS
    return top + logarithm(sums)


@triton.jit
def _sum(at, there, parts, part_step, GROUPS: tl.constexpr, PARTS: tl.constexpr):
    sums = tl.zeros([GROUPS], tl.float32)
    start = parts * 0
    while start < parts:
        sums += tl.sum(_part(at, there, start, parts, part_step, 0.0, PARTS), 1)
        start += PARTS
    return sums


@triton.jit
def _part(at, there, start, parts, part_step, none: tl.constexpr, PARTS: tl.constexpr):
    part = start + tl.arange(0, PARTS)
    inside = there[:, None] & (part < parts)[None, :]
    return tl.load(at[:, None] + (part * part_step).to(tl.int64)[None, :], mask=inside, other=none)


LANES = tl.constexpr(1024)


@triton.jit(do_not_specialize=["rows", "tiles", "blocks", "steps", "row_programs", "programs"])
def back(
    scores, target, stored, soft, row_kept, column_kept, values, state, gradient, result,
    rows, n, tiles, blocks, steps, row_programs, programs, a, b,
    KIND: tl.constexpr, SOFT: tl.constexpr, EVEN: tl.constexpr,
    BY_ROW: tl.constexpr, BY_COLUMN: tl.constexpr, MEAN: tl.constexpr, SHORT: tl.constexpr,
    REDUCE: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """A block of columns, gone down; its first program adds up the value as well."""
    block, chunk = tl.program_id(0) % blocks, tl.program_id(0) // blocks
    per_row, per_column = 1.0, 1.0
    if REDUCE:
        per_row = 1.0 / tl.maximum(tl.load(state + 1), 1.0)
        per_column = 1.0 / tl.maximum(tl.load(state + 2), 1.0)
    if block + chunk == 0:
        value = tl.sum(tl.zeros([LANES], tl.float32), 0)
        if BY_ROW:
            value += _total(values, row_programs) * per_row
        if BY_COLUMN:
            value += _total(values + row_programs, programs - row_programs) * per_column
        tl.store(result, value)
    start = chunk * steps * HEIGHT
    end = tl.minimum((chunk + 1) * steps * HEIGHT, rows)
    column = block * WIDTH + tl.arange(0, WIDTH)
    if tl.load(state) > SAFE:
        while start < end:
            row, column, tile = place(block, start, 0, HEIGHT, WIDTH)
            v, on, off, at, inside = read_tile(
                scores, target, stored, soft, row, column, tile, rows, n, tiles, KIND, SOFT, EVEN
            )
            slope = v * 0.0
            if BY_ROW:
                slope += _careful_slope(
                    v, on, off, row_kept, row, rows, per_row, a, b, 1, MEAN, SOFT
                )
            if BY_COLUMN:
                slope += _careful_slope(
                    v, on, off, column_kept, column, n, per_column, a, b, 0, MEAN, SOFT
                )
            tl.store(gradient + at, slope.to(gradient.dtype.element_ty), mask=inside)
            start += HEIGHT
    else:
        if BY_COLUMN:
            column_on, column_off, column_mean = _weights(
                column_kept, column, n, per_column, 0, MEAN, EVEN
            )
        while start < end:
            for _ in tl.static_range(UNROLL):
                row, column, tile = place(block, start, 0, HEIGHT, WIDTH)
                v, on, off, at, inside = read_tile(
                    scores, target, stored, soft, row, column, tile, rows, n, tiles,
                    KIND, SOFT, EVEN,
                )  # fmt: skip
                if BY_ROW:
                    by_on, by_off, mean = _weights(row_kept, row, rows, per_row, 1, MEAN, EVEN)
                    if BY_COLUMN:
                        by_on, by_off, mean = (
                            by_on + column_on,
                            by_off + column_off,
                            mean + column_mean,
                        )
                else:
                    by_on, by_off, mean = column_on, column_off, column_mean
                slope = _slope(v, on, off, by_on, by_off, mean, a, b, SOFT, MEAN, SHORT)
                slope = slope.to(gradient.dtype.element_ty)
                if EVEN:
                    tl.store(gradient + at, slope)
                else:
                    tl.store(gradient + at, slope, mask=inside)
                start += HEIGHT


@triton.jit
def _slope(
    v, on, off, by_on, by_off, mean, a, b,
    SOFT: tl.constexpr, MEAN: tl.constexpr, SHORT: tl.constexpr,
):  # fmt: skip
    """by_on exp(a v) where a label is on, by_off exp(b v) where it is off."""
    if SOFT:
        slope = on * by_on * exponential(a * v, SHORT) + off * by_off * exponential(b * v, SHORT)
    else:
        x = v * tl.where(on > 0, a, b)
        slope = exponential(x, SHORT) * tl.where(on > 0, by_on, by_off)
    if MEAN:
        slope += on * mean
    return slope


@triton.jit
def _weights(
    kept, group, groups, share, AXIS: tl.constexpr, MEAN: tl.constexpr, EVEN: tl.constexpr
):
    """What `finish` kept for all scores that are safe, times one over the number of groups."""
    there = (group < groups) | EVEN
    by_on = tl.load(kept + group, mask=there, other=0.0) * share
    by_off = tl.load(kept + groups + group, mask=there, other=0.0) * share
    mean = by_on
    if MEAN:
        mean = tl.load(kept + 6 * groups + group, mask=there, other=0.0) * share
    return tl.expand_dims(by_on, AXIS), tl.expand_dims(by_off, AXIS), tl.expand_dims(mean, AXIS)


@triton.jit
def _careful_slope(
    v, on, off, kept, group, groups, share, a, b,
    AXIS: tl.constexpr, MEAN: tl.constexpr, SOFT: tl.constexpr,
):  # fmt: skip
    """slope exp(a v - level) where a label is on, and the same where it is off."""
    there = group < groups
    slope = _careful_side(a * v, on, kept, group, groups, there, 0, AXIS, SOFT)
    slope += _careful_side(b * v, off, kept, group, groups, there, 1, AXIS, SOFT)
    if MEAN:
        mean = tl.load(kept + 6 * groups + group, mask=there, other=0.0)
        slope += on * tl.expand_dims(mean, AXIS)
    return slope * share


@triton.jit
def _careful_side(
    x, weight, kept, group, groups, there,
    side: tl.constexpr, AXIS: tl.constexpr, SOFT: tl.constexpr,
):  # fmt: skip
    level = tl.load(kept + (2 + side) * groups + group, mask=there, other=0.0)
    slope = tl.load(kept + (4 + side) * groups + group, mask=there, other=0.0)
    # rounded as the level was, so that an entry that alone makes it up comes out as 1
    e = math.exp(weighted(x, weight, SOFT) - tl.expand_dims(level, AXIS))
    return tl.where(weight > 0, e * tl.expand_dims(slope, AXIS), 0.0)


@triton.jit
def _total(values, count):
    """The sum of so many numbers."""
    sums = tl.zeros([LANES], tl.float32)
    start = count * 0
    while start < count:
        at = start + tl.arange(0, LANES)
        sums += tl.load(values + at, mask=at < count, other=0.0)
        start += LANES
    return tl.sum(sums, 0)


STATE = tl.constexpr(4)  # the largest exponent, how many rows and columns count, nothing


@triton.jit(do_not_specialize=["rows", "steps", "row_programs", "programs"])
def single_block(
    scores, target, stored, soft, scratch, gradient, result,
    rows, n, steps, row_programs, programs, a, b,
    value: tl.constexpr, NEEDS_ON: tl.constexpr, KIND: tl.constexpr, SOFT: tl.constexpr,
    EVEN: tl.constexpr, BY_ROW: tl.constexpr, BY_COLUMN: tl.constexpr, MEAN: tl.constexpr,
    SHORT: tl.constexpr, REDUCE: tl.constexpr,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, UNROLL: tl.constexpr, GROUPS: tl.constexpr,
):  # fmt: skip
    """One program, whose tiles are as wide as the matrix; a barrier stands for each launch.

    `scratch` is where its parts leave numbers for one another: `scratch_size` of them.
    """
    KINDS: tl.constexpr = 4 if MEAN else 2
    program = programs * 0
    labels = n + program  # a number of the kernel's, which n is not where Triton finds that it is 1
    state, row_parts = scratch, scratch + STATE
    row_kept = row_parts + KINDS * rows
    column_parts = row_kept + KEPT * rows
    column_kept = column_parts + KINDS * labels
    values = column_kept + KEPT * labels
    tl.store(state + tl.arange(0, STATE), 0.0)
    tl.debug_barrier()
    log_sums(
        scores, target, stored, soft, row_parts, column_parts, state,
        rows, n, 1, 1, 1, steps, a, b,
        KIND, SOFT, EVEN, 0, BY_ROW, BY_COLUMN, MEAN, SHORT, HEIGHT, WIDTH, UNROLL,
    )  # fmt: skip
    tl.debug_barrier()
    while program < programs:
        finish_part(
            program, state, row_parts, column_parts, row_kept, column_kept, values,
            rows, labels, 1, 1, row_programs, a, b,
            value, NEEDS_ON, MEAN, BY_ROW, BY_COLUMN, GROUPS, 1, GROUPS, 1,
        )  # fmt: skip
        program += 1
    tl.debug_barrier()
    back(
        scores, target, stored, soft, row_kept, column_kept, values, state, gradient, result,
        rows, n, 1, 1, steps, row_programs, programs, a, b,
        KIND, SOFT, EVEN, BY_ROW, BY_COLUMN, MEAN, SHORT, REDUCE, HEIGHT, WIDTH, UNROLL,
    )  # fmt: skip
