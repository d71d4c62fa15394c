"""What encoders with a network that was trained elsewhere share: their embeddings, standardised."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Self

from torch import Tensor

from labelset import check
from labelset.catalog import hyper
from labelset.data import Dataset
from labelset.data._spool import spooled
from labelset.encode._base import Encoder, Inputs
from labelset.encode._standard import moments, standardised

__all__ = ["Pretrained"]


@dataclass(kw_only=True, eq=False)
class Pretrained(Encoder):
    """Subclasses say how rows go through the network; mean and deviation come from training."""

    costly = True

    model: str = hyper("", "a folder with config.json, or an installed package that holds one")
    batch: int = hyper(32, "rows at a time")

    def __post_init__(self) -> None:
        super().__post_init__()
        check.whole("batch", self.batch, low=1)

    @abstractmethod
    def _embedded(self, dataset: Dataset) -> Tensor:
        """(rows, width)."""

    def fit(self, train: Dataset) -> Self:
        if train.on_disk:
            embedded = spooled((self._embedded(part) for part in train.blocks()), 0)
        else:
            embedded = self._embedded(train)
        self.learnt = moments(embedded)
        self.facts = {"width": len(self.learnt["mean"])}
        return self

    def prepare(self, dataset: Dataset) -> Inputs:
        self.fact("width")
        x = self._embedded(dataset)
        return standardised(x, self.learnt["mean"], self.learnt["deviation"])
