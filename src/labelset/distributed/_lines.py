"""Losses of lines, columns or rows, that are cut by ranks: sums or log-sum-exps of each travel.

They travel in float64, whatever the logits are: ranks may have computed them differently, and the
messages of a collective call must agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labelset.distributed._local import counts_of_lines, log_sums_of_both, log_sums_of_lines
from labelset.distributed._ranks import ALONE, Grid, log_total, total
from labelset.distributed._rows import Rows, over_lines
from labelset.losses._confusion import ConfusionLoss
from labelset.losses._ways import WayLoss

__all__ = ["BothWays", "ConfusionLines", "WayLines"]


@dataclass(frozen=True)
class ConfusionLines:
    """A ratio of four sums: of each column (macro, weighted) or row (samples), or of all (micro).

    Five numbers per line travel: tp, fp, fn, tn, and the weight of the line.
    """

    loss: ConfusionLoss

    def __call__(self, logits: Tensor, labels: Any, grid: Grid) -> Tensor:
        average = self.loss.average
        way = {"samples": "sample", "micro": "joint"}.get(average, "class")
        *counts, on, known = counts_of_lines(self.loss, logits, labels, by_row=way == "sample")
        sums = torch.stack([*counts, on if average == "weighted" else known])
        if way == "joint":
            sums = sums.sum(1, keepdim=True)
        joined, spread = parted(grid, way)
        *counts, weights = total(sums, *joined)
        weights = weights if average == "weighted" else weights > 0
        return over_lines(self.loss.loss(*counts), weights, self.loss.reduction, spread)


@dataclass(frozen=True)
class WayLines:
    """A function of the log-sum-exps of each column (class) or row (sample), or of all (joint).

    Per line two log-sum-exps travel, and three sums: of the scores that are on, of the labels
    that are on, and of those that are known.
    """

    loss: WayLoss
    way: str

    def __call__(self, logits: Tensor, labels: Any, grid: Grid) -> Tensor:
        return self.of(log_sums_of_lines(self.loss, logits, labels, self.way), grid)

    def of(self, local: Tensor, grid: Grid) -> Tensor:
        """The loss of the lines from what they come to on each rank."""
        joined, spread = parted(grid, self.way)
        sums = torch.cat([log_total(local[:2], *joined), total(local[2:], *joined)])
        return over_lines(*lines(self.loss, sums), self.loss.reduction, spread)


@dataclass(frozen=True)
class BothWays:
    """Rows and columns, from one reading of the scores where there is one.

    What is sent, and in which order, is the same without it: ranks need not agree on it.
    """

    rows: Rows | WayLines
    loss: WayLoss

    def __call__(self, logits: Tensor, labels: Any, grid: Grid) -> Tensor:
        rows, columns = WayLines(self.loss, "sample"), WayLines(self.loss, "class")
        both = log_sums_of_both(self.loss, logits, labels)
        if both is not None:
            return rows.of(both[0], grid) + columns.of(both[1], grid)
        by_row = self.rows(logits, labels, grid)
        return by_row + columns(logits, labels, grid)


def parted(grid: Grid, way: str) -> tuple[tuple[Any, ...], Any]:
    """Which ranks hold parts of one line, and which hold the other lines."""
    if way == "joint":
        return (grid.rows, grid.labels), ALONE
    if way == "sample":
        return (grid.labels,), grid.rows
    return (grid.rows,), grid.labels


def lines(loss: WayLoss, sums: Tensor) -> tuple[Tensor, Tensor]:
    """The loss of each row or column from the fields of `LogSums`, and whether it counts."""
    on, off, score, weight, known = sums
    some = (weight if loss.needs_on else known) > 0
    mean = score / torch.where(weight > 0, weight, 1.0)
    return loss.value(torch.where(some, on, 0.0), off, mean), some
