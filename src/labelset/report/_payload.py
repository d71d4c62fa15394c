"""The data of a report, as JSON that its page carries."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from torch import Tensor

from labelset import metrics
from labelset.report._candidate import candidate_of
from labelset.report._grid import GRID
from labelset.report._input import ReportInput
from labelset.report._packed import packed, plain
from labelset.report._rows import rows_of, sampled, truth_of

__all__ = ["payload"]

FINE = 600_000  # probabilities up to which they are carried to two bytes instead of one


def payload(given: ReportInput, seconds: float = 10.0) -> dict[str, Any]:
    """Everything that the page shows; `seconds` bounds the proofs about each candidate's head."""
    truth = truth_of(given.part.labels)
    rows, n = truth.shape
    sample = sampled(rows, n, len(given.candidates))
    fine = len(sample) * n * len(given.candidates) <= FINE
    made = [candidate_of(each, truth, sample, fine, seconds) for each in given.candidates]
    worth = [
        *(entry["row"] for each in made for entry in each["worst"]),
        *(entry[0] for each in made for entry in each["missing"]),
    ]
    return {
        "title": given.title,
        "recommendation": given.recommendation,
        "optimise": given.optimise,
        "baseline": given.baseline,
        "best": given.best,
        "names": given.names,
        "count": rows,
        "grid": GRID.tolist(),
        "on": packed((truth == 1).sum(0).numpy().astype(np.uint32)),
        "known": packed((truth < 2).sum(0).numpy().astype(np.uint32)),
        "truth": packed(truth[sample].T),
        "rows": rows_of(given, sample, worth),
        "metrics": _metrics(given),
        "candidates": made,
        "notes": [*given.notes, *_notes(sample, truth, fine)],
        "settings": plain(given.settings),
        "files": {str(name): str(path) for name, path in given.files.items()},
    }


def _metrics(given: ReportInput) -> dict[str, Any]:
    """Which way each metric of the tables is better, and what it is in a line."""
    used = dict.fromkeys(row.metric for each in given.candidates for row in each.summary)
    return {name: _metric(name) for name in used}


def _metric(name: str) -> dict[str, Any]:
    try:
        metric = metrics.build(name)
    except (ValueError, TypeError):  # a figure of the comparison's own, such as seconds
        return {"higher": True, "about": ""}
    about = (inspect.getdoc(type(metric)) or "").partition("\n")[0]
    return {"higher": metric.higher_is_better, "about": about}


def _notes(sample: Tensor, truth: Tensor, fine: bool) -> list[str]:
    notes = []
    rows = len(truth)
    if len(sample) < rows:
        notes.append(
            f"To keep this file small it carries the probabilities of {len(sample):,} of the "
            f"{rows:,} test rows, drawn at random. Queries, co-occurrence and the chart of labels "
            "per row are of these rows; every other figure is of all of them."
        )
    if not fine:
        notes.append(
            "Probabilities are kept in 255 steps. Thresholds decide exactly as in Python; query "
            "scores are right to about 0.003 per label."
        )
    unknown = int((truth == 2).sum())
    if unknown:
        notes.append(
            f"{unknown:,} of {truth.numel():,} test labels are unknown and left out everywhere."
        )
    return notes
