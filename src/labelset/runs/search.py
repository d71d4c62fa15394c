"""The search: every family of candidates at its best setting, on the same folds, in one budget."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from labelset import encode, heads, metrics
from labelset.data import Dataset, Schema, SparseRows
from labelset.labels import Labels
from labelset.losses import Loss
from labelset.model import (
    Blend,
    NoScore,
    Part,
    Predictor,
    SavedModel,
    Scorer,
    Split,
    all_numbers,
    mixed,
)
from labelset.ranks import Ranks
from labelset.runs import DEFAULT_LOSSES, label_text
from labelset.runs.blend import PARTS, calibrator_of, nested, select
from labelset.runs.families import FAMILIES, NARROW, Family, Known
from labelset.runs.folder import without_sum
from labelset.runs.folds import Development
from labelset.runs.plan import Plan, Task
from labelset.runs.shelf import RECORD, Entry, Shelf, tasks_of
from labelset.terminal import phase
from labelset.train.fitted import Failed, Fitted
from labelset.train.rivals import Broken, Estimator

FEW = 10_000
"""Rows up to which there are more folds."""
JUDGEMENTS = 3
"""That are still due when a candidate is fitted: its own, the blend's, and the nested test."""
USUAL, LEAST = 120.0, 0.1
"""Seconds that a family may take where no budget is given, over the share of a core that the search
has had so far, at least this."""
NUMBERS = 1 << 28
"""Numbers or letters of all rows that are searched: a gigabyte of float32."""
BLEND = Task("", "blend", 0)
TIMED = 200
"""Rows by which the time for one is measured where there are no test rows."""


@dataclass(frozen=True)
class Effort:
    """How much a search tries."""

    folds: tuple[int, int]
    """Of many or wide rows, and of few and narrow ones."""
    finalists: int
    """Losses, the baseline included, that are solved on all folds where a sample ranks them
    first."""
    networks: tuple[str, ...]
    """Losses of small networks, unless losses are named."""
    trees: int
    """Of each member of a forest."""
    trainings: int
    """Folds of a network that is trained whole, at most."""
    rates: tuple[float, ...] = ()
    """Learning rates over the usual one that it is tried with besides; and twice the epochs."""


EFFORT = {
    "quick": Effort((3, 4), 2, ("bce",), 40, 2),
    "normal": Effort((5, 8), 3, ("bce", "asl"), 100, 3),
    "best": Effort((8, 10), 5, ("bce", "asl", "spa", "hill"), 250, 5, (0.4, 2.5)),
}

Progress = Callable[[Task, dict[str, Any]], None]


