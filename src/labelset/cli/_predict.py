"""`labelset predict`: label sets and probabilities for new rows, batch by batch."""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import IO, Any

from torch import Tensor

from labelset._atomic import write_with
from labelset.artefact import Run
from labelset.artefact._incoming import Reading, batches
from labelset.artefact._scores import score_batches
from labelset.cli._settings import settings
from labelset.cli._terminal import writable
from labelset.cli._torchrun import under_torchrun
from labelset.data import Dataset, stream
from labelset.train._ranks import Ranks

__all__ = ["add", "run"]

ABOUT = """Label sets for new rows, by the encoder, head, map and rule of a RUN. Features in .npy,
rows in .jsonl (text, or features) or .csv (columns by their names), `-` for standard input, and
all other formats that training reads, are read batch by batch: memory holds one batch however long
the input is. Scores of a model of your own are given with --scores. Out comes one JSON object per
row, or a CSV line: labels, and their probabilities. Under torchrun the ranks take turns with the
batches, and what comes out is the same."""


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
    verb.add_argument(
        "--json", action="store_true", help="JSON only: the rows, or with --out what was written"
    )
    verb.set_defaults(run=under_torchrun(run))


def run(args: argparse.Namespace) -> None:
    """Predict, batch by batch."""
    held, ranks = Run.open(args.model), Ranks.running()
    if args.source == "-" and ranks.size > 1:
        raise ValueError("standard input cannot be read by several ranks; give a file")
    if args.json and args.to != "jsonl" and not args.out:
        raise ValueError(f"--json prints rows as JSON, --to asks for {args.to}: give one of them")
    if args.out:
        writable(args.out)
    texts = _in_turns(ranks, _parts(held, _pieces(held, args), args.to))
    if not ranks.first:
        for _ in texts:
            pass  # its share is on the way to the first
    elif args.out:
        write_with(Path(args.out), lambda file: _write(texts, file))
        print(json.dumps({"written": args.out}) if args.json else args.out)
    else:
        for text in texts:
            sys.stdout.write(text)


def _write(texts: Iterator[str], file: IO[bytes]) -> None:
    for text in texts:
        file.write(text.encode())


def _in_turns(ranks: Ranks, parts: Iterator[Callable[[], str]]) -> Iterator[str]:
    """What each part says, in order: rank r works out every part number r, r + ranks, ..."""
    while some := list(islice(parts, ranks.size)):
        mine = some[ranks.rank]() if ranks.rank < len(some) else ""
        yield from ranks.gathered(mine)


def _pieces(held: Run, args: argparse.Namespace) -> Iterator[Tensor | Dataset]:
    """Some rows at a time: their scores, or what the model makes scores of."""
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
        yield from _rows(held, args)


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


def _parts(held: Run, pieces: Iterator[Tensor | Dataset], to: str) -> Iterator[Callable[[], str]]:
    """What will say the lines of each piece; not asked, it costs nothing."""
    first = 0
    for piece in pieces:
        yield partial(_lines, held, piece, first, to)
        first += len(piece)
    if not first:
        yield lambda: _head(to)


def _lines(held: Run, piece: Tensor | Dataset, first: int, to: str) -> str:
    """The lines of some rows, of which the first has this number."""
    p = held.probabilities(held.score(piece) if isinstance(piece, Dataset) else piece)
    predicted = held.decide(p)
    every = p[predicted.rows(), predicted.indices.long()].tolist()
    labels, lines = predicted.indices.tolist(), [_head(to) if first == 0 else ""]
    for i, (start, end) in enumerate(pairwise(predicted.indptr.tolist())):
        on, chances = labels[start:end], [round(x, 6) for x in every[start:end]]
        lines.append(_line(first + i, on, [held.names[j] for j in on], chances, to))
    return "".join(lines)


def _head(to: str) -> str:
    return _csv_line(["row", "labels", "probabilities"]) if to == "csv" else ""


def _line(row: int, on: list[int], names: list[str], chances: list[float], to: str) -> str:
    if to == "csv":
        return _csv_line([row, "|".join(names), "|".join(map(str, chances))])
    item = {"row": row, "labels": on, "names": names, "probabilities": chances}
    return json.dumps(item, ensure_ascii=False) + "\n"


def _csv_line(cells: list[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()
