"""What training leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labelset.data import Dataset
from labelset.encode import Encoder
from labelset.heads import Head
from labelset.train._model import ENTRIES
from labelset.train._settings import Settings

__all__ = ["Trained"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Trained:
    """A head, its encoder, how training went, and the scores of all rows."""

    head: Head
    encoder: Encoder
    """Fitted; its module, where it has one, trained."""
    settings: Settings
    """As used: what was left open is filled in."""
    history: list[dict[str, Any]]
    """Of each epoch: epoch, loss, valid (the monitor on validation rows), seconds, lr."""
    best_epoch: int
    """The epoch, counted from 0, whose weights are these."""
    monitor: str | None
    """The metric that chose it; None: it is the last, no validation rows having a say."""
    stopped: str
    """Why training ended: epochs, patience, seconds or interrupted."""
    scores: dict[str, Tensor]
    """train, valid and test -> (rows, labels) float32 logits; a part without rows has none."""

    def logits(self, dataset: Dataset) -> Tensor:
        """(rows, labels) float32 scores of other rows."""
        features = self.encoder(dataset)
        size = max(16, min(4096, ENTRIES // max(self.head.matrix()[0].shape[0], 1)))
        with torch.no_grad():
            starts = range(0, max(len(features), 1), size)
            return torch.cat([self.head(features[start : start + size]) for start in starts])
