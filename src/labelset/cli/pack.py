"""`labelset pack`: a run from scores that a model of one's own has given."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from labelset import data, heads, model

ABOUT = """Put scores and labels of a model of your own into a RUN folder, on which the other verbs
work: evaluate, calibrate, decide, predict, query, doctor. Scores are .npy or .npz, (rows, labels),
before any sigmoid; labels are .npz, .npy or .jsonl[.gz]."""


def add(verb: Any) -> None:
    """Its options."""
    verb.add_argument("out", metavar="RUN", help="the folder to make")
    for part in ("valid", "test", "train"):
        verb.add_argument(
            f"--{part}", nargs=2, metavar=("SCORES", "LABELS"), help=f"{part} scores and labels"
        )
    verb.add_argument("--train-labels", metavar="LABELS", help="training labels without scores")
    verb.add_argument("--loss", help="the loss that the scores were trained with, such as spa")
    verb.add_argument("--head", help="weights of the last layer: .safetensors, .npz or .npy")
    verb.add_argument("--names", help="a text file, one label name per line")
    verb.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> None:
    """Read everything, check it, and write the folder."""
    out = Path(args.out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out}: is there already and not empty; choose another folder")
    splits, names = _splits(args)
    n = next(iter(splits.values())).labels.n
    if args.names:
        text = Path(args.names).read_text(encoding="utf-8-sig").rstrip("\n")
        names = [line.rstrip("\r") for line in text.split("\n")]
    head = None if args.head is None else _head(args.head)
    made = model.SavedModel(
        names=names or [str(i) for i in range(n)], splits=splits, loss=args.loss, head=head
    )
    made.save(args.out)
    if args.json:
        sizes = {name: len(split) for name, split in splits.items()}
        print(json.dumps({"model": args.out, "labels": n, "rows": sizes}))
        return
    rows = ", ".join(f"{name} {len(split):,} rows" for name, split in splits.items())
    print(f"{args.out}: {n:,} labels; {rows}")


def _splits(args: argparse.Namespace) -> tuple[dict[str, model.Split], list[str] | None]:
    """The parts, and the names that all of their files agree on."""
    if args.train and args.train_labels:
        raise ValueError("give --train, or --train-labels, not both")
    splits: dict[str, model.Split] = {}
    names: list[str] | None = None
    n: int | None = None
    files = {name: getattr(args, name) for name in ("valid", "test", "train")}
    if args.train_labels:
        files["train"] = (None, args.train_labels)
    for name, pair in files.items():
        if not pair:
            continue
        scores = None if pair[0] is None else model.read_scores(pair[0])
        n = n if scores is None else scores.shape[1]
        labels, own_names, _ = data.read_labels(pair[1], n=n)
        if names and own_names and names != own_names:
            raise ValueError(f"{pair[1]}: has other label names than the part before it")
        splits[name], names = model.Split(labels, scores), names or own_names
    if not splits:
        raise ValueError("nothing to pack: give --valid SCORES LABELS, or --test, or --train")
    return splits, names


def _head(path: str) -> heads.Head:
    """A head that `labelset.heads.save` wrote, or a linear one with the matrix in the file."""
    import torch

    from labelset.heads.linear import Linear
    from labelset.proofs import read_matrix

    try:
        return heads.load(path)
    except ValueError:
        pass  # not one of ours: any file with a matrix will do
    weight, bias = (None if t is None else torch.as_tensor(t) for t in read_matrix(path))
    assert weight is not None
    n, d = weight.shape
    head = Linear(features=d, labels=n, bias=bias is not None).to(weight.dtype)
    with torch.no_grad():
        head.classifier.weight.copy_(weight)
        if bias is not None:
            head.classifier.bias.copy_(bias)
    return head
