"""Losses of the columns of the batch: sums, or log-sum-exps, of each column travel.

They travel in float64, whatever the logits are: ranks may have computed them differently, and the
messages of a collective call must agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labelset.distributed._local import counts_of_columns, log_sums_of_both, log_sums_of_columns
from labelset.distributed._ranks import log_total, total
from labelset.distributed._rows import Rows, averaged
from labelset.losses._base import reduce
from labelset.losses._confusion import ConfusionLoss
from labelset.losses._ways import WayLoss

__all__ = ["BothWays", "ConfusionColumns", "WayColumns"]


@dataclass(frozen=True)
class ConfusionColumns:
    """A ratio of the four sums of each column (macro, weighted), or of all entries (micro).

    Five numbers per label travel (micro: five): tp, fp, fn, tn, and the weight of the column.
    """

    loss: ConfusionLoss

    def __call__(self, logits: Tensor, labels: Any, group: Any) -> Tensor:
        *counts, on, known = counts_of_columns(self.loss, logits, labels)
        weighted = self.loss.average == "weighted"
        sums = torch.stack([*counts, on if weighted else known])
        if self.loss.average == "micro":
            sums = sums.sum(1, keepdim=True)
        *counts, weights = total(sums, group)
        weights = weights if weighted else weights > 0
        return reduce(self.loss.loss(*counts), weights, self.loss.reduction)


@dataclass(frozen=True)
class WayColumns:
    """A function of the log-sum-exps of each column (class), or of all entries at once (joint).

    Per column two log-sum-exps travel, and three sums: of the scores that are on, of the labels
    that are on, and of those that are known.
    """

    loss: WayLoss
    joint: bool = False

    def __call__(self, logits: Tensor, labels: Any, group: Any) -> Tensor:
        local = log_sums_of_columns(self.loss, logits, labels, self.joint)
        return self.of(local, group)

    def of(self, local: Tensor, group: Any) -> Tensor:
        """The loss of the columns from what they come to on each rank."""
        logs, sums = log_total(local[:2], group), total(local[2:], group)
        return reduce(*lines(self.loss, torch.cat([logs, sums])), self.loss.reduction)


@dataclass(frozen=True)
class BothWays:
    """Rows and columns, from one reading of the scores where there is one.

    What is sent, and in which order, is the same without it: ranks need not agree on it.
    """

    rows: Rows
    columns: WayColumns

    def __call__(self, logits: Tensor, labels: Any, group: Any) -> Tensor:
        loss = self.columns.loss
        both = log_sums_of_both(loss, logits, labels)
        if both is None:
            by_row = self.rows(logits, labels, group)
            return by_row + self.columns(logits, labels, group)
        values, some = lines(loss, both[0])
        count = some.sum() if self.rows.mean else None
        by_row = averaged(reduce(values, some, "sum"), count, group)
        return by_row + self.columns.of(both[1], group)


def lines(loss: WayLoss, sums: Tensor) -> tuple[Tensor, Tensor]:
    """The loss of each row or column from the fields of `LogSums`, and whether it counts."""
    on, off, score, weight, known = sums
    some = (weight if loss.needs_on else known) > 0
    mean = score / torch.where(weight > 0, weight, 1.0)
    return loss.value(torch.where(some, on, 0.0), off, mean), some
