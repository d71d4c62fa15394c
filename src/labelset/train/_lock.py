"""One process at a time in a folder."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows, where nothing is locked
    fcntl = None  # type: ignore[assignment]

__all__ = ["Busy", "alone", "unlock_below"]

FILE = ".lock"
PATIENCE = 3.0
"""Seconds until a folder counts as busy: workers of a killed process end within one."""


class Busy(RuntimeError):
    """Another process is at work in the folder."""


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Nobody else is in here, or `Busy` says who is.

    The system gives the lock back when its holder ends, however that comes about, so that a file
    left by a killed process locks nobody out.
    """
    if fcntl is None:
        yield
        return
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder}: is a file; give a folder")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    held = _acquired(path)
    try:
        with suppress(OSError):  # only what `Busy` tells others, and the disk may be full
            os.ftruncate(held, 0)
            os.pwrite(held, str(os.getpid()).encode(), 0)
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(held)


def unlock_below(folder: Path) -> None:
    """Remove the files that workers which were ended have left; they lock nobody out any more."""
    for left in folder.rglob(f"*/{FILE}"):
        left.unlink(missing_ok=True)


def _acquired(path: Path) -> int:
    """The open file, locked; it is the one at `path`, not one that its last holder removed."""
    until = time.monotonic() + PATIENCE
    while True:
        opened = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(opened, path):
                return opened
        except BlockingIOError:
            if time.monotonic() > until:
                who = os.pread(opened, 20, 0).decode("ascii", "replace") or "unknown"
                os.close(opened)
                raise Busy(
                    f"{path.parent}: another process is at work here (its id is {who}); wait for "
                    "it to end, or choose another folder"
                ) from None
            time.sleep(0.05)
        except OSError:
            return opened  # a file system without locks
        os.close(opened)


def _is_at(opened: int, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    held = os.fstat(opened)
    return (held.st_dev, held.st_ino) == (there.st_dev, there.st_ino)
