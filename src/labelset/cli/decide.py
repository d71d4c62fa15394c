"""`labelset decide`: fit a rule from probabilities to label sets, and keep it in the run."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from labelset import decide, metrics, model, runs
from labelset.cli.options import add_saving, add_settings, settings, undone
from labelset.terminal import phase, progress, table

ABOUT = """Fit a rule on the held-out part of a RUN and keep it there, or take the one in a JSON
file. What would make the metric that the run is for, or another main one, sharply worse on unseen
rows is refused. Rules: """ + ", ".join(decide.names())
JUDGED = ("f1-micro", "f1-macro", "f1-samples", "precision", "recall")


def add(verb: Any) -> None:
    """Its options."""
    verb.add_argument("model", metavar="RUN", help="the folder of a run")
    verb.add_argument("--rule", help="which decision rule (the one for the run's metric)")
    verb.add_argument("--on", default="valid", help="the split to fit on (valid; never test)")
    add_settings(verb, "rule")
    verb.add_argument("--from", dest="source", metavar="JSON", help="take this rule instead")
    add_saving(verb)
    verb.add_argument("--most", type=int, default=20, help="how many thresholds to show (20)")
    verb.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> None:
    """Fit, show what it does on the held-out part, keep it unless it does harm."""
    if args.undo:
        undone(args)
        return
    with progress(not args.json):
        phase(f"reading {args.model}")
        saved = model.SavedModel.open(args.model)
        split = saved.held_out(args.on)
        p = saved.predictor.probabilities(split.scores)
        before = _judge(saved, p, split)
        if args.source:
            rule = _read(Path(args.source))
            rule(p[:1])
        else:
            aim = model.purpose(saved)
            phase("fitting the rule")
            rule = decide.tuned_for(aim, args.rule, **settings(args.set)).fit(p, split.labels)
        phase("looking for harm by cross-validation")
        changes = model.Changes(saved, args.on)
        as_it_is = bool(args.source) or changes.on != args.on
        change = changes.to(saved.calibrator, rule, (rule,) if as_it_is else ())
        if not args.force:
            change.refuse("this rule")
        saved.rule = rule
        after = _judge(saved, p, split)
        saved.save_model()
        phase("judging the model as it is now")
        runs.judge_again(saved)
    if args.json:
        shown = {"rule": rule.as_json(), "before": before, "after": after}
        print(json.dumps(shown | {"unseen": change.as_json()}))
        return
    print(f"{rule.name}, on {len(split):,} {args.on} rows\n")
    rows = [[name, f"{before[name]:.4f}", f"{after[name]:.4f}"] for name in JUDGED]
    print(table([["on these rows", "before", "after"], *rows]))
    if change.before:
        print(f"\n{change}")
    thresholds = getattr(rule, "thresholds", None)
    if thresholds is not None:
        print("\n" + _thresholds(saved, rule, p, split, args.most))


def _read(path: Path) -> decide.Rule:
    """The rule in a JSON file; an error names the file."""
    try:
        return decide.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise ValueError(f"{path}: is no JSON file, and so holds no rule") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _judge(saved: model.SavedModel, p: Any, split: Any) -> dict[str, float]:
    predicted = saved.predictor.decide(p)
    return {name: metrics.build(name)(predicted, split.labels) for name in JUDGED}


def _thresholds(saved: model.SavedModel, rule: Any, p: Any, split: Any, most: int) -> str:
    each = rule.thresholds
    if each.ndim == 0:
        return f"one threshold for all labels: {float(each):.4f}"
    rows = [["label", "threshold"]]
    ends = rule.intervals(p, split.labels) if hasattr(rule, "intervals") else None
    if ends is not None:
        rows[0].append("95% interval")
    for i, name in list(enumerate(saved.names))[:most]:
        row = [name, f"{float(each[i]):.4f}"]
        if ends is not None:
            row.append(f"{float(ends[i][0]):.4f} .. {float(ends[i][1]):.4f}")
        rows.append(row)
    more = len(saved.names) - most
    return table(rows) + (f"\n... and {more:,} more" if more > 0 else "")
