"""What labels that carry weights count for: losses by them, rows as often, or why not."""

from __future__ import annotations

import torch
from torch import Tensor

from labelset.labels import Labels
from labelset.losses import Loss


def weighted_loss(loss: Loss, labels: Labels) -> Loss:
    """The loss as it is, or by the weights that the labels carry; ValueError where it has none."""
    if labels.weights is None:
        return loss
    from labelset.train.weighted import Weighted  # which needs more losses than are used

    return Weighted(of=loss)


def repeated(labels: Labels) -> Tensor | None:
    """Numbers of the rows, each as often as it counts; None where weights say no such thing."""
    weights = labels.row_weights
    if weights is None or not bool((weights == weights.round()).all()):
        return None
    return torch.arange(len(labels)).repeat_interleave(weights.long())


def refusal(loss: Loss, labels: Labels) -> str | None:
    """Why nothing can be fitted with a loss by what these labels count; None where it can."""
    if labels.weights is None or repeated(labels) is not None:
        return None
    try:
        weighted_loss(loss, labels)(torch.zeros(1, labels.n), labels[:1])
    except ValueError as why:
        return str(why)
    return None
