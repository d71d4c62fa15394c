"""The command that makes a comparison again."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from labelset.compare import Plan
from labelset.train import Settings

__all__ = ["command_of", "short_name"]

FLAGS = ("epochs", "batch", "lr")
"""Settings of training that have an option of their own; others go by `--train KEY=VALUE`."""


def command_of(plan: Plan, source: str) -> str:
    """What to type, data options (`--data`) aside, which a comparison does not keep.

    >>> plan = Plan(losses=("bce", "asl:margin=0"), seeds=2, training={"epochs": 3})
    >>> print(command_of(plan, "digits"))
    labelset compare digits --losses bce asl:margin=0 --heads linear --seeds 2 --baseline bce \
--optimise f1-micro --epochs 3 --out RUN
    """
    training = {"epochs": Settings().epochs, **plan.training}
    words = ["labelset", "compare", short_name(source)]
    words += ["--losses", *plan.losses, "--heads", *plan.heads]
    words += ["--seeds", str(plan.seeds), "--baseline", plan.baseline, "--optimise", plan.optimise]
    for name in ("encoder", "missing"):
        given = getattr(plan, name)
        words += [] if given is None else [f"--{name}", str(given)]
    for name, value in training.items():
        if value is not None:
            words += _option(name, value)
    return shlex.join([*words, "--out", "RUN"])


def short_name(source: str) -> str:
    """A file by its name alone: where it lay is nobody's business.

    >>> short_name("/home/somebody/films.csv"), short_name("digits")
    ('films.csv', 'digits')
    """
    return Path(source).name or source


def _option(name: str, value: Any) -> list[str]:
    if name in FLAGS:
        return [f"--{name}", str(value)]
    given = value if isinstance(value, str) else json.dumps(value)
    return ["--train", f"{name}={given}"]
