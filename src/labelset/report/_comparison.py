"""The report of a comparison: what `compare` found, as the page wants it."""

from __future__ import annotations

import json
from typing import Any

from labelset.artefact import Run
from labelset.compare import Comparison, finished
from labelset.report._command import command_of, short_name
from labelset.report._input import CandidateInput, ReportInput, SummaryRow

__all__ = ["as_input"]


def as_input(found: Comparison) -> ReportInput:
    """What the page shows; each candidate by its first seed."""
    about = json.loads((found.out / "plan.json").read_text(encoding="utf-8"))
    test = found.test_rows()
    return ReportInput(
        candidates=[_candidate(found, key) for key in found.standings],
        title=f"Comparison on {short_name(found.source)}",
        recommendation=found.recommendation,
        optimise=found.plan.optimise,
        baseline=found.plan.base,
        best=found.best,
        texts=test.get("texts"),
        images=test.get("images"),
        settings=_settings(found, about),
        files={
            "every figure": "results.csv",
            "the table": "summary.csv",
            "all of it as JSON": "compare.json",
            "the recommended model": "best/model.json",
        },
        notes=_notes(found),
    )


def _candidate(found: Comparison, key: str) -> CandidateInput:
    loss, _, head = key.rpartition("+")
    summary = [SummaryRow(**standing.as_json()) for standing in found.standings[key]]
    task = next(task for task in found.plan.tasks() if task.key == key)
    best = found.out / "best" / "model.json"
    if key == found.best and best.is_file():  # as it is now: its rule may have been changed
        return CandidateInput(key, loss, head, Run.open(best.parent), summary, "best")
    run = finished(found.run(key), found.plan.optimise)
    return CandidateInput(key, loss, head, run, summary, task.folder)


def _settings(found: Comparison, about: dict[str, Any]) -> dict[str, Any]:
    """The command, and what else the numbers depend on."""
    return {
        "command": command_of(found.plan, found.source),
        "plan": found.plan.as_json(),
        "data": {"source": short_name(found.source), "fingerprint": about.get("data")},
        "versions": about.get("versions"),
    }


def _notes(found: Comparison) -> list[str]:
    seeds = found.plan.seeds
    over = f"means over {seeds} seeds" if seeds > 1 else "of one seed"
    first = "the model of the first seed" if seeds > 1 else "that model"
    return [
        f"The figures of the table are {over}, and each tuned one is by thresholds tuned for that "
        f"very metric. Below, {first} is shown as it would be used, with the one map and rule "
        f"fitted for {found.plan.optimise}, so that other metrics may differ from the table's.",
        *(f"{key} failed and is not shown: {why}." for key, why in found.failed.items()),
    ]
