"""What a report is made of: candidates, their runs, and what is known of the test rows."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from labelset import check, inputs
from labelset.model import SavedModel, Split
from labelset.report.words import Point, because, candidate_words, compared, headline, how, notes
from labelset.runs import Comparison, Plan

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
    mean_low: float | None = None
    """The interval of `mean` itself: from here to `mean_high`."""
    mean_high: float | None = None

    def __post_init__(self) -> None:
        check.one_of("stage", self.stage, STAGES)
        check.one_of("verdict", self.verdict, VERDICTS)


@dataclass(frozen=True)
class CandidateInput:
    """One candidate: what it is called, its saved run, and how it did."""

    key: str
    loss: str
    head: str
    run: SavedModel
    """With scores of the test part; those of the valid part, map, rule and head where it has them;
    `about["history"]` lists `{epoch, loss, valid, seconds}`."""
    summary: Sequence[SummaryRow] = ()
    words: str = ""
    """What it is, for somebody who has not heard of it."""
    folder: str = ""
    """Where the run lies, relative to the report, if it is on disk: for commands that go on."""


@dataclass(frozen=True)
class ReportInput:
    """A whole comparison. All candidates are judged on the same test rows.

    >>> part = Split([[1, 0], [0, 1]], [[2.0, -1.0], [0.5, 3.0]])
    >>> run = SavedModel(names=["fork", "knife"], splits={"test": part})
    >>> given = ReportInput(candidates=[CandidateInput("bce", "bce", "linear", run)])
    >>> given.best, given.names
    ('bce', ['fork', 'knife'])
    """

    candidates: Sequence[CandidateInput]
    title: str = "Comparison"
    recommendation: str = ""
    """The answer in a sentence."""
    because: Sequence[Point] = ()
    """Why, point by point: what it is about, and what is to be said of it."""
    how: Sequence[Point] = ()
    """How the answer was found, in the same way."""
    card: dict[str, Any] = field(default_factory=dict)
    """What is known of the data, as `Comparison.data_card` has it."""
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
    reasons: dict[str, Any] = field(default_factory=lambda: {"rows": {}, "weights": {}})
    """Why rows have their labels by the recommended candidate, and the largest weights of labels,
    as `Comparison.reasons` has them."""
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
    def part(self) -> Split:
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


def _known_rows(part: Split) -> None:
    known = inputs.hard(part.labels).known()
    if not len(part) or not part.labels.n or (known is not None and not bool(known.any())):
        raise ValueError(
            f"a report needs test rows with known labels, got {part.labels}; give at least one"
        )


def _one_per_row(what: str, given: Any, rows: int) -> None:
    if given is not None and len(given) != rows:
        raise ValueError(f"{what} must be one per test row, {rows}, got {len(given)}")


FLAGS = ("epochs", "batch", "lr")
"""Settings of training that have an option of their own; others go by `--train KEY=VALUE`."""


def command_of(plan: Plan, source: str) -> str:
    """What to type, data options (`--data`) aside, which a comparison does not keep.

    >>> plan = Plan(losses=("bce", "asl:margin=0"), seeds=2, training={"epochs": 3})
    >>> print(command_of(plan, "digits"))
    labelset compare digits --losses bce asl:margin=0 --heads linear --seeds 2 --baseline bce \
--optimise f1-micro --epochs 3 --out RUN
    """
    if (len(plan.losses), len(plan.heads), plan.seeds) == (1, 1, 1) and "epochs" in plan.training:
        words = ["labelset", "train", short_name(source), "--loss", plan.baseline]
        words += ["--head", *plan.heads, "--optimise", plan.optimise]
    else:
        words = ["labelset", "compare", short_name(source)]
        words += ["--losses", *plan.losses, "--heads", *plan.heads]
        words += [] if plan.seeds is None else ["--seeds", str(plan.seeds)]
        words += ["--baseline", plan.baseline, "--optimise", plan.optimise]
    words += ["--also", *plan.also] if plan.also else []
    words += ["--single"] if plan.single else []
    words += [] if plan.seconds is None else ["--time-budget", f"{plan.seconds:g}"]
    words += [] if plan.effort == "normal" else ["--effort", plan.effort]
    for name in ("encoder", "missing", "max_ms", "max_mb"):
        given, option = getattr(plan, name), f"--{name.replace('_', '-')}"
        words += [] if given is None else [option, str(given)]
    for name, value in plan.training.items():
        if value is not None:
            words += _option(name, value)
    return shlex.join([*words, "--out", "RUN"])


def short_name(source: str) -> str:
    """A file by its name alone: where it lay is nobody's business.

    >>> short_name("/home/somebody/films.csv"), short_name("digits")
    ('films.csv', 'digits')
    """
    return Path(source).name or source


def _option(name: str, value: Any) -> list[str]:
    if name in FLAGS:
        return [f"--{name}", str(value)]
    given = value if isinstance(value, str) else json.dumps(value)
    return ["--train", f"{name}={given}"]


def as_input(found: Comparison) -> ReportInput:
    """What the page shows; each candidate by its first seed."""
    about = json.loads((found.out / "plan.json").read_text(encoding="utf-8"))
    test, many = found.test_rows(), compared(found)
    return ReportInput(
        candidates=[_candidate(found, key) for key in found.standings],
        title=f"{'Comparison' if many else 'Training'} on {short_name(found.source)}",
        recommendation=headline(found),
        because=because(found),
        how=how(found),
        card=found.data_card(),
        optimise=found.plan.optimise,
        baseline=found.plan.base,
        best=found.best,
        texts=test.get("texts"),
        images=test.get("images"),
        reasons=found.reasons(),
        settings=_settings(found, about),
        files={
            "every figure": "results.csv",
            "the table": "summary.csv",
            "all of it as JSON": "compare.json",
            "the recommended model": "best/model.json",
        },
        notes=notes(found),
    )


def _candidate(found: Comparison, key: str) -> CandidateInput:
    loss, _, head = key.rpartition("+")
    summary = [SummaryRow(**standing.as_json()) for standing in found.standings[key]]
    task = next(task for task in found.tasks if task.key == key)
    words = candidate_words(key, head, loss)
    best = found.out / "best" / "model.json"
    if key == found.best and best.is_file():  # as it is now: its rule may have been changed
        return CandidateInput(key, loss, head, SavedModel.open(best.parent), summary, words, "best")
    return CandidateInput(key, loss, head, found.run(key), summary, words, task.folder)


def _settings(found: Comparison, about: dict[str, Any]) -> dict[str, Any]:
    """The command, and what else the numbers depend on."""
    return {
        "command": command_of(found.plan, found.source),
        "plan": found.plan.as_json(),
        "data": {"source": short_name(found.source), "fingerprint": about.get("data")},
        "versions": about.get("versions"),
    }
