"""The part of labels, and of what a loss holds per label, that belongs to a rank."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from labelset import _csr, check
from labelset.distributed._place import Place, is_dtensor
from labelset.labels import Labels
from labelset.linear._entries import _columns
from labelset.losses._base import Loss
from labelset.losses._separable import Separable

__all__ = ["labels_at", "loss_at", "numbers_at"]


def labels_at(labels: Any, place: Place, device: torch.device) -> Any:
    """This rank's labels from its own, or from those of all ranks; arrays go to the device."""
    y = labels.to_local() if is_dtensor(labels) else labels
    if not isinstance(y, (Labels, Tensor)):
        y = _csr.as_tensor(y).to(device)
    if len(y.shape) != 2:
        raise ValueError(f"labels must be 2-D (rows, labels), got shape {tuple(y.shape)}")
    if _choose("rows", y.shape[0], *place.rows):
        y = y[place.rows[0] : place.rows[1]]
    if not _choose("labels", y.shape[1], *place.labels):
        return y
    first, last, _ = place.labels
    if isinstance(y, Labels):
        return _columns(y, first, last)
    check.unit_interval(y)  # all of them, so that every rank refuses what one would
    return y[:, first:last]


def _choose(what: str, got: int, first: int, last: int, every: int) -> bool:
    """Whether all were given, of which this rank's are to be taken."""
    if got == last - first:
        return False
    if got != every:
        raise ValueError(
            f"labels must be given for this rank's {last - first} {what} ({first} to {last}), or "
            f"for all {every}, got {got}"
        )
    return True


def numbers_at(numbers: Tensor, place: Place) -> Tensor:
    """This rank's numbers where one for each of all labels was given; others as they are."""
    first, last, n = place.labels
    return numbers[first:last] if numbers.ndim and len(numbers) == n else numbers


def loss_at(loss: Loss, place: Place) -> Any:
    """The loss of this rank's labels: it knows how many there are in all (`wan`)."""
    if isinstance(loss, Separable):
        given = loss.given(place.labels[2])
        if given is not loss:
            loss = given._with(reduction=loss.reduction, impl=loss.impl)
    return loss._map(lambda one: loss_at(one, place), lambda t: numbers_at(t, place))
