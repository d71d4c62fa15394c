"""`labelset data inspect`: what was understood of a data set."""

from __future__ import annotations

import argparse
import json
from typing import Any

from labelset.cli._source import add_source, loaded
from labelset.data import inspect

__all__ = ["add", "run"]

ABOUT = """What was understood of a data set: rows, features, labels, how many are on, rare and dead
labels, duplicated rows, and rows that are in more than one part."""


def add(verbs: Any) -> None:
    """The verb and its options."""
    verb = verbs.add_parser("data", help="inspect: what was understood of a data set")
    kinds = verb.add_subparsers(metavar="WHAT", required=True)
    look = kinds.add_parser("inspect", help="what was understood", description=ABOUT)
    add_source(look)
    look.add_argument("--json", action="store_true", help="print JSON")
    look.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Read and report."""
    report = inspect(loaded(args))
    print(json.dumps(report.as_json()) if args.json else report)
