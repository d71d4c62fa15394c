"""The options of training that `train`, `compare` and `tune` share."""

from __future__ import annotations

import argparse
import re
from typing import Any

from labelset.cli._settings import settings

__all__ = ["ENCODER", "add_training", "seconds", "training"]


ENCODER = "features, tfidf:svd=200, sentence:model=FOLDER, conv, vision:model=FOLDER (by the data)"


def add_training(verb: Any, epochs: int = 20) -> None:
    """Epochs and the rest by `--train KEY=VALUE`."""
    verb.add_argument("--epochs", type=int, default=epochs, help=f"passes over the data ({epochs})")
    verb.add_argument("--batch", type=int, help="rows per step (chosen by the data)")
    verb.add_argument("--lr", type=float, help="highest learning rate (chosen by the data)")
    verb.add_argument(
        "--train",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="other settings: optimiser=sgd, schedule=cosine, ema=0.99, patience=5, "
        "monitor=f1-micro, precision=bfloat16 or float64, weight_decay=0, device=cuda",
    )


def training(args: argparse.Namespace) -> dict[str, Any]:
    """What was given, as settings of training."""
    given = {"epochs": args.epochs, "batch": args.batch, "lr": args.lr}
    return {k: v for k, v in given.items() if v is not None} | settings(args.train)


def seconds(text: str) -> float:
    """`90`, `90s`, `10m` or `2h` in seconds.

    >>> seconds("10m")
    600.0
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if not found or not float(found[1]):
        raise ValueError(f"a time is given as 90s, 10m or 2h, got {text!r}")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]
