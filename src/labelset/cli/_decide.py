"""`labelset decide`: fit a rule from probabilities to label sets, and keep it in the run."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from labelset import decide
from labelset.artefact import Run
from labelset.cli._settings import add_settings, settings
from labelset.cli._terminal import table
from labelset.metrics import build

__all__ = ["add", "run"]

ABOUT = """Fit a rule on the held-out part of a RUN and keep it there, or take the one in a JSON
file. Rules: """
JUDGED = ("f1-micro", "f1-macro", "f1-samples", "precision", "recall")


def add(verbs: Any) -> None:
    """The verb and its options."""
    verb = verbs.add_parser(
        "decide",
        help="fit thresholds or another rule, and keep it in the RUN",
        description=ABOUT + ", ".join(decide.names()),
    )
    verb.add_argument("model", metavar="RUN", help="the folder of a run")
    verb.add_argument("--rule", default="per-class", help="which rule (per-class)")
    verb.add_argument("--on", default="valid", help="the part to fit on (valid; never test)")
    add_settings(verb, "rule")
    verb.add_argument("--from", dest="source", metavar="JSON", help="take this rule instead")
    verb.add_argument("--most", type=int, default=20, help="how many thresholds to show (20)")
    verb.add_argument("--json", action="store_true", help="print JSON")
    verb.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Fit, show what it does on the held-out part, keep it."""
    held = Run.open(args.model)
    part = held.held_out(args.on)
    p = held.probabilities(part.scores)
    before = _judge(held, p, part)
    if args.source:
        rule = decide.from_json(json.loads(Path(args.source).read_text(encoding="utf-8")))
        rule(p[:1])
    else:
        rule = decide.build(args.rule, **settings(args.set)).fit(p, part.labels)
    held.rule = rule
    after = _judge(held, p, part)
    held.save_model()
    if args.json:
        print(json.dumps({"rule": rule.as_json(), "before": before, "after": after}))
        return
    print(f"{rule.name}, on {len(part):,} {args.on} rows\n")
    rows = [[name, f"{before[name]:.4f}", f"{after[name]:.4f}"] for name in JUDGED]
    print(table([["on these rows", "before", "after"], *rows]))
    thresholds = getattr(rule, "thresholds", None)
    if thresholds is not None:
        print("\n" + _thresholds(held, rule, p, part, args.most))


def _judge(held: Run, p: Any, part: Any) -> dict[str, float]:
    predicted = held.decide(p)
    return {name: build(name)(predicted, part.labels) for name in JUDGED}


def _thresholds(held: Run, rule: Any, p: Any, part: Any, most: int) -> str:
    each = rule.thresholds
    if each.ndim == 0:
        return f"one threshold for all labels: {float(each):.4f}"
    rows = [["label", "threshold"]]
    ends = rule.intervals(p, part.labels) if hasattr(rule, "intervals") else None
    if ends is not None:
        rows[0].append("95% interval")
    for i, name in list(enumerate(held.names))[:most]:
        row = [name, f"{float(each[i]):.4f}"]
        if ends is not None:
            row.append(f"{float(ends[i][0]):.4f} .. {float(ends[i][1]):.4f}")
        rows.append(row)
    more = len(held.names) - most
    return table(rows) + (f"\n... and {more:,} more" if more > 0 else "")
