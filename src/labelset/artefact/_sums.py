"""Checksums of files, taken while they are written and looked at when they are read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import IO

__all__ = ["Write", "file_sum", "summed"]

Write = Callable[[IO[bytes]], object]


def file_sum(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def summed(name: str, write: Write, sums: dict[str, str]) -> Write:
    """The same writer; `sums[name]` becomes the checksum of what it wrote."""

    def both(file: IO[bytes]) -> None:
        write(file)
        file.seek(0)
        sums[name] = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]

    return both
