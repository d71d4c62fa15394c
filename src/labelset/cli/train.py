"""`labelset train`: one model on one's own data, with map and rule."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labelset import report, runs
from labelset.cli.options import (
    ENCODER,
    add_checkpoints,
    add_source,
    add_training,
    checkpoint_seconds,
    ending_when_asked,
    loaded,
    replacing,
    training,
)
from labelset.ranks import Ranks, leave_group, under_torchrun
from labelset.terminal import next_command, phase, progress, table, wrapped

ABOUT = """Train one model, fit its calibrator and rule on validation rows, and keep all of it in
RUN/best; RUN/report.html tells how good it is. An interrupted run is continued by the same command
with --resume."""


def add(verb: Any) -> None:
    """Its options."""
    add_source(verb)
    verb.add_argument("--out", required=True, metavar="RUN", help="the folder to write to")
    verb.add_argument("--loss", default="bce", help="a name, or name:key=value,... (bce)")
    verb.add_argument("--head", default="linear", help="linear, linear:rank=8, dft, dft:k=5")
    verb.add_argument(
        "--optimise", default="f1-micro", help="the metric that the decision rule optimises"
    )
    verb.add_argument("--encoder", metavar="NAME", help=ENCODER)
    verb.add_argument("--missing", type=float, help="drop this share of training positives")
    add_training(verb)
    verb.add_argument(
        "--parallel",
        choices=("ddp", "fsdp"),
        default="ddp",
        help="under torchrun: fsdp cuts the weights of a large encoder over the ranks (ddp)",
    )
    verb.add_argument("--force", action="store_true", help="replace what RUN holds")
    add_checkpoints(verb)
    verb.add_argument("--json", action="store_true", help="print JSON instead of the table")
    verb.add_argument("--quiet", action="store_true", help="no progress")


@under_torchrun
def run(args: argparse.Namespace) -> None:
    """Train; a comparison of one candidate is all that is needed."""
    runs.parse(args.loss)
    plan = runs.Plan(
        losses=(args.loss,),
        heads=(args.head,),
        seeds=1,
        baseline=args.loss,
        optimise=args.optimise,
        missing=args.missing,
        encoder=args.encoder,
        training=training(args),
    )

    out, first = Path(args.out), Ranks.running().first
    with ending_when_asked(), progress(first and not args.quiet) as bar:

        def show(task: Any, news: dict[str, Any]) -> None:
            assert bar is not None
            share = 1.0 if news.get("done") else news["share"]
            bar(share, 1.0, "" if share == 1.0 else _reached(news))

        dataset = loaded(args)
        with replacing(out, args.force and first):
            result = runs.compare(
                dataset,
                plan,
                out,
                resume=args.resume,
                jobs=1,
                progress=show if bar else None,
                parallel=args.parallel,
                save_seconds=checkpoint_seconds(args),
            )
            leave_group()
            if first:
                phase("writing the report")
                report.write_report(report.as_input(result), out / "report.html")
    if args.json:
        each = [(s.metric, s.stage, s.mean) for s in result.standings[result.best]]
        values = [dict(zip(("metric", "stage", "value"), row, strict=True)) for row in each]
        print(json.dumps({"model": str(out / "best"), "values": values}))
        return
    if not first:
        return
    print(f"{table(_figures(result.standings[result.best]))}\n")
    print(wrapped("raw: own link, threshold 0.5; tuned, calibrated: fitted on validation rows."))
    print(f"\nreport: {out / 'report.html'}\nmodel: {out / 'best'}")
    if not args.quiet:
        next_command("predict", args.out, "NEW_ROWS", "--out", "predicted.csv")


def _figures(standings: Sequence[runs.Standing]) -> list[list[str]]:
    """Of each metric what it is at each stage that it is measured at."""
    stages = ("raw", "tuned", "calibrated")
    means = {(each.metric, each.stage): f"{each.mean:.4f}" for each in standings}
    names = dict.fromkeys(each.metric for each in standings)
    lines = [[name, *(means.get((name, stage), "") for stage in stages)] for name in names]
    return [["on test rows", *stages], *lines]


def _reached(news: dict[str, Any]) -> str:
    return f"epoch {news['epoch'] + 1}, loss {news['loss']:.4f}"
