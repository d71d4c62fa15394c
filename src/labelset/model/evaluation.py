"""Evaluation: the metrics of a run's rows, with the calibrator and decision rule that it holds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from labelset import losses, metrics
from labelset.charts import Panel, shares
from labelset.display import Shown

if TYPE_CHECKING:
    from labelset.model.folder import SavedModel

USUAL = (
    *("map@class", "map@sample", "f1-micro", "f1-macro", "f1-samples", "precision@5"),
    *("ndcg@5", "hamming", "subset-accuracy", "ace", "mce", "brier", "nll"),
)
"""The metrics that are computed unless others are named."""


@dataclass(frozen=True, repr=False)
class Evaluation(Shown):
    """The value of each metric on some rows; `found["f1-micro"]` is one.

    >>> from labelset.model import SavedModel, Split
    >>> part = Split([[1, 0], [0, 1]], [[2.0, -1.0], [0.5, 3.0]])
    >>> found = SavedModel(["fork", "knife"], {"test": part}).evaluate(["f1-micro", "map@class"])
    >>> found["f1-micro"], found.each["map@class"]["fork"]
    (0.8, 1.0)
    """

    on: str
    rows: int
    labels: int
    values: Mapping[str, float | None]
    """None where a metric is not defined on these rows; `notes` says why."""
    notes: Mapping[str, str] = field(default_factory=dict)
    each: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    """The values per label of the metrics that have them."""
    better: Mapping[str, str] = field(default_factory=dict)
    """Whether `higher` or `lower` values of a metric are better."""

    def __getitem__(self, metric: str) -> float | None:
        return self.values[metric]

    def headline(self) -> str:
        return f"{self.on}: {self.rows:,} rows, {self.labels:,} labels"

    def records(self) -> list[dict[str, Any]]:
        """A line for each metric."""
        return [
            {"metric": name, "value": value, "better": self.better[name]}
            | {"note": self.notes.get(name, "")}
            for name, value in self.values.items()
        ]

    def panels(self) -> list[Panel]:
        """The labels by the first metric that has a value for each, the worst first."""
        for metric, own in self.each.items():
            rows = sorted((v, name) for name, v in own.items() if v is not None)
            if rows:
                worst = [(name, value) for value, name in rows[:25]]
                return [shares(worst, f"{metric}: the labels with least", metric)]
        return []


def evaluated(saved: SavedModel, names: Iterable[str] = USUAL, on: str = "test") -> Evaluation:
    """The metrics of a part of a run's rows."""
    split = saved.scored(on)
    given: dict[str, Any] = {"scores": split.scores}
    try:
        p = saved.predictor.probabilities(split.scores)
        given |= {"probabilities": p, "label sets": saved.predictor.decide(p)}
    except losses.NoLink:  # ranking metrics can still be told
        pass
    values: dict[str, float | None] = {}
    notes, each, better = {}, {}, {}
    for name in names:
        metric, values[name] = _built(saved, name), None
        better[name] = "higher" if metric.higher_is_better else "lower"
        if metric.takes not in given:
            notes[name] = "no probabilities: fit a map with labelset calibrate"
            continue
        try:
            report = metric.report(given[metric.takes], split.labels)
        except ValueError as error:
            notes[name] = str(error)
            continue
        if math.isinf(report.value):
            notes[name] = "infinite: a probability of 0 or 1 was wrong"
            continue
        values[name] = report.value
        if report.left_out:
            notes[name] = f"{report.left_out:,} left out"
        if report.each is not None and len(report.each) == len(saved.names):
            own = [None if math.isnan(v) else v for v in report.each.tolist()]
            each[name] = dict(zip(saved.names, own, strict=True))
    return Evaluation(on, len(split), split.labels.n, values, notes, each, better)


def _built(saved: SavedModel, name: str) -> metrics.Metric:
    """A metric; those that weigh by propensity learn it from the run's training labels."""
    if name.startswith("psp@") and "train" in saved.splits:
        return metrics.build(name, train=saved.splits["train"].labels)
    return metrics.build(name)
