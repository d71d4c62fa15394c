"""A loss of one row of scores, applied to the rows, to the columns, to both, or to all at once."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from labelset import check
from labelset.catalog import hyper
from labelset.losses._base import Loss, Terms
from labelset.losses._target import Target, dense_target

__all__ = ["WayLoss", "logsumexp"]


@dataclass(frozen=True, kw_only=True, eq=False)
class WayLoss(Loss):
    """Subclasses give `rows`; `way` says which rows: those of the matrix or of its transpose."""

    way: str = hyper("sample", "`sample`: along each row; `class`: along each column; `both`")

    ways: ClassVar[tuple[str, ...]] = ("sample", "class", "both")

    def __post_init__(self) -> None:
        super().__post_init__()
        check.one_of("way", self.way, self.ways)
        if self.way == "both" and self.reduction == "none":
            raise ValueError(
                'reduction="none" has no meaning for way="both", which adds row and column '
                'losses; use way="sample" or way="class"'
            )

    @abstractmethod
    def rows(self, v: Tensor, on: Tensor, off: Tensor) -> Terms:
        """One value per row, and its weight; `on` and `off` are both 0 where unknown."""

    def groups(self, v: Tensor, labels: Any) -> list[Terms]:
        v, target = dense_target(v, labels)
        ways = ("sample", "class") if self.way == "both" else (self.way,)
        return [self._along(way, v, target) for way in ways]

    def terms(self, logits: Tensor, labels: Target) -> Terms:
        return self._along(self.way, logits, labels)

    def _along(self, way: str, v: Tensor, target: Target) -> Terms:
        def turn(m: Tensor) -> Tensor:
            if way == "class":
                return m.T
            return m.reshape(1, -1) if way == "joint" else m

        return self.rows(turn(v), turn(target.on), turn(target.off))


def logsumexp(x: Tensor, weight: Tensor) -> Tensor:
    """log of sum weight exp(x) along each row; -inf, with zero gradient, where no weight is > 0."""
    counted = weight > 0
    some = counted.any(1)
    masked = torch.where(counted, x + torch.where(counted, weight, 1.0).log(), -torch.inf)
    total = torch.logsumexp(torch.where(some[:, None], masked, torch.zeros_like(x)), 1)
    return torch.where(some, total, -torch.inf)
