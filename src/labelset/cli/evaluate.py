"""`labelset evaluate`: the metrics of a run, with the map and rule that it holds."""

from __future__ import annotations

import argparse
import json
from typing import Any

from labelset import metrics, model
from labelset.terminal import phase, progress, table

ABOUT = "Metrics of the scores of a RUN. Known: " + ", ".join(metrics.names())


def add(verb: Any) -> None:
    """Its options."""
    verb.add_argument("model", metavar="RUN", help="the folder of a run")
    verb.add_argument("--on", default="test", choices=("train", "valid", "test"))
    verb.add_argument("--metrics", nargs="+", default=[*model.USUAL], metavar="NAME")
    verb.add_argument("--per-label", metavar="METRIC", help="also this metric of every label")
    verb.add_argument("--json", action="store_true", help="print JSON instead of the table")


def run(args: argparse.Namespace) -> None:
    """Compute and print."""
    with progress(not args.json):
        phase(f"reading {args.model}")
        saved = model.SavedModel.open(args.model)
        phase("measuring")
        found = saved.evaluate(args.metrics, args.on)
        own = saved.evaluate([args.per_label] if args.per_label else [], args.on)
    each = own.each.get(args.per_label)
    if args.per_label and each is None:
        why = own.notes.get(args.per_label, "try map@class or f1-macro")
        raise ValueError(f"{args.per_label} has no value per label; {why}")
    if args.json:
        result = {"on": args.on, "metrics": found.values, "notes": found.notes, "per_label": each}
        print(json.dumps(result, allow_nan=False))
        return
    rows = [[r["metric"], _number(r["value"]), r["better"], r["note"]] for r in found.records()]
    print(f"{found.headline()}\n")
    print(table([["metric", "value", "better", ""], *rows], left=(0, 3)))
    if each is not None:
        lines = [[name, _number(value)] for name, value in each.items()]
        print("\n" + table([["label", args.per_label], *lines]))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
