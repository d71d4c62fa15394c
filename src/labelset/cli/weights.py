"""`labelset weights`: the words and columns that weigh most for each label."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from labelset import check, model
from labelset.terminal import table

ABOUT = """What a model has learnt about its labels: of linear models the largest weights of each
label, of forests the words or columns whose splits tell most of it (shares that add up to 1), of a
blend those of its linear models and forests. Why a row has its labels: labelset predict RUN ROWS
--explain."""


def add(verb: Any) -> None:
    """Its options."""
    verb.add_argument("model", metavar="RUN", help="the folder of a run")
    verb.add_argument("--label", nargs="+", metavar="NAME", help="of these labels (all)")
    verb.add_argument("--top", type=int, default=10, help="how many of each label (10)")
    verb.add_argument("--json", action="store_true", help="print JSON instead of the table")


def run(args: argparse.Namespace) -> None:
    """Print them, label by label."""
    check.whole("--top", args.top, low=1)
    found = model.SavedModel.open(args.model).weights(args.label, args.top)
    if args.json:
        print(json.dumps([asdict(each) for each in found], ensure_ascii=False))
        return
    lines = [["label", "model", "weight", ""]]
    for each in found:
        sign = "+" if each.kind == "weights" else ""
        name, member = each.label, each.member
        for term, value in each.terms:
            lines.append([name, member, f"{value:{sign}.3f}", term])
            name = member = ""
    if any(each.member for each in found):
        print(table(lines, left=(0, 1, 3)))
    else:
        print(table([[label, *rest] for label, _, *rest in lines], left=(0, 2)))
