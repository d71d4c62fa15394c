"""How long a study will take, before it begins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from labelset_studies._cell import Cell
from labelset_studies._work import Workshop

STEP = {"cpu": 2e-3, "cuda": 3e-3}
"""Seconds of a step beside its products."""
RATE = {"cpu": 3e10, "cuda": 1e13}
"""Products per second, forward and backward."""
ENTRY = {"cpu": 3e-9, "cuda": 2e-10}
"""Seconds per entry of the test rows and resample, per metric."""
JUDGED = 1e-7
"""Seconds per entry of the test rows for maps, rules and the metric itself, on the processor."""


def estimate(cells: Iterable[Cell], workshop: Workshop) -> dict[str, tuple[int, float]]:
    """Data set -> cells and seconds of all of them on one core, by rules of thumb.

    They count steps, products and resampled entries; a real machine may be twice as quick or slow.
    """
    counts: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    for cell in cells:
        counts[cell.data] += 1
        seconds[cell.data] += _seconds(cell, workshop)  # type: ignore[assignment]
    return {name: (counts[name], float(seconds[name])) for name in counts}


def _seconds(cell: Cell, workshop: Workshop) -> float:
    ready = workshop.opened(cell.data)
    device = workshop.device_for(ready)
    rows, labels = len(ready.task.rows["train"]), ready.dataset.n
    batch = int(cell.candidate.training.get("batch") or max(32, min(1024, rows / 12)))
    if cell.candidate.micro:
        batch = cell.candidate.micro
    epochs = cell.epochs * (2 if cell.candidate.pseudo else 1)
    width = ready.task.width if not ready.task.sparse else ready.task.width / 20
    products = 6.0 * rows * width * labels * epochs / RATE[device]
    entries = len(ready.task.rows["test"]) * labels
    drawn = 0 if cell.trial is not None else min(200, max(2**28 // entries, 50))
    return (
        STEP[device] * epochs * rows / batch
        + products
        + (ENTRY[device] * drawn + JUDGED) * entries * len(cell.metrics)
        + 0.1
    )
