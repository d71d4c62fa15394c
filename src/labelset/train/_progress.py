"""What a running training tells its caller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Callback", "Progress"]


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where training stands. It is told at least after each epoch, at most ten times a second."""

    epoch: int
    """Of which this is news, counted from 0."""
    epochs: int
    done: float
    """Share of all steps that are done."""
    loss: float
    """Mean training loss of this epoch so far."""
    monitor: str | None
    """What `value` and `best` measure."""
    value: float | None
    """The validation metric after the last full epoch."""
    best: float | None
    best_epoch: int | None
    seconds: float
    """Since training began, earlier sessions included."""
    left: float
    """Seconds that the rest will take at this pace."""
    epoch_over: bool


Callback = Callable[[Progress], object]
