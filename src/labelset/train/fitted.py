"""What every way to fit returns: scores of rows that a model has not seen, the model, its cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

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


@dataclass(frozen=True)
class Failed:
    """A candidate of which nothing came."""

    reason: str
