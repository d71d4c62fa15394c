"""`labelset data inspect`: how a data set was parsed."""

from __future__ import annotations

import argparse
import json
from typing import Any

from labelset import data
from labelset.cli.options import add_source, asked, loaded

ABOUT = """How a data set was parsed: the columns of a table, what each holds and what it is taken
for, and why; rows, features, labels, the commonest, rare and dead ones, duplicated rows, and
rows that are in more than one split."""


def add(verbs: Any) -> None:
    """The verb and its options."""
    verb = verbs.add_parser("data")
    kinds = verb.add_subparsers(metavar="WHAT", required=True)
    look = kinds.add_parser("inspect", help="how it was parsed", description=ABOUT)
    add_source(look)
    look.add_argument("--json", action="store_true", help="print JSON")
    look.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Read and report."""
    try:
        dataset = loaded(args)
    except data.Doubtful as doubtful:
        if args.json:
            print(json.dumps({"guess": doubtful.guess.as_json()}))
        else:
            print("\n".join(doubtful.guess.described()))
        raise asked(args, doubtful) from None
    report, guess = data.inspect(dataset), dataset.card.get("guess")
    if args.json:
        print(json.dumps(report.as_json() | ({"guess": guess} if guess else {})))
        return
    if guess:
        print("\n".join([*guess["described"], "", "read as", *guess["explained"], ""]))
    print(report)
    if guess and guess["flags"]:
        print(f"\nready to use: labelset compare {args.source} {guess['flags']} --out RUN")
