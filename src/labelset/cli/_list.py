"""`labelset list`: what there is by name, or the page of a loss."""

from __future__ import annotations

import argparse
import inspect
import json
from dataclasses import MISSING
from typing import Any

from labelset import calibrate, decide, heads, losses, metrics
from labelset.catalog import Catalog, hyperparameters
from labelset.pages import page

__all__ = ["add", "run"]

KINDS: dict[str, Catalog[Any]] = {
    "losses": losses.catalog,
    "heads": heads.catalog,
    "maps": calibrate.catalog,
    "rules": decide.catalog,
    "metrics": metrics.catalog,
}


def add(verbs: Any) -> None:
    """The verb and its options."""
    verb = verbs.add_parser(
        "list",
        help="losses, heads, maps, rules or metrics by name, or the page of a loss",
        description="Without a name: what there is of a kind. With the name of a loss: its page.",
    )
    verb.add_argument("name", nargs="?", help="a loss, for example spa")
    verb.add_argument("--kind", choices=KINDS, default="losses", help="default: losses")
    verb.add_argument("--json", action="store_true", help="print JSON")
    verb.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print the names with what they are, the facts of some, or one page."""
    catalog = KINDS[args.kind]
    if args.name:
        catalog.get(args.name)
    if args.json:
        chosen = [args.name] if args.name else catalog.names()
        print(json.dumps({name: _facts(catalog, name) for name in chosen}, indent=2))
    elif args.name and args.kind == "losses":
        print(page(args.name).split("-->\n\n")[1], end="")
    elif args.name:
        print(inspect.getdoc(catalog.get(args.name)))
    else:
        width = max(map(len, catalog.names()))
        for name in catalog.names():
            print(f"{name:<{width}}  {_summary(catalog.get(name))}")


def _summary(cls: type) -> str:
    return (inspect.getdoc(cls) or "").split("\n\n")[0].replace("\n", " ")


def _facts(catalog: Catalog[Any], name: str) -> dict[str, Any]:
    cls = catalog.get(name)
    known = hyperparameters(cls)
    defaults = {key: None if f.default is MISSING else f.default for key, f in known.items()}
    facts = {"summary": _summary(cls), "hyperparameters": defaults}
    return facts | ({"proper": cls.proper} if hasattr(cls, "proper") else {})
