"""How the kernel of the smooth metrics is laid out over a matrix, and launched."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from labelset.kernels._confusion_tiles import SUMS, confusion_tiles
from labelset.kernels._gradient import Kernel, Result
from labelset.kernels._kinds import LabelTypes, label_kind
from labelset.kernels._launch import Launch, Ready, numbers, parts
from labelset.kernels._source import compiled
from labelset.kernels._tile import ASSERTING, label_arrays
from labelset.labels import Labels

__all__ = ["metric_kernel"]


class Plan(NamedTuple):
    """How a large matrix is gone through."""

    tile: int
    unroll: int
    warps: int
    widest: int
    """Columns of a block."""
    programs: int
    """Below this many a large GPU has nothing to do now and then."""
    least: int
    """Rows or columns that are worth a program of their own."""
    registers: int
    """Of each thread, so that programs enough fit on a processor."""


# four entries for each thread, four times over; in a block's width a whole line of memory
DENSE = Plan(tile=512, unroll=4, warps=4, widest=128, programs=512, least=1024, registers=64)
# Stored labels are sought tile by tile: a warp alone waits for no other to know that none is there.
STORED = Plan(tile=512, unroll=1, warps=1, widest=256, programs=8192, least=256, registers=128)
NARROWEST, BLOCKS = 16, 512  # columns of a block; blocks for which it is made narrower
FEW, MOST_GROUPS = 2**16, 1024  # entries, of so many groups at most, for one program alone
FEW_TILE, FEW_UNROLL = 4096, 2  # eight entries for each thread of sixteen warps, twice over


# the constants of the kernel, in their order
CONSTANTS = (
    *("decide", "slopes", "ratio", "KIND", "SOFT", "EVEN", "COLUMNS", "STRIDE0", "STRIDE1"),
    *("AXIS", "MICRO", "WEIGHT", "DIVIDE", "OPPOSITE", "PHASE", "HEIGHT", "WIDTH", "UNROLL"),
)


@dataclass(frozen=True)
class Layout:
    """Tiles of (height, width); blocks of groups, each gone along in `chunks` of `steps`."""

    axis: int
    height: int
    width: int
    blocks: int
    chunks: int
    steps: int
    unroll: int
    warps: int

    @property
    def tile(self) -> tuple[int, int, int]:
        return self.height, self.width, self.unroll

    def even(self, rows: int, n: int) -> bool:
        """Whether no tile reaches beyond the matrix."""
        down, along = (self.unroll, 1) if self.axis == 0 else (1, self.unroll)
        return rows % (self.height * down) == 0 and n % (self.width * along) == 0


@lru_cache(maxsize=256)
def layout(rows: int, n: int, axis: int, stored: bool) -> Layout:
    """Blocks of columns gone down (axis 0), or of rows gone along (axis 1)."""
    groups, along = (n, rows) if axis == 0 else (rows, n)
    few = rows * n <= FEW and groups <= MOST_GROUPS
    if few and not stored:  # each launch would cost more than its work
        across = max(NARROWEST, 1 << (groups - 1).bit_length())
        deep = FEW_TILE // across
        height, width = (deep, across) if axis == 0 else (across, deep)
        steps = -(-along // (deep * FEW_UNROLL)) * FEW_UNROLL
        return Layout(axis, height, width, 1, 1, steps, FEW_UNROLL, FEW_TILE // 256)
    plan = STORED if stored else DENSE
    width = min(plan.tile, max(NARROWEST, 1 << (n - 1).bit_length())) if axis else plan.widest
    while axis == 0 and width > NARROWEST and -(-n // width) < BLOCKS:
        width //= 2
    height = plan.tile // width
    size, step = (width, height) if axis == 0 else (height, width)
    blocks = -(-groups // size)
    chunks = max(1, min(-(-plan.programs // blocks), along // plan.least))
    steps = -(-along // (chunks * plan.unroll * step)) * plan.unroll
    chunks = -(-along // (steps * step))
    return Layout(axis, height, width, blocks, chunks, steps, plan.unroll, plan.warps)


def metric_kernel(
    metric: Any, scores: Tensor, labels: LabelTypes, average: str, mean: bool
) -> Kernel:
    """The loss of the `Metric` for matrices like `scores`."""
    rows, n = scores.shape
    job = _Job(metric, rows, n, scores.dtype, *label_kind(labels), average, mean)
    at = job.at
    whole = at.chunks == 1 and (at.blocks == 1 or not job.micro)
    pieces = at.chunks * (at.blocks if job.micro else 1)
    return _Metric(
        job,
        None if whole else job.ready("count"),
        job.ready("whole" if whole else "apply"),
        numbers(scores.device, at.blocks) if at.blocks > 1 else numbers(scores.device),
        (SUMS, pieces, job.groups),
        at.width,
        job.divide,
    )


@dataclass(frozen=True)
class _Metric:
    """The kernels of a job: one for all of it, or one that counts and one that goes on."""

    job: _Job
    counting: Ready | None
    rest: Ready
    value: Tensor
    """Of the shape of the values of all blocks, or of the one number that a single block gives."""
    partial: tuple[int, int, int]
    width: int
    divide: str

    def __call__(self, scores: Tensor, labels: Tensor | Labels) -> Result:
        scores, job = scores.contiguous(), self.job
        columns = [t.contiguous() for t in job.metric.columns]
        read = (scores, *label_arrays(labels, self.width), *(*columns, scores, scores)[:2])
        gradient, value = torch.empty_like(scores), torch.empty_like(self.value)
        known = torch.empty_like(value) if self.divide == "later" else value
        total = _total(labels, scores.device) if self.divide == "total" else value
        sums = value
        if self.counting is not None:
            (part,) = parts(scores.device, prod(self.partial), within=gradient)
            self.counting(*read, gradient, part, value, known, total)
            sums = part.view().view(self.partial).sum(1)
        self.rest(*read, gradient, sums, value, known, total)
        if value.ndim:  # a value per block, or, if there is one group, the same in all
            value, known = (value[0], known) if job.micro else (value.sum(), known.sum())
        if self.divide != "later":
            return value, gradient, None
        share = job.groups / known.clamp(min=1)  # the mean is over what is known
        return value * share, gradient, share


@dataclass(frozen=True)
class _Job:
    """One loss over a matrix: all that does not depend on what lies in it."""

    metric: Any
    rows: int
    n: int
    dtype: torch.dtype
    kind: str
    soft: bool
    average: str
    mean: bool

    def ready(self, phase: str) -> Ready:
        """The kernel of one phase."""
        at = self.at
        labels = self.kind, self.soft, at.even(self.rows, self.n)
        strides = [int(t.numel() > 1) for t in self.metric.columns]
        columns = len(strides), *(*strides, 0, 0)[:2]
        rest = at.axis, self.micro, self.weight, self.divide, self.metric.opposite, phase
        functions = [compiled(text) for text in self.metric.text(self.dtype.itemsize == 2)]
        constants = *functions, *labels, *columns, *rest, *at.tile
        crowded = at.blocks * at.chunks > 1 and not torch.version.hip
        plan = STORED if self.kind == "stored" else DENSE
        options: dict[str, Any] = {"maxnreg": plan.registers} if crowded else {}
        if self.kind in ("soft", "hard") and phase != "apply":
            options |= ASSERTING
        named = dict(zip(CONSTANTS, constants, strict=True))
        scale = 1.0 / self.groups if self.mean and self.divide in ("no", "later") else 1.0
        tiles = -(-self.n // at.width)
        return Ready(
            Launch(confusion_tiles, named, num_warps=at.warps, **options),
            at.blocks * at.chunks,
            (self.rows, self.n, tiles, self.groups, at.blocks, at.steps, scale),
        )

    @property
    def at(self) -> Layout:
        along = int(self.average == "samples")
        return layout(self.rows, self.n, along, self.kind == "stored")

    @property
    def micro(self) -> bool:
        return self.average == "micro"

    @property
    def weight(self) -> str:
        """What a group counts for: how much is on, whether something is known, or one."""
        return "on" if self.average == "weighted" else ("known" if self.soft else "one")

    @property
    def divide(self) -> str:
        """Where the loss is divided by what all groups weigh, if that is not known beforehand."""
        if not self.mean or self.micro or self.weight == "one":
            return "no"
        if self.at.blocks * self.at.chunks == 1:
            return "here"
        return "total" if self.weight == "on" else "later"

    @property
    def groups(self) -> int:
        return 1 if self.micro else (self.rows if self.average == "samples" else self.n)


def _total(labels: Tensor | Labels, device: torch.device) -> Tensor:
    """How much is on in all."""
    if isinstance(labels, Labels):
        if labels.values is None:
            return numbers(device).fill_(labels.indices.numel())
        labels = labels.values
    if not labels.is_floating_point():
        return labels.count_nonzero()
    return labels.nansum(dtype=torch.float32)
