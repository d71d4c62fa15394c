"""Why does it predict nothing? `diagnose(run)` separates the causes and names the remedies."""

from __future__ import annotations

from torch import Tensor

from labelset.doctor.causes import (
    Diagnosis,
    Facts,
    Finding,
    facts,
    of_head,
    of_labels,
    of_link,
    of_probabilities,
    of_thresholds,
)
from labelset.model import SavedModel, Split

__all__ = ["Diagnosis", "Finding", "diagnose"]


def diagnose(
    run: SavedModel, on: str = "valid", seconds: float = 20.0, probabilities: Tensor | None = None
) -> Diagnosis:
    """Look at the held-out rows of a run and say what keeps labels from being predicted.

    `seconds` bounds the proofs about label sets that the head cannot represent; `probabilities`
    are those of the rows, where they are known already.
    """
    part = run.scored(on)
    if not int(part.labels.counts().sum()):
        nothing = "No label is on in the held-out rows: nothing can be judged by them."
        remedy = "Hold out rows in which labels are on, or diagnose another part with --on."
        return Diagnosis(nothing, [Finding("too-few", nothing, f"{len(part)} rows", remedy)])
    p = probabilities
    if p is None:
        p = run.predictor.or_sigmoid().probabilities(part.scores)
    seen = facts(run, part, p)
    findings = [*of_labels(run, seen), *of_link(run, part, p)]
    if not any(finding.cause == "wrong-link" for finding in findings):
        findings += of_probabilities(run, part, p)
    findings += of_thresholds(run, part, p, seen)
    findings += of_head(run, part, seconds)
    return Diagnosis(_summary(run, part, p, seen), findings)


def _summary(run: SavedModel, part: Split, p: Tensor, seen: Facts) -> str:
    there = int((seen.on > 0).sum())
    silent = int(seen.silent.sum())
    counts, truth = run.predictor.decide(p).counts(), part.labels.counts()
    empty = int(((counts == 0) & (truth > 0)).sum())
    return (
        f"Of {there} labels that are on in the held-out rows, {there - silent} are found at least "
        f"once and {silent} never. {empty} of the {int((truth > 0).sum())} rows that have labels "
        f"get none; on average {truth.double().mean():.2f} are on and "
        f"{counts.double().mean():.2f} are predicted."
    )
