"""What is learnt from: inputs, labels and parts, and the settings that the data decide."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from labelset import encode, heads
from labelset.data import Dataset, SparseRows, StoredSparse
from labelset.encode import Encoder, Inputs
from labelset.heads import Head
from labelset.heads.linear import Linear
from labelset.labels import Labels
from labelset.train._random import seeded
from labelset.train._settings import Settings
from labelset.train._start import start_at_frequencies

__all__ = ["PARTS", "Task"]

PARTS = ("train", "valid", "test")
RATES = {"dense": (0.005, 0.1, 0.05), "sparse": (0.03, 1.0, 0.6), "deep": (0.01, 0.0, 0.02)}
"""Learning rates by what was tried, for standardised features, sparse ones, and networks that are
trained with the head: of AdamW the least, and the least over sqrt(features); of SGD, per label."""


@dataclass(frozen=True)
class Task:
    """Inputs of all rows, their labels, the rows of each part, and the fitted encoder."""

    encoder: Encoder
    inputs: Inputs
    labels: Labels
    rows: dict[str, Tensor]
    width: int
    """Features that the head gets."""

    @classmethod
    def of(
        cls, dataset: Dataset, settings: Settings, encoder: Any, cache: str | Path | None
    ) -> Task:
        """Everything that is done once, before the first epoch."""
        sizes = dataset.sizes()  # says what to do where there is no split
        if not sizes[0]:
            raise ValueError("the data set has no training rows; part 0 of its split is empty")
        with seeded(settings.seed, "encoder"):
            fitted, inputs = encode.encoded(encode.as_encoder(encoder, dataset), dataset, cache)
        assert dataset.split is not None
        rows = {part: (dataset.split == at).nonzero().flatten() for at, part in enumerate(PARTS)}
        return cls(fitted, inputs, dataset.labels, rows, _width(fitted, inputs))

    @property
    def sparse(self) -> bool:
        """Whether the head meets sparse rows."""
        sparse = isinstance(self.inputs, (SparseRows, StoredSparse))
        return sparse and self.encoder.module is None

    def batch(self, rows: Tensor, device: str) -> tuple[Tensor | SparseRows, Labels]:
        """Inputs and labels of the chosen rows."""
        inputs: Tensor | SparseRows = self.inputs[rows]
        labels = self.labels[rows]
        return (inputs, labels) if device == "cpu" else (inputs.to(device), labels.to(device))

    def resolved(self, settings: Settings) -> Settings:
        """The settings with everything chosen that the data decide."""
        rows, lr, decay = len(self.rows["train"]), settings.lr, settings.weight_decay
        steps = 12 if self.encoder.module is None else 32
        batch = settings.batch or 2 ** max(5, min(10, round(math.log2(max(rows / steps, 1)))))
        lr = self._rate(settings.optimiser) if lr is None else lr
        if decay is None:
            decay = 1e-4 / lr if settings.optimiser == "sgd" else 0.01
        head = self._head_settings(settings)
        return replace(settings, batch=batch, lr=lr, weight_decay=decay, head_settings=head)

    def build_head(self, settings: Settings) -> Head:
        """The head, at its random start."""
        given, labels = dict(settings.head_settings), self.labels[self.rows["train"]]
        if given.get("order") == "cooccurrence":
            given["order"] = heads.order_by_cooccurrence(labels)
        head = heads.build(settings.head, features=self.width, labels=labels.n, **given)
        if isinstance(head, Linear):
            start_at_frequencies(head, labels)
        return head

    def _rate(self, optimiser: str) -> float:
        """Few features must make larger steps together; SGD's grow with the labels, since most
        losses are means over all of them."""
        kind = "deep" if self.encoder.module is not None else "sparse" if self.sparse else "dense"
        least, together, per_label = RATES[kind]
        if optimiser == "sgd":
            return per_label * self.labels.n
        return max(least, together / math.sqrt(max(self.width, 1)))

    def _head_settings(self, settings: Settings) -> dict[str, Any]:
        if settings.head != "dft":
            return dict(settings.head_settings)
        most = int(self.labels[self.rows["train"]].counts().max())
        k = max(1, min(most, (self.labels.n - 1) // 2))
        return {"k": k, "slack": 16} | settings.head_settings


def _width(encoder: Encoder, inputs: Inputs) -> int:
    if encoder.module is None:
        return inputs.shape[1]
    encoder.module.eval()
    with torch.no_grad():
        out = encoder.module(inputs[:2])
    if not isinstance(out, Tensor) or out.ndim != 2:
        got = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise ValueError(f"an encoder must give (rows, features), got {got}; flatten or pool it")
    return int(out.shape[1])
