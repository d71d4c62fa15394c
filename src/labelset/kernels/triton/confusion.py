"""How the kernel of the smooth metrics is laid out over a matrix, and launched.

Worth it: sigmoid-f1 takes 1.94 ms, by torch.compile 1.2 times as long, by the formula 16 times:
`labelset bench --device cuda --shapes 4096x131072`, one H200, torch 2.11.0+cu130.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor

from labelset.kernels.dispatch import Kernel, LabelTypes, Result, label_kind
from labelset.kernels.triton.confusion_kernels import SUMS, confusion_tiles
from labelset.kernels.triton.launch import (
    ASSERTING,
    BoundLaunch,
    Launch,
    column_constants,
    numbers,
    padded,
    parts,
)
from labelset.kernels.triton.layout import Layout, Tuning, is_small, label_arrays, layout
from labelset.kernels.triton.source import compiled
from labelset.labels import Labels

# four entries for each thread, four times over; in a block's width a whole line of memory; below
# so many programs a large GPU has nothing to do now and then
DENSE = Tuning(tile=512, unroll=4, warps=4, widest=128, programs=512, least=1024, registers=64)
# Sparse labels are sought tile by tile: a warp alone waits for no other to know that none is there.
STORED = Tuning(tile=512, unroll=1, warps=1, widest=256, programs=8192, least=256, registers=128)


def layout_of(rows: int, n: int, axis: int, stored: bool) -> Layout:
    """How a matrix is iterated over whose groups are columns (axis 0) or rows (axis 1)."""
    plan = STORED if stored else DENSE
    small = is_small(rows, n, axis, stored)
    return layout(rows, n, axis, small, plan._replace(widest=None) if axis else plan)


def metric_kernel(
    metric: Any, scores: Tensor, labels: LabelTypes, average: str, mean: bool
) -> Kernel:
    """The loss of the `SmoothMetric` for matrices like `scores`."""
    rows, n = scores.shape
    job = _ConfusionJob(metric, rows, n, scores.dtype, *label_kind(labels), average, mean)
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

    job: _ConfusionJob
    counting: BoundLaunch | None
    rest: BoundLaunch
    value: Tensor
    """Of the shape of the values of all blocks, or of the one number that a single block gives."""
    partial: tuple[int, int, int]
    width: int
    divide: str

    def __call__(self, scores: Tensor, labels: Tensor | Labels) -> Result:
        scores, job = scores.contiguous(), self.job
        read = scores, *label_arrays(labels, self.width), *padded(job.metric.columns, scores)
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
class _ConfusionJob:
    """One loss over a matrix: all that does not depend on what lies in it."""

    metric: Any
    rows: int
    n: int
    dtype: torch.dtype
    kind: str
    soft: bool
    average: str
    mean: bool

    def ready(self, phase: str) -> BoundLaunch:
        """The kernel of one phase."""
        at = self.at
        decide, slopes, ratio = map(compiled, self.metric.text(self.dtype.itemsize == 2))
        constants = {
            "decide": decide, "slopes": slopes, "ratio": ratio,
            "KIND": self.kind, "SOFT": self.soft, "EVEN": at.even(self.rows, self.n),
            **column_constants(self.metric.columns),
            "AXIS": at.axis, "MICRO": self.micro, "WEIGHT": self.weight, "DIVIDE": self.divide,
            "OPPOSITE": self.metric.opposite, "PHASE": phase, **at.tile,
        }  # fmt: skip
        crowded = at.blocks * at.chunks > 1 and not torch.version.hip
        plan = STORED if self.kind == "stored" else DENSE
        options: dict[str, Any] = {"maxnreg": plan.registers} if crowded else {}
        if self.kind in ("soft", "hard") and phase != "apply":
            options |= ASSERTING
        scale = 1.0 / self.groups if self.mean and self.divide in ("no", "later") else 1.0
        tiles = -(-self.n // at.width)
        return BoundLaunch(
            Launch(confusion_tiles, constants, num_warps=at.warps, **options),
            at.blocks * at.chunks,
            (self.rows, self.n, tiles, self.groups, at.blocks, at.steps, scale),
        )

    @property
    def at(self) -> Layout:
        along = int(self.average == "samples")
        return layout_of(self.rows, self.n, along, self.kind == "stored")

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
