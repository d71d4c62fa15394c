"""Where a head starts: at what the labels' frequencies say."""

from __future__ import annotations

import torch

from labelset.heads.linear import Linear
from labelset.labels import Labels

__all__ = ["start_at_frequencies"]


def start_at_frequencies(head: Linear, labels: Labels) -> None:
    """The bias of label j becomes logit((on_j + 1/2) / (known_j + 1)), counted on training rows.

    Else the first epochs only learn that most labels are off, and rare labels, whose gradients
    are small against that, learn nothing.

    >>> head = Linear(features=3, labels=2)
    >>> start_at_frequencies(head, Labels.from_dense([[1, 0], [1, 0], [0, 0]]))
    >>> head.classifier.bias.detach().sigmoid()
    tensor([0.6250, 0.1250])
    """
    if head.classifier.bias is None:
        return
    values = torch.ones(len(labels.indices)) if labels.values is None else labels.values
    zero = torch.zeros(labels.n, dtype=torch.float64)
    on = zero.index_add(0, labels.indices.long(), values.nan_to_num(0.0).double())
    unknown = zero.index_add(0, labels.indices.long(), values.isnan().double())
    share = (on + 0.5) / (len(labels) - unknown + 1)
    with torch.no_grad():
        head.classifier.bias.copy_(torch.logit(share))
