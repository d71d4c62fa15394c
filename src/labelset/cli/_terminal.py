"""What verbs share: a progress bar, a table, and a look at where results will go."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["bar", "table", "writable"]


def writable(path: str) -> None:
    """Before hours of work: that its result can be written."""
    folder = Path(path).resolve().parent
    if Path(path).is_dir() or not os.access(folder, os.W_OK):
        raise ValueError(f"cannot write to {path}")


def bar() -> Callable[[int, int], None]:
    """A progress bar on the terminal, with the time left."""
    start = time.perf_counter()

    def show(done: int, total: int) -> None:
        left = (time.perf_counter() - start) / max(done, 1) * (total - done)
        filled = 30 * done // max(total, 1)
        line = f"\r[{'#' * filled}{'.' * (30 - filled)}] {done:,}/{total:,}, {left:.0f} s left "
        print(line, end="" if done < total else "\r" + " " * len(line) + "\r", file=sys.stderr)

    return show


def table(rows: list[list[str]], left: int = 1) -> str:
    """Columns of text; the first `left` are flushed left, the others right. Row 0 is the head."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(
            c.ljust(w) if i < left else c.rjust(w)
            for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join(lines)
