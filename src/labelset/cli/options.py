"""Options that several verbs share: data, settings by KEY=VALUE, training, saving and stopping."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from labelset import data
from labelset.files import folder_lock
from labelset.terminal import note, phase

ENCODER = (
    "features, tfidf:words=2,characters=0, table (both), transformer:model=FOLDER, text, "
    "patches, conv, vision:model=FOLDER (by the data)"
)
WRITTEN = frozenset(
    (
        *("best", "cache", "compare.json", "data.json", "figures", "plan.json", "reasons.json"),
        *("report.html", "results.csv", "search.json", "summary.csv", "test_rows.npz", "work"),
    )
)
"""What a comparison leaves in RUN, and `--force` replaces."""
ASKED = 128 + 15
"""Exit status after SIGTERM, as shells have it."""


def add_source(verb: Any, default: str | None = None) -> None:
    """DATA, and `--data KEY=VALUE` for the keys of a description file."""
    known = ", ".join(data.names())
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


def add_sides(verb: Any) -> None:
    """`--group` and `--time`: which rows stay on one side of every split."""
    verb.add_argument(
        "--group",
        metavar="COLUMN",
        help="rows with the same entry stay in one part and one fold, such as those of a patient",
    )
    verb.add_argument(
        "--time",
        metavar="COLUMN",
        help="train on the past: the newest fifth are test rows, those before them choose",
    )


def asked(args: argparse.Namespace, doubtful: data.Doubtful) -> ValueError:
    """A doubtful guess, in words, with commands that settle it."""
    guess, command = doubtful.guess, shlex.join(["labelset", *args.argv])
    if guess.keys:
        print(f"{args.source}: what is clear:", *guess.explained(), sep="\n  ", file=sys.stderr)
    for doubt in guess.doubts:
        commands = [f"{command} {guess.flags(answer)}" for answer in doubt.answers]
        print(doubt.question, *commands, sep="\n  ", file=sys.stderr)
    return ValueError(f"{args.source}: not clear what its columns are; run one of these commands")


def loaded(args: argparse.Namespace) -> data.Dataset:
    """The data set; what was guessed and noted on reading it goes to standard error."""
    keys = settings(args.data)
    for option, key in (("group", "group_column"), ("time", "time_column"), ("weights", "weights")):
        if (given := getattr(args, option, None)) is not None:
            keys[key] = given
    phase(f"reading {args.source}")
    try:
        dataset = data.load(args.source, **keys)
    except data.Doubtful as doubtful:
        if not hasattr(args, "out"):  # `data inspect` shows all that it saw first
            raise
        raise asked(args, doubtful) from None
    if not getattr(args, "quiet", True):
        guessed = dataset.card.get("guess", {"explained": ()})
        if guessed["explained"]:
            note(f"{args.source} is read so (else say --data KEY=VALUE):")
        for line in guessed["explained"]:
            note(f"  {line}")
        for told in dataset.card.get("notes", []):
            note(f"note: {told}")
    return dataset


def add_settings(verb: Any, what: str) -> None:
    """The option, which may be given several times."""
    verb.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help=f"a setting of the {what}"
    )


def settings(pairs: list[str]) -> dict[str, Any]:
    """Key -> value; a value is read as JSON where it is JSON, else it is the text itself."""
    read = {}
    for item in pairs:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise ValueError(f"--set needs KEY=VALUE, got {item!r}")
        try:
            read[key] = json.loads(value)
        except json.JSONDecodeError:
            read[key] = value
    return read


def add_saving(verb: Any) -> None:
    """`--force` and `--undo`, of verbs that change the calibrator or rule of a run."""
    verb.add_argument(
        "--force", action="store_true", help="save it even where cross-validation says it does harm"
    )
    verb.add_argument(
        "--undo",
        action="store_true",
        help="go back to the calibrator and rule before the last change, one step",
    )


def undone(args: argparse.Namespace) -> None:
    """`--undo`: the run as it was, with what is stored beside it."""
    from labelset import model, runs

    saved = model.SavedModel.undo(args.model)
    runs.judge_again(saved)
    held = [
        f"{what} {'none' if one is None else one.as_json()['name']}"
        for what, one in (("calibrator", saved.calibrator), ("rule", saved.rule))
    ]
    print(json.dumps({"undone": True}) if args.json else f"back in force: {', '.join(held)}")


def add_training(verb: Any, epochs: int | None = 20) -> None:
    """Epochs and the rest by `--train KEY=VALUE`."""
    usual = "train by epochs rather than search: how many" if epochs is None else f"({epochs})"
    verb.add_argument(
        "--epochs", type=int, default=epochs, help=f"passes over the data {usual}".strip()
    )
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
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if not match or not float(match[1]):
        raise ValueError(f"a time is given as 90s, 10m or 2h, got {text!r}")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def add_checkpoints(verb: Any) -> None:
    """`--resume` and how much work may be lost."""
    verb.add_argument("--resume", action="store_true", help="continue an interrupted run")
    verb.add_argument(
        "--checkpoint-every",
        metavar="TIME",
        help="checkpoint interval, such as 30s or 10m: a killed run loses at most that "
        "(2s, or 20 times what saving takes where that is longer)",
    )


def checkpoint_seconds(args: argparse.Namespace) -> float | None:
    """What was given, in seconds."""
    return None if args.checkpoint_every is None else seconds(args.checkpoint_every)


@contextmanager
def ending_when_asked() -> Iterator[None]:
    """SIGTERM, which a cluster sends before it kills, is taken as Ctrl-C, with its own status."""
    if threading.current_thread() is not threading.main_thread():
        yield  # where signals cannot be handled
        return
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if not asked:
            asked = True
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, ask)
    try:
        yield
    except KeyboardInterrupt:
        if not asked:
            raise
        print("labelset: stopped by SIGTERM; go on with --resume", file=sys.stderr)
        raise SystemExit(ASKED) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def writable(path: str) -> None:
    """Before hours of work: that its result can be written."""
    folder = Path(path).resolve().parent
    if Path(path).is_dir() or not os.access(folder, os.W_OK):
        raise ValueError(f"cannot write to {path}")


@contextmanager
def replacing(run: Path, force: bool) -> Iterator[None]:
    """With `force` what a comparison left in `run` makes room, and comes back if the work fails.

    Whatever else lies there is the user's, and stays.
    """
    if not (force and (run / "plan.json").is_file()):
        yield
        return
    if Path.cwd().is_relative_to(run.resolve()):
        raise ValueError(f"{run}: --force replaces the folder, and this runs in it; go elsewhere")
    run = run.resolve()
    aside = run.with_name(f".{run.name}.{os.getpid()}")
    with folder_lock(run):
        run.rename(aside)
    run.mkdir()  # a link to it stays one
    (aside / ".lock").unlink(missing_ok=True)
    try:
        yield
    except Exception:
        shutil.rmtree(run, ignore_errors=True)
        aside.rename(run)
        raise
    except KeyboardInterrupt:
        if (run / "work").is_dir():  # the new one was begun, and can be resumed
            _replaced(aside, run)
        else:
            shutil.rmtree(run, ignore_errors=True)
            aside.rename(run)
        raise
    _replaced(aside, run)


def _replaced(aside: Path, run: Path) -> None:
    for path in aside.iterdir():
        if path.name not in WRITTEN:
            path.rename(run / path.name)
    shutil.rmtree(aside)
