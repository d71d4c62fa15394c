"""`labelset verify`: which label sets a head can and cannot produce, with proofs."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labelset import check, data
from labelset.cli.options import writable
from labelset.ranks import Ranks, under_torchrun
from labelset.terminal import phase, progress, wrapped

if TYPE_CHECKING:
    from labelset.model import SavedModel
    from labelset.proofs import Verification

ABOUT = """Which label sets can a linear output layer produce at all, whatever its input?

For every label set in LABELS: argmaxable, with an input that gives it; unargmaxable, with weights
on a few labels that prove it impossible; or undecided. Exit status 0 if all can be produced, else
1."""


def add(verb: Any) -> None:
    """Its options."""
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


@under_torchrun
def run(args: argparse.Namespace) -> int:
    """Verify, print, and keep the proofs."""
    from labelset.proofs import verify

    check.whole("--most", args.most)
    saved = None
    if Path(args.model).is_dir():
        from labelset.model import SavedModel

        saved = SavedModel.open(args.model)
    weight, bias = _matrix(args, saved)
    labels, label_names, split = _labels(args, saved, len(weight))
    if args.out:
        writable(args.out)
    if args.split is not None:
        if split is None:
            raise ValueError(f"{args.labels}: has no splits to choose from")
        labels = labels[[i for i, part in enumerate(split) if part == args.split]]
    start = time.perf_counter()
    with progress(not args.quiet) as bar:
        result = verify(
            *(weight, labels, bias, args.radius, args.box, args.eps, args.seconds, bar),
            device=args.device,
        )
        if args.check:
            phase(f"proving all {len(result.verdicts):,} verdicts again")
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
    import numpy as np

    from labelset.proofs import ProofFailed, Verification

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


def _matrix(args: argparse.Namespace, saved: SavedModel | None) -> tuple[Any, Any]:
    from labelset.proofs import read_matrix

    if saved is None:
        return read_matrix(args.model, args.weight, args.bias)
    if saved.head is None:
        held = "holds scores alone, and"
        if saved.estimator is not None:
            held = f"keeps an estimator ({saved.estimator.kind}), which"
        raise ValueError(
            f"{args.model}: this run {held} has no head to verify{_others(args.model)}"
        )
    weight, bias = saved.head.matrix()
    return weight.detach(), None if bias is None else bias.detach()


def _others(path: str) -> str:
    """The candidates of a comparison that have a head, and how to name one."""
    from labelset.model import HEAD

    heads = sorted(Path(path).glob(f"work/*/*/{HEAD}"))
    if not heads:
        return ""
    names = ", ".join(dict.fromkeys(file.parent.parent.name for file in heads))
    return f"; of its candidates {names} have one: labelset verify {heads[0].parent}"


def _labels(args: argparse.Namespace, saved: SavedModel | None, n: int) -> data.LabelFile:
    """Those of the file; without one, the test rows of the run."""
    if args.labels:
        return data.read_labels(args.labels, n=n)
    if saved is None or "test" not in saved.splits:
        raise ValueError(f"{args.model}: say which label sets to verify")
    return data.LabelFile(saved.splits["test"].labels, saved.names, None)


def _print_verification(
    args: argparse.Namespace, result: Any, label_names: Any, seconds: float
) -> None:
    print(wrapped(result.table(label_names, args.most)))
    if args.eps is not None:
        answers = result.at_least().tolist()
        print(
            f"\nrho >= {args.eps:g}: yes {answers.count('yes')}, no {answers.count('no')}, "
            f"undecided {answers.count('undecided')}"
        )
    print(f"\n{seconds:.2f} s" + (", every proof checked again" if args.check else ""))
    if args.out:
        print(f"verdicts and proofs: {args.out}")
