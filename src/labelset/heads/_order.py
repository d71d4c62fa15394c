"""Which labels should be neighbours on the circle of the DFT head."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelset.labels import Labels

__all__ = ["order_by_cooccurrence"]


def order_by_cooccurrence(labels: Any) -> Tensor:
    """A place for every label, so that labels that are on together lie side by side.

    Greedy: the path starts at the most frequent label and goes on to the unplaced one that is
    most often on together with the last placed ones (nearer ones count more).

    >>> order_by_cooccurrence(Labels.from_lists([[0, 3], [0, 3], [1, 2]], n=4)).tolist()
    [0, 2, 3, 1]
    """
    labels = Labels.from_dense(labels)
    by_label = labels.T
    frequency = by_label.counts().numpy()
    pull = np.zeros(labels.n)
    places = np.full(labels.n, -1)
    for place in range(labels.n):
        free = places < 0
        best = int(np.where(free, pull * 1e6 + frequency, -1.0).argmax())
        places[best] = place
        pull *= 0.5
        start, end = int(by_label.indptr[best]), int(by_label.indptr[best + 1])
        rows = labels[by_label.indices[start:end].long()]
        together = np.bincount(rows.indices.numpy(), minlength=labels.n)
        pull += together / np.sqrt(np.maximum(frequency, 1))
    return torch.from_numpy(places)
