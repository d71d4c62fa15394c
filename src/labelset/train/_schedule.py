"""Learning rates over time, as a share of the highest one."""

from __future__ import annotations

import math

__all__ = ["SCHEDULES", "share"]

SCHEDULES = ("one-cycle", "cosine", "constant")
WARM = 0.3
"""Share of a one-cycle schedule that rises."""
START, END = 1 / 25, 1 / 25e4
"""Where a one-cycle schedule begins and ends."""


def share(schedule: str, step: int, steps: int) -> float:
    """The learning rate of a step, counted from 0, divided by the highest one.

        one-cycle  half a cosine wave from 1/25 up to 1, then another down to almost 0
        cosine     (1 + cos(pi step / steps)) / 2
        constant   1

    >>> [round(share("cosine", step, 4), 3) for step in range(4)]
    [1.0, 0.854, 0.5, 0.146]
    """
    if schedule == "constant":
        return 1.0
    if schedule == "cosine":
        return (1 + math.cos(math.pi * step / steps)) / 2
    top, last = WARM * steps - 1, steps - 1
    if step <= top:
        return _between(START, 1.0, step / top if top > 0 else 1.0)
    return _between(1.0, END, (step - top) / (last - top))


def _between(a: float, b: float, done: float) -> float:
    """From a to b on half a cosine wave."""
    return b + (a - b) / 2 * (1 + math.cos(math.pi * done))
