"""What a study was done with: the version, the machines, and the time it took, run by run."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

import labelset
from labelset.files import write_bytes
from labelset_studies._cell import Budget
from labelset_studies._data import available, rows_tested

FACTS = ("seconds", "cells", "jobs", "device", "machine", "python", "torch", "labelset")
"""What is told of each run."""


def read_about(path: Path) -> dict[str, Any]:
    """What the file says; nothing where there is none."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found


def write_about(
    path: Path, budget: Budget, jobs: int, device: str, seconds: float, did: int, left: int
) -> None:
    """Write it: this run, if it trained anything, after those before. `left`: still to be done."""
    before = read_about(path)
    cuda = device != "cpu" and torch.cuda.is_available()
    now = {
        "seconds": round(seconds, 1),
        "cells": did,
        "jobs": jobs,
        "device": torch.cuda.get_device_name() if cuda else "cpu",
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "labelset": labelset.__version__,
    }
    runs = runs_of(before) + ([now] if did else [])
    about: dict[str, Any] = {
        "budget": budget.version,
        "seconds": round(sum(run["seconds"] for run in runs), 1),
        "cells": sum(run["cells"] for run in runs),
        "left": left,
        "runs": runs,
        "rows": before.get("rows", {}),
        "tables": before.get("tables", {}),
    }
    if "kept" in before and not did:
        about["kept"] = before["kept"]
    write_bytes(path, json.dumps(about, indent=1).encode())


def tell_rows(path: Path, names: Iterable[str], folder: Path | None) -> None:
    """Say how many test rows these data sets have; of those that are not there, what is known."""
    about = read_about(path)
    known = about.get("rows", {})
    wanted = set(names)
    there = available(sorted(wanted), folder)[0]
    found = {name: rows_tested(name, folder) for name in there if name in wanted}
    if found != {name: known.get(name) for name in found}:
        about["rows"] = dict(sorted({**known, **found}.items()))
        write_bytes(path, json.dumps(about, indent=1).encode())


def tell_files(path: Path, kept: int, asked: dict[str, str]) -> None:
    """Say how many trainings the CSVs tell of, and what each table asked for when that was written.

    A later run keeps what is alike; what it trains anew takes the place of what an earlier one did.
    """
    about = read_about(path)
    about["kept"] = kept
    about["tables"] = about.get("tables", {}) | asked
    write_bytes(path, json.dumps(about, indent=1).encode())


def runs_of(about: dict[str, Any]) -> list[dict[str, Any]]:
    """Runs in which something was trained; files of earlier versions tell of one.

    >>> runs_of({"cells": 0}), runs_of({"cells": 9, "seconds": 4.0, "jobs": 2, "budget": "long"})
    ([], [{'seconds': 4.0, 'cells': 9, 'jobs': 2}])
    """
    if "runs" in about:
        return list(about["runs"])
    return [{key: about[key] for key in FACTS if key in about}] if about.get("cells") else []


def told(about: dict[str, Any]) -> str:
    """A sentence: how much, how long, in how many runs, on what."""
    runs, left = runs_of(about), about.get("left", 0)
    kept = about.get("kept", about["cells"])
    again = f" (and {about['cells'] - kept:,} that count no more)" if kept < about["cells"] else ""
    ended = f", {left:,} more being left for want of time" if left else ""
    several = f", the sum of {len(runs)} runs that went on one after the other" if runs[1:] else ""
    places = [
        f"{run['jobs']} at a time, on {run['device']} ({run['machine']}, Python {run['python']}, "
        f"torch {run['torch']}, labelset {run['labelset']})"
        for run in runs
    ]
    where = ", ".join(["", *dict.fromkeys(places)])
    return (
        f"The {about['budget']} version: {kept:,} trainings{again}{ended}, in "
        f"{about['seconds']:,.0f} seconds{several}{where}."
    )
