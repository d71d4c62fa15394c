"""Static figures of a comparison, for papers: SVG, and PNG where matplotlib is installed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from labelset.charts import Band, Bars, Line, Panel, can_png, differences, png, round_ticks, svg
from labelset.files import write_bytes
from labelset.metrics import Reliability
from labelset.report.content import STAGES, CandidateInput, ReportInput, SummaryRow
from labelset.report.payload import GRID, codes, histograms, reliabilities, truth_of
from labelset.runs import stored_probabilities


def write_figures(
    given: ReportInput, folder: str | Path, png_too: bool | None = None
) -> list[Path]:
    """Write every figure to a folder as SVG, and as PNG: if asked to, or if matplotlib is there.

    candidates (differences from the baseline), precision-recall, reliability, scores and
    labels-per-row (of the recommended candidate), training.

    >>> import tempfile
    >>> from labelset.model import Split, SavedModel
    >>> run = SavedModel(names=["fork", "knife"], splits={"test": Split([[1, 0]], [[2.0, -1.0]])})
    >>> given = ReportInput([CandidateInput("bce", "bce", "linear", run)])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in write_figures(given, folder, png_too=False)]
    ['precision-recall.svg', 'reliability.svg', 'scores.svg', 'labels-per-row.svg']
    """
    if png_too and not can_png():
        raise ValueError(
            "PNG figures need matplotlib: pip install 'labelset[figures]', or ask for SVG only"
        )
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    written = []
    for name, panel in figures(given).items():
        text = svg([replace(panel, width=440, height=260)], panel.title)
        kinds = {"svg": text.encode("utf-8", "replace")}
        if png_too or (png_too is None and can_png()):
            kinds["png"] = png(panel)
        for ending, content in kinds.items():
            write_bytes(place / f"{name}.{ending}", content)
            written.append(place / f"{name}.{ending}")
    return written


def figures(given: ReportInput) -> dict[str, Panel]:
    """Name -> what it shows; those that there is nothing to show of are left out."""
    best = given.candidate(given.best)
    made = {
        "candidates": _candidates(given),
        "precision-recall": _precision_recall(given),
        "reliability": _reliability(best),
        "scores": _scores(best),
        "labels-per-row": _labels_per_row(best),
        "training": _training(given),
    }
    return {name: panel for name, panel in made.items() if panel is not None}


def _candidates(given: ReportInput) -> Panel | None:
    """Differences from the baseline in the metric that decides, at the last stage there is."""
    rows = [(c.key, row) for c in given.candidates if (row := _decisive(given, c)) is not None]
    shown = [
        (key, row.delta or 0.0, row.low, row.high, row.verdict)
        for key, row in rows
        if row.low is not None and row.high is not None
    ]
    if not shown:
        return None
    first = max(rows, key=lambda entry: entry[1].low is not None)[1]
    title = f"{first.metric}, {first.stage}: difference from {given.baseline}"
    return differences(shown, title, f"difference in {first.metric}")


def _decisive(given: ReportInput, candidate: CandidateInput) -> SummaryRow | None:
    rows = [row for row in candidate.summary if row.metric == (given.optimise or row.metric)]
    return max(rows, key=lambda row: STAGES.index(row.stage), default=None)


def _counts(candidate: CandidateInput) -> Any:
    """(2, 255): off and on entries whose probability reaches 0 and each point of the grid."""
    part = candidate.run.scored("test")
    p = stored_probabilities(candidate.run)
    never = torch.full((part.labels.n,), 2.0, dtype=torch.float64)  # only the grid's own steps
    each = histograms(codes(p, never), truth_of(part.labels)).sum(0, dtype=np.int64)[:, :255]
    return each[:, ::-1].cumsum(1)[:, ::-1]


def _precision_recall(given: ReportInput) -> Panel:
    lines = []
    for i, candidate in enumerate(given.candidates):
        off, on = _counts(candidate)
        said = off + on > 0
        recall, precision = on[said] / max(on[0], 1), on[said] / (off + on)[said]
        lines.append(Line(_pairs(recall, precision), i, candidate.key))
    return Panel("Precision and recall, all labels together", "recall", "precision", lines)


def _reliability(candidate: CandidateInput) -> Panel:
    run, part = candidate.run, candidate.run.scored("test")
    curves = reliabilities(run, part, stored_probabilities(run), per_label=False)
    marks: list[Any] = [Line([(0.0, 0.0), (1.0, 1.0)], None)]
    names = {"before": "before calibration", "after": "after" if "before" in curves else "as it is"}
    for colour, name in ((1, "before"), (0, "after")):
        if name in curves:
            marks += _curve(curves[name], colour, names[name])
    title = f"Reliability of {candidate.key}"
    return Panel(title, "predicted probability", "observed frequency", marks)


def _curve(curve: Reliability, colour: int, name: str) -> list[Any]:
    some = curve.count > 0
    low, high = curve.interval()
    p, f = curve.confidence[some].tolist(), curve.frequency[some].tolist()
    words = f"{name}, average calibration error {curve.ace():.3f}"
    band = Band(list(zip(p, low[some].tolist(), high[some].tolist(), strict=True)), colour)
    return [band, Line(list(zip(p, f, strict=True)), colour, words, dots=[3.0] * len(p))]


def _scores(candidate: CandidateInput) -> Panel:
    """Shares of positives (up) and negatives (down) in 20 bins of probability."""
    off, on = _counts(candidate)
    edges = [i / 20 for i in range(21)]
    at = [0, *(int((GRID - edge).abs().argmin()) + 1 for edge in edges[1:-1])]
    marks = []
    for way, tail, name in ((1, on, "positives"), (-1, off, "negatives")):
        reached = [*tail[at].tolist(), 0]
        shares = [(a - b) / max(tail[0], 1) for a, b in pairwise(reached)]
        bars = [(a, b, way * s) for (a, b), s in zip(pairwise(edges), shares, strict=True)]
        marks.append(Bars(bars, 0 if way > 0 else 1, name))
    most = max(abs(tall) for mark in marks for *_, tall in mark.bars)
    ticks = [(v, f"{abs(v):g}") for v, _ in round_ticks(-most, most)]
    title = f"Probabilities of positives and negatives, {candidate.key}"
    ends = (ticks[0][0], ticks[-1][0])
    return Panel(title, "probability", "share", marks, y=ends, y_ticks=ticks)


def _labels_per_row(candidate: CandidateInput) -> Panel:
    run, part = candidate.run, candidate.run.scored("test")
    truth = truth_of(part.labels)
    decided = run.predictor.decide(stored_probabilities(run)).to("cpu").dense(torch.bool)
    said, true = (decided & (truth < 2)).sum(1), (truth == 1).sum(1)
    most = int(min(30, max(int(said.max()), int(true.max()))))
    marks = []
    for colour, counts, name, shift in ((2, true, "true", -0.42), (0, said, "predicted", 0.0)):
        tally = torch.bincount(counts.clamp(max=most), minlength=most + 1) / len(counts)
        bars = [(i + shift, i + shift + 0.42, share) for i, share in enumerate(tally.tolist())]
        marks.append(Bars(bars, colour, f"{name}, mean {counts.double().mean():.2f}"))
    ticks = round_ticks(0.0, max(tall for mark in marks for *_, tall in mark.bars))
    xs = [(v, t) for v, t in round_ticks(0, max(most, 1)) if v == int(v) and v <= most]
    title = f"Labels per row, {candidate.key}"
    y, x = (0.0, ticks[-1][0]), (-0.7, most + 0.7)
    return Panel(title, "labels", "share of rows", marks, x, y, xs, ticks)


def _training(given: ReportInput) -> Panel | None:
    lines = []
    for i, candidate in enumerate(given.candidates):
        held: list[Any] = [(row.get("epoch"), row.get("valid")) for row in _history(candidate)]
        points = [(float(x), float(y)) for x, y in held if _number(x) and _number(y)]
        if points:
            lines.append(Line(points, i, candidate.key))
    if not lines:
        return None
    xs, ys = zip(*(point for line in lines for point in line.points), strict=True)
    first, last = min(xs), max(*xs, min(xs) + 1)
    ticks = round_ticks(min(ys), max(ys))
    across = [(v, t) for v, t in round_ticks(first, last) if first <= v <= last]
    y, x = (ticks[0][0], ticks[-1][0]), (first, last)
    return Panel("Validation while training", "epoch", "validation", lines, x, y, across, ticks)


def _history(candidate: CandidateInput) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = candidate.run.about.get("history") or []
    return rows


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and bool(np.isfinite(value))


def _pairs(x: Any, y: Any) -> Sequence[tuple[float, float]]:
    return list(zip(x.tolist(), y.tolist(), strict=True))
