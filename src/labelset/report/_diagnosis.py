"""What the doctor says about a candidate, and which labels it flags."""

from __future__ import annotations

import copy
from typing import Any

import torch

from labelset.artefact import Part, Run
from labelset.doctor import diagnose

__all__ = ["diagnosis_of"]

CELLS = 1_000_000  # scores that the doctor looks at; beyond, rows at equal distances


def diagnosis_of(run: Run) -> dict[str, Any] | None:
    """The findings on held-out rows, label names as numbers; None where there is nothing to see.

    The validation rows, or the test rows where there are none. Proofs about the head are left to
    `proof_of`.
    """
    valid = run.parts.get("valid")
    on = "test" if valid is None or valid.scores is None else "valid"
    seen = copy.copy(run)
    seen.head = None
    seen.parts = run.parts | {on: _fewer(run.scored(on))}
    try:
        found = diagnose(seen, on=on)
    except ValueError:  # such as: no label is known in the held-out rows
        return None
    place = {name: i for i, name in enumerate(run.names)}
    findings = [
        {
            "cause": finding.cause,
            "what": finding.what,
            "evidence": finding.evidence,
            "remedy": finding.remedy,
            "labels": [place[name] for name in finding.labels],
        }
        for finding in found.findings
    ]
    rows = [len(seen.parts[on]), len(run.parts[on])]
    return {"on": on, "rows": rows, "summary": found.summary, "findings": findings}


def _fewer(part: Part) -> Part:
    assert part.scores is not None
    most = max(1, CELLS // part.labels.n)
    if len(part) <= most:
        return part
    rows = torch.linspace(0, len(part) - 1, most).round().long()
    return Part(part.labels[rows], part.scores[rows])
