"""What of a loss is added up over ranks: each kind of loss knows what it must send."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from labelset.distributed._lines import BothWays, ConfusionLines, WayLines
from labelset.distributed._pairs import PairRows
from labelset.distributed._ranks import Grid
from labelset.distributed._rows import Rows
from labelset.losses._base import Loss
from labelset.losses._confusion import ConfusionLoss
from labelset.losses._separable import Separable
from labelset.losses._sum import Sum
from labelset.losses._ways import WayLoss
from labelset.losses.lpr import LPR
from labelset.losses.spa_lpr import SPAPairs

__all__ = ["Part", "parts"]

Part = Callable[[Tensor, Any, Grid], Tensor]
"""This rank's logits and labels, and the grid of ranks, to a value over all ranks, in float64."""


def parts(loss: Loss, cut_rows: bool = False) -> list[tuple[float, Part]]:
    """What is added up, with its factor.

    `cut_rows` says that ranks hold some labels of each row: a loss of rows, which otherwise is
    computed by whatever computes it fastest, is then put together from what ranks know of a row.
    """
    if isinstance(loss, SPAPairs):
        loss = loss._sum
    if isinstance(loss, Sum):
        return [(w * f, part) for w, one in loss.parts for f, part in parts(one, cut_rows)]
    return [(1.0, part_of(loss, cut_rows))]


def part_of(loss: Loss, cut_rows: bool) -> Part:
    """Of one loss that is no sum."""
    if isinstance(loss, ConfusionLoss) and type(loss).terms is ConfusionLoss.terms:
        whole = loss.average == "samples" and not cut_rows
        return Rows.of(loss) if whole else ConfusionLines(loss)
    if isinstance(loss, WayLoss) and type(loss).rows is WayLoss.rows:
        rows = WayLines(loss, "sample") if cut_rows else Rows.of(loss, way="sample")
        if loss.way == "both":
            return BothWays(rows, loss)
        return rows if loss.way == "sample" else WayLines(loss, loss.way)
    if isinstance(loss, LPR):
        return PairRows(loss) if cut_rows else Rows.of(loss)
    if isinstance(loss, Separable):
        return Rows.of(loss)
    raise TypeError(
        "over ranks the losses of the catalogue are known, their sums and Separable losses, got "
        f"{type(loss).__name__}, of which one cannot know what to add up over ranks; derive it "
        "from labelset.losses.Separable, or gather the logits yourself"
    )
