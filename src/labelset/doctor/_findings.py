"""Finding: what is wrong, the evidence, and the remedy, in sentences and as JSON."""

from __future__ import annotations

import textwrap
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Diagnosis", "Finding"]

SHOWN = 6  # labels named in a sentence


@dataclass(frozen=True)
class Finding:
    """One cause of trouble."""

    cause: str
    """dead, not-carried, too-few, wrong-link, miscalibrated, threshold, unargmaxable"""
    what: str
    """What is wrong, in a sentence."""
    evidence: str
    remedy: str
    labels: list[str] = field(default_factory=list)
    """The labels concerned; empty where all are."""
    numbers: dict[str, Any] = field(default_factory=dict)
    """The figures behind the evidence."""

    def __str__(self) -> str:
        lines = [f"[{self.cause}] {self.what}"]
        if self.labels:
            more = f" and {len(self.labels) - SHOWN} more" if len(self.labels) > SHOWN else ""
            lines.append(f"labels: {', '.join(self.labels[:SHOWN])}{more}")
        lines += [f"evidence: {self.evidence}", f"remedy: {self.remedy}"]
        return "\n".join(
            textwrap.fill(line, 96, initial_indent="  " if i else "", subsequent_indent="    ")
            for i, line in enumerate(lines)
        )


@dataclass(frozen=True)
class Diagnosis:
    """What is the matter with a run, and what to do about it."""

    summary: str
    findings: list[Finding]

    @property
    def causes(self) -> list[str]:
        """The causes found, in order."""
        return [finding.cause for finding in self.findings]

    def as_json(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {"summary": self.summary, "findings": [asdict(f) for f in self.findings]}

    def __str__(self) -> str:
        body = [str(finding) for finding in self.findings] or ["Nothing is wrong that shows here."]
        return "\n\n".join([textwrap.fill(self.summary, 96), *body])
