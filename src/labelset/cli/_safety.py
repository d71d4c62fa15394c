"""What the verbs that train share: how often to save, and an end that was asked for."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from labelset.cli._training import seconds

__all__ = ["add_checkpoints", "checkpoint_seconds", "ending_when_asked"]

ASKED = 128 + 15
"""Exit status after SIGTERM, as shells have it."""


def add_checkpoints(verb: Any) -> None:
    """`--resume` and how much work may be lost."""
    verb.add_argument("--resume", action="store_true", help="go on where a stopped one ended")
    verb.add_argument(
        "--checkpoint-every",
        metavar="TIME",
        help="save training so often, such as 30s or 10m: at most that is lost when it is killed "
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
