"""`labelset list`: what there is by name, or what one of them is."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from dataclasses import MISSING
from typing import Any

from labelset import calibrate, check, decide, encode, heads, losses, metrics
from labelset.catalog import Catalog, Entry, Hyper
from labelset.terminal import wrapped

KINDS: dict[str, Catalog[Any]] = {
    "losses": losses.catalog,
    "heads": heads.catalog,
    "encoders": encode.catalog,
    "maps": calibrate.catalog,
    "rules": decide.catalog,
    "metrics": metrics.catalog,
}
ABOUT = f"What there is of a kind ({', '.join(KINDS)}), or what one of them is."


def add(verb: Any) -> None:
    """Its options."""
    verb.add_argument("name", nargs="?", help="a kind, or a name such as spa (losses)")
    verb.add_argument("--kind", choices=KINDS, metavar="KIND", help="where to look for the name")
    verb.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> None:
    """Print the names with what they are, or all about one, as text or as JSON."""
    if args.name is None or args.name in KINDS:
        entries = list(KINDS[args.name or args.kind or "losses"].entries.values())
        entries.sort(key=lambda entry: entry.name)
    else:
        entries = list(_called(args.name, args.kind))
    if args.json:
        print(json.dumps({entry.name: _facts(entry) for entry in entries}, indent=2))
    elif args.name is None or args.name in KINDS:
        width = max(len(entry.name) for entry in entries)
        for entry in entries:
            print(wrapped(f"{entry.name:<{width}}  {entry.summary}"))
    else:
        print("\n\n".join(map(page, entries)))


def _called(name: str, kind: str | None) -> Iterator[Entry]:
    """The entries of that name, of one kind or of all."""
    kinds = list(KINDS.values()) if kind is None else [KINDS[kind]]
    known = {entry: None for catalog in kinds for entry in catalog.names()}
    if name not in known:
        what = "nothing" if kind is None else f"no {KINDS[kind].what}"
        raise ValueError(f"{what} is called {name!r}: {check.nearest(name, [*KINDS, *known])}")
    return (catalog.entry(name) for catalog in kinds if name in catalog)


def page(entry: Entry) -> str:
    """What the docstring of an entry says, and its hyperparameters, as Markdown.

    >>> print(page(decide.catalog.entry("top-k")).splitlines()[-1])
    | `k` |  | how many labels are on in each row |
    """
    text = entry.doc.split("\n>>>")[0].rstrip()
    sections = [
        f"# `{entry.name}`",
        re.sub(r"^(Use it|Probabilities):", r"**\1**:", text, flags=re.M),
    ]
    known = entry.hyperparameters
    if known:
        rows = [
            f"| `{key}` | {_default(f)} | {_meaning(entry, key, f)} |" for key, f in known.items()
        ]
        head = ["| name | default | meaning |", "|---|---|---|"]
        sections += ["## Hyperparameters", "\n".join(head + rows)]
    return "\n\n".join(sections)


def _default(known: Hyper) -> str:
    return "" if known.default is MISSING else f"`{known.default!r}`"


def _meaning(entry: Entry, key: str, known: Hyper) -> str:
    if key == "reduction":
        return ", ".join(f"`{how}`" for how in entry.attribute("reductions", ()))
    return known.doc


def _facts(entry: Entry) -> dict[str, Any]:
    known = entry.hyperparameters
    defaults = {key: None if f.default is MISSING else f.default for key, f in known.items()}
    facts = {"summary": entry.summary, "hyperparameters": defaults}
    proper = entry.attribute("proper", MISSING)
    return facts | ({} if proper is MISSING else {"proper": proper})
