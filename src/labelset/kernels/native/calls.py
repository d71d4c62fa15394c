"""Tensors, labels and programs as the C loops read them, and the loops spread over threads."""

from __future__ import annotations

import _thread
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelset import check
from labelset.kernels.native.program import Code, Program
from labelset.labels import Labels

try:
    from labelset.kernels import _native_loops

    loops = _native_loops
except ImportError:  # no compiler where this was installed: the eager formulas do it
    loops = None  # type: ignore[assignment, unused-ignore]

PART = 2**14  # entries of a part
STRIP, BANDS = 2048, 16  # columns of a part at most; at most so many parts of rows
SMALL = 2**16  # entries below which threads cost more than they bring
BITS, SOFT, SPARSE = range(3)


class NativeCall:
    """One call of a loop in C: scores and labels by their addresses, and what lies at these."""

    def __init__(self, scores: Tensor, labels: Tensor | Labels) -> None:
        if scores.dtype not in (torch.float32, torch.bfloat16):
            raise TypeError(f"scores must be float32 or bfloat16, got {scores.dtype}")
        if tuple(labels.shape) != tuple(scores.shape):
            raise ValueError(
                f"labels must have the shape of the scores, {tuple(scores.shape)}, got "
                f"{tuple(labels.shape)}"
            )
        self.v, self.labels = scores.contiguous(), labels
        self.scores = (self.v.data_ptr(), int(self.v.dtype == torch.bfloat16), *self.v.shape)
        self.arrays = _arrays(labels)
        self.may_lack = self.arrays[1] is not None
        kind = SPARSE if isinstance(labels, Labels) else (SOFT if self.may_lack else BITS)
        self.alive: tuple[object, ...] = ()
        self.y = (kind, self.v.shape[1], *(0 if t is None else t.data_ptr() for t in self.arrays))

    def run(
        self, loop: Callable[..., bool], parts: int, alive: tuple[object, ...], *args: Any
    ) -> None:
        """Runs the parts of a job on as many threads as torch has; what a part does is its own.

        `alive` is all that lies at the addresses among `args`. The threads hold this call, and so
        it, for as long as they are at work, which after Ctrl-C may be longer than `run` takes.
        """
        self.alive = alive
        threads = 1 if self.v.numel() < SMALL else torch.get_num_threads()
        shares = 4 * threads if threads > 1 else 1
        cuts = sorted({parts * k // shares for k in range(shares + 1)})
        waiting = iter([*pairwise(cuts)])  # of a list: two threads never get the same ends

        def drain() -> bool:
            return all(loop(self.scores, self.y, *args, *ends) for ends in waiting)

        if not _on_threads(drain, min(threads, len(cuts) - 1)):
            check.unit_interval(self.labels)  # type: ignore[arg-type]


def _on_threads(work: Callable[[], bool], threads: int) -> bool:
    """Whether the work went well on every thread; this one does its share.

    Why bare threads: a loop over a small matrix takes some ten microseconds, of which waking a
    pool would take most, since it hands each piece of work through a queue and a condition. A bare
    thread starts in a quarter of that time, needs no pool that outlives the call or a fork, and
    one lock for each is enough to wait for its end. OpenMP would be a second runtime beside
    torch's own. Where no thread can be started, this one does it all.
    """
    outcomes: list[bool | BaseException] = []
    gates: list[Any] = []

    def other(gate: Any) -> None:
        try:
            outcomes.append(work())
        except BaseException as error:
            outcomes.append(error)
        finally:
            gate.release()

    try:
        for _ in range(threads - 1):
            gate = _thread.allocate_lock()
            gate.acquire()
            _thread.start_new_thread(other, (gate,))
            gates.append(gate)
    except RuntimeError:  # no more threads can be had
        pass
    try:
        outcomes.append(work())
    finally:
        for gate in gates:
            gate.acquire()
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return all(outcomes)


def _arrays(labels: Tensor | Labels) -> list[Tensor | None]:
    """Bits, values, starts and columns: those that these labels have."""
    if isinstance(labels, Labels):
        parts = (labels.values, labels.indptr, labels.indices)
        return [None, *(None if t is None else t.contiguous() for t in parts)]
    if labels.is_floating_point():
        return [None, labels.to(torch.float32).contiguous(), None, None]
    if labels.dtype not in (torch.bool, torch.uint8):
        check.unit_interval(labels)  # before it becomes too narrow to tell
        labels = labels.to(torch.uint8)
    return [labels.contiguous(), None, None, None]


def address(code: Code) -> tuple[int, int]:
    """Where a program lies."""
    return code.steps.ctypes.data, code.constants.ctypes.data


def per_label(columns: Sequence[Tensor], count: int) -> list[Tensor]:
    """The first `count` of a formula's per-label parameters, as C reads them."""
    return [t.to(torch.float32).reshape(-1).contiguous() for t in columns[:count]]


def sizes(columns: Sequence[Tensor]) -> tuple[tuple[int, int], ...]:
    """Where per-label parameters lie, and how many there are of each."""
    return tuple((t.data_ptr(), t.numel()) for t in columns)


def grid(rows: int, n: int, by_row: bool, by_column: bool) -> tuple[int, int]:
    """Rows and columns of a part of the matrix, so that its sums along either are few.

    They depend on the shape alone: sums are the same whatever the number of threads.
    """
    if not by_column:
        return max(1, PART // max(n, 1)), max(n, 1)
    if n >= 4096:
        strips = 4 * -(-n // (4 * STRIP))  # so that few threads get even shares
        return max(rows, 1), -(-n // (16 * strips)) * 16
    return max(1, -(-rows // BANDS), 4 * PART // max(n, 1)), max(n, 1)


def available() -> bool:
    """Whether the package was built with its C extension."""
    return loops is not None


def separable_loop(
    program: Program,
    columns: Sequence[Tensor],
    scores: Tensor,
    labels: Tensor | Labels,
    scale: float,
) -> tuple[Tensor, Tensor | None, Tensor]:
    """scale * sum of the values, how many entries are known (None: all), scale * gradient.

    Scores are (rows, n) float32 or bfloat16; the gradient is of their kind.
    """
    call, others = NativeCall(scores, labels), per_label(columns, program.columns)
    entries = call.v.numel()
    units = -(-entries // loops.UNIT)
    gradient, sums, unknown = torch.empty_like(call.v), np.zeros(units), np.zeros(units, np.int64)
    codes = address(program.off), address(program.both), sizes(others)
    out = gradient.data_ptr(), scale, sums.ctypes.data, unknown.ctypes.data
    alive = program, others, gradient, sums, unknown
    call.run(loops.separable, units, alive, *codes, *out)
    value = torch.tensor(scale * math.fsum(sums))
    return value, torch.tensor(entries - unknown.sum()) if call.may_lack else None, gradient
