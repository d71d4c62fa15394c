"""The data of a report, as JSON that its page carries: candidates; a fair sample of the test rows
and those worth a look, with texts and pictures; arrays as short strings for the browser."""

from __future__ import annotations

import base64
import inspect
import json
import math
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from labelset import metrics
from labelset.calibrate import catalog as calibrators
from labelset.decide import Thresholds
from labelset.labels import Labels
from labelset.model import SavedModel, Split
from labelset.report.content import CandidateInput, ReportInput, SummaryRow
from labelset.runs import judgement_of, likely_missing, rounded, worst_rows

FINE = 600_000  # probabilities up to which they are carried to two bytes instead of one


def payload(given: ReportInput, seconds: float = 10.0) -> dict[str, Any]:
    """Everything that the page shows; `seconds` bounds the proofs about each candidate's head."""
    truth = truth_of(given.part.labels)
    rows, n = truth.shape
    sample = sampled(rows, n, len(given.candidates))
    fine = len(sample) * n * len(given.candidates) <= FINE
    made = [candidate_of(each, truth, sample, fine, seconds) for each in given.candidates]
    worth = [
        *(entry["row"] for each in made for entry in each["worst"]),
        *(entry[0] for each in made for entry in each["missing"]),
    ]
    return {
        "title": given.title,
        "recommendation": given.recommendation,
        "because": [list(point) for point in given.because],
        "how": [list(point) for point in given.how],
        "card": plain(_card(given)),
        "optimise": given.optimise,
        "baseline": given.baseline,
        "best": given.best,
        "names": given.names,
        "count": rows,
        "grid": GRID.tolist(),
        "on": packed((truth == 1).sum(0).numpy().astype(np.uint32)),
        "known": packed((truth < 2).sum(0).numpy().astype(np.uint32)),
        "truth": packed(truth[sample].T),
        "rows": rows_of(given, sample, worth),
        "reasons": packed_json(given.reasons),
        "metrics": _metrics(given),
        "candidates": made,
        "notes": [*given.notes, *_notes(sample, truth, fine)],
        "settings": plain(given.settings),
        "files": {str(name): str(path) for name, path in given.files.items()},
    }


def _metrics(given: ReportInput) -> dict[str, Any]:
    """Which way each metric of the tables is better, and what it is in a line."""
    used = dict.fromkeys(row.metric for each in given.candidates for row in each.summary)
    return {name: _metric(name) for name in used}


def _metric(name: str) -> dict[str, Any]:
    try:
        metric = metrics.build(name)
    except (ValueError, TypeError):  # a figure of the comparison's own, such as seconds
        return {"higher": True, "about": ""}
    about = (inspect.getdoc(type(metric)) or "").partition("\n")[0]
    return {"higher": metric.higher_is_better, "about": about}


def _notes(sample: Tensor, truth: Tensor, fine: bool) -> list[str]:
    notes = []
    rows = len(truth)
    if len(sample) < rows:
        notes.append(
            f"To keep this file small it carries the probabilities of {len(sample):,} of the "
            f"{rows:,} test rows, drawn at random. Queries, co-occurrence and the chart of labels "
            "per row are of these rows; every other figure is of all of them."
        )
    if not fine:
        notes.append(
            "Probabilities are kept in 255 steps. Thresholds decide exactly as in Python; query "
            "scores are right to about 0.003 per label."
        )
    unknown = int((truth == 2).sum())
    if unknown:
        notes.append(
            f"{unknown:,} of {truth.numel():,} test labels are unknown and left out everywhere."
        )
    return notes


COSTS = ("seconds", "ms_per_row", "megabytes")
NAMED = 20  # labels, of those that are on in no row

JUDGED = ("precision", "recall", "f1-micro", "f1-macro", "f1-samples", "subset-accuracy", "hamming")


