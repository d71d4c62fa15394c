"""What people see: progress and phases on one line, notes above it, tables that fit, colour.

Only a terminal is treated so. What goes into a file or a pipe is never cut, wrapped or coloured.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

BLOCKS = 30
"""How many characters wide the bar itself is, where the terminal has room for it."""
CERTAIN = 0.01
"""The share that must be done before the pace so far tells the time left."""
NAME = 24
"""Characters that names in a table keep, before columns are left out for their sake."""
BOLD = "1"
"""The code of bold letters."""

Listener = Callable[[str], None]

_listener: Listener | None = None
_bar: ProgressBar | None = None


@contextmanager
def listening(listener: Listener | None) -> Iterator[None]:
    """Phases are told to this, and to nobody else, meanwhile."""
    global _listener
    before, _listener = _listener, listener
    try:
        yield
    finally:
        _listener = before


def phase(text: str) -> None:
    """What is done from now on, told to whoever waits for it: `reading a.csv`, `proving`, ..."""
    if _listener is not None:
        _listener(text)


class ProgressBar:
    """One line on standard error, never wider than the terminal, with the time left.

    Shown by a verb it also names phases, with what is left of a budget of seconds. It is cleared
    by blanks rather than by escape codes, so that it works on any terminal.
    """

    def __init__(self, budget: float | None = None) -> None:
        self.budget = budget
        self.begin()
        self.start = self.begun
        self.latest: tuple[float, float] | None = None

    def __call__(self, done: float, total: float, text: str = "") -> None:
        """Draws how much is done, and `text` after it; nothing once all is."""
        if done >= total:
            self.latest = None
            self.clear()
            return
        self.latest = done, total
        left = self._left(done, total)
        shown = f"{done:,}/{total:,}" if isinstance(done, int) else f"{done / total:.0%}"
        facts = ", ".join(filter(None, (shown, left)))
        room = max(min(BLOCKS, _columns() // 4, _columns() - len(facts) - 3), 0)
        filled = int(room * done / total)
        self._draw(f"[{'#' * filled}{'.' * (room - filled)}] {facts}  {printable(text)}")

    def begin(self, done: float = 0.0) -> None:
        """So much is done already, by an earlier start; the pace is counted from now on."""
        self.first, self.begun = done, time.perf_counter()

    def phase(self, text: str) -> None:
        """Names what is done now, where nobody counts how much of it is."""
        if self.latest is not None:
            self(*self.latest, text)
            return
        left = "" if self.budget is None else self._left()
        self._draw(f"{printable(text)} ...{left and f' {left}'}")

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Names phases meanwhile, makes room for notes, and leaves an empty line at the end."""
        global _bar
        before, _bar = _bar, self
        with listening(self.phase):
            try:
                yield
            finally:
                _bar = before
                self.clear()

    def clear(self) -> None:
        """Makes room for what is printed next."""
        print(self._blank(), end="", file=sys.stderr, flush=True)

    def _left(self, done: float = 0.0, total: float = 0.0) -> str:
        """The time left by the pace so far, and never more than is left of the budget."""
        new, now = done - self.first, time.perf_counter()
        certain = new > 0 and new >= CERTAIN * total
        times = [(now - self.begun) / new * (total - done)] if certain else []
        if self.budget is not None and now - self.start < self.budget:
            times.append(self.budget - (now - self.start))
        return f"{minutes(min(times))} left" if times else ""

    def _draw(self, line: str) -> None:
        shown = line.rstrip()[: _columns()]
        print(f"{self._blank()}{shown}", end="", file=sys.stderr, flush=True)

    def _blank(self) -> str:
        return f"\r{' ' * _columns()}\r"


@contextmanager
def progress(wanted: bool, budget: float | None = None) -> Iterator[ProgressBar | None]:
    """The display of a verb: a bar where standard error is a terminal and it is wanted."""
    if not (wanted and sys.stderr.isatty()):
        yield None
        return
    bar = ProgressBar(budget=budget)
    with bar.shown():
        yield bar


def note(text: str) -> None:
    """A line on standard error, above what is shown there."""
    if _bar is not None:
        _bar.clear()
    room = _columns() if sys.stderr.isatty() else len(text)
    print("\n".join(_wrapped(line, room) for line in text.split("\n")), file=sys.stderr)


def minutes(seconds: float) -> str:
    """As a clock shows them.

    >>> minutes(7.2), minutes(95), minutes(4647)
    ('0:07', '1:35', '1:17:27')
    """
    whole, rest = divmod(round(seconds), 60)
    hours, whole = divmod(whole, 60)
    return f"{hours}:{whole:02d}:{rest:02d}" if hours else f"{whole}:{rest:02d}"


