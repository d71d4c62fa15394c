"""The report of a comparison: what `compare` found, as the page wants it."""

from __future__ import annotations

from labelset.compare import Comparison, finished
from labelset.report._input import CandidateInput, ReportInput, SummaryRow

__all__ = ["as_input"]


def as_input(found: Comparison) -> ReportInput:
    """What the page shows; each candidate by its first seed."""
    candidates = []
    for key, held in found.standings.items():
        loss, _, head = key.rpartition("+")
        summary = [SummaryRow(**standing.as_json()) for standing in held]
        run = finished(found.run(key), found.plan.optimise)
        candidates.append(CandidateInput(key, loss, head, run, summary))
    test = found.test_rows()
    return ReportInput(
        candidates=candidates,
        title=f"Comparison on {found.source}",
        recommendation=found.recommendation,
        optimise=found.plan.optimise,
        baseline=found.plan.base,
        best=found.best,
        texts=test.get("texts"),
        images=test.get("images"),
        settings=found.plan.as_json(),
        files={"results": "results.csv", "summary": "summary.csv", "model": "best/model.json"},
    )
