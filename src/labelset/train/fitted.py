"""What every way to fit returns: scores of rows that a model has not seen, the model, its cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from labelset.encode import Encoder
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


class Diverged(RuntimeError):
    """The loss, a weight or a score became infinite or NaN."""

    checkpoint: Path | None = None
    """The last good one, which is left as it is."""

    def __str__(self) -> str:
        kept = f"; the last good checkpoint is {self.checkpoint}" if self.checkpoint else ""
        return f"{super().__str__()}{kept}"
