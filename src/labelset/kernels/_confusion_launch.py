"""How the kernel of the smooth metrics is laid out over a matrix, and launched."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import Tensor

from labelset.kernels._confusion_tiles import SUMS, confusion_tiles
from labelset.kernels._launch import Launch
from labelset.kernels._tile import label_arrays, label_kind
from labelset.labels import Labels

__all__ = ["value_and_gradient"]

TILE, UNROLL = 512, 4  # four entries for each thread of four warps, four times over
STORED_TILE = 1024  # stored labels are sought tile by tile: a large one instead of several
REGISTERS = 64  # of each thread, so that eight programs fit on a processor: all are under way
WIDEST = 128  # columns of a block: a whole line of memory, and blocks enough for every processor
NARROWEST = 16
PROGRAMS = 512  # below this many a large GPU has nothing to do now and then
LEAST = 1024  # rows or columns that are worth a program of their own


# the constants of the kernel, in their order
CONSTANTS = (
    *("decide", "slopes", "ratio", "KIND", "SOFT", "EVEN", "COLUMNS", "STRIDE0", "STRIDE1"),
    *("AXIS", "MICRO", "WEIGHT", "OPPOSITE", "PHASE", "HEIGHT", "WIDTH", "UNROLL"),
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

    @property
    def tile(self) -> tuple[int, int, int]:
        return self.height, self.width, self.unroll

    def even(self, rows: int, n: int) -> bool:
        """Whether no tile reaches beyond the matrix."""
        down, along = (self.unroll, 1) if self.axis == 0 else (1, self.unroll)
        return rows % (self.height * down) == 0 and n % (self.width * along) == 0


def layout(rows: int, n: int, axis: int, tile: int, unroll: int) -> Layout:
    """Blocks of columns gone down (axis 0), or of rows gone along (axis 1)."""
    width = WIDEST if axis == 0 else min(tile, max(NARROWEST, 1 << (n - 1).bit_length()))
    while axis == 0 and width > NARROWEST and -(-n // width) < PROGRAMS:
        width //= 2
    height = tile // width
    across, along, size, step = (n, rows, width, height) if axis == 0 else (rows, n, height, width)
    blocks = -(-across // size)
    chunks = max(1, min(-(-PROGRAMS // blocks), along // LEAST))
    steps = -(-along // (chunks * unroll * step)) * unroll
    return Layout(axis, height, width, blocks, -(-along // (steps * step)), steps, unroll)


def value_and_gradient(
    functions: tuple[Any, Any, Any],
    opposite: bool,
    columns: list[Tensor],
    scores: Tensor,
    labels: Tensor | Labels,
    average: str,
    mean: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The loss, its gradient, and how many groups are known (None: no need to ask).

    `functions` are the decision yes, no of a score, their slopes, and the loss of the four sums
    with its slopes. The mean is taken over all groups, as if something were known of each.
    """
    micro = average == "micro"
    job = _Job(opposite, columns, scores.contiguous(), labels, average, mean)
    if job.at.chunks == 1 and not micro:
        job.launch("whole", functions, job.value)
    else:
        job.launch("count", functions, job.partial)
        job.launch("apply", functions, job.partial.sum(1))
    if micro:
        return job.value[0], job.gradient, None
    known = job.known.sum() if job.weight == "known" else None
    return job.value.sum(), job.gradient, known


class _Job:
    """One loss over one matrix: what its launches share."""

    def __init__(
        self,
        opposite: bool,
        columns: list[Tensor],
        scores: Tensor,
        labels: Tensor | Labels,
        average: str,
        mean: bool,
    ) -> None:
        self.scores, (self.rows, self.n) = scores, scores.shape
        (self.kind, self.soft), self.micro = label_kind(labels), average == "micro"
        self.weight = "on" if average == "weighted" else ("known" if self.soft else "one")
        self.opposite, self.columns, self.mean = opposite, columns, mean
        self.groups = 1 if self.micro else (self.rows if average == "samples" else self.n)
        tile = (STORED_TILE, 1) if self.kind == "stored" else (TILE, UNROLL)
        self.at = at = layout(self.rows, self.n, int(average == "samples"), *tile)
        self.arrays = label_arrays(labels, at.width)
        self.gradient, self.value = torch.empty_like(scores), self.new(at.blocks)
        self.known = self.new(at.blocks) if self.weight == "known" else self.value
        self.total = self.value
        if self.weight == "on":
            self.total = _total(labels, mean, scores.device)

    def new(self, *shape: int) -> Tensor:
        return self.scores.new_empty(shape, dtype=torch.float32)

    @cached_property
    def partial(self) -> Tensor:
        """The sums that each part of a group comes to."""
        parts = self.at.chunks * (self.at.blocks if self.micro else 1)
        return self.new(SUMS, parts, self.groups)

    def launch(self, phase: str, functions: tuple[Any, Any, Any], partial: Tensor) -> None:
        at, columns = self.at, self.columns
        first, second = (*columns, self.scores, self.scores)[:2]
        read = (self.scores, *self.arrays, first, second)
        strides = *(int(t.numel() > 1) for t in columns), *[0] * (2 - len(columns))
        labels = self.kind, self.soft, at.even(self.rows, self.n)
        rest = at.axis, self.micro, self.weight, self.opposite, phase
        constants = *functions, *labels, len(columns), *strides, *rest, *at.tile
        scale = 1.0 / self.groups if self.mean and self.weight != "on" else 1.0
        _launch(constants, self.n, tuple(t.dtype for t in read))(
            at.blocks * at.chunks,
            (*read, self.gradient, partial, self.value, self.known, self.total),
            (self.rows, self.n, -(-self.n // at.width), self.groups, at.blocks, at.steps, scale),
        )


@lru_cache(maxsize=1024)
def _launch(constants: tuple[Any, ...], n: int, types: tuple[torch.dtype, ...]) -> Launch:
    """The kernel with its constants, for rows of n labels and tensors of these types."""
    options = {} if torch.version.hip else {"maxnreg": REGISTERS}
    named = dict(zip(CONSTANTS, constants, strict=True))
    return Launch(confusion_tiles, named, num_warps=4, **options)


def _total(labels: Tensor | Labels, mean: bool, device: torch.device) -> Tensor:
    """How much is on in all, by which a mean is divided; 1 for a sum."""
    if not mean:
        return torch.ones((), device=device)
    if isinstance(labels, Labels):
        if labels.values is None:
            return torch.full((), float(labels.indices.numel()), device=device)
        labels = labels.values
    if not labels.is_floating_point():
        return labels.count_nonzero()
    return labels.nansum(dtype=torch.float32)
