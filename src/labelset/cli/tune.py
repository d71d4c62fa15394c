"""`labelset tune`: hyperparameters of a loss on one's own data."""

from __future__ import annotations

import argparse
import json
from typing import Any

from labelset import runs
from labelset.cli.options import add_source, add_training, loaded, training
from labelset.terminal import note, progress, wrapped

ABOUT = (
    "Search the hyperparameters of a loss and the learning rate by a metric on "
    "validation rows. The same command again continues an interrupted search."
)


def add(verb: Any) -> None:
    """Its options."""
    add_source(verb)
    verb.add_argument("--loss", required=True, help="which loss, such as spa")
    verb.add_argument("--out", required=True, metavar="RUN", help="the folder to write to")
    verb.add_argument("--trials", type=int, default=30, help="in all (30)")
    verb.add_argument("--optimise", default="f1-micro", metavar="METRIC", help="f1-micro")
    verb.add_argument("--seed", type=int, default=0)
    add_training(verb)
    verb.add_argument("--json", action="store_true", help="print JSON")
    verb.add_argument("--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> None:
    """Search, and print what was found."""

    with progress(not args.quiet) as bar:

        def show(number: int, value: float | None) -> None:
            shown = "pruned" if value is None else f"{args.optimise} {value:.4f}"
            note(f"trial {number}: {shown}")
            if bar:
                bar(number + 1, args.trials, "trials")

        result = runs.tune(
            loaded(args),
            args.loss,
            args.out,
            trials=args.trials,
            optimise=args.optimise,
            training=training(args),
            seed=args.seed,
            progress=None if args.quiet else show,
        )
    if args.json:
        facts = {"metric": args.optimise, "value": result.value, "trials": result.trials}
        best = {"loss": args.loss, "settings": result.loss_settings, "training": result.training}
        print(json.dumps({**facts, **best, "model": f"{args.out}/best"}))
        return
    print(
        wrapped(
            f"{args.optimise} {result.value:.4f} on the validation rows, {result.trials} trials"
        )
    )
    chosen = ",".join(f"{k}={v:.4g}" for k, v in result.loss_settings.items())
    print(f"--losses {args.loss}:{chosen} --lr {result.training['lr']:.4g}")
    print(f"model: {args.out}/best")