@dataclass(eq=False)
class Search:
    """What all families share while they are searched."""

    dataset: Dataset
    plan: Plan
    shelf: Shelf
    progress: Progress | None = None
    save_seconds: float | None = None
    began: float = field(default_factory=time.monotonic)
    used: float = field(default_factory=time.process_time)
    """Seconds of all cores until then."""
    judging: float = 0.0
    """Seconds that the longest judgement of a candidate took so far."""
    entries: dict[str, Entry] = field(default_factory=dict)
    """What came of each family so far."""

    def __post_init__(self) -> None:
        self.others = [Estimator.parse(spec) for spec in self.plan.also]  # wrong names, said early
        self.networks = self.plan.networks(self.dataset)
        if self.networks and self.shelf.finished("finetuned") is None:  # what is not there, too
            train = self.dataset.part("train")
            self.networks = {head: each.fit(train) for head, each in self.networks.items()}
        encoder = self.plan.base_encoder(self.dataset)
        reads = "texts" in encoder.reads
        self.label_texts = label_text.of_labels(self.dataset, reads, self.plan.label_texts)
        encoder = label_text.knowing(encoder, self.label_texts)
        self.encoder, self.inputs = encode.encoded(encoder, self.dataset, self.shelf.cache)

    @cached_property
    def development(self) -> Development:
        """Rows to fit on and to choose by; of few and narrow rows there are more folds."""
        few = sum(self.dataset.sizes()[:2]) <= FEW
        narrow = self.inputs.shape[1] <= NARROW
        folds, folds_of_few = self.effort.folds
        return Development.of(self.dataset, folds_of_few if few and narrow else folds)

    @cached_property
    def features(self) -> Tensor | SparseRows:
        """Of the development rows."""
        rows: Tensor | SparseRows = self.inputs[self.development.rows]
        return rows

    @property
    def effort(self) -> Effort:
        """How much is tried."""
        return EFFORT[self.plan.effort]

    @property
    def sparse(self) -> bool:
        """Whether rows are sparse."""
        return isinstance(self.features, SparseRows)

    @property
    def named(self) -> bool:
        """Whether the user named the losses."""
        return tuple(self.plan.losses) != DEFAULT_LOSSES

    @property
    def seconds(self) -> float:
        """That a family may take: what is left of the budget when all has been judged, as far as
        the longest judgement so far tells; or else as much as is usual, which is more where
        others keep the cores busy."""
        if self.plan.seconds is None:
            own = (time.process_time() - self.used) / max(time.monotonic() - self.began, 1e-3)
            return USUAL / min(max(own, LEAST), 1.0)
        left = self.plan.seconds - (time.monotonic() - self.began)
        return max(left - JUDGEMENTS * self.judging, 0.0)

    def value(self, fitted: Fitted, development: Development) -> float:
        """The metric that was asked for, larger is better, with its best thresholds."""
        rows = development.unseen
        return self.value_of(fitted.loss, fitted.scores[rows], development.labels[rows])

    def value_of(
        self, loss: Loss | None, scores: Tensor, labels: Labels, metric: str | None = None
    ) -> float:
        """The same of scores of any rows."""
        p, metric = probabilities(loss, scores), metric or self.plan.optimise
        try:
            chosen = select([p], labels, metric, picks=1)
        except ValueError:  # the metric is not defined on these rows
            return -math.inf
        return chosen.value if metrics.build(metric).higher_is_better else -chosen.value

    # ---- what is kept ---------------------------------------------------------------------------

    def keep(self, task: Task, fitted: Fitted) -> Failed | None:
        """Score the test rows, where there are any, and keep the candidate; or why it cannot be."""
        phase(f"judging {task.key}")
        began, numbers = time.perf_counter(), self.development.rows
        test = self.development.test
        try:
            all_numbers(fitted.scores)
            numbers = test if len(test) else numbers[:TIMED]
            if fitted.encoder is None:
                scores = Scorer(fitted.model).of_features(self.inputs[numbers])
            else:
                scores = Scorer(fitted.model, fitted.encoder)(self.dataset.rows(numbers))
            all_numbers(scores)
        except NoScore as error:
            return Failed(error.about("row", int(numbers[error.row])))
        except Broken as error:
            return Failed(str(error))
        each = 1000 * (time.perf_counter() - began) / max(len(numbers), 1)
        began = time.perf_counter()
        self.put(task, fitted, scores if len(test) else None, {"ms_per_row": each})
        self.judging = max(self.judging, time.perf_counter() - began)
        return None

    def put(self, task: Task, fitted: Fitted, test: Tensor | None, about: dict[str, Any]) -> None:
        """The same, with scores of the test rows that are known."""
        development = self.development
        unseen = development.unseen
        ids = None if self.dataset.ids is None else self.dataset.rows(development.rows[unseen]).ids
        encoder = fitted.encoder or self.encoder
        schema = (self.dataset.schema or Schema.of(self.dataset)).only(encoder.reads)
        own = 0 if fitted.encoder is None else encoder.nbytes
        is_head = isinstance(fitted.model, heads.Head)
        unsaved = "unsaved" in fitted.about
        splits = {"valid": Split(development.labels[unseen], fitted.scores[unseen], ids)}
        if test is not None:
            part = self.dataset.part("test")
            splits["test"] = Split(part.labels, test, part.ids)
        model = SavedModel(
            names=self.dataset.names,
            splits=splits,
            loss=fitted.loss,
            head=fitted.model if is_head else None,
            estimator=None if is_head or unsaved else fitted.model,
            encoder=encoder,
            about={
                "schema": schema.as_json(),
                "chosen": development.sentence,
                "seconds": fitted.seconds,
                "megabytes": (nbytes(fitted.model) + own) / 1e6,
                "fit": fitted.about,
                **about,
            },
        )
        self.shelf.keep(task, model, development.labels)


