"""The command line: one file per verb."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import labelset
from labelset.cli import (
    _bench,
    _calibrate,
    _compare,
    _completion,
    _data,
    _decide,
    _doctor,
    _evaluate,
    _export,
    _list,
    _pack,
    _predict,
    _query,
    _report,
    _study,
    _train,
    _tune,
    _verify,
)
from labelset.cli._config import add_config, print_config, with_file
from labelset.cli._tree import chosen, leaves
from labelset.proofs import ProofFailed
from labelset.retrieve import QueryError

__all__ = ["main"]

PROBLEMS = (ValueError, TypeError, ImportError, OSError, RuntimeError, MemoryError, ProofFailed)
VERBS = (
    *(_compare, _train, _tune, _data, _report, _pack, _evaluate, _calibrate, _decide, _predict),
    *(_query, _doctor, _verify, _export, _bench, _study, _list, _completion),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; bad input prints one line and gives exit status 2."""
    try:
        status = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads the rest
        return 0
    except PROBLEMS as error:
        if os.environ.get("LABELSET_DEBUG"):
            raise
        problem = error.problem if isinstance(error, QueryError) else str(error)
        print(f"labelset: {' '.join(problem.split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("labelset: stopped", file=sys.stderr)
        return 130
    return status or 0


def _run(argv: Sequence[str]) -> int | None:
    parser = _parser()
    with_file(parser, argv)
    args, verb = parser.parse_args(argv), chosen(parser, argv)
    if verb is not None and args.print_config:
        print_config(verb[0].split()[0], verb[1], args)
        return 0
    status: int | None = args.run(args)
    return status


class _Parser(argparse.ArgumentParser):
    """Wrong arguments are bad input too: one line, and exit status 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"labelset: {message} (see {self.prog} --help)\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="labelset", description="Everything after the encoder in multi-label learning."
    )
    parser.add_argument("--version", action="version", version=f"labelset {labelset.__version__}")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    for verb in VERBS:
        verb.add(verbs)
    for _, verb_parser in leaves(parser):
        add_config(verb_parser)
    return parser