def candidate_of(
    given: CandidateInput, truth: Tensor, sample: Tensor, fine: bool, seconds: float
) -> dict[str, Any]:
    """One candidate as JSON: numbers of all test rows, probabilities of the sampled ones."""
    run, part = given.run, given.run.scored("test")
    judged = judgement_of(run, seconds)
    p = judged.probabilities
    own, exact = own_thresholds(run)
    code = codes(p, own)
    decided = run.predictor.decide(p)
    mask = decided.to("cpu").dense(torch.bool)
    return {
        "key": given.key,
        "loss": given.loss,
        "head": given.head,
        "folder": given.folder,
        "words": given.words,
        "cost": {name: plain(run.about.get(name)) for name in COSTS},
        "summary": [_summary(row) for row in given.summary],
        "map": None if run.calibrator is None else calibrators.name_of(type(run.calibrator)),
        "rule": "fixed" if run.rule is None else run.rule.name,
        "exact": exact,
        "thresholds": packed(own),
        "intervals": _packed_or_none(judged.intervals),
        "codes": packed(code[sample].T),
        "fine": packed(positions(p[sample], own, code[sample]).T) if fine else None,
        "histograms": packed(histograms(code, truth)),
        "reliability": {name: _bins(curve) for name, curve in reliabilities(run, part, p).items()},
        "ap": packed(_average_precision(part)),
        **{name: packed(each) for name, each in _label_errors(p, part).items()},
        "decided": _judged(decided, part),
        "worst": worst_rows(p, mask, truth),
        "missing": likely_missing(p, truth),
        "doctor": judged.findings,
        "proof": judged.proof,
        "about": plain({key: value for key, value in run.about.items() if key != "history"}),
        "history": plain(run.about.get("history") or []),
    }


def own_thresholds(run: SavedModel) -> tuple[Tensor, bool]:
    """(labels,) float64, and whether the rule is made of nothing but them; else they are 0.5."""
    n = len(run.names)
    if not isinstance(run.rule, Thresholds):
        return torch.full((n,), 0.5, dtype=torch.float64), run.rule is None
    return run.rule.thresholds.double().cpu().expand(n).clone(), True


