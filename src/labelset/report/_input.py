"""What a report is made of: the candidates of a comparison and what is known of its test rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from labelset import _given, check
from labelset.artefact import Part, Run

__all__ = ["STAGES", "VERDICTS", "CandidateInput", "ReportInput", "SummaryRow"]

STAGES = ("raw", "tuned", "calibrated")
VERDICTS = ("better", "worse", "no difference", "baseline")


@dataclass(frozen=True)
class SummaryRow:
    """One metric of one candidate at one stage, over the folds or seeds of the comparison."""

    metric: str
    stage: str
    """`raw`, `tuned` (thresholds fitted) or `calibrated` (map and thresholds fitted)."""
    mean: float
    sd: float | None = None
    """Standard deviation over repetitions; None where there was one only."""
    delta: float | None = None
    """Mean difference from the baseline."""
    low: float | None = None
    """The interval of `delta`: from `low` to `high`."""
    high: float | None = None
    verdict: str = "no difference"
    """`better`, `worse`, `no difference` or, for the baseline itself, `baseline`."""

    def __post_init__(self) -> None:
        check.one_of("stage", self.stage, STAGES)
        check.one_of("verdict", self.verdict, VERDICTS)


@dataclass(frozen=True)
class CandidateInput:
    """One candidate: what it is called, its saved run, and how it did."""

    key: str
    loss: str
    head: str
    run: Run
    """With scores of the test part; those of the valid part, map, rule and head where it has them;
    `about["history"]` lists `{epoch, loss, valid, seconds}`."""
    summary: Sequence[SummaryRow] = ()
    folder: str = ""
    """Where the run lies, relative to the report, if it is on disk: for commands that go on."""


@dataclass(frozen=True)
class ReportInput:
    """A whole comparison. All candidates are judged on the same test rows.

    >>> part = Part([[1, 0], [0, 1]], [[2.0, -1.0], [0.5, 3.0]])
    >>> run = Run(names=["fork", "knife"], parts={"test": part})
    >>> given = ReportInput(candidates=[CandidateInput("bce", "bce", "linear", run)])
    >>> given.best, given.names
    ('bce', ['fork', 'knife'])
    """

    candidates: Sequence[CandidateInput]
    title: str = "Comparison"
    recommendation: str = ""
    """The answer in a sentence."""
    optimise: str = ""
    """The metric that decides."""
    baseline: str = ""
    """The key of the candidate that the others are compared with; the first unless given."""
    best: str = ""
    """The key of the recommended candidate; the first unless given."""
    texts: Sequence[str] | None = None
    """One per test row."""
    images: Tensor | None = None
    """(test rows, 1 or 3, height, width) uint8."""
    settings: dict[str, Any] = field(default_factory=dict)
    """What is needed to run it again, as JSON."""
    files: dict[str, str] = field(default_factory=dict)
    """What a file is -> its path, relative to the report."""
    notes: Sequence[str] = ()
    """What else a reader must know to read the figures aright."""

    def __post_init__(self) -> None:
        keys = [candidate.key for candidate in self.candidates]
        if not keys or len(set(keys)) < len(keys):
            raise ValueError(f"a report needs candidates with different keys, got {keys}")
        for name in ("baseline", "best"):
            given = getattr(self, name) or keys[0]
            if given not in keys:
                raise ValueError(f"{name} must be one of {', '.join(keys)}, got {given!r}")
            object.__setattr__(self, name, given)
        for candidate in self.candidates:
            _same_rows(candidate, self.candidates[0])
        _known_rows(self.part)
        _one_per_row("texts", self.texts, len(self.part))
        _one_per_row("images", self.images, len(self.part))
        if self.images is not None and (
            self.images.ndim != 4 or self.images.shape[1] not in (1, 3)
        ):
            raise ValueError(
                f"images must be (rows, 1 or 3, height, width), got {tuple(self.images.shape)}"
            )

    @property
    def names(self) -> list[str]:
        """What the labels are called."""
        return self.candidates[0].run.names

    @property
    def part(self) -> Part:
        """The test rows, with the scores of the first candidate."""
        return self.candidates[0].run.scored("test")

    def candidate(self, key: str) -> CandidateInput:
        """The candidate of that key."""
        return next(candidate for candidate in self.candidates if candidate.key == key)


def _same_rows(candidate: CandidateInput, first: CandidateInput) -> None:
    part, other = candidate.run.scored("test"), first.run.scored("test")
    if candidate.run.names != first.run.names:
        raise ValueError(f"{candidate.key} and {first.key} have different label names")
    if part.labels != other.labels:
        raise ValueError(f"{candidate.key} and {first.key} have different test labels")


def _known_rows(part: Part) -> None:
    known = _given.hard(part.labels).known()
    if not len(part) or not part.labels.n or (known is not None and not bool(known.any())):
        raise ValueError(
            f"a report needs test rows with known labels, got {part.labels}; give at least one"
        )


def _one_per_row(what: str, given: Any, rows: int) -> None:
    if given is not None and len(given) != rows:
        raise ValueError(f"{what} must be one per test row, {rows}, got {len(given)}")
