"""Everything that a report carries of one candidate."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelset import metrics
from labelset.artefact import Part, Run
from labelset.calibrate import catalog as maps
from labelset.report._diagnosis import diagnosis_of
from labelset.report._errors import likely_missing, worst_rows
from labelset.report._grid import codes, histograms, positions
from labelset.report._input import CandidateInput, SummaryRow
from labelset.report._intervals import threshold_intervals
from labelset.report._packed import numbers, packed, plain
from labelset.report._probabilities import own_thresholds, probabilities_of
from labelset.report._sets import proof_of

__all__ = ["candidate_of", "reliabilities"]

JUDGED = ("precision", "recall", "f1-micro", "f1-macro", "f1-samples", "subset-accuracy", "hamming")


def candidate_of(
    given: CandidateInput, truth: Tensor, sample: Tensor, fine: bool, seconds: float
) -> dict[str, Any]:
    """One candidate as JSON: numbers of all test rows, probabilities of the sampled ones."""
    run, part = given.run, given.run.scored("test")
    p = probabilities_of(run, part)
    own, exact = own_thresholds(run)
    code = codes(p, own)
    decided = run.decide(p)
    mask = decided.to("cpu").dense(torch.bool)
    return {
        "key": given.key,
        "loss": given.loss,
        "head": given.head,
        "folder": given.folder,
        "summary": [_summary(row) for row in given.summary],
        "map": None if run.map is None else maps.name_of(type(run.map)),
        "rule": "fixed" if run.rule is None else run.rule.name,
        "exact": exact,
        "thresholds": packed(own),
        "intervals": _packed_or_none(threshold_intervals(run)),
        "codes": packed(code[sample].T),
        "fine": packed(positions(p[sample], own, code[sample]).T) if fine else None,
        "histograms": packed(histograms(code, truth)),
        "reliability": {name: _bins(curve) for name, curve in reliabilities(run, part, p).items()},
        "ap": packed(_average_precision(part)),
        "ace": packed(_label_error(p, part)),
        "decided": _judged(decided, part),
        "worst": worst_rows(p, mask, truth),
        "missing": likely_missing(p, truth),
        "doctor": diagnosis_of(run),
        "proof": proof_of(run, seconds),
        "about": plain({key: value for key, value in run.about.items() if key != "history"}),
        "history": plain(run.about.get("history") or []),
    }


def reliabilities(run: Run, part: Part, p: Tensor, per_label: bool = True) -> dict[str, Any]:
    """`after`, the probabilities as they are, and `before` any map was fitted, bins of each."""
    curves = {"after": metrics.reliability(p, part.labels, per_label=per_label)}
    if run.map is not None and run.map.needs_fit:
        assert part.scores is not None
        v = torch.where(part.scores.isnan(), 0.0, part.scores).double()
        curves["before"] = metrics.reliability(
            run.map.before(v).cpu(), part.labels, per_label=per_label
        )
    return curves


def _bins(curve: metrics.Reliability) -> dict[str, Any]:
    """(labels, bins) entries, mean probabilities in 65,535ths, and how many were on."""
    mean = (curve.confidence.nan_to_num(0.0) * 65_535).round()
    on = (curve.frequency.nan_to_num(0.0) * curve.count).round()
    return {
        "count": packed(curve.count.numpy().astype(np.uint32)),
        "on": packed(on.numpy().astype(np.uint32)),
        "mean": packed(mean.numpy().astype(np.uint16)),
    }


def _summary(row: SummaryRow) -> dict[str, Any]:
    given = {"metric": row.metric, "stage": row.stage, "verdict": row.verdict}
    figures = ("mean", "sd", "delta", "low", "high")
    return given | {name: plain(getattr(row, name)) for name in figures}


def _packed_or_none(ends: Tensor | None) -> dict[str, str] | None:
    return None if ends is None else packed(ends.numpy().astype(np.float32))


def _average_precision(part: Part) -> Any:
    try:
        each = metrics.build("map@class").report(part.scores, part.labels).each
    except ValueError:  # no label is on in any row
        each = None
    nothing = np.full(part.labels.n, np.nan, dtype=np.float32)
    return nothing if each is None else each.cpu().numpy().astype(np.float32)


def _label_error(p: Tensor, part: Part) -> Any:
    gaps = metrics.reliability(p, part.labels, per_label=True).gaps()
    return gaps.nanmean(-1).cpu().numpy().astype(np.float32)


def _judged(decided: Any, part: Part) -> dict[str, float | None]:
    values = [metrics.build(name)(decided, part.labels) for name in JUDGED]
    return dict(zip(JUDGED, numbers(values, 8), strict=True))
