"""`labelset query`: the rows that most probably have these labels and not those."""

from __future__ import annotations

import argparse
import json
from typing import Any

from labelset.artefact import Run
from labelset.cli._terminal import table
from labelset.retrieve import expected_right, rank

__all__ = ["add", "run"]

ABOUT = """The best rows for a query such as 'dog & !beach', 'cat | "guinea pig"', '(a | b) & !c',
with the probability that the query holds there, and how many are right by expectation."""


def add(verbs: Any) -> None:
    """The verb and its options."""
    verb = verbs.add_parser(
        "query",
        help="rows that most probably have these labels and not those",
        description=ABOUT,
    )
    verb.add_argument("model", metavar="RUN", help="the folder of a run")
    verb.add_argument("query", help="'dog & !beach': & and, | or, ! not, brackets, quoted names")
    verb.add_argument("-k", "--best", type=int, default=10, help="how many rows (10)")
    verb.add_argument("--on", default="test", choices=("train", "valid", "test"))
    verb.add_argument("--json", action="store_true", help="print JSON instead of the table")
    verb.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Rank, and say what to expect."""
    held = Run.open(args.model)
    part = held.scored(args.on)
    p = held.probabilities(part.scores)
    order, scores = rank(args.query, p, held.names, k=args.best)
    rows = order.tolist()
    sets = [_names(held, part.labels[row]) for row in rows]
    expected = expected_right(scores)
    if args.json:
        found = [
            {"row": row, "id": part.id(row), "probability": s, "labels": names}
            for row, s, names in zip(rows, scores.tolist(), sets, strict=True)
        ]
        about = {"mean": expected.mean.tolist(), "low": expected.low.tolist()}
        about["high"] = expected.high.tolist()
        print(json.dumps({"query": args.query, "rows": found, "expected_right": about}))
        return
    lines = [
        [part.id(row), f"{s:.4f}", ", ".join(names)[:60]]
        for row, s, names in zip(rows, scores.tolist(), sets, strict=True)
    ]
    print(table([["row", "probability", "labels on"], *lines], left=(0, 2)))
    print(f"\n{expected}")


def _names(held: Run, labels: Any) -> list[str]:
    on = labels.indices if labels.values is None else labels.indices[labels.values > 0]
    return [held.names[i] for i in on.tolist()]
