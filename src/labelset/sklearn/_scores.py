"""Scores of a head in float64, so that a row scores the same alone and among others."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from labelset.data import SparseRows
from labelset.encode import Encoder
from labelset.heads import Head
from labelset.sklearn._rows import unlabelled
from labelset.train._optimiser import store_by_feature

__all__ = ["exact", "scores"]

ENTRIES = 1 << 21
"""Scores that are computed together: 16 MB."""


def exact(head: Head, encoder: Encoder) -> Head:
    """The head in float64, stored so that products with sparse features are quick."""
    wide = copy.deepcopy(head).double().eval().requires_grad_(False)
    if encoder.fact("sparse"):
        store_by_feature(wide, encoder.fact("width"))
    return wide


@torch.no_grad()
def scores(head: Head, encoder: Encoder, X: Any) -> Tensor:
    """(rows, labels) float64."""
    features = encoder(unlabelled(X))
    size = max(1, ENTRIES // max(len(head.matrix()[0]), 1))
    parts = [features[start : start + size] for start in range(0, max(len(features), 1), size)]
    return torch.cat([head(x if isinstance(x, SparseRows) else x.double()) for x in parts])
