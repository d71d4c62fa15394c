"""`labelset data inspect`: how a data set was parsed; `data split`: how its rows are dealt."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labelset import data
from labelset.cli.options import add_sides, add_source, asked, loaded, writable
from labelset.files import write_bytes
from labelset.terminal import table, wrapped

if TYPE_CHECKING:
    from torch import Tensor

INSPECT = """How a data set was parsed: the columns of a table, what each holds and what it is taken
for, and why; rows, features, labels, the commonest, rare and dead ones, duplicated rows, and
rows that are in more than one split."""
SPLIT = """Deal the rows of a data set into train, valid and test, or into folds, with their
share of every label, and print how many positives of each label are where. Rows with the same
input stay together. A split that the data have is shown as it is. The file that --out names has a
line for each row; `--data split=FILE` reads it, if it has train, valid and test."""
SHOWN = 40
"""Labels that are printed, the rarest."""


def add(verb: Any) -> None:
    """Its two kinds, and their options."""
    kinds = verb.add_subparsers(metavar="WHAT", required=True)
    look = kinds.add_parser("inspect", help="how it was parsed", description=INSPECT)
    add_source(look)
    look.add_argument("--json", action="store_true", help="print JSON")
    look.set_defaults(run=run)
    deal = kinds.add_parser("split", help="how its rows are dealt", description=SPLIT)
    add_source(deal)
    add_sides(deal)
    deal.add_argument(
        "--parts",
        default="0.8,0,0.2",
        metavar="SHARES",
        help="of train, valid and test (%(default)s)",
    )
    deal.add_argument("--folds", type=int, help="deal the training rows into folds instead")
    deal.add_argument("--seed", type=int, default=0, help="of the random order (0)")
    deal.add_argument("--out", metavar="FILE", help="a .txt file to write, one line per row")
    deal.add_argument("--json", action="store_true", help="print JSON, with all labels")
    deal.set_defaults(run=run_split)


def run(args: argparse.Namespace) -> None:
    """Read and report."""
    try:
        dataset = loaded(args)
    except data.Doubtful as doubtful:
        if args.json:
            print(json.dumps({"guess": doubtful.guess.as_json()}))
        else:
            print(wrapped("\n".join(doubtful.guess.described())))
        raise asked(args, doubtful) from None
    report, guess = data.inspect(dataset), dataset.card.get("guess")
    if args.json:
        print(json.dumps(report.as_json() | ({"guess": guess} if guess else {})))
        return
    if guess:
        print(wrapped("\n".join([*guess["described"], "", "read as", *guess["explained"], ""])))
    print(report)
    if guess and guess["flags"]:
        print(f"\nready to use: labelset compare {args.source} {guess['flags']} --out RUN")


@dataclass(frozen=True)
class _Dealt:
    """The rows of a data set in parts."""

    dataset: data.Dataset
    names: list[str]
    """Of the parts."""
    part: Tensor
    """(rows,) the number of the part; -1: in none."""

    def counts(self) -> list[list[int]]:
        """Of each part, how many rows have each label."""
        labels = self.dataset.labels
        each = range(len(self.names))
        return [labels[self.part == number].T.counts().tolist() for number in each]

    def rows(self) -> list[int]:
        """Of each part."""
        return [int((self.part == number).sum()) for number in range(len(self.names))]

    def lines(self) -> str:
        """The part of each row, line by line; `-` where it is in none."""
        return "".join(f"{[*self.names, '-'][number]}\n" for number in self.part.tolist())


def run_split(args: argparse.Namespace) -> None:
    """Deal, print and write."""
    if args.out:
        writable(args.out)
        if Path(args.out).suffix not in ("", ".txt"):
            raise ValueError(f"--out {args.out}: a list of words is a .txt file; name it so")
    if args.folds and args.time:
        raise ValueError("--folds does not go forward in time: give --folds or --time")
    dealt = _folds(args) if args.folds else _parts(args)
    counts, rows = dealt.counts(), dealt.rows()
    if args.out:
        write_bytes(Path(args.out), dealt.lines().encode())
    if args.json:
        held = zip(dealt.dataset.names, zip(*counts, strict=True), strict=True)
        labels = {name: dict(zip(dealt.names, each, strict=True)) for name, each in held}
        print(json.dumps({"rows": dict(zip(dealt.names, rows, strict=True)), "labels": labels}))
        return
    for note in dealt.dataset.card.get("notes", []):
        print(f"note: {note}")
    total = [sum(each) for each in zip(*counts, strict=True)]
    rarest = sorted(range(len(total)), key=lambda label: total[label])[:SHOWN]
    cells = [["positives", "all", *dealt.names], ["(rows)", *map(str, (sum(rows), *rows))]]
    for label in rarest:
        each = (total[label], *(part[label] for part in counts))
        cells.append([dealt.dataset.names[label], *map(str, each)])
    print(table(cells))
    if len(total) > SHOWN:
        print(f"and {len(total) - SHOWN:,} labels with more positives")
    if args.out:
        print(f"\n{args.out}: a line for each row")


def _parts(args: argparse.Namespace) -> _Dealt:
    try:
        shares = tuple(float(share) for share in args.parts.split(","))
    except ValueError:
        shares = ()
    if len(shares) != 3:
        raise ValueError(f"--parts must be three shares such as 0.7,0.1,0.2, got {args.parts!r}")
    dataset = data.ensure_split(loaded(args), shares, args.seed)
    assert dataset.split is not None
    return _Dealt(dataset, ["train", "valid", "test"], dataset.split.long())


def _folds(args: argparse.Namespace) -> _Dealt:
    import torch

    dataset = loaded(args)
    split = torch.zeros(len(dataset)) if dataset.split is None else dataset.split
    own = (split == 0).nonzero().flatten()
    groups = data.together(dataset)
    part = torch.full((len(dataset),), -1)
    part[own] = data.deal_folds(
        dataset.labels[own], args.folds, None if groups is None else groups[own], args.seed
    )
    return _Dealt(dataset, [str(fold) for fold in range(args.folds)], part)
