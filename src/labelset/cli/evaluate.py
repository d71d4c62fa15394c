"""`labelset evaluate`: the metrics of a run, with the map and rule that it holds."""

from __future__ import annotations

import argparse
import json
import math
from typing import Any

from labelset import losses, metrics, model
from labelset.terminal import phase, progress, table

DEFAULT = [
    *("map@class", "map@sample", "f1-micro", "f1-macro", "f1-samples", "precision@5"),
    *("ndcg@5", "hamming", "subset-accuracy", "ace", "mce", "brier", "nll"),
]
ABOUT = "Metrics of the scores of a RUN. Known: " + ", ".join(metrics.names())


def add(verb: Any) -> None:
    """Its options."""
    verb.add_argument("model", metavar="RUN", help="the folder of a run")
    verb.add_argument("--on", default="test", choices=("train", "valid", "test"))
    verb.add_argument("--metrics", nargs="+", default=DEFAULT, metavar="NAME")
    verb.add_argument("--per-label", metavar="METRIC", help="also this metric of every label")
    verb.add_argument("--json", action="store_true", help="print JSON instead of the table")


def run(args: argparse.Namespace) -> None:
    """Compute and print."""
    with progress(not args.json):
        phase(f"reading {args.model}")
        saved = model.SavedModel.open(args.model)
        split = saved.scored(args.on)
        inputs = _inputs(saved, split)
        phase("measuring")
        values, notes = _measure([_built(saved, name) for name in args.metrics], inputs, split)
        each = _each(args.per_label, inputs, split, saved) if args.per_label else None
    if args.json:
        result = {"on": args.on, "metrics": values, "notes": notes, "per_label": each}
        print(json.dumps(result, allow_nan=False))
        return
    rows = [
        [name, _number(value), _better(_built(saved, name)[1]), notes.get(name, "")]
        for name, value in values.items()
    ]
    print(f"{args.on}: {len(split):,} rows, {split.labels.n:,} labels\n")
    print(table([["metric", "value", "better", ""], *rows], left=(0, 3)))
    if each is not None:
        lines = [[name, _number(value)] for name, value in each.items()]
        print("\n" + table([["label", args.per_label], *lines]))


def _inputs(saved: model.SavedModel, split: model.Split) -> dict[str, Any]:
    """What metrics take; probabilities and label sets are missing where the loss has no link."""
    try:
        p = saved.predictor.probabilities(split.scores)
    except losses.NoLink as error:
        return {"scores": split.scores, "missing": str(error)}
    return {"scores": split.scores, "probabilities": p, "label sets": saved.predictor.decide(p)}


def _built(saved: model.SavedModel, name: str) -> tuple[str, metrics.Metric]:
    """A metric; those that weigh by propensity learn it from the run's training labels."""
    if name.startswith("psp@") and "train" in saved.splits:
        return name, metrics.build(name, train=saved.splits["train"].labels)
    return name, metrics.build(name)


def _measure(
    chosen: list[tuple[str, metrics.Metric]], inputs: dict[str, Any], split: model.Split
) -> tuple[dict[str, float | None], dict[str, str]]:
    values: dict[str, float | None] = {}
    notes: dict[str, str] = {}
    for name, metric in chosen:
        values[name] = None
        if metric.takes not in inputs:
            notes[name] = "no probabilities: fit a map with labelset calibrate"
            continue
        try:
            report = metric.report(inputs[metric.takes], split.labels)
        except ValueError as error:
            notes[name] = str(error)
            continue
        if math.isinf(report.value):
            notes[name] = "infinite: a probability of 0 or 1 was wrong"
            continue
        values[name] = report.value
        if report.left_out:
            notes[name] = f"{report.left_out:,} left out"
    return values, notes


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _each(
    name: str, inputs: dict[str, Any], split: model.Split, saved: model.SavedModel
) -> dict[str, float | None]:
    metric = metrics.build(name)
    if metric.takes not in inputs:
        raise ValueError(inputs["missing"])
    each = metric.report(inputs[metric.takes], split.labels).each
    if each is None or len(each) != len(saved.names):
        raise ValueError(f"{name} has no value per label; try map@class or f1-macro")
    values = [None if math.isnan(v) else v for v in each.tolist()]
    return dict(zip(saved.names, values, strict=True))


def _better(metric: metrics.Metric) -> str:
    return "higher" if metric.higher_is_better else "lower"
