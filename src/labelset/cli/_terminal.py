"""What verbs share: a progress bar, a table, and a look at where results will go."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from labelset.train._lock import alone

__all__ = ["bar", "printable", "replacing", "table", "writable"]


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


@contextmanager
def replacing(run: Path, force: bool) -> Iterator[None]:
    """With `force` what `run` holds makes room, and comes back if the work fails."""
    if not (force and (run / "plan.json").is_file()):
        yield
        return
    aside = run.with_name(f".{run.name}.{os.getpid()}")
    with alone(run):
        run.rename(aside)
    (aside / ".lock").unlink(missing_ok=True)
    try:
        yield
    except Exception:
        shutil.rmtree(run, ignore_errors=True)
        aside.rename(run)
        raise
    except KeyboardInterrupt:
        if (run / "work").is_dir():  # the new one was begun, and can be resumed
            shutil.rmtree(aside)
        else:
            shutil.rmtree(run, ignore_errors=True)
            aside.rename(run)
        raise
    shutil.rmtree(aside)


def printable(text: str) -> str:
    """Label names are data: what would move the cursor or ring the bell is shown escaped."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def table(rows: list[list[str]], left: tuple[int, ...] = (0,)) -> str:
    """Columns of text, those in `left` flushed left, the others right. Row 0 is the head."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