@dataclass(frozen=True)
class Found:
    """What a search leaves."""

    tasks: list[Task]
    """Candidates that have a model."""
    failed: dict[str, str]
    """Those that have none, and why."""
    left_out: dict[str, str]
    """Those that did not pass a trial on some rows."""
    blend: dict[str, Any]
    """The nested test of the blend; empty where there was nothing to blend."""
    sentence: str
    """How choices are made."""
    not_tried: str = ""
    """What might serve, and was left out without a trial."""

    @classmethod
    def of(cls, out: Path, about: dict[str, Any]) -> Found:
        """What a search has left in a folder; `about` as `compare.json` has it."""
        entries = without_sum(out / RECORD).values()
        tasks = tasks_of(entries)
        if (out / BLEND.folder).is_dir():
            tasks.append(BLEND)
        failed, left_out = _reasons(entries, "failed"), _reasons(entries, "left_out")
        not_tried = about.get("not_tried", "")
        return cls(tasks, failed, left_out, about["blend"], about["sentence"], not_tried)


def suits(dataset: Dataset, plan: Plan) -> bool:
    """Whether candidates can be searched: features are fixed and fit into memory, nothing asks for
    the loop."""
    if not plan.searched or dataset.numbers > NUMBERS or Ranks.running().size > 1:
        return False
    return not plan.base_encoder(dataset).learns


def search(
    dataset: Dataset,
    plan: Plan,
    shelf: Shelf,
    progress: Progress | None = None,
    save_seconds: float | None = None,
) -> Found:
    """Fit all candidates to a data set that has a split, and keep them on a shelf.

    `save_seconds`: between two checkpoints of a network that is trained whole, as in `train`.
    """
    context = Search(dataset, plan, shelf, progress, save_seconds)
    entries = context.entries
    for name, family in FAMILIES.items():
        entries[name] = _searched(context, name, family)
    phase("fitting: the blend of them, with its test")
    blended, test = blend(context, tasks_of(entries.values()))
    if plan.distil:
        from labelset.runs.distil import distilled

        entries["distilled"] = _searched(context, "distilled", distilled)
    every = entries.values()
    tasks, failed = [*tasks_of(every), *blended], _reasons(every, "failed")
    left_out, not_tried = _reasons(every, "left_out"), plan.not_tried(dataset)
    return Found(tasks, failed, left_out, test, context.development.sentence, not_tried)


def _searched(search: Search, name: str, family: Family) -> Entry:
    """Every candidate of a family, kept, or why there is none."""
    if (known := search.shelf.finished(name)) is not None:
        return known
    entry: Entry = {"tasks": [], "failed": {}, "left_out": {}}
    phase(f"fitting: {name}")
    for task, fitted in family(search):
        if isinstance(fitted, Known):
            entry["tasks"].append([task.loss, task.head])
            continue
        lost = search.keep(task, fitted) if isinstance(fitted, Fitted) else fitted
        if isinstance(fitted, Fitted) and lost is None:
            entry["tasks"].append([task.loss, task.head])
            value = search.value(fitted, search.development)
            news: dict[str, Any] = {"done": True, "value": value}
        else:
            assert lost is not None
            kind = "failed" if isinstance(lost, Failed) else "left_out"
            entry[kind][task.key] = lost.reason
            news = {"done": True, kind: lost.reason}
        if search.progress is not None:
            search.progress(task, news | {"seconds": time.monotonic() - search.began})
        phase(f"fitting: {name}")
    search.shelf.finish(name, entry)
    return entry


