"""Rows as a table for the terminal, and as the tables of a page, made from a CSV."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from labelset.bench._case import shape
from labelset.bench._row import Row, read_rows

__all__ = ["filled", "lines", "markdown"]

HEAD = "loss implementation shape dtype timing p20 p50 p80 xfloor xlogits value gradient note"
PLACE = re.compile(
    r"(<!-- bench (\S+) (\d+x\d+) (\S+) (dense|float|sparse) (.+?) -->\n).*?(<!-- end bench -->)",
    re.S,
)


def lines(rows: Iterable[Row]) -> list[list[str]]:
    """Cells of the table, its head first: milliseconds, ratios, errors."""
    return [HEAD.split(), *(_cells(row) for row in rows)]


def _cells(row: Row) -> list[str]:
    what = [row.loss, row.implementation, f"{row.rows}x{row.labels}", row.dtype, row.timing]
    times = [_number(x) for x in (row.p20_ms, row.p50_ms, row.p80_ms)]
    ratios = [_number(x) for x in (row.ratio_to_floor, row.peak_over_logits)]
    wrong = ["" if x is None else f"{x:.0e}" for x in (row.value_error, row.gradient_error)]
    return [*what, *times, *ratios, *wrong, row.note]


def _number(x: float | None) -> str:
    return "" if x is None else f"{x:.3g}" if x < 100 else f"{x:,.0f}"


def markdown(rows: Iterable[Row]) -> str:
    """Losses down, implementations across: median milliseconds, and as a multiple of the floor.

    Where torch's bce was measured by turns with it, as a multiple of that.

    >>> case = {"rows": 2, "labels": 3, "dtype": "float32", "device": "cpu", "density": 0.5}
    >>> kinds = {"label_kind": "dense", "timing": "wall clock"}
    >>> found = {"p50_ms": 2.0, "ratio_to_floor": 8.0}
    >>> one = Row(loss="bce", implementation="eager", **case, **kinds, **found)
    >>> print(markdown([one]))
    | loss | eager |
    |---|---:|
    | `bce` | 2 ms, 8 x |
    """
    kept = list(rows)
    across = list(dict.fromkeys(row.implementation for row in kept))
    cells = {(row.loss, row.implementation): _cell(row) for row in kept}
    head = "| loss | " + " | ".join(across) + " |\n|---|" + "---:|" * len(across)
    body = [
        f"| `{loss}` | " + " | ".join(cells.get((loss, name), "") for name in across) + " |"
        for loss in dict.fromkeys(row.loss for row in kept)
    ]
    return "\n".join([head, *body])


def _cell(row: Row) -> str:
    if row.p50_ms is None or row.ratio_to_floor is None:
        return "out of memory" if row.note == "out of memory" else "-"
    wrong = ", wrong" if row.note.startswith("WRONG") else ""
    ratio = f"{_number(row.ratio_to_floor)} x"
    if row.bce_ms is not None:
        ratio = f"{row.p50_ms / row.bce_ms:.2f} x bce"
    return f"{_number(row.p50_ms)} ms, {ratio}{wrong}"


def filled(page: str, folder: Path) -> str:
    """A page with every table between its marks made anew from the CSV in `folder`.

    A mark is `<!-- bench losses_cpu.csv 512x80 float32 dense wall clock -->`; where the file does
    not exist, the page says so.
    """
    return PLACE.sub(lambda found: f"{found[1]}{_made(found, folder)}\n{found[7]}", page)


def _made(found: re.Match[str], folder: Path) -> str:
    file, size, dtype, kind, timing = found.group(2, 3, 4, 5, 6)
    if not (folder / file).is_file():
        return f"There is no {file} yet."
    want = (*shape(size), dtype, kind, timing)
    rows = [
        row
        for row in read_rows(folder / file)
        if (row.rows, row.labels, row.dtype, row.label_kind, row.timing) == want
    ]
    if timing == "synchronised":
        rows = [row for row in rows if row.bce_ms is not None]  # the pace of a host is no constant
    if not rows:
        return f"{file} has no figures for {size}, {dtype}, {kind}, {timing}."
    return f"{rows[0].device_name}, torch {rows[0].torch}:\n\n{markdown(rows)}"
