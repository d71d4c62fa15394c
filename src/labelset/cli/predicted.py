"""What predictions are written as: lines of JSON, CSV or TSV, text to read, Parquet, or arrays.

A form makes a part of some rows, wherever they were scored, and writes all parts to a file.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from labelset.terminal import printable

if TYPE_CHECKING:
    from torch import Tensor

    from labelset.model import Reason

ENDINGS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".txt": "text",
    ".parquet": "parquet",
    ".npz": "npz",
    ".npy": "npy",
}
"""What the name of a file ends in -> what is written."""
READABLE = ("jsonl", "csv", "tsv", "text")
"""What can go to standard output."""


@dataclass(frozen=True)
class Predicted:
    """Some rows, of which the first has the number `first`."""

    first: int
    names: Sequence[str]
    """Of all labels."""
    ids: Sequence[str] | None
    sets: list[list[int]]
    """The labels of each row."""
    p: Tensor
    """(rows, labels) probabilities."""
    reasons: list[list[Reason]] | None = None
    """Of each row those of its labels, where they were asked for."""

    def rows(self) -> Iterator[tuple[int, str | None, list[int], list[float], list[Reason]]]:
        """Number, id, labels, their probabilities and the reasons for them, row by row."""
        for i, on in enumerate(self.sets):
            chances = [round(x, 6) for x in self.p[i, on].tolist()]
            name = None if self.ids is None else self.ids[i]
            yield self.first + i, name, on, chances, self.reasons[i] if self.reasons else []


def ending(out: str) -> str | None:
    """What the name of a file asks for; None: it does not say.

    >>> ending("new.CSV"), ending("new")
    ('csv', None)
    """
    return ENDINGS.get(Path(out.lower()).suffix)


def as_lines(rows: Predicted, kind: str) -> str:
    """JSON lines, CSV, TSV or text to read; the head of a table before its first row."""
    write = {"jsonl": _json, "text": _text}.get(kind)
    if write is not None:
        return write(rows)
    line = _line("\t" if kind == "tsv" else ",")
    name, why = [] if rows.ids is None else ["id"], [] if rows.reasons is None else ["why"]
    head = ["row", *name, "labels", "probabilities", *why]
    return "".join([line(head) if rows.first == 0 else "", *map(line, _cells(rows))])


def _json(rows: Predicted) -> str:
    lines = []
    for number, name, on, chances, reasons in rows.rows():
        item: dict[str, Any] = {"row": number} | ({} if name is None else {"id": name})
        item |= {"labels": on, "names": [rows.names[j] for j in on], "probabilities": chances}
        item |= {} if rows.reasons is None else {"why": [each.as_json() for each in reasons]}
        lines.append(json.dumps(item, ensure_ascii=False) + "\n")
    return "".join(lines)


def _text(rows: Predicted) -> str:
    """A row, and below it a line for each label."""
    lines = []
    for number, name, on, chances, reasons in rows.rows():
        lines.append(f"row {number}" if name is None else f"row {number}, {name}")
        why = [f": {reason.sum_of_terms()}" for reason in reasons] or [""] * len(on)
        lines += [
            f"  {rows.names[j]}, probability {chance:.3f}{each}"
            for j, chance, each in zip(on, chances, why, strict=True)
        ]
        lines += [] if on else ["  no label"]
    return "".join(f"{printable(line)}\n" for line in lines)


def _cells(rows: Predicted) -> Iterator[list[Any]]:
    for number, name, on, chances, reasons in rows.rows():
        cells = [] if name is None else [name]
        cells += ["|".join(_escaped(rows.names[j]) for j in on), "|".join(map(str, chances))]
        if rows.reasons is not None:
            cells.append("|".join(_escaped(each.sum_of_terms()) for each in reasons))
        yield [number, *map(_safe, cells)]


def _escaped(part: str) -> str:
    return re.sub(r"([\\|])", r"\\\1", part)


def _safe(cell: str) -> str:
    """Not to be taken for a formula by a spreadsheet; one ' comes off again on reading."""
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@", "'", "\t", "\r")) else cell


def _line(delimiter: str) -> Any:
    def line(cells: list[Any]) -> str:
        text = io.StringIO()
        csv.writer(text, delimiter=delimiter, lineterminator="\n").writerow(cells)
        return text.getvalue()

    return line


# ---- files that are no text ----------------------------------------------------------------------


def as_columns(rows: Predicted) -> dict[str, list[Any]]:
    """Columns of a Parquet file; labels by their names."""
    columns: dict[str, list[Any]] = {"row": [], "id": [], "labels": [], "probabilities": []}
    why = []
    for number, name, on, chances, reasons in rows.rows():
        each = (number, name, [rows.names[j] for j in on], chances)
        for column, value in zip(columns.values(), each, strict=True):
            column.append(value)
        why.append([reason.sum_of_terms() for reason in reasons])
    if rows.ids is None:
        del columns["id"]
    return columns | ({} if rows.reasons is None else {"why": why})


def write_parquet(parts: Iterable[dict[str, list[Any]]], file: IO[bytes]) -> None:
    """Part by part: memory holds one."""
    import pyarrow as pa
    from pyarrow import parquet

    strings = pa.list_(pa.string())
    kinds = {"row": pa.int64(), "id": pa.string(), "labels": strings, "why": strings}
    writer = None
    for part in parts:
        if writer is None:
            fields = {name: kinds.get(name, pa.list_(pa.float64())) for name in part}
            schema = pa.schema(list(fields.items()))
            writer = parquet.ParquetWriter(file, schema)
        writer.write_table(pa.table(part, schema=schema))
    if writer is not None:
        writer.close()


def as_arrays(rows: Predicted) -> dict[str, Any]:
    """Label sets as 0 and 1, probabilities, ids."""
    import numpy as np

    on = np.zeros((len(rows.sets), len(rows.names)), dtype=np.uint8)
    for i, labels in enumerate(rows.sets):
        on[i, labels] = 1
    arrays = {"labels": on, "probabilities": rows.p.float().cpu().numpy()}
    return arrays | ({} if rows.ids is None else {"ids": np.array(rows.ids, dtype=np.str_)})


def write_arrays(
    parts: Iterable[dict[str, Any]], file: IO[bytes], names: Sequence[str], kind: str
) -> None:
    """An .npz of all of it with the names of labels, or an .npy of the label sets alone."""
    import numpy as np

    held = [*parts]
    whole = {key: np.concatenate([part[key] for part in held]) for key in held[0]}
    if kind == "npy":
        np.save(file, whole["labels"])
    else:
        np.savez(file, **whole, names=np.array(names, dtype=np.str_))  # type: ignore[arg-type]
