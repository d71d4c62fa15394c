"""Which labels should be neighbours on the circle of the DFT head."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelset.labels import Labels

__all__ = ["order_by_cooccurrence"]


def order_by_cooccurrence(labels: Any, apart: bool = True) -> Tensor:
    """A place on the circle for every label, from which labels are on together.

    apart: labels that are on together lie far from one another. A head must turn sharply between
    a label that is on and a close one that is off, so this makes their common regions larger;
    side by side (apart=False) they are far smaller (benchmarks/heads.py, `order`).

    >>> labels = Labels.from_lists([[0, 3], [0, 3], [1, 2]], n=4)
    >>> order_by_cooccurrence(labels, apart=False).tolist()
    [0, 2, 3, 1]
    """
    labels = Labels.from_dense(labels)
    places = torch.from_numpy(_path(labels))
    if not apart or labels.n < 3:
        return places
    # steps of a golden share of the circle keep any run of the path as evenly spread as can be
    step = round(labels.n * (math.sqrt(5) - 1) / 2)
    while math.gcd(step, labels.n) != 1:
        step += 1
    spread: Tensor = (places * step) % labels.n
    return spread


def _path(labels: Labels) -> NDArray[np.int64]:
    """Companions one after the other: greedily, the label most often on with the last ones."""
    by_label = labels.T
    frequency = by_label.counts().numpy()
    pull = np.zeros(labels.n)
    places = np.full(labels.n, -1, dtype=np.int64)
    for place in range(labels.n):
        best = int(np.where(places < 0, pull * 1e6 + frequency, -1.0).argmax())
        places[best] = place
        pull *= 0.5
        rows = by_label.indices[by_label.indptr[best] : by_label.indptr[best + 1]].long()
        together = np.bincount(labels[rows].indices.numpy(), minlength=labels.n)
        pull += together / np.sqrt(np.maximum(frequency, 1))
    return places
