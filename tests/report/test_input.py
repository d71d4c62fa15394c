"""What a report refuses, and what it fills in."""

import pytest
import torch

from labelset.model import SavedModel, Split
from labelset.report import CandidateInput, ReportInput, SummaryRow


def candidate(key="a", labels=((1, 0), (0, 1)), names=("x", "y"), part="test"):
    n = len(labels)
    parts = {part: Split(torch.tensor(labels, dtype=torch.float32), torch.zeros(n, 2))}
    return CandidateInput(key, "bce", "linear", SavedModel(names=list(names), splits=parts))


def test_the_first_candidate_is_best_and_baseline_unless_told():
    given = ReportInput([candidate("a"), candidate("b")])
    assert (given.best, given.baseline) == ("a", "a")
    assert ReportInput([candidate("a"), candidate("b")], best="b").best == "b"


@pytest.mark.parametrize(
    ("candidates", "extra", "words"),
    [
        ([], {}, "candidates with different keys"),
        (["a", "a"], {}, "candidates with different keys"),
        (["a"], {"best": "z"}, "best must be one of a, got 'z'"),
        (["a"], {"texts": ["one"]}, "texts must be one per test row, 2, got 1"),
        (["a"], {"images": torch.zeros(2, 4, 4, dtype=torch.uint8)}, "1 or 3, height, width"),
        (["a"], {"images": torch.zeros(1, 3, 4, 4, dtype=torch.uint8)}, "one per test row"),
    ],
)
def test_bad_reports_are_refused_in_words(candidates, extra, words):
    with pytest.raises(ValueError, match=words):
        ReportInput([candidate(key) for key in candidates], **extra)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"labels": ((1, 1), (0, 1))}, "different test labels"),
        ({"names": ("x", "z")}, "different label names"),
        ({"part": "valid"}, "no scores of the test part"),
    ],
)
def test_candidates_must_be_about_the_same_rows(other, words):
    with pytest.raises(ValueError, match=words):
        ReportInput([candidate("a"), candidate("b", **other)])


def test_soft_and_wholly_unknown_test_labels_are_refused():
    with pytest.raises(ValueError, match="got soft ones"):
        ReportInput([candidate(labels=((0.5, 0), (0, 1)))])
    with pytest.raises(ValueError, match="test rows with known labels"):
        ReportInput([candidate(labels=((torch.nan,) * 2,) * 2)])


def test_stages_and_verdicts_are_known_words():
    with pytest.raises(ValueError, match="stage"):
        SummaryRow("f1-macro", "cooked", 0.5)
    with pytest.raises(ValueError, match="verdict"):
        SummaryRow("f1-macro", "raw", 0.5, verdict="great")
