"""All that is measured, fitted, diagnosed and proven of one model: once, and stored beside it.

raw: the loss's own link (sigmoid where it has none) and 0.5. tuned: as the model is used, by the
calibrator it keeps, and for each F1 the rule that makes it largest on held-out rows. calibrated: by
Platt's calibrator, fitted on held-out rows, also where the model does without. Test rows
are judged with what was fitted on validation rows; validation rows by halves, each with what the
other half taught, so that no row is judged by what it was fitted on.
"""

from __future__ import annotations

import copy
import json
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelset import calibrate, decide
from labelset.calibrate import ProbMap
from labelset.data.formats.npz import opened
from labelset.data.reading import reading
from labelset.decide import TUNED, Rule
from labelset.decide.thresholds import Global
from labelset.doctor import diagnose
from labelset.files import write_with
from labelset.labels import Labels
from labelset.metrics import build
from labelset.model import Predictor, SavedModel, Split
from labelset.proofs import Verification, distinct, independent, verify
from labelset.runs.resample import draws, resampled
from labelset.terminal import phase

PLAIN = (
    "map@class",
    "map-micro",
    "auroc@class",
    "map@sample",
    "ndcg@5",
    "precision@1",
    "precision@5",
)
TRUTH = ("ace", "mce", "brier", "nll")
TIMES = 200  # resamples behind an interval
RESAMPLED = 2**29  # numbers that resampling may touch per view; fewer resamples beyond it
CHOOSING = 4_000_000  # validation entries that choose; of more a sample of the rows

FIGURES = "judged.npz"
JUDGEMENT = "judgement.npz"
SECONDS = 10.0  # for the proofs about one head
RADII = 0.5  # seconds for those of a head that can represent every label set
WIDE = 4_000  # features beyond which nothing is proven set by set

ROUNDS = 100  # of the bootstrap of thresholds
FEWEST = 40  # rounds, below which its ends say nothing
CELLS = 4_000_000  # held-out entries beyond which thresholds per label get no interval
FOLLOWED = 100_000_000  # entries gone through in all for the interval of one threshold
DIAGNOSED = 1_000_000  # scores that the doctor looks at; beyond, rows at equal distances

MOST = 100  # label sets listed
WEAKEST = 10
NAMED = 40  # labels of a label set listed
BINS = 24  # of the histogram of radii
SIGNS = 20_000  # signs of label sets proven between two looks at the clock

Key = tuple[str, str, str]
"""Split, stage and metric."""


def stage_of(metric: str) -> str:
    """The stage at which candidates are chosen: F1 after every one's own threshold tuning."""
    return "tuned" if metric in TUNED else "raw"


# ---- figures ----------------------------------------------------------------------------------


class View(NamedTuple):
    """What a metric is given at a stage."""

    stage: str
    metric: str
    given: Any

    def value(self, labels: Labels) -> float:
        """The metric; NaN where it is not defined for these labels."""
        try:
            return build(self.metric)(self.given, labels)
        except ValueError:
            return float("nan")


@dataclass(frozen=True)
class Judged:
    """The figures of one trained model, and those of each resample of the rows."""

    values: dict[Key, float]
    drawn: dict[Key, Tensor]

    def save(self, path: Path) -> None:
        """Write an .npz file."""
        arrays = {f"drawn {'|'.join(key)}": t.numpy() for key, t in self.drawn.items()}
        arrays["keys"] = np.array(["|".join(key) for key in self.values])
        arrays["values"] = np.array(list(self.values.values()))
        write_with(path, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: Path) -> Judged:
        """What `save` wrote."""
        with reading(path):
            file = opened(path)
            named = file["keys"].tolist()
            keys: list[Any] = [tuple(name.split("|")) for name in named]
            drawn = [torch.from_numpy(file[f"drawn {name}"]) for name in named]
            values = file["values"].tolist()
        return cls(dict(zip(keys, values, strict=True)), dict(zip(keys, drawn, strict=True)))


