"""Many models, one answer: `compare` candidates on one's own data, `tune` a loss."""

from typing import TYPE_CHECKING

from labelset.lazy import door

if TYPE_CHECKING:
    from labelset.runs.choosing import Candidate, Choice, choose_model
    from labelset.runs.comparison import (
        Comparison,
        Row,
        Standing,
        compare,
        default_jobs,
        reopened,
        table_rows,
    )
    from labelset.runs.folder import likely_missing, worst_rows
    from labelset.runs.from_memory import compare_rows
    from labelset.runs.judging import (
        Judge,
        Judgement,
        findings_of,
        judge_again,
        judgement_of,
        proof_of,
        rounded,
        stage_of,
        stored_probabilities,
        threshold_intervals,
    )
    from labelset.runs.label_text import read_label_texts
    from labelset.runs.plan import Plan, Task, parse
    from labelset.runs.pool import KILLED, is_done
    from labelset.runs.resample import draws, resampled
    from labelset.runs.search import suits
    from labelset.runs.tuning import Tuned, space, tune
else:
    __getattr__, __dir__ = door(__name__)


__all__ = [
    "DEFAULT_LOSSES",
    "EFFORTS",
    "KILLED",
    "PARALLEL",
    "SEEDS",
    "Candidate",
    "Choice",
    "Comparison",
    "Judge",
    "Judgement",
    "Plan",
    "Row",
    "Standing",
    "Task",
    "Tuned",
    "choose_model",
    "compare",
    "compare_rows",
    "default_jobs",
    "draws",
    "findings_of",
    "is_done",
    "judge_again",
    "judgement_of",
    "likely_missing",
    "parse",
    "proof_of",
    "read_label_texts",
    "reopened",
    "resampled",
    "rounded",
    "space",
    "stage_of",
    "stored_probabilities",
    "suits",
    "table_rows",
    "threshold_intervals",
    "tune",
    "worst_rows",
]

DEFAULT_LOSSES = (*("bce", "focal", "asl", "spa", "two-way", "sigmoid-f1", "hill", "splc"),)
SEEDS = 3
"""How often the loop trains each candidate."""
PARALLEL = ("models", "ddp", "fsdp")
"""What ranks do: train models of their own, or all of them each model, in either of two ways."""
EFFORTS = ("quick", "normal", "best")
"""How much a search tries."""
