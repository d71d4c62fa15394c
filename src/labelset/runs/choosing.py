"""Which candidate of a search to use, by scores of rows that its members have not seen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from labelset.data import Dataset
from labelset.metrics import build
from labelset.model import SavedModel
from labelset.runs.judging import Judge, stage_of
from labelset.runs.plan import NETWORKS, Plan, Task
from labelset.runs.search import search, suits
from labelset.runs.shelf import InMemory


@dataclass(frozen=True)
class Candidate:
    """A candidate of a search."""

    name: str
    value: float
    """The metric that was asked for, on rows that its members have not seen; NaN where there is no
    model, or the metric is not defined."""
    seconds: float
    """That fitting took; NaN where there is no model."""
    note: str = ""
    """Why there is no model."""


@dataclass(frozen=True)
class Choice:
    """The model to use, and all that it was chosen from."""

    model: SavedModel
    """With its calibrator and its decision rule."""
    best: str
    """The name of its candidate."""
    sentence: str
    """What to use, and why."""
    candidates: tuple[Candidate, ...]
    """The best first; at the end those without a model."""


def choose_model(dataset: Dataset, plan: Plan) -> Choice:
    """The model that `compare` would recommend, found in memory, with no row set aside to judge.

    A data set without a split is all training rows; validation rows that it has choose.

    >>> g = torch.Generator().manual_seed(0)
    >>> x = torch.randn(60, 3, generator=g)
    >>> data = Dataset.from_arrays(x, x > 0.5)
    >>> choice = choose_model(data, Plan(losses=("bce",), seconds=0.01))
    >>> choice.best, [candidate.name for candidate in choice.candidates[:2]]
    ('bce+linear', ['bce+linear', 'frequency'])
    """
    if dataset.split is None:
        dataset = replace(dataset, split=torch.zeros(len(dataset), dtype=torch.int8))
    dataset = dataset.in_memory()
    if not suits(dataset, plan):
        raise ValueError(
            "a search needs features or texts in memory, and losses that are trained in one "
            "stage; use labelset.compare, which trains by epochs where it must"
        )
    if not int(dataset.part("train").labels.counts().sum()):
        raise ValueError("no label is positive in any row: there is nothing to choose a model by")
    shelf = InMemory()
    found = search(dataset, plan, shelf)
    judges = {task.key: Judge(shelf.model(task)) for task in found.tasks}
    values = {key: judge.unseen(plan.optimise) for key, judge in judges.items()}
    able = affordable({key: judge.model for key, judge in judges.items()}, plan)
    best = choose_found({key: values[key] for key in able}, plan, found.blend)
    use = described(best, found.tasks, found.blend)
    sentence = (
        f"Use {use}: {plan.optimise} {values[best]:.3f} on unseen rows"
        f"{' after threshold tuning' if stage_of(plan.optimise) == 'tuned' else ''}; "
        f"{found.sentence}."
    )
    sign = 1 if build(plan.optimise).higher_is_better else -1
    fitted = [
        Candidate(key, values[key], float(judges[key].model.about["seconds"])) for key in values
    ]
    fitted.sort(key=lambda one: (math.isnan(one.value), -sign * one.value))
    none = [
        Candidate(key, math.nan, math.nan, why)
        for key, why in {**found.failed, **found.left_out}.items()
    ]
    return Choice(judges[best].finish(plan.optimise), best, sentence, (*fitted, *none))


def affordable(models: Mapping[str, SavedModel], plan: Plan) -> list[str]:
    """The candidates that can be used, within the bounds of the plan."""
    able = {key: model.about for key, model in models.items() if model.can_score}
    for cost, bound, unit in (
        ("ms_per_row", plan.max_ms, "ms for a row"),
        ("megabytes", plan.max_mb, "MB"),
    ):
        if bound is None:
            continue
        least = min(able, key=lambda key: float(able[key][cost]))
        if float(able[least][cost]) > bound:
            raise ValueError(
                f"no candidate does with {bound:g} {unit}: {least} takes least, "
                f"{float(able[least][cost]):.2g} {unit}; allow more"
            )
        able = {key: about for key, about in able.items() if float(about[cost]) <= bound}
    return list(able)


def choose_found(values: Mapping[str, float], plan: Plan, blend: Mapping[str, Any]) -> str:
    """The best by scores of unseen rows; the blend only where a nested test allows it."""
    sign = 1 if build(plan.optimise).higher_is_better else -1
    own = {key: sign * value for key, value in values.items() if not math.isnan(value)}
    if not own:
        raise ValueError(f"{plan.optimise} is not defined on the rows that choose")
    if "blend" in own and blend["passes"] and not plan.single:
        return "blend"
    return max((key for key in own if key != "blend"), key=lambda key: own[key])


def described(key: str, tasks: Sequence[Task], blend: Mapping[str, Any]) -> str:
    """A candidate in words."""
    if key == "blend":
        weights = sorted(blend["weights"].items(), key=lambda item: -item[1])
        return "the blend of " + ", ".join(f"{name} ({weight:.0%})" for name, weight in weights)
    if key == "distilled":
        return "the network distilled from the blend"
    task = next(task for task in tasks if task.key == key)
    loss, head = task.loss, task.head
    if head == "label-names":
        return f"{loss} with a linear head that begins at label names"
    if head.partition(":")[0] in NETWORKS:
        return f"{head}, trained whole with {loss}"
    return f"{loss} with {'an' if head == 'mlp' else 'a'} {head} head" if loss else key
