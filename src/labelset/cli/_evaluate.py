"""`labelset evaluate`: the metrics of a run, with the map and rule that it holds."""

from __future__ import annotations

import argparse
import json
import math
from typing import Any

from labelset.artefact import Part, Run
from labelset.cli._terminal import table
from labelset.losses import NoLink
from labelset.metrics import Metric, build, names

__all__ = ["DEFAULT", "add", "run"]

DEFAULT = [
    *("map@class", "map@sample", "f1-micro", "f1-macro", "f1-samples", "precision@5"),
    *("ndcg@5", "hamming", "subset-accuracy", "ace", "mce", "brier", "nll"),
]


def add(verbs: Any) -> None:
    """The verb and its options."""
    verb = verbs.add_parser(
        "evaluate",
        help="the metrics of a RUN, with the map and rule that it holds",
        description="Metrics of the scores of a RUN. Known: " + ", ".join(names()),
    )
    verb.add_argument("model", metavar="RUN", help="the folder of a run")
    verb.add_argument("--on", default="test", choices=("train", "valid", "test"))
    verb.add_argument("--metrics", nargs="+", default=DEFAULT, metavar="NAME")
    verb.add_argument("--per-label", metavar="METRIC", help="also this metric of every label")
    verb.add_argument("--json", action="store_true", help="print JSON instead of the table")
    verb.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Compute and print."""
    held = Run.open(args.model)
    part = held.scored(args.on)
    given = _given(held, part)
    values, notes = _measure([_built(held, name) for name in args.metrics], given, part)
    each = _each(args.per_label, given, part, held) if args.per_label else None
    if args.json:
        found = {"on": args.on, "metrics": values, "notes": notes, "per_label": each}
        print(json.dumps(found, allow_nan=False))
        return
    rows = [
        [name, _number(value), _better(_built(held, name)[1]), notes.get(name, "")]
        for name, value in values.items()
    ]
    print(f"{args.on}: {len(part):,} rows, {part.labels.n:,} labels\n")
    print(table([["metric", "value", "better", ""], *rows], left=(0, 3)))
    if each is not None:
        lines = [[name, _number(value)] for name, value in each.items()]
        print("\n" + table([["label", args.per_label], *lines]))


def _given(held: Run, part: Part) -> dict[str, Any]:
    """What metrics take; probabilities and label sets are missing where the loss has no link."""
    try:
        p = held.probabilities(part.scores)
    except NoLink as error:
        return {"scores": part.scores, "missing": str(error)}
    return {"scores": part.scores, "probabilities": p, "label sets": held.decide(p)}


def _built(held: Run, name: str) -> tuple[str, Metric]:
    """A metric; those that weigh by propensity learn it from the run's training labels."""
    if name.startswith("psp@") and "train" in held.parts:
        return name, build(name, train=held.parts["train"].labels)
    return name, build(name)


def _measure(
    chosen: list[tuple[str, Metric]], given: dict[str, Any], part: Part
) -> tuple[dict[str, float | None], dict[str, str]]:
    values: dict[str, float | None] = {}
    notes: dict[str, str] = {}
    for name, metric in chosen:
        values[name] = None
        if metric.takes not in given:
            notes[name] = "no probabilities: fit a map with labelset calibrate"
            continue
        try:
            report = metric.report(given[metric.takes], part.labels)
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


def _each(name: str, given: dict[str, Any], part: Part, held: Run) -> dict[str, float | None]:
    metric = build(name)
    if metric.takes not in given:
        raise ValueError(given["missing"])
    each = metric.report(given[metric.takes], part.labels).each
    if each is None or len(each) != len(held.names):
        raise ValueError(f"{name} has no value per label; try map@class or f1-macro")
    values = [None if math.isnan(v) else v for v in each.tolist()]
    return dict(zip(held.names, values, strict=True))


def _better(metric: Metric) -> str:
    return "higher" if metric.higher_is_better else "lower"
