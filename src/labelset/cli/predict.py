"""`labelset predict`: label sets and probabilities for new rows, batch by batch."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from labelset import check, data, model
from labelset.cli.options import settings, writable
from labelset.cli.predicted import (
    ENDINGS,
    READABLE,
    Predicted,
    as_arrays,
    as_columns,
    as_lines,
    ending,
    write_arrays,
    write_parquet,
)
from labelset.files import write_with
from labelset.ranks import Ranks, under_torchrun
from labelset.terminal import phase, progress

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
given with --scores. Out comes what the ending of --out says, with the ids of the rows: .jsonl (an
object per row), .csv, .tsv, .parquet (labels and their probabilities), .npz (`labels` as 0 and 1,
`probabilities`, `names`, `ids`), .npy (`labels` alone), .txt to read. Under torchrun the ranks take
turns with the batches, and what comes out is the same.

--explain says why, in `why` of the JSON, in a column of the CSV, or in lines to read (--to text,
which is what a terminal gets): of each predicted label the score (before any calibrator), and what
adds most to it: words in quotes, columns, or squares of a picture; `(base)` is where every row
begins, `(rest)` all that is not listed. They add up to the score.

In CSV and TSV labels stand between `|`; a `|` or `\\` within a name is written `\\|` or `\\\\`.
A cell that a spreadsheet would take for a formula (=, +, -, @ or ' in front) begins with a '."""


def add(verb: Any) -> None:
    """Its options."""
    verb.add_argument("model", metavar="RUN", help="the folder of a run")
    verb.add_argument(
        "source", metavar="ROWS", help="a file, a folder of pictures, -, or train, valid, test"
    )
    verb.add_argument("--scores", action="store_true", help="ROWS are scores (.npy, .npz)")
    verb.add_argument(
        "--format",
        choices=FORMATS,
        metavar="FORMAT",
        help=f"of ROWS, where no ending says so, as for -: {', '.join(FORMATS)} (jsonl)",
    )
    verb.add_argument("--text", metavar="KEY", help="the column of the text (as in training)")
    verb.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="how to read, where that is not as in training: separator=;, id_column=key, ...",
    )
    verb.add_argument(
        "--top", type=int, metavar="K", help="the K most probable labels of each row, best first"
    )
    verb.add_argument(
        "--threshold",
        action="append",
        default=[],
        metavar="T",
        help="labels from this probability on: of all labels, 0.3, or of one, grain=0.2 "
        "(repeatable; the others by the rule of the run); with --top at most K of them",
    )
    verb.add_argument(
        "--to",
        choices=("jsonl", "csv", "tsv", "text", "parquet", "npz", "npy"),
        metavar="FORM",
        help="what comes out, where --out does not say by its ending: jsonl, csv, tsv, text, "
        "parquet, npz, npy (jsonl)",
    )
    verb.add_argument(
        "--explain",
        nargs="?",
        type=int,
        const=10,
        metavar="N",
        help="say why: what adds most to the score of each predicted label, N of each (10)",
    )
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
    if args.json and args.to not in (None, "jsonl") and not args.out:
        raise ValueError(f"--json prints rows as JSON, --to asks for {args.to}: give one of them")
    if args.explain is not None:
        check.whole("--explain", args.explain, low=1)
        if args.scores or args.source in ("train", "valid", "test"):
            raise ValueError("--explain needs rows to read, and scores are none: give their file")
    args.to = args.to or _form(args)
    if args.to not in READABLE and not args.out:
        raise ValueError(f"--to {args.to} is no text to print: give --out FILE")
    decide = _decider(opened, args)
    if args.out:
        writable(args.out)
    parts = _in_turns(ranks, _tasks(opened, decide, _pieces(opened, args), args))
    if not ranks.first:
        for _ in parts:
            pass  # its share is on the way to the first
    elif args.out:
        with progress(not args.json):
            write_with(Path(args.out), lambda file: _write(parts, file, opened.names, args.to))
        print(json.dumps({"written": args.out}) if args.json else args.out)
    else:
        for text in parts:
            sys.stdout.write(text)


def _form(args: argparse.Namespace) -> str:
    """By the ending of --out; on a terminal reasons are text to read."""
    if args.out:
        found = ending(args.out)
        if found is None and not Path(args.out).suffix:
            return "jsonl"
        if found is None:
            raise ValueError(
                f"--out {args.out}: a file that ends in {', '.join(ENDINGS)} is due here; name "
                "it so, or say --to"
            )
        return found
    return "text" if args.explain and not args.json and sys.stdout.isatty() else "jsonl"


