"""`labelset verify`: which label sets a head can and cannot say, with proofs."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from labelset import check
from labelset.artefact import Run
from labelset.cli._terminal import bar, writable
from labelset.cli._torchrun import under_torchrun
from labelset.data import LabelFile, read_labels
from labelset.proofs import ProofFailed, Verification, verify
from labelset.proofs._model import read_matrix
from labelset.train._ranks import Ranks

__all__ = ["add", "run"]

VERIFY = """Which label sets can a linear output layer say at all, whatever its input?

For every label set in LABELS: argmaxable, with an input that says it; unargmaxable, with weights on
a few labels that prove it impossible; or undecided. Exit status 0 if all can be said, 1 if not."""


def add(verbs: Any) -> None:
    verb = verbs.add_parser(
        "verify",
        help="which label sets a head can and cannot say, with proofs",
        description=VERIFY,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.add_argument("model", help="a RUN folder, or weights: .safetensors, .npz, .npy")
    verb.add_argument(
        "labels", nargs="?", help="label sets: .npz, .npy, .jsonl[.gz] (the test rows of a RUN)"
    )
    verb.add_argument("--weight", help="name of the matrix, where MODEL holds several")
    verb.add_argument("--bias", help="name of its bias (default: the one beside it, if any)")
    verb.add_argument("--split", type=int, help="only rows of this split (0 train, 1, 2 test)")
    verb.add_argument("--radius", choices=("ball", "box"), default="ball", help="default: ball")
    verb.add_argument("--box", type=float, default=1e4, help="half width of the box (1e4)")
    verb.add_argument("--eps", type=float, help="also count label sets with rho >= EPS")
    verb.add_argument(
        "--seconds", type=float, default=60.0, help="time for higher precision, in all (60)"
    )
    verb.add_argument("--device", help="cuda: all label sets together on a GPU (the processor)")
    verb.add_argument("--most", type=int, default=5, help="how many label sets to show (5)")
    verb.add_argument("--check", action="store_true", help="prove every verdict again")
    verb.add_argument("--out", help="write verdicts and proofs to this JSON file")
    verb.add_argument("--json", action="store_true", help="print JSON instead of the table")
    verb.add_argument("--quiet", action="store_true", help="no progress bar")
    verb.set_defaults(run=under_torchrun(run))


def run(args: argparse.Namespace) -> int:
    check.whole("--most", args.most)
    held = Run.open(args.model) if Path(args.model).is_dir() else None
    weight, bias = _matrix(args, held)
    labels, label_names, split = _labels(args, held, len(weight))
    if args.out:
        writable(args.out)
    if args.split is not None:
        if split is None:
            raise ValueError(f"{args.labels}: has no splits to choose from")
        labels = labels[[i for i, part in enumerate(split) if part == args.split]]
    start = time.perf_counter()
    show = None if args.quiet or not sys.stderr.isatty() else bar()
    result = verify(
        *(weight, labels, bias, args.radius, args.box, args.eps, args.seconds, show),
        device=args.device,
    )
    if args.check:
        check_in_shares(result, Ranks.running())
    seconds = time.perf_counter() - start
    if args.out and Ranks.running().first:
        result.save(args.out)
    if args.json:
        facts = {**result.as_json(proofs=False), "seconds": seconds}
        if args.eps is not None:
            facts["at_least_eps"] = result.at_least().tolist()
        print(json.dumps(facts))
    else:
        _print_verification(args, result, label_names, seconds)
    return 0 if result.counts()["argmaxable"] == len(result) else 1


def check_in_shares(result: Verification, ranks: Ranks) -> None:
    """Prove all verdicts again, each rank its share; the first keeps what that worked out."""
    mine = range(ranks.rank, len(result.verdicts), ranks.size)
    own = [result.verdicts[i] for i in mine]
    part = Verification(result.problem, result.sets[list(mine)], np.arange(len(own)), own)
    try:
        part.check()
    except ProofFailed:
        result.check()  # its words are about the sets as they are numbered there
        raise
    for rank, verdicts in enumerate(ranks.gathered(part.verdicts)):
        result.verdicts[rank :: ranks.size] = verdicts


def _matrix(args: argparse.Namespace, held: Run | None) -> tuple[Any, Any]:
    if held is None:
        return read_matrix(args.model, args.weight, args.bias)
    if held.head is None:
        raise ValueError(f"{args.model}: this run holds no head to verify")
    weight, bias = held.head.matrix()
    return weight.detach(), None if bias is None else bias.detach()


def _labels(args: argparse.Namespace, held: Run | None, n: int) -> LabelFile:
    """Those of the file; without one, the test rows of the run."""
    if args.labels:
        return read_labels(args.labels, n=n)
    if held is None or "test" not in held.parts:
        raise ValueError(f"{args.model}: say which label sets to verify")
    return LabelFile(held.parts["test"].labels, held.names, None)


def _print_verification(
    args: argparse.Namespace, result: Any, label_names: Any, seconds: float
) -> None:
    print(result.table(label_names, args.most))
    if args.eps is not None:
        answers = result.at_least().tolist()
        print(
            f"\nrho >= {args.eps:g}: yes {answers.count('yes')}, no {answers.count('no')}, "
            f"undecided {answers.count('undecided')}"
        )
    print(f"\n{seconds:.2f} s" + (", every proof checked again" if args.check else ""))
    if args.out:
        print(f"verdicts and proofs: {args.out}")