def reliabilities(
    run: SavedModel, part: Split, p: Tensor, per_label: bool = True
) -> dict[str, Any]:
    """`after`, the probabilities as they are, and `before` any map was fitted, bins of each."""
    curves = {"after": metrics.reliability(p, part.labels, per_label=per_label)}
    if run.calibrator is not None and run.calibrator.needs_fit:
        assert part.scores is not None
        v = torch.where(part.scores.isnan(), 0.0, part.scores).double()
        curves["before"] = metrics.reliability(
            run.calibrator.before(v).cpu(), part.labels, per_label=per_label
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
    figures = ("mean", "sd", "delta", "low", "high", "mean_low", "mean_high")
    return given | {name: plain(getattr(row, name)) for name in figures}


def _packed_or_none(ends: Tensor | None) -> dict[str, str] | None:
    return None if ends is None else packed(ends.numpy().astype(np.float32))


def _average_precision(part: Split) -> Any:
    try:
        each = metrics.build("map@class").report(part.scores, part.labels).each
    except ValueError:  # no label is positive in any row
        each = None
    nothing = np.full(part.labels.n, np.nan, dtype=np.float32)
    return nothing if each is None else each.cpu().numpy().astype(np.float32)


def _label_errors(p: Tensor, part: Split) -> dict[str, Any]:
    """`ace` and `ece` of each label: the mean gap over bins, and over entries."""
    curve = metrics.reliability(p, part.labels, per_label=True)
    shares = curve.count / curve.count.sum(-1, keepdim=True)
    each = {"ace": curve.gaps().nanmean(-1), "ece": (shares * curve.gaps().nan_to_num(0.0)).sum(-1)}
    return {name: error.cpu().numpy().astype(np.float32) for name, error in each.items()}


def _card(given: ReportInput) -> dict[str, Any]:
    """What is known of the data; of very many labels without the names of rare ones."""
    inspected = dict(given.card.get("inspected", {}))
    parts = {
        name: part | {what: len(part[what]) for what in ("dead", "rare")}
        for name, part in inspected.get("parts", {}).items()
    }
    named = {what: inspected[what][:NAMED] for what in ("dead", "unseen") if what in inspected}
    trained_on = np.array(given.card.get("trained_on", []), dtype=np.uint32)
    held = {"inspected": inspected | named | {"parts": parts}} if inspected else {}
    return held | {"trained_on": packed(trained_on)} if len(trained_on) else held


def _judged(decided: Any, part: Split) -> dict[str, float | None]:
    values = [metrics.build(name)(decided, part.labels) for name in JUDGED]
    return dict(zip(JUDGED, rounded(values, 8), strict=True))


CODES = 256


def _grid() -> Tensor:
    """254 thresholds: half per cents, and finer towards both ends."""
    ends = [1e-6, 1e-5, *(i / 10_000 for i in range(1, 10)), *(i / 2_000 for i in range(2, 20))]
    inner = [i / 200 for i in range(2, 199)]
    tops = [1 - 1e-5, *(1 - e for e in ends[2:])]
    return torch.tensor(sorted([*ends, *inner, *tops]), dtype=torch.float64)


GRID = _grid()
"""The thresholds that the report's sliders stop at, rising."""


def codes(p: Tensor, own: Tensor) -> Tensor:
    """(rows, labels) uint8: how many thresholds, of the grid and the label's own, p reaches.

    p >= GRID[k] exactly where the code exceeds k, or k + 1 if own <= GRID[k]; and p >= own exactly
    where it exceeds the number of grid points below own. Nothing is lost by rounding.

    >>> codes(torch.tensor([[0.0, 0.3, 1.0]]), torch.tensor([0.5, 0.5, 0.5])).tolist()
    [[0, 88, 255]]
    """
    out = torch.empty(p.shape, dtype=torch.uint8)
    for first in range(0, len(p), 1024):  # float64 for some rows at a time
        block = p[first : first + 1024].double()
        reached = torch.bucketize(block, GRID, right=True) + (block >= own)
        out[first : first + 1024] = reached.to(torch.uint8)
    return out


def positions(p: Tensor, own: Tensor, code: Tensor) -> Tensor:
    """(rows, labels) uint8: where p lies between the two thresholds around it, in 256ths."""
    each = torch.cat([GRID.expand(len(own), -1), own[:, None].clamp(max=1.0)], 1).sort(1).values
    ends = torch.cat([torch.zeros(len(own), 1), each, torch.ones(len(own), 1)], 1)
    at = code.T.long()
    low, high = ends.gather(1, at), ends.gather(1, at + 1)
    share = (p.T.double() - low) / (high - low).clamp(min=1e-300)
    return (share * 256).clamp(0, 255).to(torch.uint8).T


def histograms(code: Tensor, truth: Tensor) -> NDArray[np.uint32]:
    """(labels, 2, 256): of the rows where the label is off, and on, how many have each code."""
    n = truth.shape[1]
    label = torch.arange(n).expand_as(truth)
    known = truth < 2
    cell = (label * 2 + truth) * CODES + code
    counts = torch.bincount(cell[known], minlength=n * 2 * CODES)
    return counts.reshape(n, 2, CODES).numpy().astype(np.uint32)


# ---- test rows -----------------------------------------------------------------------------------


CELLS = 1_100_000  # probabilities carried, over all candidates
WIDE = 2_000_000  # where these would be too few rows to look at
CHARACTERS = 900_000  # of texts
LONGEST, SHORTEST = 600, 60  # characters of one text
PIXELS = 500_000  # bytes of pictures
SIDE, SIDES = 48, (48, 32, 24, 16, 12)  # pixels of a picture worth a look, and of others
ENOUGH, FEWEST = 200, 50  # rows: for which there is room up to WIDE, and in any case


def truth_of(labels: Labels) -> Tensor:
    """(rows, labels) uint8: 0 off, 1 on, 2 unknown."""
    return labels.to("cpu").dense().nan_to_num(2.0).to(torch.uint8)


def sampled(rows: int, labels: int, candidates: int, seed: int = 0) -> Tensor:
    """Rising row numbers: all rows, or as many drawn at random as a small file can hold.

    >>> len(sampled(10_000, 50, 2)), len(sampled(10_000, 5_000, 2))
    (10000, 200)
    """
    width = max(labels * candidates, 1)
    most = max(FEWEST, CELLS // width, min(ENOUGH, WIDE // width))
    if rows <= most:
        return torch.arange(rows)
    drawn = np.random.default_rng(seed).choice(rows, most, replace=False)
    return torch.from_numpy(np.sort(drawn))


def rows_of(given: ReportInput, sample: Tensor, worth: Iterable[int]) -> dict[str, Any]:
    """Rows shown (the sample, and those worth a look), what they are called, text and picture."""
    first = sorted(set(worth))
    shown = sorted({*sample.tolist(), *first})
    ids = given.part.ids
    return {
        "shown": packed(np.array(shown, dtype=np.uint32)),
        "sample": packed(np.searchsorted(shown, sample.numpy()).astype(np.uint32)),
        "ids": None if ids is None else packed_json([_cut(str(ids[row]), 200) for row in shown]),
        "texts": None if given.texts is None else _texts(given.texts, shown, first),
        "pictures": None if given.images is None else _pictures(given.images, shown, first),
    }


def _texts(texts: Any, shown: list[int], first: list[int]) -> dict[str, str]:
    """Those worth a look may be long; the others share what room is left."""
    long = _room(CHARACTERS // 2, len(first))
    short = _room(CHARACTERS - long * len(first), len(shown) - len(first))
    worth = set(first)
    return packed_json([_cut(str(texts[row]), long if row in worth else short) for row in shown])


def _room(characters: int, rows: int) -> int:
    return max(SHORTEST, min(LONGEST, characters // max(rows, 1)))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _pictures(images: Tensor, shown: list[int], first: list[int]) -> list[dict[str, Any]]:
    """Those worth a look at their best, as many as half the room holds; all others smaller."""
    large = first[: max(1, PIXELS // 2 // math.prod(_size(images, SIDE)))]
    rest = sorted(set(shown) - set(large))
    room = PIXELS - len(large) * math.prod(_size(images, SIDE))
    side = next((s for s in SIDES if len(rest) * math.prod(_size(images, s)) <= room), SIDES[-1])
    rest = rest[: room // math.prod(_size(images, side))]
    return [
        _thumbnails(images, shown, rows, size)
        for rows, size in ((large, SIDE), (rest, side))
        if rows
    ]


def _size(images: Tensor, side: int) -> tuple[int, int, int]:
    """Channels, height and width of pictures of at most that side."""
    channels, high, wide = images.shape[1:]
    shrink = max(1.0, max(high, wide) / side)
    return channels, max(1, round(high / shrink)), max(1, round(wide / shrink))


def _thumbnails(images: Tensor, shown: list[int], rows: list[int], side: int) -> dict[str, Any]:
    size = _size(images, side)
    small = adaptive_avg_pool2d(images[rows].float().cpu(), size[1:]).round().to(torch.uint8)
    return {
        "size": size,
        "at": packed(np.searchsorted(shown, rows).astype(np.uint32)),
        "data": packed(small),
    }


# ---- arrays and texts as short strings -----------------------------------------------------------


KINDS = {"uint8": "u1", "uint16": "u2", "uint32": "u4", "float32": "f4", "float64": "f8"}


def packed(array: NDArray[Any] | Tensor) -> dict[str, str]:
    """`{kind, data}`: the little-endian bytes, deflated, in base64.

    >>> packed(np.array([1, 2], dtype=np.uint8))["kind"]
    'u1'
    """
    held = _narrow(array.numpy() if isinstance(array, Tensor) else array)
    kind = KINDS[held.dtype.name]
    content = np.ascontiguousarray(held, dtype=held.dtype.newbyteorder("<")).tobytes()
    return {"kind": kind, "data": _short(content, zlib.Z_FILTERED)}


def _narrow(array: NDArray[Any]) -> NDArray[Any]:
    """Counts in the fewest bytes that hold the largest."""
    if array.dtype.kind != "u" or not array.size:
        return array
    most = array.max()
    return array.astype(
        next(t for t in (np.uint8, np.uint16, array.dtype) if most <= np.iinfo(t).max)
    )


def packed_json(given: Any) -> dict[str, str]:
    """The same for anything that JSON can hold."""
    return {"kind": "json", "data": _short(json.dumps(given).encode())}


def _short(content: bytes, strategy: int = zlib.Z_DEFAULT_STRATEGY) -> str:
    """Numbers repeat less than texts do: `Z_FILTERED` makes some per cent less of them."""
    squeeze = zlib.compressobj(9, strategy=strategy)
    return base64.b64encode(squeeze.compress(content) + squeeze.flush()).decode()


def plain(given: Any) -> Any:
    """JSON of anything: what is not finite becomes None, what JSON lacks its text.

    >>> plain({"lr": float("inf"), 3: (1, "a")})
    {'lr': None, '3': [1, 'a']}
    """
    if isinstance(given, dict):
        return {str(key): plain(value) for key, value in given.items()}
    if isinstance(given, list | tuple):
        return [plain(value) for value in given]
    if isinstance(given, float):
        return given if math.isfinite(given) else None
    return given if given is None or isinstance(given, bool | int | str) else str(given)
