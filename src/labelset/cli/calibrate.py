"""`labelset calibrate`: fit a map from scores to probabilities, and keep it in the run."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from labelset import calibrate, metrics, model, runs
from labelset.cli.options import add_settings, settings, writable
from labelset.files import write_bytes

ABOUT = """Fit a map on the held-out part of a RUN and keep it there. A rule that the run held was
fitted to other probabilities and is taken out. Maps: """ + ", ".join(calibrate.names())


def add(verb: Any) -> None:
    """Its options."""
    verb.add_argument("model", metavar="RUN", help="the folder of a run")
    verb.add_argument("--map", default="platt", help="which calibrator (platt)")
    verb.add_argument("--on", default="valid", help="the split to fit on (valid; never test)")
    verb.add_argument("--loss", help="the loss of the scores (default: the run's own)")
    add_settings(verb, "map")
    verb.add_argument("--diagram", metavar="SVG", help="draw the reliability before and after")
    verb.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> None:
    """Fit, say whether it helped, keep it."""
    saved = model.SavedModel.open(args.model)
    split = saved.held_out(args.on)
    if args.diagram:
        writable(args.diagram)
    hypers = settings(args.set)
    if "loss" in calibrate.catalog.entry(args.map).hyperparameters:
        hypers.setdefault("loss", args.loss or saved.loss)
    before = saved.predictor.or_sigmoid().probabilities(split.scores)
    fitted = calibrate.build(args.map, **hypers).fit(split.scores, split.labels)
    had_rule = saved.rule is not None
    saved.calibrator, saved.rule = fitted, None
    if args.diagram:
        after = fitted(split.scores)
        curves = {"before": before, f"after {args.map}": after}
        drawn = {name: metrics.reliability(p, split.labels) for name, p in curves.items()}
        write_bytes(
            Path(args.diagram), calibrate.diagram(drawn, f"Reliability on {args.on}").encode()
        )
    saved.save_model()
    runs.judge_again(saved)
    if args.json:
        print(json.dumps({"map": fitted.as_json(), "rule_taken_out": had_rule}))
        return
    print(f"{args.map}, fitted on {len(split):,} {args.on} rows")
    if fitted.quality is not None:
        print(fitted.quality)
    if had_rule:
        print("the rule was fitted to other probabilities and was taken out: labelset decide RUN")
