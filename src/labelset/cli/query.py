"""`labelset query`: the rows that most probably have these labels and not those."""

from __future__ import annotations

import argparse
import json
from typing import Any

from labelset import model, retrieve
from labelset.terminal import table

ABOUT = """The best rows for a query such as 'dog & !beach', 'cat | "guinea pig"', '(a | b) & !c',
with the probability that the query holds there, and how many are right by expectation."""


def add(verb: Any) -> None:
    """Its options."""
    verb.add_argument("model", metavar="RUN", help="the folder of a run")
    verb.add_argument("query", help="'dog & !beach': & and, | or, ! not, brackets, quoted names")
    verb.add_argument("-k", "--best", type=int, default=10, help="how many rows (10)")
    verb.add_argument("--on", default="test", choices=("train", "valid", "test"))
    verb.add_argument("--json", action="store_true", help="print JSON instead of the table")


def run(args: argparse.Namespace) -> None:
    """Rank, and say what to expect."""
    saved = model.SavedModel.open(args.model)
    split = saved.scored(args.on)
    p = saved.predictor.probabilities(split.scores)
    order, scores = retrieve.rank(args.query, p, saved.names, k=args.best)
    rows = order.tolist()
    sets = [_names(saved, split.labels[row]) for row in rows]
    expected = retrieve.expected_right(scores)
    if args.json:
        matches = [
            {"row": row, "id": split.id(row), "probability": s, "labels": names}
            for row, s, names in zip(rows, scores.tolist(), sets, strict=True)
        ]
        about = {"mean": expected.mean.tolist(), "low": expected.low.tolist()}
        about["high"] = expected.high.tolist()
        print(json.dumps({"query": args.query, "rows": matches, "expected_right": about}))
        return
    lines = [
        [split.id(row), f"{s:.4f}", ", ".join(names)[:60]]
        for row, s, names in zip(rows, scores.tolist(), sets, strict=True)
    ]
    print(table([["row", "probability", "labels on"], *lines], left=(0, 2)))
    print(f"\n{expected}")


def _names(saved: model.SavedModel, labels: Any) -> list[str]:
    on = labels.indices if labels.values is None else labels.indices[labels.values > 0]
    return [saved.names[i] for i in on.tolist()]
