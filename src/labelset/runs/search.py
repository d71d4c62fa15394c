"""The search: every family of candidates at its best setting, on the same folds, in one budget."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from labelset import encode, heads, losses, metrics
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
from labelset.runs.folder import without_sum
from labelset.runs.folds import Development
from labelset.runs.plan import Plan, Task, parse
from labelset.runs.shelf import RECORD, Entry, Shelf
from labelset.terminal import phase
from labelset.train.fitted import Failed, Fitted
from labelset.train.rivals import Broken, Estimator, estimator
from labelset.train.solve import Problem, solve, strengths, together

SOLVED = ("bce", "squared-hinge", "asl", "spa", "hill", "two-way", "sigmoid-f1")
"""Losses of the heads that are solved, unless losses are named."""
SAMPLE = 2_000
"""Rows on which settings are tried where there are many more."""
ABOUT = (0.4, 1.0, 2.5)
"""Of a strength found by trial: on all rows a solution leads to the next, at little cost."""
WEIGHTS = 1 << 25
"""Of a head: up to so many, several are kept at a time."""
NARROW = 4_000
"""Features up to which a kernel, and trees, are tried on sparse rows."""
FEW = 10_000
"""Rows up to which there are more folds."""
GRAM = 6_000
"""Rows up to which a kernel is tried."""
GAMMAS, RIDGES = (0.5, 1.0, 2.0), (0.1, 0.5, 2.0)
"""Of kernel ridge: how fast a kernel fades, over the mean squared distance from the mean."""
JUDGEMENTS = 3
"""That are still due when a candidate is fitted: its own, the blend's, and the nested test."""
USUAL = 120.0
"""Seconds that a family may take where no budget is given."""
NUMBERS = 1 << 28
"""Numbers or letters of all rows that are searched: a gigabyte of float32."""
BYTES = 2 << 30
"""Memory that a forest may take."""
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


@dataclass(frozen=True)
class LeftOut:
    """A candidate that was not fitted on all folds, as a trial on some rows was not in favour."""

    reason: str


@dataclass(frozen=True)
class Known:
    """A candidate that was kept before the search was stopped."""


Outcome = tuple[Task, Fitted | Failed | LeftOut | Known]


