"""Files that are there whole or not at all, whenever the process is killed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

__all__ = ["write_bytes", "write_with"]


def write_with(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Let `write` fill a file beside `path`, force it to disk, and put it in its place."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """The same for what is already in memory."""
    write_with(path, lambda file: file.write(content))
