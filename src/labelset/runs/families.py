"""The families of candidates: of each kind of model the settings that are tried, and what is kept.

A family yields its candidates as it fits them; `search.py` keeps them, within one budget.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from labelset import losses
from labelset.data import SparseRows
from labelset.runs import label_text
from labelset.runs.plan import Task, parse
from labelset.runs.shelf import tasks_of
from labelset.train.fitted import LATE, Failed, Fitted
from labelset.train.rivals import estimator
from labelset.train.solve import Problem, solve, strengths

if TYPE_CHECKING:
    from labelset.runs.search import Search

SOLVED, DEAR = ("bce", "squared-hinge", "asl", "spa", "hill"), ("two-way", "sigmoid-f1")
"""Losses of the heads that are solved, unless losses are named; and those of sums over rows or
columns, which cost too much on sparse ones."""
MANY = 8
"""Candidates with a solved head up to which all that are named are solved, however a trial ends."""
SAMPLE = 2_000
"""Rows on which settings are tried where there are many more."""
ABOUT = (0.4, 1.0, 2.5)
"""Of a strength found by trial: on all rows a solution leads to the next, at little cost."""
HOLD, HELD = 4.0, 2
"""What is not solved is tried with so much less strength, so often."""
WEIGHTS = 1 << 25
"""Of a head: up to so many, several are kept at a time."""
NARROW = 4_000
"""Features up to which a kernel, and trees, are tried on sparse rows."""
GRAM = 6_000
"""Rows up to which a kernel is tried."""
GAMMAS, RIDGES = (0.5, 1.0, 2.0), (0.1, 0.5, 2.0)
"""Of kernel ridge: how fast a kernel fades, over the mean squared distance from the mean."""
BYTES = 2 << 30
"""Memory that a forest may take."""


@dataclass(frozen=True)
class LeftOut:
    """A candidate that was not fitted on all folds, as a trial on some rows was not in favour."""

    reason: str


@dataclass(frozen=True)
class Known:
    """A candidate that was kept before the search was stopped."""


Outcome = tuple[Task, Fitted | Failed | LeftOut | Known]


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
    tasks = [Task(loss, head, 0) for loss in _losses(search) for head in search.plan.solved]
    base = next(task for task in tasks if task.key == search.plan.base)
    best, failed = _screened(search, [base], None)
    yield base, failed.get(base) or _solved(search, base, best[base][1], None)
    others = [task for task in tasks if task != base]
    best, failed = _screened(search, others, search.seconds)
    yield from failed.items()
    ranked = sorted(best, key=lambda task: -best[task][0])
    every = search.named and len(tasks) <= MANY
    taken = ranked if every else ranked[: search.effort.finalists - 1]
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


def _solved(
    search: Search, task: Task, strength: float, seconds: float | None, held: int = 0
) -> Fitted | Failed:
    """With the strength of the trial; where there are many more rows, also with those about it.

    A loss that levels off may have no solution that is found with that little to hold its weights:
    then with more.
    """
    development, features = search.development, search.features
    loss, weights = problem_of(search, task).loss, features.shape[1] * development.labels.n
    costly = loss.of_sums or loss.saturates_positives or loss.saturates_negatives
    few = len(development.rows) <= SAMPLE
    about = (1.0,) if few or costly or not search.sparse or weights > WEIGHTS else ABOUT
    problems = [problem_of(search, task, strength * factor) for factor in about]
    began = time.perf_counter()
    fits = solve(features, development.labels, development.folds, problems, seconds=seconds)
    found = fits[0] if len(fits) == 1 else _best(search, fits)
    if isinstance(found, Failed) and found is not LATE and held < HELD:
        left = None if seconds is None else seconds - (time.perf_counter() - began)
        return _solved(search, task, strength / HOLD, left, held + 1)
    return found


def label_names(search: Search) -> Iterator[Outcome]:
    """The best of the linear heads again, the weights of its rare labels shrunk towards their texts
    rather than to 0; how far is chosen by scores of unseen rows."""
    development, features, texts = search.development, search.features, search.label_texts
    tasks = tasks_of([search.entries["linear"]])
    heads = [task for task in tasks if problem_of(search, task).by_label]
    if texts is None or not heads:
        return
    kept = {task: search.shelf.model(task) for task in heads}

    def value(task: Task) -> float:
        part = kept[task].scored("valid")
        assert part.scores is not None
        return search.value_of(kept[task].loss, part.scores, part.labels)

    best = max(heads, key=value)
    problem = problem_of(search, best, float(kept[best].about["fit"]["strength"]))
    rare = label_text.rare(development.labels, problem.loss)
    labels, unseen = label_text.columns(development.labels, rare), development.unseen
    fits = solve(
        features,
        labels,
        development.folds,
        label_text.with_priors(
            label_text.of_columns(problem, rare, development.labels.n),
            several=features.shape[1] * labels.n <= WEIGHTS,
        ),
        seconds=search.seconds,
        vectors=label_text.vectors(search.encoder, search.dataset, texts)[rare],
    )

    def ranks(fitted: Fitted) -> float:
        return search.value_of(fitted.loss, fitted.scores[unseen], labels[unseen], "map@class")

    fitted = [each for each in fits if isinstance(each, Fitted)]
    yield (
        Task(best.loss, "label-names", 0),
        label_text.put_into(kept[best], rare, max(fitted, key=ranks), unseen)
        if fitted
        else fits[0],
    )


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
    """Names of the losses of solved heads, the baseline among them."""
    if search.named:
        return list(search.plan.losses)
    dear = () if search.sparse else DEAR
    return list(dict.fromkeys((search.plan.baseline, *SOLVED, *dear)))


def _losses_of_networks(search: Search) -> Sequence[str]:
    """The usual ones, or those that are named; of many the ones that a trial has left."""
    if not search.named:
        return search.effort.networks
    if len(search.plan.losses) * len(search.plan.solved) <= MANY:
        return search.plan.losses
    return [*dict.fromkeys(task.loss for task in tasks_of([search.entries["linear"]]))]


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
    from labelset.train.trees import Trees, extra_trees

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
    for name in _losses_of_networks(search):
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
    for (key, encoder), head in product(search.networks.items(), ("", *search.plan.attending)):
        for name in _losses_of_networks(search):
            task = Task(name, f"{key}+{head}" if head else key, 0)
            if search.shelf.has(task):
                yield task, Known()
                continue
            loss, loss_settings = parse(name)
            given = {"loss": loss, "loss_settings": loss_settings, **search.plan.training}
            given |= dict(zip(("head", "head_settings"), parse(head or "linear"), strict=True))
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
                    encoder.by_place() if head else encoder,
                    tries,
                    search.value_of,
                    folder=search.shelf.unfinished(task),
                    seconds=None if search.plan.seconds is None else search.seconds,
                    save_seconds=search.save_seconds,
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


Family = Callable[["Search"], Iterator[Outcome]]

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


def _best(search: Search, fits: Sequence[Fitted | Failed]) -> Fitted | Failed:
    """The best setting, by scores of unseen rows."""
    fitted = [each for each in fits if isinstance(each, Fitted)]
    if not fitted:
        return next(each for each in fits if isinstance(each, Failed))
    return max(fitted, key=lambda each: search.value(each, search.development))
