"""`labelset-studies`: whether the papers' claims hold on real data."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labelset.cli.options import ending_when_asked, seconds
from labelset.runs import default_jobs
from labelset.terminal import table
from labelset_studies import (
    Budget,
    Cell,
    Results,
    estimated,
    read_results,
    read_tables,
    study,
    write_page,
)
from labelset_studies._about import tell_rows
from labelset_studies._data import available
from labelset_studies._deciding import told as decided
from labelset_studies._store import CELLS, RESULTS, Done
from labelset_studies._verdict import data_of

NAME = "labelset-studies"
TABLES = "studies/tables"
PROBLEMS = (ValueError, TypeError, ImportError, OSError, RuntimeError, MemoryError)
ABOUT = """Train and judge what the papers claim, table by table, on the data sets of a folder, and
say of each claim: reproduced, not reproduced or inconclusive. Every training is kept in RUN as soon
as it is done. Without --data the built-in data sets yeast and digits are used."""


def main(argv: Sequence[str] | None = None) -> int:
    """Do a study; bad input prints one line and gives exit status 2."""
    try:
        run(parser().parse_args(argv))
    except PROBLEMS as error:
        if os.environ.get("LABELSET_DEBUG"):
            raise
        print(f"{NAME}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{NAME}: stopped", file=sys.stderr)
        return 130
    return 0


def parser() -> argparse.ArgumentParser:
    """What the command takes."""
    made = argparse.ArgumentParser(
        prog=NAME, description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("tables", nargs="*", default=[TABLES], help=f"files or folders ({TABLES})")
    made.add_argument("--out", required=True, metavar="RUN", help="the folder to write to")
    made.add_argument("--data", metavar="FOLDER", help="where the data sets are")
    made.add_argument(
        "--budget",
        default="short",
        help="short, long, or a time such as 10m: as much of the long one as fits (short)",
    )
    made.add_argument("--jobs", type=int, help="trainings at a time (one per core; 1 on a GPU)")
    made.add_argument("--device", choices=("cpu", "cuda", "auto"), default="cpu", help="cpu")
    made.add_argument(
        "--resume",
        action="store_true",
        help="continue an interrupted run; what its CSVs hold whole is kept",
    )
    made.add_argument("--dry-run", action="store_true", help="only say what it would take")
    made.add_argument("--page", metavar="FILE", help="write what was found into this page")
    made.add_argument(
        "--report-only",
        action="store_true",
        help="train nothing: the page from the CSVs of RUN (with --data: and test rows counted)",
    )
    made.add_argument("--json", action="store_true", help="print JSON instead of the table")
    made.add_argument("--quiet", action="store_true", help="no progress")
    return made


def run(args: argparse.Namespace) -> None:
    """Do the study, and print the verdicts."""
    tables, out = read_tables(args.tables), Path(args.out)
    folder = Path(args.data) if args.data else None
    if args.dry_run:
        _estimate(args, tables, folder)
        return
    if not args.report_only:
        there = any((out / name).is_file() for name in (CELLS, RESULTS))
        if there and not args.resume:
            raise ValueError(f"{out}: there is a study already; go on with --resume")
        show = None if args.quiet else _Show()
        with ending_when_asked():
            _study(args, tables, folder, out, show)
    results = read_results(out, tables)
    if args.report_only and folder is not None:
        tell_rows(out / "about.json", {data_of(key[1]) for key in results.values}, folder)
        results = read_results(out, tables)
    if args.page:
        for path in write_page(results, Path(args.page)):
            print(f"wrote {path}", file=sys.stderr)
    if args.json:
        print(json.dumps(_facts(results)))
    else:
        _print(results)


def _facts(results: Results) -> dict[str, Any]:
    """What was found, for machines."""
    said = [s for one in results.tables for s in results.sentences(one)]
    return {
        "claims": {str(claim): verdict for claim, verdict in results.verdicts().items()},
        "sentences": [{"claim": s.claim, "verdict": s.told, "says": s.says} for s in said],
    }


def _print(results: Results) -> None:
    for one in results.tables:
        for said in results.sentences(one):
            print(f"claim {said.claim}  {said.told:15} {said.says}")
            compares, found = decided(results, said)
            print("         ", f"{compares}:", "; ".join(map(" ".join, found.items())))
    print()
    print(
        table([["claim", "verdict"], *([str(c), v] for c, v in results.verdicts().items())], (0, 1))
    )


def _study(
    args: argparse.Namespace, tables: Any, folder: Path | None, out: Path, show: Any
) -> None:
    if show is not None:
        _tell_data(tables, folder, _budget(args.budget))
    try:
        study(tables, out, folder, _budget(args.budget), _jobs(args), args.device, show)
    except KeyboardInterrupt:
        print(f"\nstopped; what is done is in {out}: go on with --resume", file=sys.stderr)
        raise


def _tell_data(tables: Any, folder: Path | None, budget: Budget) -> None:
    if folder is None:
        print("no --data: the built-in data sets yeast and digits are used", file=sys.stderr)
    absent = {n for t in tables for n in available(t.data.get(budget.version, []), folder)[1]}
    if absent:
        print(f"not in {folder}, not trained: {', '.join(sorted(absent))}", file=sys.stderr)


def _jobs(args: argparse.Namespace) -> int:
    return int(args.jobs or default_jobs())


def _budget(given: str) -> Budget:
    return Budget(given) if given in ("short", "long") else Budget("long", seconds(given))


def _estimate(args: argparse.Namespace, tables: Any, folder: Path | None) -> None:
    found = estimated(tables, folder, _budget(args.budget), args.device)
    rows = [[name, f"{count:,}", f"{took:.0f}"] for name, (count, took) in found.items()]
    total = sum(took for _, took in found.values())
    cells = sum(count for count, _ in found.values())
    print(
        table([["data set", "trainings", "seconds"], *rows, ["all", f"{cells:,}", f"{total:.0f}"]])
    )
    jobs = _jobs(args)
    print(f"\nabout {total / jobs / 60:.1f} minutes with {jobs} at a time, by rules of thumb")


class _Show:
    """Progress on standard error, at most every other second; failures always."""

    def __init__(self) -> None:
        self.began = self.last = time.perf_counter()
        self.first: int | None = None

    def __call__(self, cell: Cell, what: Done, done: int, of: int) -> None:
        now = time.perf_counter()
        if self.first is None or done < self.first:
            self.first, self.began = done - 1, now - what.seconds
        if what.failed:
            print(f"[{done}/{of}] {cell}: failed, {what.failed}", file=sys.stderr)
        elif now - self.last >= 2.0 or done == of:
            pace = (now - self.began) / max(done - self.first, 1)
            left = f"{pace * (of - done):.0f} s left"
            print(f"[{done}/{of}] {cell}: {what.seconds:.1f} s; {left}", file=sys.stderr)
            self.last = now