Decide = Callable[["Tensor"], list[list[int]]]
"""Probabilities -> the labels of each row."""


def _decider(opened: model.SavedModel, args: argparse.Namespace) -> Decide:
    """By the rule of the run, or by --threshold and --top in its place."""
    if args.top is not None:
        check.whole("--top", args.top, low=1)
    general, own = None, {}
    for text in args.threshold:
        name, equals, value = text.rpartition("=")
        try:
            bound = check.number("--threshold", float(value), low=0.0, high=1.0)
        except ValueError:
            raise ValueError(
                f"--threshold {text}: give a probability, 0.3, or one of a label, grain=0.2"
            ) from None
        if not equals:
            general = bound
        elif name in opened.names:
            own[opened.names.index(name)] = bound
        else:
            raise ValueError(
                f"--threshold {text}: no label {name!r}; {check.nearest(name, opened.names)}"
            )

    def decide(p: Tensor) -> list[list[int]]:
        if not args.threshold and args.top is None:
            predicted = opened.predictor.decide(p)
            labels = predicted.indices.tolist()
            return [labels[a:b] for a, b in pairwise(predicted.indptr.tolist())]
        if general is not None:
            on = p >= general
        elif args.top is not None and not own:
            on = p >= 0.0
        else:
            on = opened.predictor.decide(p).dense().bool()
        for label, bound in own.items():
            on[:, label] = p[:, label] >= bound
        if args.top is None:
            return [row.nonzero().flatten().tolist() for row in on]
        best = p.masked_fill(~on, -1.0).sort(dim=1, descending=True, stable=True)
        kept = zip(best.values[:, : args.top], best.indices[:, : args.top], strict=True)
        return [indices[values >= 0].tolist() for values, indices in kept]

    return decide


def _write(parts: Iterator[Any], file: IO[bytes], names: Sequence[str], to: str) -> None:
    if to in READABLE:
        for text in parts:
            file.write(text.encode())
    elif to == "parquet":
        write_parquet(parts, file)
    else:
        write_arrays(parts, file, names, to)


def _in_turns(ranks: Ranks, tasks: Iterator[Callable[[], Any]]) -> Iterator[Any]:
    """What each part says, in order: rank r works out every part number r, r + ranks, ..."""
    while some := list(islice(tasks, ranks.size)):
        mine = some[ranks.rank]() if ranks.rank < len(some) else None
        yield from (part for part in ranks.gathered(mine) if part is not None)


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
    opened: model.SavedModel, decide: Decide, pieces: Iterator[Piece], args: argparse.Namespace
) -> Iterator[Callable[[], Any]]:
    """What will predict each piece; not called, it costs nothing."""
    score = opened.scorer() if opened.can_score else opened.score  # which says what is missing
    explain = None if args.explain is None else model.Explainer(opened, args.explain)
    first = 0
    for rows, ids in pieces:
        yield partial(_part, opened, decide, score, explain, rows, ids, first, args)
        first += len(rows)
    if not first:
        yield lambda: _formed(_nothing(opened, args), args.to)


def _nothing(opened: model.SavedModel, args: argparse.Namespace) -> Predicted:
    import torch

    none: list[list[model.Reason]] | None = None if args.explain is None else []
    return Predicted(0, opened.names, None, [], torch.zeros(0, len(opened.names)), none)


def _part(
    opened: model.SavedModel,
    decide: Decide,
    score: Callable[[data.Dataset], Tensor],
    explain: model.Explainer | None,
    rows: Tensor | data.Dataset,
    ids: Sequence[str] | None,
    first: int,
    args: argparse.Namespace,
) -> Any:
    """Some rows, of which the first has this number, in the form that was asked for."""
    phase(f"predicting, {first:,} rows are done")
    try:
        scores = model.all_numbers(score(rows)) if isinstance(rows, data.Dataset) else rows
    except model.NoScore as error:
        raise ValueError(error.about(f"{args.source}: row", first + error.row)) from None
    p = opened.predictor.probabilities(scores)
    sets, reasons = decide(p), None
    if explain is not None and isinstance(rows, data.Dataset):
        why = explain(rows, sets, scores, first)
        reasons = [[*islice(why, len(on))] for on in sets]
    return _formed(Predicted(first, opened.names, ids, sets, p, reasons), args.to)


def _formed(rows: Predicted, to: str) -> Any:
    if to in READABLE:
        return as_lines(rows, to)
    return as_columns(rows) if to == "parquet" else as_arrays(rows)
