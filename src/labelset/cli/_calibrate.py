"""`labelset calibrate`: fit a map from scores to probabilities, and keep it in the run."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from labelset import calibrate
from labelset._atomic import write_bytes
from labelset.artefact import Run
from labelset.calibrate import diagram
from labelset.catalog import hyperparameters
from labelset.cli._settings import add_settings, settings
from labelset.cli._terminal import writable
from labelset.metrics import reliability

__all__ = ["add", "run"]

ABOUT = """Fit a map on the held-out part of a RUN and keep it there. A rule that the run held was
fitted to other probabilities and is taken out. Maps: """


def add(verbs: Any) -> None:
    """The verb and its options."""
    verb = verbs.add_parser(
        "calibrate",
        help="fit a map from scores to probabilities, and keep it in the RUN",
        description=ABOUT + ", ".join(calibrate.names()),
    )
    verb.add_argument("model", metavar="RUN", help="the folder of a run")
    verb.add_argument("--map", default="platt", help="which map (platt)")
    verb.add_argument("--on", default="valid", help="the part to fit on (valid; never test)")
    verb.add_argument("--loss", help="the loss of the scores (default: the run's own)")
    add_settings(verb, "map")
    verb.add_argument("--diagram", metavar="SVG", help="draw the reliability before and after")
    verb.add_argument("--json", action="store_true", help="print JSON")
    verb.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Fit, say whether it helped, keep it."""
    held = Run.open(args.model)
    part = held.held_out(args.on)
    if args.diagram:
        writable(args.diagram)
    given = settings(args.set)
    if "loss" in hyperparameters(calibrate.catalog.get(args.map)):
        given.setdefault("loss", args.loss or held.loss)
    before = held.current_probabilities(part.scores)
    fitted = calibrate.build(args.map, **given).fit(part.scores, part.labels)
    had_rule = held.rule is not None
    held.map, held.rule = fitted, None
    if args.diagram:
        after = fitted(part.scores)
        curves = {"before": before, f"after {args.map}": after}
        drawn = {name: reliability(p, part.labels) for name, p in curves.items()}
        write_bytes(Path(args.diagram), diagram(drawn, f"Reliability on {args.on}").encode())
    held.save_model()
    if args.json:
        print(json.dumps({"map": fitted.as_json(), "rule_taken_out": had_rule}))
        return
    print(f"{args.map}, fitted on {len(part):,} {args.on} rows")
    if fitted.quality is not None:
        print(fitted.quality)
    if had_rule:
        print("the rule was fitted to other probabilities and was taken out: labelset decide RUN")