def _reasons(entries: Iterable[Entry], kind: str) -> dict[str, str]:
    return {key: why for entry in entries for key, why in entry[kind].items()}


# ---- blend --------------------------------------------------------------------------------------


def blend(search: Search, tasks: Sequence[Task]) -> tuple[list[Task], dict[str, Any]]:
    """The blend as one more candidate, and the test that must allow it."""
    opened = [(t, search.shelf.model(t)) for t in tasks if t.head != "frequency"]
    parts = [task for task, run in opened if run.head is not None or run.estimator is not None]
    runs = [run for task, run in opened if task in parts]
    if len(parts) < 2 or len(search.development.unseen) < PARTS:
        return [], {}
    labels, metric = runs[0].splits["valid"].labels, search.plan.optimise
    calibrators = [calibrator_of(run) for run in runs]
    unseen = [c(run.scored("valid").scores) for c, run in zip(calibrators, runs, strict=True)]
    families = [task.head for task in parts]
    chosen = select(unseen, labels, metric, families=families)
    test = nested(unseen, labels, metric, families=families)
    weights = {i: float(w) for i, w in enumerate(chosen.weights) if w > 0}
    facts: dict[str, Any] = {"passes": test.passes, "difference": test.difference}
    facts |= {"low": test.low, "high": test.high, "rows": chosen.rows}
    facts["weights"] = {parts[i].key: weight for i, weight in weights.items()}
    if len(weights) < 2:
        return [], facts
    if not search.shelf.has(BLEND):
        views, together = _views(search, [runs[i] for i in weights])
        model = Blend(
            tuple(
                Part(parts[i].key, weight, runs[i].head or runs[i].estimator, calibrators[i], view)
                for (i, weight), view in zip(weights.items(), views, strict=True)
            )
        )
        rows = search.development.unseen
        scores = torch.zeros(len(search.development.rows), labels.n)
        scores[rows] = mixed([unseen[i] for i in weights], [*weights.values()])
        seconds = sum(float(runs[i].about["seconds"]) for i in weights)
        about = {"weights": facts["weights"]}
        fitted = Fitted(scores, model, None, seconds, about, together)
        each = sum(float(runs[i].about["ms_per_row"]) for i in weights)
        scored = None
        if len(search.development.test):
            judged = [calibrators[i](runs[i].scored("test").scores) for i in weights]
            scored = mixed(judged, [*weights.values()])
        search.put(BLEND, fitted, scored, {"ms_per_row": each})
    return [BLEND], facts


def _views(
    search: Search, runs: Sequence[SavedModel]
) -> tuple[list[int | None], encode.Encoder | None]:
    """By which encoder each part of a blend sees rows, where they do not share one."""
    own = [run.encoder for run in runs if run.encoder is not None and run.encoder.learns]
    if not own:
        return [None] * len(runs), None
    shared = [search.encoder] if len(own) < len(runs) else []
    views = iter(range(len(shared), len(shared) + len(own)))
    learns = [run.encoder is not None and run.encoder.learns for run in runs]
    return [next(views) if each else 0 for each in learns], encode.Several(encoders=[*shared, *own])


def probabilities(loss: Loss | None, scores: Tensor) -> Tensor:
    """By the link, else the sigmoid."""
    return Predictor.of(loss).or_sigmoid().probabilities(scores)


def nbytes(model: Any) -> float:
    """Bytes of a head or an estimator."""
    if isinstance(model, heads.Head):
        return sum(p.numel() * p.element_size() for p in model.parameters())
    return float(model.nbytes)
