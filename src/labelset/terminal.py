"""What people see while they wait: progress on one line, notes above it, and tables."""

from __future__ import annotations

import shutil
import sys
import time

BLOCKS = 30
"""How many characters wide the bar itself is, where the terminal has room for it."""


class ProgressBar:
    """One line on standard error, never wider than the terminal, with the time left.

    It is cleared by blanks rather than by escape codes, so that it works on any terminal.
    """

    def __init__(self, done: float = 0.0) -> None:
        self.first, self.start = done, time.perf_counter()

    def __call__(self, done: float, total: float, text: str = "") -> None:
        """Draws how much is done, and `text` after it; nothing once all is."""
        if done >= total:
            self.clear()
            return
        pace = (time.perf_counter() - self.start) / max(done - self.first, 1e-9)
        left = f"{pace * (total - done):.0f} s left" if done > self.first else ""
        shown = f"{done:,}/{total:,}" if isinstance(done, int) else f"{done / total:.0%}"
        facts = ", ".join(filter(None, (shown, left)))
        room = max(min(BLOCKS, _columns() - len(facts) - 3), 0)
        filled = int(room * done / total)
        bar = f"[{'#' * filled}{'.' * (room - filled)}] {facts}  {printable(text)}".rstrip()
        print(f"{self._blank()}{bar[: _columns()]}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Makes room for what is printed next."""
        print(self._blank(), end="", file=sys.stderr, flush=True)

    def _blank(self) -> str:
        return f"\r{' ' * _columns()}\r"


def _columns() -> int:
    """How many characters fit: the last column is left out, since some terminals wrap there."""
    return max(shutil.get_terminal_size().columns - 1, 1)


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
