"""All kernels of the way losses as one: a small matrix takes less time than a launch."""

# mypy: ignore-errors
# (Triton's language is Python only to the eye.)

from __future__ import annotations

import triton
import triton.language as tl

from labelset.kernels._ways_back import back
from labelset.kernels._ways_finish import KEPT, finish_part
from labelset.kernels._ways_sums import log_sums

__all__ = ["few_ways", "handed_numbers"]

STATE = tl.constexpr(4)  # the largest exponent, how many rows and columns count, nothing


def handed_numbers(rows: int, n: int, programs: int, kinds: int) -> int:
    """How many: the state, parts of rows and columns and what is kept of them, sums of losses."""
    return int(STATE) + (kinds + int(KEPT)) * (rows + n) + programs


@triton.jit(do_not_specialize=["rows", "steps", "row_programs", "programs"])
def few_ways(
    scores, target, stored, soft, handed, gradient, result,
    rows, n, steps, row_programs, programs, a, b,
    value: tl.constexpr, NEEDS_ON: tl.constexpr, KIND: tl.constexpr, SOFT: tl.constexpr,
    EVEN: tl.constexpr, BY_ROW: tl.constexpr, BY_COLUMN: tl.constexpr, MEAN: tl.constexpr,
    SHORT: tl.constexpr, REDUCE: tl.constexpr,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, UNROLL: tl.constexpr, GROUPS: tl.constexpr,
):  # fmt: skip
    """One program, whose tiles are as wide as the matrix; a barrier stands for each launch.

    `handed` is where its parts leave numbers for one another: `handed_numbers` of them.
    """
    KINDS: tl.constexpr = 4 if MEAN else 2
    program = programs * 0
    labels = n + program  # a number of the kernel's, which n is not where Triton finds that it is 1
    state, row_parts = handed, handed + STATE
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
