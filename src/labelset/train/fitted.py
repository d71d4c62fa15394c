"""What every way to fit returns: scores of rows that a model has not seen, the model, its cost; and
what the weights that labels carry count for in each of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from labelset.encode import Encoder
from labelset.labels import Labels
from labelset.losses import Loss


@dataclass(frozen=True, eq=False)
class Fitted:
    """One candidate, fitted by members that each leave out a fold.

    Member k is fitted on the rows whose fold is not k and scores those whose fold is k. A row of
    fold -1 is fitted on by all members and scored by none.
    """

    scores: Tensor
    """(rows, labels) float32: of each row by the member that has not seen it; else 0."""
    model: Any
    """What is kept: called with features it gives (rows, labels) scores."""
    loss: Loss | None
    """What the scores mean, by its link where it has one; None: they are log-odds."""
    seconds: float
    about: dict[str, Any] = field(default_factory=dict)
    """Settings and how the fit went, as JSON."""
    encoder: Encoder | None = None
    """That of this model alone, trained with it; None: it takes the features that were given."""


@dataclass(frozen=True)
class Failed:
    """A candidate of which nothing came."""

    reason: str


LATE = Failed("there was no time left for it")


class Diverged(RuntimeError):
    """The loss, a weight or a score became infinite or NaN."""

    checkpoint: Path | None = None
    """The last good one, which is left as it is."""

    def __str__(self) -> str:
        kept = f"; the last good checkpoint is {self.checkpoint}" if self.checkpoint else ""
        return f"{super().__str__()}{kept}"


# ---- weights ------------------------------------------------------------------------------------


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
