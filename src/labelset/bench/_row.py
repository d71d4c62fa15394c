"""One line of the benchmark, and the tidy CSV of many."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from labelset._atomic import write_bytes

__all__ = ["COLUMNS", "Row", "merged", "read_rows", "write_rows"]


@dataclass(frozen=True, kw_only=True)
class Row:
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


COLUMNS = tuple(f.name for f in fields(Row))
KINDS = {f.name: str(f.type).removesuffix(" | None") for f in fields(Row)}


def write_rows(path: str | Path, rows: Iterable[Row]) -> None:
    """A CSV with a header; an absent figure is an empty cell."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    write_bytes(Path(path), text.getvalue().encode())


def read_rows(path: str | Path) -> list[Row]:
    """The rows of a CSV that `write_rows` has written."""
    with Path(path).open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise ValueError(
                f"{path}: the columns are not those of this benchmark; measure into a new file"
            )
        return [_read(line, path, i) for i, line in enumerate(reader, 2)]


def _read(line: dict[str, Any], path: str | Path, number: int) -> Row:
    try:
        return Row(**{name: _cell(KINDS[name], cell) for name, cell in line.items()})
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{path}, line {number}: is not a row of this benchmark") from None


def _cell(kind: str, cell: str) -> Any:
    if kind == "str":
        return cell
    if not cell:
        return None
    return int(cell) if kind == "int" else float(cell)


def merged(old: Iterable[Row], new: Iterable[Row]) -> list[Row]:
    """The old rows with what was measured again replaced, then what is new."""
    both = {row.key: row for row in old}
    both.update({row.key: row for row in new})
    return list(both.values())
