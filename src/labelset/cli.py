"""The command line."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import MISSING
from typing import Any

import labelset
from labelset.catalog import hyperparameters
from labelset.losses import catalog, names
from labelset.pages import page
from labelset.pages._page import summary

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; bad input prints one line and gives exit status 2."""
    args = _parser().parse_args(argv)
    try:
        args.run(args)
    except (ValueError, TypeError) as error:
        print(f"labelset: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 0
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="labelset", description="Everything after the encoder in multi-label learning."
    )
    parser.add_argument("--version", action="version", version=f"labelset {labelset.__version__}")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    verb = verbs.add_parser(
        "list",
        help="the losses, or the page of one",
        description="Without a name: every loss and what it is. With one: its whole page.",
    )
    verb.add_argument("name", nargs="?", help="a loss, for example spa")
    verb.add_argument("--json", action="store_true", help="print JSON")
    verb.set_defaults(run=_list)
    return parser


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
