"""Scorer: rows to scores, by one way wherever scores are made."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor

from labelset.data import Dataset, SparseRows, StoredSparse
from labelset.encode import Encoder
from labelset.heads import Head, store_by_feature

ENTRIES = 1 << 21
"""Features, or scores, in float64 that are in memory together: 16 MB."""
MOST, LEAST = 4096, 16
"""Rows of a block."""
PLACED = 256
"""Rows whose tokens or patches are in memory together."""


class NoScore(ValueError):
    """The model gives a row no number."""

    def __init__(self, row: int, label: int) -> None:
        super().__init__(row, label)
        self.row, self.label = row, label

    def __str__(self) -> str:
        return self.about("row", self.row)

    def about(self, place: str, row: int) -> str:
        """The message, the row being called something else."""
        return (
            f"{place} {row}: the model's score of label {self.label} is not a number; numbers in "
            "this row, or in the model, are too large"
        )


def all_numbers(scores: Tensor) -> Tensor:
    """The scores; `NoScore` where one is NaN.

    >>> all_numbers(torch.tensor([[0.0], [torch.nan]]))
    Traceback (most recent call last):
    labelset.model.scorer.NoScore: row 1: the model's score of label 0 is not a number; numbers in \
this row, or in the model, are too large
    """
    if bool((wrong := scores.isnan()).any()):
        row, label = wrong.nonzero()[0].tolist()
        raise NoScore(row, label)
    return scores


class Scorer:
    """scores = model(encoder(rows)), (rows, labels) float32 on the CPU.

    The model is a head or an estimator, such as a `Forest`. A head adds up in float64 and only its
    scores are rounded, so that a row has the same score, byte for byte, alone and among others,
    dense and sparse, by one thread and by several. It is
    not a proof: two orders of adding up may round differently where a sum lies within 1e-15 of
    the middle between two float32 numbers, once in about 1e8 scores. Of an encoder that is a
    network, features are as deterministic as torch makes it.

    >>> from labelset.heads import build
    >>> Scorer(build("linear", features=3, labels=2)).of_features(torch.zeros(5, 3)).shape
    torch.Size([5, 2])
    """

    def __init__(self, model: Any, encoder: Encoder | None = None) -> None:
        self.encoder = encoder
        self._by_feature = False
        self.labels = int(model.labels)
        if not isinstance(model, Head):
            self.model = model
            return
        # not lazily: the head may be trained on afterwards
        self.model = copy.deepcopy(model).cpu().double().eval().requires_grad_(False)

    def __call__(self, dataset: Dataset) -> Tensor:
        """The scores of a data set."""
        if self.encoder is None:
            raise ValueError("without an encoder only features can be scored: use of_features")
        if not self.encoder.placed or len(dataset) <= PLACED:
            return self.of_features(self.encoder(dataset))
        blocks = torch.arange(len(dataset)).split(PLACED)  # type: ignore[no-untyped-call]
        return torch.cat([self.of_features(self.encoder(dataset.rows(at))) for at in blocks])

    @torch.no_grad()
    def of_features(self, features: Any) -> Tensor:
        """The scores of what the encoder gives: a tensor, sparse rows, or rows on disk."""
        if not isinstance(self.model, Head):
            return self.model.scores(features)  # type: ignore[no-any-return]
        sparse = isinstance(features, SparseRows | StoredSparse)
        if sparse and not self._by_feature:
            store_by_feature(self.model, features.shape[1])
            self._by_feature = True
        width = 1 if sparse else math.prod(features.shape[1:])
        size = max(LEAST, min(MOST, ENTRIES // max(self.labels, width)))
        out = torch.empty(len(features), self.labels)
        for start in range(0, len(features), size):
            rows = features[start : start + size]
            out[start : start + size] = self.model(rows if sparse else rows.cpu().double())
        return out
