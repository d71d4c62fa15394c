"""`labelset predict`: label sets and probabilities for new scores."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labelset._atomic import write_bytes
from labelset.artefact import Run, read_scores
from labelset.cli._terminal import writable

__all__ = ["add", "run"]


def add(verbs: Any) -> None:
    """The verb and its options."""
    verb = verbs.add_parser(
        "predict",
        help="label sets for new scores, by the map and rule of a RUN",
        description="One JSON object per row: labels by number and name, and their probabilities.",
    )
    verb.add_argument("model", metavar="RUN", help="the folder of a run")
    verb.add_argument("scores", help=".npy or .npz, (rows, labels); or train, valid, test")
    verb.add_argument("--out", help="write to this .jsonl file")
    verb.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Predict, row by row."""
    held = Run.open(args.model)
    if args.out:
        writable(args.out)
    known = args.scores in ("train", "valid", "test")
    scores = held.scored(args.scores).scores if known else read_scores(args.scores)
    assert scores is not None
    if scores.shape[1] != len(held.names):
        raise ValueError(f"{args.scores}: {scores.shape[1]} labels, the run {len(held.names)}")
    lines = _lines(held, scores)
    if args.out:
        write_bytes(Path(args.out), "".join(lines).encode())
        print(f"{len(scores):,} rows: {args.out}")
    else:
        sys.stdout.writelines(lines)


def _lines(held: Run, scores: Any) -> Iterator[str]:
    p = held.probabilities(scores)
    predicted = held.decide(p)
    starts = predicted.indptr.tolist()
    for row in range(len(p)):
        on = predicted.indices[starts[row] : starts[row + 1]].tolist()
        chances = [round(x, 6) for x in p[row, on].tolist()]
        names = [held.names[i] for i in on]
        item = {"row": row, "labels": on, "names": names, "probabilities": chances}
        yield json.dumps(item, ensure_ascii=False) + "\n"
