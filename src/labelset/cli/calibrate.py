"""`labelset calibrate`: fit a map from scores to probabilities, and keep it in the run."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from labelset import calibrate, metrics, model, runs
from labelset.cli.options import add_saving, add_settings, settings, undone, writable
from labelset.files import write_bytes
from labelset.terminal import phase, progress, wrapped

ABOUT = """Fit a calibrator on the held-out part of a RUN and keep it there; the rule that the run
holds is fitted again, to the new probabilities. What would make the metric that the run is for, or
another main one, sharply worse on unseen rows is refused. Calibrators: """ + ", ".join(
    calibrate.names()
)


def add(verb: Any) -> None:
    """Its options."""
    verb.add_argument("model", metavar="RUN", help="the folder of a run")
    verb.add_argument("--map", default="platt", help="which calibrator (platt)")
    verb.add_argument("--on", default="valid", help="the split to fit on (valid; never test)")
    verb.add_argument("--loss", help="the loss of the scores (default: the run's own)")
    add_settings(verb, "map")
    add_saving(verb)
    verb.add_argument("--diagram", metavar="SVG", help="draw the reliability before and after")
    verb.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> None:
    """Fit, say whether it helped, keep it unless it does harm."""
    if args.undo:
        undone(args)
        return
    with progress(not args.json):
        phase(f"reading {args.model}")
        saved = model.SavedModel.open(args.model)
        split = saved.held_out(args.on)
        if args.diagram:
            writable(args.diagram)
        hypers = settings(args.set)
        if "loss" in calibrate.catalog.entry(args.map).hyperparameters:
            hypers.setdefault("loss", args.loss or saved.loss)
        before = saved.predictor.or_sigmoid().probabilities(split.scores)
        phase(f"fitting {args.map}")
        fitted = calibrate.build(args.map, **hypers).fit(split.scores, split.labels)
        phase("looking for harm by cross-validation")
        changes, had = model.Changes(saved, args.on), saved.rule
        rule, change = changes.to_calibrator(fitted, () if changes.on == args.on else (fitted,))
        if not args.force:
            change.refuse("this calibrator")
        if rule is not None and model.learns(rule):
            rule = rule.fit(fitted(split.scores), split.labels)
        saved.calibrator, saved.rule = fitted, rule
        if args.diagram:
            after = fitted(split.scores)
            curves = {"before": before, f"after {args.map}": after}
            drawn = {name: metrics.reliability(p, split.labels) for name, p in curves.items()}
            write_bytes(
                Path(args.diagram), calibrate.diagram(drawn, f"Reliability on {args.on}").encode()
            )
        saved.save_model()
        phase("judging the model as it is now")
        runs.judge_again(saved)
    if args.json:
        held = None if rule is None else rule.as_json()
        print(json.dumps({"map": fitted.as_json(), "rule": held, "unseen": change.as_json()}))
        return
    print(f"{args.map}, fitted on {len(split):,} {args.on} rows")
    if fitted.quality is not None:
        print(wrapped(str(fitted.quality)))
    if change.before:
        print(f"\n{change}\n")
    if rule is None:
        print("there is no rule: labels are predicted from probability 0.5")
    elif rule is not had:
        print(
            f"what decided would do harm here: {rule.name} for {changes.purpose} was fitted instead"
        )
    else:
        again = "was fitted again, to these probabilities" if model.learns(rule) else "stays"
        print(f"the rule {rule.name} {again}")
