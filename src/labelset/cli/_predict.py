"""`labelset predict`: label sets and probabilities for new rows, batch by batch."""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from torch import Tensor

from labelset._atomic import write_with
from labelset.artefact import Run
from labelset.artefact._incoming import Reading, batches
from labelset.artefact._scores import score_batches
from labelset.cli._settings import settings
from labelset.cli._terminal import writable
from labelset.data import Dataset, stream

__all__ = ["add", "run"]

ABOUT = """Label sets for new rows, by the encoder, head, map and rule of a RUN. Features in .npy,
rows in .jsonl (text, or features) or .csv (columns by their names), `-` for standard input, and
all other formats that training reads, are read batch by batch: memory holds one batch however long
the input is. Scores of a model of your own are given with --scores. Out comes one JSON object per
row, or a CSV line: labels, and their probabilities."""


def add(verbs: Any) -> None:
    """The verb and its options."""
    verb = verbs.add_parser(
        "predict",
        help="label sets for new rows",
        description=ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.add_argument("model", metavar="RUN", help="the folder of a run")
    verb.add_argument(
        "source", metavar="ROWS", help="a file, a folder of pictures, -, or train, valid, test"
    )
    verb.add_argument("--scores", action="store_true", help="ROWS are scores (.npy, .npz)")
    verb.add_argument("--format", choices=("npy", "jsonl", "csv"), help="of ROWS, for - (jsonl)")
    verb.add_argument("--text", metavar="KEY", help="where the text is (as in training)")
    verb.add_argument(
        "--data", action="append", default=[], metavar="KEY=VALUE", help="how to read other formats"
    )
    verb.add_argument("--to", choices=("jsonl", "csv"), default="jsonl", help="what comes out")
    verb.add_argument("--out", help="write to this file instead of standard output")
    verb.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Predict, batch by batch."""
    held = Run.open(args.model)
    if args.out:
        writable(args.out)
    lines = _lines(held, _scores(held, args), args.to)
    if args.out:
        write_with(Path(args.out), lambda file: _write(lines, file))
        print(args.out)
    else:
        for line in lines:
            sys.stdout.write(line)


def _write(lines: Iterator[str], file: IO[bytes]) -> None:
    for line in lines:
        file.write(line.encode())


def _scores(held: Run, args: argparse.Namespace) -> Iterator[Tensor]:
    n = len(held.names)
    if args.source in ("train", "valid", "test"):
        scores = held.scored(args.source).scores
        assert scores is not None
        yield from scores.split(1024)  # type: ignore[no-untyped-call]
    elif args.scores:
        for scores in score_batches(args.source):
            if scores.shape[1] != n:
                raise ValueError(f"{args.source}: {scores.shape[1]} labels, the run has {n}")
            yield from scores.split(1024)  # type: ignore[no-untyped-call]
    else:
        for batch in _rows(held, args):
            yield held.score(batch)


def _rows(held: Run, args: argparse.Namespace) -> Iterator[Dataset]:
    """Batches of what is named, by the rules of training where the format has any."""
    kind = args.format or ("jsonl" if args.source == "-" else Path(args.source).suffix[1:])
    how = held.about.get("reading", {})
    if kind in ("npy", "jsonl", "csv"):
        text = (args.text or how.get("text") or "text") if how.get("kind") == "texts" else None
        source = sys.stdin if args.source == "-" else args.source
        yield from batches(source, kind, Reading(len(held.names), text, how.get("columns")))
        return
    flags = settings(args.data)
    if kind in ("svm", "svmlight", "libsvm", "txt") and how.get("width"):
        flags.setdefault("n_features", how["width"])
    yield from stream(args.source, **flags)


def _lines(held: Run, scores: Iterator[Tensor], to: str) -> Iterator[str]:
    if to == "csv":
        yield _csv_line(["row", "labels", "probabilities"])
    row = 0
    for batch in scores:
        p = held.probabilities(batch)
        predicted = held.decide(p)
        starts = predicted.indptr.tolist()
        for i in range(len(p)):
            on = predicted.indices[starts[i] : starts[i + 1]].tolist()
            chances = [round(x, 6) for x in p[i, on].tolist()]
            yield _line(row, on, [held.names[j] for j in on], chances, to)
            row += 1


def _line(row: int, on: list[int], names: list[str], chances: list[float], to: str) -> str:
    if to == "csv":
        return _csv_line([row, "|".join(names), "|".join(map(str, chances))])
    item = {"row": row, "labels": on, "names": names, "probabilities": chances}
    return json.dumps(item, ensure_ascii=False) + "\n"


def _csv_line(cells: list[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()
