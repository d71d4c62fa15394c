"""What one trained model is worth: as it is, with its own thresholds, with calibration.

raw: the loss's own link (sigmoid where it has none) and 0.5. tuned: for each F1 the rule that makes
it largest on held-out rows. calibrated: Platt's map, fitted on held-out rows. Test rows are judged
with what was fitted on validation rows; validation rows by halves, each with what the other
half taught, so that no row is judged by what it was fitted on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from labelset import calibrate, decide
from labelset.artefact import Part, Run
from labelset.labels import Labels
from labelset.metrics import build

__all__ = ["PLAIN", "TRUTH", "TUNED", "View", "views"]

PLAIN = ("map@class", "map@sample", "ndcg@5", "precision@5")
TUNED = {
    "f1-micro": ("global", {"metric": "f1-micro"}),
    "f1-macro": ("per-class", {"metric": "f1-macro"}),
    "f1-samples": ("global", {"metric": "f1-samples"}),
}
TRUTH = ("ace", "mce", "brier", "nll")


class View(NamedTuple):
    """What a metric is given at a stage."""

    stage: str
    metric: str
    given: Any

    def value(self, labels: Labels) -> float:
        """The metric; NaN where it is not defined for these labels."""
        try:
            return build(self.metric)(self.given, labels)
        except ValueError:
            return float("nan")


def views(run: Run, split: str) -> Iterator[View]:
    """Everything that is measured of a part of a run."""
    part = run.scored(split)
    scores = part.scores
    assert scores is not None
    for metric in PLAIN:
        yield View("raw", metric, scores)
    p = run.current_probabilities(scores)
    on = decide.build("fixed", threshold=0.5)(p)
    for metric in TUNED:
        yield View("raw", metric, on)
    for metric in TRUTH:
        yield View("raw", metric, p)
    for metric in TUNED:
        yield View("tuned", metric, _tuned(run, split, metric))
    calibrated = _calibrated(run, split)
    for metric in TRUTH:
        yield View("calibrated", metric, calibrated)


def _tuned(run: Run, split: str, metric: str) -> Labels:
    name, settings = TUNED[metric]

    def learn(fit: Part, judge: Tensor) -> Labels:
        p = run.current_probabilities(fit.scores)
        rule = decide.build(name, **settings).fit(p, fit.labels)
        return rule(run.current_probabilities(judge))

    parts = _taught(run, split, learn)
    return parts[0] if len(parts) == 1 else _woven(parts)


def _calibrated(run: Run, split: str) -> Tensor:
    def learn(fit: Part, judge: Tensor) -> Tensor:
        chosen = calibrate.build("platt", loss=run.loss)
        try:
            mapped: Tensor = chosen.fit(fit.scores, fit.labels, folds=0)(judge)
            return mapped
        except ValueError:  # nothing on, or nothing off: there is nothing to learn from
            plain: Tensor = run.current_probabilities(judge)
            return plain

    parts = _taught(run, split, learn)
    both = torch.empty(sum(map(len, parts)), parts[0].shape[1], dtype=parts[0].dtype)
    for i, part in enumerate(parts):
        both[i :: len(parts)] = part
    return both


def _taught(run: Run, split: str, learn: Any) -> list[Any]:
    """What `learn(fitted on, judged)` gives: validation teaches test, and its halves each other."""
    held = run.scored("valid")
    part = run.scored(split)
    if split != "valid":
        return [learn(held, part.scores)]
    assert held.scores is not None
    halves = [Part(held.labels[i::2], held.scores[i::2]) for i in (0, 1)]
    return [learn(halves[1], halves[0].scores), learn(halves[0], halves[1].scores)]


def _woven(halves: list[Labels]) -> Labels:
    """Even rows from the first, odd rows from the second."""
    both = Labels.stack(halves)
    order = torch.empty(len(both), dtype=torch.int64)
    order[0::2] = torch.arange(len(halves[0]))
    order[1::2] = torch.arange(len(halves[1])) + len(halves[0])
    return both[order]