def _columns() -> int:
    """How many characters fit: the last column is left out, since some terminals wrap there."""
    return max(shutil.get_terminal_size().columns - 1, 1)


def width() -> int | None:
    """How many characters a line of standard output may have; None: it is not a terminal."""
    return _columns() if sys.stdout.isatty() else None


def printable(text: str) -> str:
    """Label names are data: what would move the cursor or ring the bell is shown escaped."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def styled(text: str, code: str) -> str:
    """In colour, or bold, on a terminal that shows it to someone who has not declined it."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb"
    return text if plain or width() is None else f"\x1b[{code}m{text}\x1b[0m"


def wrapped(text: str) -> str:
    """Broken between words where a terminal is narrower; what follows a name and two blanks, or
    is set in, stays so.

    >>> wrapped("rows  2,407")
    'rows  2,407'
    """
    room = width()
    if room is None:
        return text
    return "\n".join(_wrapped(line, room) for line in text.split("\n"))


def _wrapped(line: str, room: int) -> str:
    if len(line) <= room:
        return line
    named, blanks = re.match(r"\s*\S+(?: \S+)*?  +", line), len(line) - len(line.lstrip())
    hang = named.end() if named and named.end() <= NAME else blanks and blanks + 2
    return textwrap.fill(
        line, room, subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False
    )


def next_command(verb: str, *words: str) -> None:
    """What to do next, as a note: a command that can be copied."""
    print(f"next: {shlex.join(['labelset', verb, *words])}", file=sys.stderr)


def table(
    rows: Sequence[Sequence[str]],
    left: tuple[int, ...] = (0,),
    heads: int = 1,
    marked: int | None = None,
) -> str:
    """Columns of text, those in `left` flushed left, the others right; `heads` rows are the head.

    The row with the number `marked` is bold. Where a terminal is too narrow, notes in the last
    column go on in the next line, names are cut, and then the last columns are left out: put the
    least important ones there.
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    room = width()
    if room is None:
        return "\n".join(_lines(cells, left))
    last, notes = len(cells[0]) - 1, [""] * len(cells)
    if last and last in left:
        cells, notes = [row[:-1] for row in cells], [row[-1] for row in cells]
    longest = max(map(len, notes))
    narrow = room - min(longest, NAME) - 2 if longest else room
    _cut(cells, left, narrow, NAME)
    left_out: list[str] = []
    while len(cells[0]) > 2 and _needed(cells) > narrow:
        left_out.insert(0, " ".join(row[-1].strip() for row in cells[:heads]).strip())
        cells = [row[:-1] for row in cells]
    _cut(cells, left, narrow, 1)
    margin = " " * (_needed(cells) + 2)
    shown = []
    for number, (line, note) in enumerate(zip(_lines(cells, left), notes, strict=True)):
        own = textwrap.wrap(note, max(room - len(margin), 1)) or [""]
        parts = [f"{line:{len(margin)}}{own[0]}".rstrip(), *(f"{margin}{part}" for part in own[1:])]
        shown += [styled(part, BOLD) for part in parts] if number == marked else parts
    if left_out:
        shown.append(wrapped(f"(no room for {', '.join(left_out)})"))
    return "\n".join(shown)


def _lines(cells: Sequence[Sequence[str]], left: tuple[int, ...]) -> list[str]:
    widths = _widths(cells)
    return [
        "  ".join(
            cell.ljust(size) if i in left else cell.rjust(size)
            for i, (cell, size) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def _widths(cells: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*cells, strict=True)]


def _needed(cells: Sequence[Sequence[str]]) -> int:
    """Characters of the longest line."""
    return sum(_widths(cells)) + 2 * len(cells[0]) - 2


def _cut(cells: list[list[str]], left: tuple[int, ...], room: int, least: int) -> None:
    """Shortens names in the middle, the widest column first, where that makes lines fit."""
    while (over := _needed(cells) - room) > 0:
        widths = _widths(cells)
        at = max((i for i in left if i < len(widths)), key=lambda i: widths[i], default=-1)
        if at < 0 or widths[at] <= least:
            return
        for row in cells:
            row[at] = shortened(row[at], max(widths[at] - over, least))


def shortened(name: str, most: int) -> str:
    """A name in so many characters: its middle is left out.

    >>> shortened("bce+text:model=minilm", 12)
    'bce+te~inilm'
    """
    if len(name) <= most:
        return name
    end = (most - 1) // 2
    return f"{name[: most - 1 - end]}~{name[len(name) - end :]}"
