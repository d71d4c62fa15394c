"""`labelset doctor`: why a run predicts nothing, and what to do about it."""

from __future__ import annotations

import argparse
import json
from typing import Any

from labelset.artefact import Run
from labelset.doctor import diagnose

__all__ = ["add", "run"]

ABOUT = """Look at the held-out rows of a RUN and separate the causes of missing predictions: labels
never seen in training, labels that the features do not carry, the wrong link, probabilities that
are not true, wrong thresholds, label sets that the head cannot say. Exit status
1 if any is found."""


def add(verbs: Any) -> None:
    """The verb and its options."""
    verb = verbs.add_parser(
        "doctor",
        help="why a RUN predicts nothing, with evidence and remedies",
        description=ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.add_argument("model", metavar="RUN", help="the folder of a run")
    verb.add_argument("--on", default="valid", choices=("train", "valid", "test"))
    verb.add_argument("--seconds", type=float, default=20.0, help="time for proofs (20)")
    verb.add_argument("--json", action="store_true", help="print JSON")
    verb.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Diagnose and print."""
    found = diagnose(Run.open(args.model), args.on, args.seconds)
    print(json.dumps(found.as_json(), indent=1) if args.json else found)
    return 1 if found.findings else 0
