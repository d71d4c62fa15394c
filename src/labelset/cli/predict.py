"""`labelset predict`: label sets and probabilities for new rows, batch by batch."""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from labelset import data, model
from labelset.cli.options import settings, writable
from labelset.files import write_with
from labelset.ranks import Ranks, under_torchrun

if TYPE_CHECKING:
    from torch import Tensor

    Piece = tuple[Tensor | data.Dataset, Sequence[str] | None]
    """Some rows (their scores, or what the model makes scores of) and what to call them."""

FORMATS = ("csv", "tsv", "jsonl", "parquet", "arrow", "npz", "npy", "arff", "svmlight")
ROWS = 1024
"""That are scored together."""
ABOUT = """Label sets for new rows, by the encoder, head, calibrator and rule of a RUN. Rows are
read as the run's own were: columns by their names, wherever they stand, with the text, id and
picture columns that it remembers, from any format that training reads, or from standard input (`-`
with --format), batch by batch: memory holds one batch however long the input is. Columns that the
model does not know are left alone; a missing one is an error. Scores of a model of your own are
given with --scores. Out comes one JSON object per row, or a CSV line: labels, and their
probabilities. Under torchrun the ranks take turns with the batches, and what comes out is the same.

In CSV output labels stand between `|`; a `|` or `\\` within a name is written `\\|` or `\\\\`.
A cell that a spreadsheet would take for a formula (=, +, -, @ or ' in front) begins with a '."""


def add(verb: Any) -> None:
    """Its options."""
    verb.add_argument("model", metavar="RUN", help="the folder of a run")
    verb.add_argument(
        "source", metavar="ROWS", help="a file, a folder of pictures, -, or train, valid, test"
    )
    verb.add_argument("--scores", action="store_true", help="ROWS are scores (.npy, .npz)")
    verb.add_argument(
        "--format", choices=FORMATS, help="of ROWS, where no ending says so, as for - (jsonl)"
    )
    verb.add_argument("--text", metavar="KEY", help="the column of the text (as in training)")
    verb.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="how to read, where that is not as in training: separator=;, id_column=key, ...",
    )
    verb.add_argument("--to", choices=("jsonl", "csv"), default="jsonl", help="what comes out")
    verb.add_argument("--out", help="write to this file instead of standard output")
    verb.add_argument(
        "--json", action="store_true", help="JSON only: the rows, or with --out what was written"
    )


@under_torchrun
def run(args: argparse.Namespace) -> None:
    """Predict, batch by batch."""
    opened, ranks = model.SavedModel.open(args.model), Ranks.running()
    if args.source == "-" and ranks.size > 1:
        raise ValueError("standard input cannot be read by several ranks; give a file")
    if args.json and args.to != "jsonl" and not args.out:
        raise ValueError(f"--json prints rows as JSON, --to asks for {args.to}: give one of them")
    if args.out:
        writable(args.out)
    texts = _in_turns(ranks, _tasks(opened, _pieces(opened, args), args))
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


def _in_turns(ranks: Ranks, tasks: Iterator[Callable[[], str]]) -> Iterator[str]:
    """What each part says, in order: rank r works out every part number r, r + ranks, ..."""
    while some := list(islice(tasks, ranks.size)):
        mine = some[ranks.rank]() if ranks.rank < len(some) else ""
        yield from ranks.gathered(mine)


def _pieces(opened: model.SavedModel, args: argparse.Namespace) -> Iterator[Piece]:
    n = len(opened.names)
    if args.source in ("train", "valid", "test"):
        split = opened.scored(args.source)
        assert split.scores is not None
        for at in range(0, len(split), ROWS):
            some = slice(at, at + ROWS)
            yield split.scores[some], None if split.ids is None else split.ids[some]
    elif args.scores:
        for scores in model.score_batches(args.source):
            if scores.shape[1] != n:
                raise ValueError(f"{args.source}: {scores.shape[1]} labels, the run has {n}")
            for block in scores.split(ROWS):  # type: ignore[no-untyped-call]
                yield block, None
    else:
        flags = settings(args.data)
        flags |= {"format": args.format} if args.format else {}
        flags |= {"text_column": args.text} if args.text else {}
        saved = opened.about.get("schema")
        schema = None if saved is None else data.Schema.from_json(saved)
        for dataset in data.stream(args.source, schema, rows=ROWS, **flags):
            yield dataset, dataset.ids


def _tasks(
    opened: model.SavedModel, pieces: Iterator[Piece], args: argparse.Namespace
) -> Iterator[Callable[[], str]]:
    """What will write the lines of each piece; not called, it costs nothing."""
    score = opened.scorer() if opened.can_score else opened.score  # which says what is missing
    first = 0
    for rows, ids in pieces:
        yield partial(_lines, opened, score, rows, ids, first, args)
        first += len(rows)
    if not first:
        yield lambda: _head(args.to, None)


def _lines(
    opened: model.SavedModel,
    score: Callable[[data.Dataset], Tensor],
    rows: Tensor | data.Dataset,
    ids: Sequence[str] | None,
    first: int,
    args: argparse.Namespace,
) -> str:
    """The lines of some rows, of which the first has this number."""
    predictor = opened.predictor
    try:
        scores = model.all_numbers(score(rows)) if isinstance(rows, data.Dataset) else rows
    except model.NoScore as error:
        raise ValueError(error.about(f"{args.source}: row", first + error.row)) from None
    p = predictor.probabilities(scores)
    predicted = predictor.decide(p)
    every = p[predicted.rows(), predicted.indices.long()].tolist()
    labels, lines = predicted.indices.tolist(), [_head(args.to, ids) if first == 0 else ""]
    for i, (start, end) in enumerate(pairwise(predicted.indptr.tolist())):
        on, chances = labels[start:end], [round(x, 6) for x in every[start:end]]
        name = {} if ids is None else {"id": ids[i]}
        names = [opened.names[j] for j in on]
        if args.to == "csv":
            joined = "|".join(re.sub(r"([\\|])", r"\\\1", label) for label in names)
            cells = (*name.values(), joined, "|".join(map(str, chances)))
            lines.append(_csv_line([first + i, *map(_safe, cells)]))
        else:
            item: dict[str, Any] = {"row": first + i, **name, "labels": on, "names": names}
            item["probabilities"] = chances
            lines.append(json.dumps(item, ensure_ascii=False) + "\n")
    return "".join(lines)


def _head(to: str, ids: Sequence[str] | None) -> str:
    name = [] if ids is None else ["id"]
    return _csv_line(["row", *name, "labels", "probabilities"]) if to == "csv" else ""


def _safe(cell: str) -> str:
    """Not to be taken for a formula by a spreadsheet; one ' comes off again on reading."""
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@", "'", "\t", "\r")) else cell


def _csv_line(cells: list[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()