@dataclass(eq=False)
class Search:
    """What all families share while they are searched."""

    dataset: Dataset
    plan: Plan
    shelf: Shelf
    progress: Progress | None = None
    began: float = field(default_factory=time.monotonic)
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
        the longest judgement so far tells; or else as much as is usual."""
        if self.plan.seconds is None:
            return USUAL
        left = self.plan.seconds - (time.monotonic() - self.began)
        return max(left - JUDGEMENTS * self.judging, 0.0)

    def value(self, fitted: Fitted, development: Development, metric: str | None = None) -> float:
        """The metric that was asked for, larger is better, with its best thresholds."""
        rows = development.unseen
        return self.value_of(fitted.loss, fitted.scores[rows], development.labels[rows], metric)

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
        tasks = _tasks(entries)
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


def search(dataset: Dataset, plan: Plan, shelf: Shelf, progress: Progress | None = None) -> Found:
    """Fit all candidates to a data set that has a split, and keep them on a shelf."""
    context = Search(dataset, plan, shelf, progress)
    entries = context.entries
    for name, family in FAMILIES.items():
        entries[name] = _searched(context, name, family)
    phase("fitting: the blend of them, with its test")
    blended, test = blend(context, _tasks(entries.values()))
    if plan.distil:
        from labelset.runs.distil import distilled

        entries["distilled"] = _searched(context, "distilled", distilled)
    every = entries.values()
    tasks, failed = [*_tasks(every), *blended], _reasons(every, "failed")
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


def _tasks(entries: Iterable[Entry]) -> list[Task]:
    return [Task(loss, head, 0) for entry in entries for loss, head in entry["tasks"]]


def _reasons(entries: Iterable[Entry], kind: str) -> dict[str, str]:
    return {key: why for entry in entries for key, why in entry[kind].items()}


# ---- families -----------------------------------------------------------------------------------


def frequencies(search: Search) -> Iterator[Outcome]:
    """What knows nothing of a row: the floor."""
    from labelset.train.rivals import frequencies as fit

    yield (
        Task("", "frequency", 0),
        fit(search.features, search.development.labels, search.development.folds),
    )


def linear(search: Search) -> Iterator[Outcome]:
    """Heads, solved: of each loss the best strength, and of the losses the best few.

    The baseline comes first, whatever the budget: without it nothing can be compared.
    """
    tasks = [Task(loss, head, 0) for loss in _losses(search) for head in search.plan.heads]
    base = next(task for task in tasks if task.key == search.plan.base)
    best, failed = _screened(search, [base], None)
    yield base, failed.get(base) or _solved(search, base, best[base][1], None)
    others = [task for task in tasks if task != base]
    best, failed = _screened(search, others, search.seconds)
    yield from failed.items()
    ranked = sorted(best, key=lambda task: -best[task][0])
    taken = ranked if search.named else ranked[: search.effort.finalists - 1]
    for task in ranked:
        if task in taken:
            yield task, _solved(search, task, best[task][1], search.seconds)
        else:
            yield task, LeftOut(f"others were better in a trial on {SAMPLE} rows at most")


def _screened(
    search: Search, tasks: Sequence[Task], seconds: float | None
) -> tuple[dict[Task, tuple[float, float]], dict[Task, Failed]]:
    """Of each task the metric on some rows and the strength it is best with, or why there is
    none."""
    screen = search.development.sample(SAMPLE)
    tried = [
        (task, strength)
        for task in tasks
        for strength in strengths(problem_of(search, task).loss, search.sparse)
    ]
    fits = solve(
        search.inputs[screen.rows],
        screen.labels,
        screen.folds,
        [problem_of(search, task, strength) for task, strength in tried],
        final="none",
        seconds=seconds,
    )
    best: dict[Task, tuple[float, float]] = {}
    failed: dict[Task, Failed] = {}
    for (task, strength), fitted in zip(tried, fits, strict=True):
        if isinstance(fitted, Failed):
            failed.setdefault(task, fitted)
            continue
        value = search.value(fitted, screen)
        if task not in best or value > best[task][0]:
            best[task] = (value, strength)
    return best, {task: why for task, why in failed.items() if task not in best}


def _solved(search: Search, task: Task, strength: float, seconds: float | None) -> Fitted | Failed:
    """With the strength of the trial; where there are many more rows, also with those about it."""
    development, features = search.development, search.features
    loss, weights = problem_of(search, task).loss, features.shape[1] * development.labels.n
    costly = together(loss) or loss.saturates_positives or loss.saturates_negatives
    few = len(development.rows) <= SAMPLE
    about = (1.0,) if few or costly or not search.sparse or weights > WEIGHTS else ABOUT
    problems = [problem_of(search, task, strength * factor) for factor in about]
    fits = solve(features, development.labels, development.folds, problems, seconds=seconds)
    return fits[0] if len(fits) == 1 else _best(search, fits)


def label_names(search: Search) -> Iterator[Outcome]:
    """The best of the linear heads again, its weights shrunk towards the texts of labels rather
    than to 0: for labels with few positives, which decide how far."""
    development, features, texts = search.development, search.features, search.label_texts
    tasks = _tasks([search.entries["linear"]])
    heads = [task for task in tasks if problem_of(search, task).by_label]
    if texts is None or not heads:
        return

    def value(task: Task) -> float:
        run = search.shelf.model(task)
        part = run.scored("valid")
        assert part.scores is not None
        return search.value_of(run.loss, part.scores, part.labels)

    best = max(heads, key=value)
    strength = float(search.shelf.model(best).about["fit"]["strength"])
    several = features.shape[1] * development.labels.n <= WEIGHTS
    fits = solve(
        features,
        development.labels,
        development.folds,
        label_text.with_priors(problem_of(search, best, strength), several),
        seconds=search.seconds,
        vectors=label_text.vectors(search.encoder, search.dataset, texts),
    )
    yield Task(best.loss, "label-names", 0), _best(search, fits, "map@class")


def problem_of(search: Search, task: Task, strength: float = 1.0) -> Problem:
    """What is solved for a candidate with a head."""
    loss, loss_settings = parse(task.loss)
    head, head_settings = parse(task.head)
    if head == "dft":
        labels = search.development.labels
        most = max(1, min(int(labels.counts().max()), (labels.n - 1) // 2))
        head_settings = {"k": most, "slack": 16} | head_settings
    return Problem(losses.build(loss, **loss_settings), strength, head, head_settings)


def _losses(search: Search) -> list[str]:
    """Names of the losses of solved heads; those of whole rows cost too much on sparse ones."""
    if search.named:
        return list(search.plan.losses)
    return [
        name
        for name in dict.fromkeys((search.plan.baseline, *SOLVED))
        if not (search.sparse and together(losses.build(parse(name)[0])))
    ]


def kernel(search: Search) -> Iterator[Outcome]:
    """RBF kernel ridge, where one Gram matrix holds all rows."""
    from labelset.train.kernel_ridge import kernel_ridge

    development, features = search.development, search.features
    if len(development.rows) > GRAM or features.shape[1] > NARROW or _is_text(search):
        return
    dense = features.dense() if isinstance(features, SparseRows) else features
    task = Task("", "kernel-ridge", 0)
    spread = float((dense - dense.mean(0)).square().sum(1).mean())
    settings = [(gamma / max(spread, 1e-9), ridge) for gamma in GAMMAS for ridge in RIDGES]
    seconds = search.seconds

    def fit(some: Sequence[tuple[float, float]], folds: Tensor) -> list[Fitted | Failed]:
        return kernel_ridge(dense, development.labels, folds, some, seconds=seconds)

    best = _best(search, fit(settings, development.folds))
    if isinstance(best, Fitted):
        chosen = (best.about["gamma"], best.about["ridge"])
        best = _kept(search, best, lambda folds: fit([chosen], folds)[0])
    yield task, best


def trees(search: Search) -> Iterator[Outcome]:
    """A forest of extremely randomised trees."""
    from labelset.train.rivals import Trees, extra_trees

    development, features = search.development, search.features
    if _is_text(search) or (search.sparse and features.shape[1] > NARROW):
        return

    def fit(folds: Tensor) -> Fitted | Failed:
        seconds, labels = search.seconds, development.labels
        (fitted,) = extra_trees(
            features, labels, folds, [Trees(search.effort.trees)], seconds=seconds, max_bytes=BYTES
        )
        return fitted

    yield Task("", "extra-trees", 0), _kept(search, fit(development.folds), fit)


def networks(search: Search) -> Iterator[Outcome]:
    """Small networks as fold members."""
    from labelset.train.members import MlpSettings, fit_members

    if _is_text(search):
        return
    labels = search.development.labels
    for name in search.plan.losses if search.named else search.effort.networks:
        loss, loss_settings = parse(name)
        settings = MlpSettings(loss=losses.build(loss, **loss_settings))

        def fit(folds: Tensor, settings: MlpSettings = settings) -> Fitted | Failed:
            seconds = search.seconds
            (fitted,) = fit_members(search.features, labels, folds, [settings], seconds=seconds)
            return fitted

        yield Task(name, "mlp", 0), _kept(search, fit(search.development.folds), fit)


def finetuned(search: Search) -> Iterator[Outcome]:
    """Pretrained networks, trained whole with their heads."""
    if not search.networks:
        return
    from labelset.train.finetune import default_settings, finetune

    development = search.development
    folds = development.folds
    if len(folds) and int(folds.max()) >= search.effort.trainings:  # whole folds together
        folds = torch.where(folds < 0, folds, folds % search.effort.trainings)
    for head, encoder in search.networks.items():
        for name in search.plan.losses if search.named else search.effort.networks:
            task = Task(name, head, 0)
            if search.shelf.has(task):
                yield task, Known()
                continue
            loss, loss_settings = parse(name)
            given = {"loss": loss, "loss_settings": loss_settings, **search.plan.training}
            settings = default_settings(given, encoder, len(folds))
            tries = [settings]
            if search.effort.rates and settings.lr and not {"lr", "epochs"} & {*given}:
                tries += [
                    replace(settings, lr=settings.lr * factor) for factor in search.effort.rates
                ]
                tries.append(replace(settings, epochs=2 * settings.epochs))
            tell = search.progress
            yield (
                task,
                finetune(
                    search.dataset,
                    development.rows,
                    folds,
                    encoder,
                    tries,
                    search.value_of,
                    folder=search.shelf.unfinished(task),
                    seconds=None if search.plan.seconds is None else search.seconds,
                    progress=tell and partial(tell, task),
                ),
            )


def others(search: Search) -> Iterator[Outcome]:
    """Estimators that were named."""
    development = search.development
    for other in search.others:
        fitted = estimator(
            other,
            search.features,
            development.labels,
            development.folds,
            seconds=search.seconds,
        )
        yield Task("", other.spec, 0), fitted


Family = Callable[[Search], Iterator[Outcome]]

FAMILIES: dict[str, Family] = {
    "frequency": frequencies,
    "linear": linear,
    "label-names": label_names,
    "kernel": kernel,
    "trees": trees,
    "networks": networks,
    "finetuned": finetuned,
    "others": others,
}


def _is_text(search: Search) -> bool:
    """Sparse rows of n-grams, on which only linear heads are worth their time."""
    return search.sparse and search.features.shape[1] > 5 * NARROW


def _kept(
    search: Search, fitted: Fitted | Failed, again: Callable[[Tensor], Fitted | Failed]
) -> Fitted | Failed:
    """A candidate with the model that is kept of it: where validation rows are given, members that
    leave out folds of all rows, if there is time for them."""
    development = search.development
    if isinstance(fitted, Failed) or development.final is development.folds:
        return fitted
    whole = again(development.final)
    if isinstance(whole, Failed):
        return fitted
    return replace(fitted, model=whole.model, seconds=fitted.seconds + whole.seconds)


def _best(
    search: Search, fits: Sequence[Fitted | Failed], metric: str | None = None
) -> Fitted | Failed:
    """The best setting, by scores of unseen rows."""
    fitted = [each for each in fits if isinstance(each, Fitted)]
    if not fitted:
        return next(each for each in fits if isinstance(each, Failed))
    return max(fitted, key=lambda each: search.value(each, search.development, metric))


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
