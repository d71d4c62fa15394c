"""The command line: one function per verb."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import MISSING
from pathlib import Path
from typing import Any

import labelset
from labelset import check
from labelset.catalog import hyperparameters
from labelset.data import read_labels
from labelset.losses import catalog, names
from labelset.pages import page
from labelset.pages._page import summary
from labelset.proofs import ProofFailed, verify
from labelset.proofs._model import read_matrix

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; bad input prints one line and gives exit status 2."""
    args = _parser().parse_args(argv)
    try:
        status: int | None = args.run(args)
    except BrokenPipeError:
        return 0
    except (ValueError, TypeError, ImportError, OSError, ProofFailed) as error:
        print(f"labelset: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("labelset: stopped", file=sys.stderr)
        return 130
    return status or 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="labelset", description="Everything after the encoder in multi-label learning."
    )
    parser.add_argument("--version", action="version", version=f"labelset {labelset.__version__}")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    _add_list(verbs)
    _add_verify(verbs)
    return parser


# ---- list ----------------------------------------------------------------------------------------


def _add_list(verbs: Any) -> None:
    verb = verbs.add_parser(
        "list",
        help="the losses, or the page of one",
        description="Without a name: every loss and what it is. With one: its whole page.",
    )
    verb.add_argument("name", nargs="?", help="a loss, for example spa")
    verb.add_argument("--json", action="store_true", help="print JSON")
    verb.set_defaults(run=_list)


def _list(args: argparse.Namespace) -> None:
    if args.json:
        chosen = [args.name] if args.name else names()
        print(json.dumps({name: _facts(name) for name in chosen}, indent=2))
    elif args.name:
        print(page(args.name).split("-->\n\n")[1], end="")
    else:
        width = max(map(len, names()))
        for name in names():
            print(f"{name:<{width}}  {summary(name)}")


def _facts(name: str) -> dict[str, Any]:
    cls = catalog.get(name)
    known = hyperparameters(cls)
    defaults = {key: None if f.default is MISSING else f.default for key, f in known.items()}
    return {"summary": summary(name), "hyperparameters": defaults, "proper": cls.proper}


# ---- verify --------------------------------------------------------------------------------------

VERIFY = """Which label sets can a linear output layer say at all, whatever its input?

For every label set in LABELS: argmaxable, with an input that says it; unargmaxable, with weights on
a few labels that prove it impossible; or undecided. Exit status 0 if all can be said, 1 if not."""


def _add_verify(verbs: Any) -> None:
    verb = verbs.add_parser(
        "verify",
        help="which label sets a head can and cannot say, with proofs",
        description=VERIFY,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.add_argument("model", help="weights: .safetensors, .npz or .npy, (labels, features)")
    verb.add_argument("labels", help="label sets: .npz, .npy or .jsonl[.gz]")
    verb.add_argument("--weight", help="name of the matrix, where MODEL holds several")
    verb.add_argument("--bias", help="name of its bias (default: the one beside it, if any)")
    verb.add_argument("--split", type=int, help="only rows of this split (0 train, 1, 2 test)")
    verb.add_argument("--radius", choices=("ball", "box"), default="ball", help="default: ball")
    verb.add_argument("--box", type=float, default=1e4, help="half width of the box (1e4)")
    verb.add_argument("--eps", type=float, help="also count label sets with rho >= EPS")
    verb.add_argument(
        "--seconds", type=float, default=60.0, help="time for higher precision, in all (60)"
    )
    verb.add_argument("--most", type=int, default=5, help="how many label sets to show (5)")
    verb.add_argument("--check", action="store_true", help="prove every verdict again")
    verb.add_argument("--out", help="write verdicts and proofs to this JSON file")
    verb.add_argument("--json", action="store_true", help="print JSON instead of the table")
    verb.add_argument("--quiet", action="store_true", help="no progress bar")
    verb.set_defaults(run=_verify)


def _verify(args: argparse.Namespace) -> int:
    weight, bias = read_matrix(args.model, args.weight, args.bias)
    labels, label_names, split = read_labels(args.labels, n=len(weight))
    check.whole("--most", args.most)
    if args.out:
        _writable(args.out)
    if args.split is not None:
        if split is None:
            raise ValueError(f"{args.labels}: has no splits to choose from")
        labels = labels[[i for i, part in enumerate(split) if part == args.split]]
    start = time.perf_counter()
    bar = None if args.quiet or not sys.stderr.isatty() else _bar()
    result = verify(weight, labels, bias, args.radius, args.box, args.eps, args.seconds, bar)
    if args.check:
        result.check()
    seconds = time.perf_counter() - start
    if args.out:
        result.save(args.out)
    if args.json:
        facts = {**result.as_json(proofs=False), "seconds": seconds}
        if args.eps is not None:
            facts["at_least_eps"] = result.at_least().tolist()
        print(json.dumps(facts))
    else:
        _print_verification(args, result, label_names, seconds)
    return 0 if result.counts()["argmaxable"] == len(result) else 1


def _writable(path: str) -> None:
    """Before hours of work: that its result can be written."""
    folder = Path(path).resolve().parent
    if Path(path).is_dir() or not os.access(folder, os.W_OK):
        raise ValueError(f"cannot write to {path}")


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


def _bar() -> Callable[[int, int], None]:
    """A progress bar on the terminal, with the time left."""
    start = time.perf_counter()

    def show(done: int, total: int) -> None:
        left = (time.perf_counter() - start) / max(done, 1) * (total - done)
        filled = 30 * done // max(total, 1)
        line = f"\r[{'#' * filled}{'.' * (30 - filled)}] {done:,}/{total:,}, {left:.0f} s left "
        print(line, end="" if done < total else "\r" + " " * len(line) + "\r", file=sys.stderr)

    return show
