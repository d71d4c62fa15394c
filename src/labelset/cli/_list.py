"""`labelset list`: the losses, or the page of one."""

from __future__ import annotations

import argparse
import json
from dataclasses import MISSING
from typing import Any

from labelset.catalog import hyperparameters
from labelset.losses import catalog, names
from labelset.pages import page
from labelset.pages._page import summary

__all__ = ["add", "run"]


def add(verbs: Any) -> None:
    verb = verbs.add_parser(
        "list",
        help="the losses, or the page of one",
        description="Without a name: every loss and what it is. With one: its whole page.",
    )
    verb.add_argument("name", nargs="?", help="a loss, for example spa")
    verb.add_argument("--json", action="store_true", help="print JSON")
    verb.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
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