class Judge:
    """Judges one trained model by its loss's own link, then readies it for use.

    Whatever is asked for, probabilities of a split are computed once, and so is each rule that is
    fitted on all validation rows. Of very many validation entries a sample of the rows stands for
    all: they choose, and thresholds gain nothing from more.
    """

    def __init__(self, model: SavedModel) -> None:
        self.model = model
        self.predictor = Predictor.of(model.loss).or_sigmoid()
        self._raw: dict[str, Tensor] = {}
        self._rules: dict[str, Rule] = {}
        self._parts = dict(model.splits)
        if "valid" in model.splits and model.scored("valid").scores is not None:
            self._parts["valid"] = model.scored("valid").sample(CHOOSING)

    def part(self, split: str) -> Split:
        """The rows of a split that judge; an error says where there are none."""
        self.model.scored(split)
        return self._parts[split]

    def figures(self, seed: int = 0) -> Judged:
        """All figures; equal seeds draw equal rows, so that models can be paired."""
        values: dict[Key, float] = {}
        drawn: dict[Key, Tensor] = {}
        for split in ("valid", "test"):
            labels = self.part(split).labels
            cells = max(len(labels) * labels.n, 1)
            weights = draws(len(labels), max(min(TIMES, RESAMPLED // cells), 50), seed)
            if labels.row_weights is not None:
                weights = weights * labels.row_weights
            for view in self.views(split):
                key = (split, view.stage, view.metric)
                values[key] = view.value(labels)
                drawn[key] = resampled(build(view.metric), view.given, labels, weights)
        return Judged(values, drawn)

    def unseen(self, metric: str) -> float:
        """The figure by which candidates are chosen, of rows that the model has not seen."""
        views, stage = self.views("valid"), stage_of(metric)
        view = next(view for view in views if (view.stage, view.metric) == (stage, metric))
        return view.value(self.part("valid").labels)

    def views(self, split: str) -> Iterator[View]:
        """Everything that is measured of a split."""
        scores, p = self.part(split).scores, self.raw(split)
        for metric in PLAIN:
            yield View("raw", metric, scores)
        decided = decide.build("fixed", threshold=0.5)(p)
        for metric in TUNED:
            yield View("raw", metric, decided)
        for metric in TRUTH:
            yield View("raw", metric, p)
        for metric in TUNED:
            yield View("tuned", metric, self._tuned(split, metric))
        calibrated = self._calibrated(split)
        for metric in TRUTH:
            yield View("calibrated", metric, calibrated)

    def raw(self, split: str) -> Tensor:
        """Probabilities by the loss's own link."""
        if split not in self._raw:
            self._raw[split] = probabilities(self.predictor, self.part(split))
        return self._raw[split]

    def _rule(self, metric: str) -> Rule:
        """The rule for a metric, fitted on all validation rows."""
        if metric not in self._rules:
            rule = decide.tuned_for(metric)
            self._rules[metric] = rule.fit(self._known_valid, self.part("valid").labels)
        return self._rules[metric]

    @cached_property
    def _platt(self) -> ProbMap | None:
        """Fitted on all validation rows; None where there is nothing on, or nothing off."""
        valid = self.part("valid")
        platt = calibrate.build("platt", loss=self.model.loss)
        try:
            return platt.fit(valid.scores, valid.labels, folds=2)
        except ValueError:
            return None

    @cached_property
    def _kept(self) -> ProbMap | None:
        """The calibrator that the model is used with: its link says nothing, or it helps."""
        loss, fitted = self.model.loss, self._platt
        if fitted is None or loss is None or loss.link_missing():
            return fitted
        return fitted if fitted.quality is not None and fitted.quality.helped else None

    @cached_property
    def _known_valid(self) -> Tensor:
        """Probabilities of validation rows by the model as it is used."""
        if self._kept is None:
            return self.raw("valid")
        return self._kept(self.part("valid").known_scores)

    @cached_property
    def _calibrated_test(self) -> Tensor:
        if self._platt is None:
            return self.raw("test")
        return self._platt(self.model.scored("test").known_scores)

    def _tuned(self, split: str, metric: str) -> Labels:
        if split == "test":
            return self._rule(metric)(
                self.raw(split) if self._kept is None else self._calibrated_test
            )
        p = self.raw(split) if self._kept is None else self._calibrated(split)
        labels, halves = self.part(split).labels, []
        for judged, taught in ((0, 1), (1, 0)):
            rule = decide.tuned_for(metric).fit(p[taught::2], labels[taught::2])
            halves.append(rule(p[judged::2]))
        return _woven(halves)

    def _calibrated(self, split: str) -> Tensor:
        if split == "test":
            return self._calibrated_test
        if self._platt is None or self._platt.unseen is None:
            return self.raw(split)
        return self._platt.unseen.to(self.raw(split).dtype)

    def finish(self, optimise: str) -> SavedModel:
        """The model with a calibrator, where one helps, and the rule for a metric, which it
        remembers."""
        self.model.about["optimise"] = optimise
        if self._kept is not None:
            self.model.calibrator = self._kept
        self.model.rule = self._rule(optimise)
        return self.model

    def judgement(self) -> Judgement:
        """Of the model as `finish` has left it."""
        known = {"test": self.raw("test") if self._kept is None else self._calibrated_test}
        if self.part("valid") is self.model.splits["valid"]:
            known["valid"] = self._known_valid
        return judgement(self.model, known)


def _woven(halves: list[Labels]) -> Labels:
    """Even rows from the first, odd rows from the second."""
    both = Labels.stack(halves)
    order = torch.empty(len(both), dtype=torch.int64)
    order[0::2] = torch.arange(len(halves[0]))
    order[1::2] = torch.arange(len(halves[1])) + len(halves[0])
    return both[order]


def probabilities(predictor: Predictor, split: Split) -> Tensor:
    """(rows, labels) on the CPU; where the label is unknown, those of the score 0."""
    return predictor.or_sigmoid().probabilities(split.known_scores).cpu()


# ---- the model as it is used ------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Judgement:
    """What is known of a model as it is used, by its own calibrator and rule."""

    digest: str
    """Of the predictor that this was found with: with another one it holds no longer."""
    probabilities: Tensor
    """Of the test rows."""
    intervals: Tensor | None = None
    """(labels, 2): 95% bootstrap intervals of fitted thresholds; None where there are none."""
    findings: dict[str, Any] | None = None
    """What the doctor says, labels by number; None where there is nothing to see."""
    proof: dict[str, Any] | None = None
    """Verdicts on the test label sets; None without a head."""

    @property
    def expressible(self) -> float | None:
        """Share of the test rows tried whose label sets the head provably represents."""
        if self.proof is None:
            return None
        if self.proof["independent"]:
            return 1.0
        counts = self.proof["counts"]
        tried = sum(counts.values()) - counts["left"]
        return float(counts["argmaxable"] / max(tried, 1))

    def save(self, path: Path) -> None:
        """Write an .npz file."""
        about = {"digest": self.digest, "findings": self.findings, "proof": self.proof}
        arrays = {"about": np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)}
        arrays["probabilities"] = self.probabilities.numpy()
        if self.intervals is not None:
            arrays["intervals"] = self.intervals.numpy()
        write_with(path, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: Path) -> Judgement:
        """What `save` wrote."""
        with reading(path):
            arrays = {name: torch.from_numpy(array) for name, array in opened(path).items()}
            about = json.loads(arrays.pop("about").numpy().tobytes())
            stored = (about["digest"], arrays["probabilities"], arrays.get("intervals"))
            return cls(*stored, about["findings"], about["proof"])


def judgement(
    model: SavedModel,
    p: Mapping[str, Tensor] | None = None,
    proof: dict[str, Any] | None = None,
    seconds: float = SECONDS,
) -> Judgement:
    """Judge a model as it is; `p`, `proof`: probabilities of splits and a proof that are known."""
    predictor, known = model.predictor, dict(p or {})
    for name in ("valid", "test"):
        split = model.splits.get(name)
        if name not in known and split is not None and split.scores is not None:
            known[name] = probabilities(predictor, split)
    return Judgement(
        predictor.digest(),
        known["test"],
        threshold_intervals(model, known.get("valid")),
        findings_of(model, known),
        proof_of(model, seconds) if proof is None else proof,
    )


def judgement_of(model: SavedModel, seconds: float = SECONDS) -> Judgement:
    """The one stored beside the model, where it is of this predictor; else judged now."""
    old = _stored(model)
    if old is not None and old.digest == model.predictor.digest():
        return old
    return judgement(model, proof=None if old is None else old.proof, seconds=seconds)


def stored_probabilities(model: SavedModel) -> Tensor:
    """Of the test rows: those stored, where they are of this predictor."""
    old = _stored(model)
    if old is not None and old.digest == model.predictor.digest():
        return old.probabilities
    return probabilities(model.predictor, model.scored("test"))


def judge_again(model: SavedModel) -> None:
    """After another calibrator or rule was saved: what is stored beside the model follows.

    Where nothing is stored, as beside scores of one's own, nothing is judged.
    """
    if model.folder is not None and (model.folder / JUDGEMENT).is_file():
        judgement_of(model).save(model.folder / JUDGEMENT)


def _stored(model: SavedModel) -> Judgement | None:
    path = None if model.folder is None else model.folder / JUDGEMENT
    if path is None or not path.is_file():
        return None
    try:
        return Judgement.load(path)
    except ValueError:
        return None  # damaged: it is found again


def threshold_intervals(model: SavedModel, p: Tensor | None) -> Tensor | None:
    """Where thresholds fall when the validation rows, of probabilities p, are drawn again.

    One threshold for all labels has one interval, which every label then shows.
    """
    rule = model.rule
    if rule is None or p is None or not len(p):
        return None
    labels = model.splits["valid"].labels
    if isinstance(rule, Global):
        rounds = min(ROUNDS, FOLLOWED // p.numel())
        return rule.intervals(p, labels, rounds=rounds) if rounds >= FEWEST else None
    if not hasattr(rule, "intervals") or p.numel() > CELLS:
        return None
    ends: Tensor = rule.intervals(p, labels, rounds=ROUNDS)
    return ends


def findings_of(model: SavedModel, p: Mapping[str, Tensor] | None = None) -> dict[str, Any] | None:
    """What the doctor finds on held-out rows: validation, or test where there are none.

    Proofs about the head are left to `proof_of`.
    """
    valid = model.splits.get("valid")
    on = "test" if valid is None or valid.scores is None else "valid"
    split = model.scored(on)
    every = probabilities(model.predictor, split) if p is None else p[on]
    most = max(1, DIAGNOSED // split.labels.n)
    seen = copy.copy(model)
    seen.head = None
    if len(split) > most:
        rows = torch.linspace(0, len(split) - 1, most).round().long()
        assert split.scores is not None
        seen.splits = model.splits | {on: Split(split.labels[rows], split.scores[rows])}
        every = every[rows]
    try:
        diagnosis = diagnose(seen, on=on, probabilities=every)
    except ValueError:  # such as: no label is known in the held-out rows
        return None
    number = {name: i for i, name in enumerate(model.names)}
    findings = [
        {
            "cause": finding.cause,
            "what": finding.what,
            "evidence": finding.evidence,
            "remedy": finding.remedy,
            "labels": [number[name] for name in finding.labels],
        }
        for finding in diagnosis.findings
    ]
    counts = [len(seen.splits[on]), len(split)]
    return {"on": on, "rows": counts, "summary": diagnosis.summary, "findings": findings}


# ---- what the head can represent --------------------------------------------------------------


@dataclass(frozen=True)
class _Verdict:
    """One distinct label set."""

    status: str
    labels: list[int]
    rows: int
    """How many test rows have it."""
    blame: list[int]
    """The labels that its certificate rests on."""
    radius: float

    def listed(self) -> dict[str, Any]:
        return {
            "labels": self.labels[:NAMED],
            "size": len(self.labels),
            "rows": self.rows,
            "blame": self.blame[:NAMED],
            "blamed": len(self.blame),
            "radius": rounded([self.radius])[0],
        }


def proof_of(model: SavedModel, seconds: float = SECONDS) -> dict[str, Any] | None:
    """Verdicts on the distinct test label sets, those of most rows first; None without a head that
    has a matrix, or with one too wide for proofs set by set.

    Label sets that are not reached within `seconds` are counted as `left`. Where the rows of the
    head are linearly independent all can be represented; then only radii are looked for, briefly.
    """
    if model.head is None or model.head.places:
        return None
    weight = model.head.matrix()[0].detach().cpu().numpy()
    free = bool(independent(weight))
    wide = weight.shape[1] > WIDE
    if wide and not free:
        return None
    if free:
        seconds = -1.0 if wide else RADII
    sets, which = distinct(model.splits["test"].labels)
    phase(f"proving which of {len(sets):,} label sets the head can produce")
    repeats = np.bincount(which, minlength=len(sets))
    verdicts = list(_verdicts(model, sets, repeats, seconds))
    return {
        "independent": free,
        "counts": _counts(verdicts, len(which), free),
        "distinct": len(sets),
        "features": weight.shape[1],
        "never": [v.listed() for v in verdicts if v.status == "unargmaxable"][:MOST],
        "undecided": [v.listed() for v in verdicts if v.status == "undecided"][:MOST],
        "blame": _blame(verdicts),
        "radii": _histogram(verdicts),
        "weakest": _weakest(verdicts),
    }


def _verdicts(
    model: SavedModel, sets: Labels, repeats: NDArray[np.int64], seconds: float
) -> Iterable[_Verdict]:
    start = time.monotonic()
    order = np.argsort(-repeats, kind="stable")
    step = max(1, SIGNS // sets.n)
    for first in range(0, len(order), step):
        left = seconds - (time.monotonic() - start)
        if left <= 0 and (first or seconds < 0):
            return
        chunk = order[first : first + step]
        # the rank that trained a model judges it, while others wait or judge theirs
        proof = verify(model.head, sets[chunk], seconds=max(left, 0.0), alone=True)
        for at, place in enumerate(chunk):
            yield _verdict(proof, at, int(repeats[place]))


def _verdict(proof: Verification, at: int, rows: int) -> _Verdict:
    place = int(proof.which[at])
    verdict, labels = proof.verdicts[place], proof.sets[place]
    on = labels.indices if labels.values is None else labels.indices[labels.values == 1]
    blame = [] if verdict.rows is None else [int(i) for i in verdict.rows if i < proof.problem.n]
    radius = verdict.lower if verdict.status == "argmaxable" else np.nan
    return _Verdict(verdict.status, on.tolist(), rows, blame, float(radius))


def _counts(verdicts: list[_Verdict], rows: int, free: bool) -> dict[str, int]:
    total = dict.fromkeys(("argmaxable", "unargmaxable", "undecided"), 0)
    if free:
        return total | {"argmaxable": rows, "left": 0}
    for verdict in verdicts:
        total[verdict.status] += verdict.rows
    return total | {"left": rows - sum(total.values())}


def _blame(verdicts: list[_Verdict]) -> list[list[int]]:
    """[label, rows]: in how many rows' certificates of impossibility each label stands."""
    total = Counter[int]()
    for verdict in verdicts:
        if verdict.status == "unargmaxable":
            for label in verdict.blame:
                total[label] += verdict.rows
    return [[label, rows] for label, rows in total.most_common(20)]


def _histogram(verdicts: list[_Verdict]) -> dict[str, Any] | None:
    """Rows by radius, in equal steps of its logarithm."""
    good = [verdict for verdict in verdicts if 0 < verdict.radius < math.inf]  # inf: all unknown
    if not good:
        return None
    logs = np.log10([verdict.radius for verdict in good])
    edges = np.linspace(logs.min(), max(logs.max(), logs.min() + 0.1), BINS + 1)
    count = np.histogram(logs, edges, weights=[verdict.rows for verdict in good])[0]
    return {"edges": rounded(edges.tolist()), "count": count.astype(int).tolist()}


def _weakest(verdicts: list[_Verdict]) -> list[dict[str, Any]]:
    good = sorted((v for v in verdicts if v.radius >= 0), key=lambda verdict: verdict.radius)
    return [verdict.listed() for verdict in good[:WEAKEST]]


def rounded(values: Any, digits: int = 5) -> list[float | None]:
    """To significant digits; None for what is not finite."""
    return [float(f"{v:.{digits}g}") if math.isfinite(v) else None for v in values]
