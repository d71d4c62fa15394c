"""Rows of the benchmark: a tidy CSV, a table for the terminal, a picture."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from labelset.charts import COLOURS, Dot, Line, Panel, svg
from labelset.files import write_bytes


@dataclass(frozen=True, kw_only=True)
class BenchRow:
    """What one implementation of one loss took on one shape; None where there is no figure."""

    loss: str
    implementation: str
    rows: int
    labels: int
    dtype: str
    device: str
    label_kind: str
    """`dense`: a bool matrix; `sparse`: `Labels`."""
    density: float
    """The expected share of labels that are on."""
    timing: str
    """`wall clock` and `synchronised`: one call at a time; `queued`: calls back to back."""
    samples: int | None = None
    p20_ms: float | None = None
    p50_ms: float | None = None
    p80_ms: float | None = None
    bce_ms: float | None = None
    """Synchronised only: the median of torch's bce on the same scores, by turns with this one."""
    first_call_ms: float | None = None
    floor_ms: float | None = None
    ratio_to_floor: float | None = None
    peak_bytes: int | None = None
    peak_over_logits: float | None = None
    value_error: float | None = None
    gradient_error: float | None = None
    checked_rows: int | None = None
    torch: str = ""
    triton: str = ""
    labelset: str = ""
    device_name: str = ""
    note: str = ""

    @property
    def key(self) -> tuple[Any, ...]:
        """What was measured: two rows with the same key are two measurements of one thing."""
        shape = self.rows, self.labels, self.dtype, self.device, self.label_kind, self.density
        return self.loss, self.implementation, *shape, self.timing


COLUMNS = tuple(f.name for f in fields(BenchRow))
KINDS = {f.name: str(f.type).removesuffix(" | None") for f in fields(BenchRow)}


def write_rows(path: str | Path, rows: Iterable[BenchRow]) -> None:
    """A CSV with a header; an absent figure is an empty cell."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    write_bytes(Path(path), text.getvalue().encode())


def read_rows(path: str | Path) -> list[BenchRow]:
    """The rows of a CSV that `write_rows` has written."""
    with Path(path).open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise ValueError(
                f"{path}: the columns are not those of this benchmark; measure into a new file"
            )
        return [_read(line, path, i) for i, line in enumerate(reader, 2)]


def _read(line: dict[str, Any], path: str | Path, number: int) -> BenchRow:
    try:
        return BenchRow(**{name: _cell(KINDS[name], cell) for name, cell in line.items()})
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{path}, line {number}: is not a row of this benchmark") from None


def _cell(kind: str, cell: str) -> Any:
    if kind == "str":
        return cell
    if not cell:
        return None
    return int(cell) if kind == "int" else float(cell)


def merged(old: Iterable[BenchRow], new: Iterable[BenchRow]) -> list[BenchRow]:
    """The old rows with what was measured again replaced, then what is new."""
    both = {row.key: row for row in old}
    both.update({row.key: row for row in new})
    return list(both.values())


HEAD = "loss implementation shape dtype timing p20 p50 p80 xfloor xlogits value gradient note"


def lines(rows: Iterable[BenchRow]) -> list[list[str]]:
    """Cells of the table, its head first: milliseconds, ratios, errors."""
    return [HEAD.split(), *(_cells(row) for row in rows)]


def _cells(row: BenchRow) -> list[str]:
    what = [row.loss, row.implementation, f"{row.rows}x{row.labels}", row.dtype, row.timing]
    times = [figure(x) for x in (row.p20_ms, row.p50_ms, row.p80_ms)]
    ratios = [figure(x) for x in (row.ratio_to_floor, row.peak_over_logits)]
    wrong = ["" if x is None else f"{x:.0e}" for x in (row.value_error, row.gradient_error)]
    return [*what, *times, *ratios, *wrong, row.note]


def figure(x: float | None) -> str:
    """A number as tables show it: three digits, or whole with commas."""
    return "" if x is None else f"{x:.3g}" if x < 100 else f"{x:,.0f}"


ACROSS = 4  # panels in a line
Key = tuple[int, int, str, str]


def plot(
    rows: Iterable[BenchRow], title: str = "Forward and backward, as a multiple of the floor"
) -> str:
    """A self-contained SVG; the dashed line is the floor, grey is the plain eager formula.

    Synchronised timings, which are about the latency of a call, are left out.
    """
    kept = [r for r in rows if r.ratio_to_floor and r.timing != "synchronised"]
    if not kept:
        raise ValueError("there is no figure to plot: every case failed; the notes say why")
    panels: dict[Key, list[BenchRow]] = {}
    for row in kept:
        panels.setdefault((row.rows, row.labels, row.dtype, row.label_kind), []).append(row)
    losses = list(dict.fromkeys(row.loss for row in kept))
    implementations = dict.fromkeys(row.implementation for row in kept)
    colours = {name: i for i, name in enumerate(n for n in implementations if n != "eager")}
    made = [
        _panel(key, inside, losses if i % ACROSS == 0 else [""] * len(losses), losses, colours)
        for i, (key, inside) in enumerate(panels.items())
    ]
    return svg(made, title, ACROSS)


def _panel(
    key: Key,
    rows: list[BenchRow],
    words: Sequence[str],
    losses: Sequence[str],
    colours: Mapping[str, int],
) -> Panel:
    """One panel; its axis goes from a power of ten to a power of ten, and has the floor on it."""
    ratios = [row.ratio_to_floor or 1.0 for row in rows]
    low = min(0, math.floor(math.log10(min(ratios))))
    high = max(low + 1, math.ceil(math.log10(max(ratios))))
    y = (len(losses) - 0.5, -0.5)
    marks: list[Line | Dot] = [Line([(0, y[0]), (0, y[1])], None)]
    for row, ratio in zip(rows, ratios, strict=True):
        name = row.implementation
        colour = colours.get(name)
        note = f"{row.loss}, {name}: {ratio:.3g} x the floor, {row.p50_ms:.3g} ms"
        hollow = colour is not None and colour >= len(COLOURS)
        marks.append(
            Dot(math.log10(ratio), losses.index(row.loss), colour, name, None, hollow, note)
        )
    return Panel(
        f"{key[0]:,} x {key[1]:,} {key[2]}" + (", sparse" if key[3] == "sparse" else ""),
        "",
        "",
        marks,
        (low, high),
        y,
        [(power, f"{10.0**power:g}") for power in range(low, high + 1)],
        list(enumerate(words)),
        grid="x",
        width=230,
        height=17 * len(losses),
    )
