"""Where data come from: the options that every verb shares which reads a data set."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from labelset.cli._settings import settings
from labelset.data import Dataset, load, names

__all__ = ["add_source", "loaded"]


def add_source(verb: Any, default: str | None = None) -> None:
    """DATA, and `--data KEY=VALUE` for the keys of a description file."""
    known = ", ".join(names())
    verb.add_argument(
        "source",
        metavar="DATA",
        nargs="?" if default else None,
        default=default,
        help=f"a file, a folder of pictures, a description (.toml), or built in: {known}",
    )
    verb.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="how to read it: label_column=tags, delimiter=;, labels=14, text_column=body, ... "
        "(the keys of a description file, see docs/data.md)",
    )


def loaded(args: argparse.Namespace) -> Dataset:
    """The data set; what was noted on reading it goes to standard error."""
    dataset = load(args.source, **settings(args.data))
    if not getattr(args, "quiet", True):
        for note in dataset.card.get("notes", []):
            print(f"note: {note}", file=sys.stderr)
    return dataset
