"""`labelset report`: the report of a comparison, written again, or its figures."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from labelset import model, report, runs
from labelset.terminal import phase, progress

ABOUT = "Write RUN/report.html again, or with --figures SVG and PNG files."


def add(verb: Any) -> None:
    """Its options."""
    verb.add_argument("model", metavar="RUN", help="the folder of a comparison")
    verb.add_argument("--out", help="where to write (RUN/report.html, RUN/figures)")
    verb.add_argument("--figures", action="store_true", help="figures instead of the page")
    verb.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> None:
    """Read what the comparison left, and write."""
    folder = Path(args.model)
    if not (folder / model.COMPARED).is_file():
        raise ValueError(f"{folder}: no comparison: there is no {model.COMPARED} in it")
    with progress(not args.json):
        phase(f"reading {folder}")
        content = _content(folder)
        phase("drawing the figures" if args.figures else "writing the report")
        if args.figures:
            out = Path(args.out or folder / "figures")
            written = list(report.write_figures(content, out))
        else:
            out = Path(args.out or folder / "report.html")
            report.write_report(content, out)
            written = [out]
    if args.json:
        print(json.dumps({"written": list(map(str, written))}))
        return
    print("\n".join(map(str, written)))
    if args.figures and not any(file.suffix == ".png" for file in written):
        print("SVG only: PNG needs matplotlib, pip install 'labelset[figures]'")


def _content(folder: Path) -> report.ReportInput:
    """What the comparison left; an error names the folder."""
    try:
        return report.as_input(runs.reopened(folder))
    except (EOFError, LookupError, TypeError, ValueError, OSError, BadZipFile) as error:
        reason = str(error)
        if str(folder) not in reason or isinstance(error, OSError):
            file = Path(str(getattr(error, "filename", None) or "a file")).name
            reason = f"{folder}: damaged comparison: {file} is not as it was saved"
        raise ValueError(f"{reason}; labelset compare --resume mends what it can") from None
