"""CSV row by row: what pyarrow refuses, or would misread, is read here, and the line is named.

pyarrow takes a quote that is never closed for one long cell, gives no row for a bad number, and is
slow where there are very many columns.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from labelset.data.columns import is_full
from labelset.data.label_column import TRUTH
from labelset.data.reading import as_number, kind_of, lines

Array = np.ndarray[Any, Any]
LONGEST = 1 << 24
"""Letters of the longest cell, and bytes of the longest row but one with quotes."""
SEPARATORS = (",", ";", "\t", "|")
NO_NUMBERS = (
    "if it is no feature, list it in ignore_columns or say what it is (category_columns, "
    "date_columns, label_columns, text_column, ...)"
)
MISSING = frozenset(cell for cell, value in TRUTH.items() if value != value)
TOO_LONG = (
    f"a row is longer than {LONGEST >> 20} MB, the most that is read, or a quote that opens in it "
    "is never closed"
)


def first_rows(path: Path, separator: str | None) -> tuple[list[str], list[str]]:
    """The names of the columns and the first row below them."""
    separator = separator or ("\t" if kind_of(path) == "tsv" else ",")
    rows = (row for _, row in rows_of(lines(path), separator))
    return [cell.strip() for cell in next(rows, [])], next(rows, [])


def parser(text: Iterable[str], separator: str, *, strict: bool = True) -> Any:
    """Python's own, of cells as long as are read here."""
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST))
    return csv.reader(text, delimiter=separator, strict=strict)


def rows_of(text: Iterable[str], separator: str, before: int = 0) -> Iterator[tuple[int, Any]]:
    """(line, cells) of each row that is not empty; `before`: how many lines came before.

    >>> list(rows_of(['a,"b\\n', 'c"\\n', "\\n", "d,e\\n"], ","))
    [(2, ['a', 'b\\nc']), (4, ['d', 'e'])]
    """
    reader, start = parser(text, separator), before + 1
    try:
        for row in reader:
            if row:
                yield before + reader.line_num, row
            start = before + reader.line_num + 1
    except csv.Error as error:
        line = before + reader.line_num
        if "unexpected end" in str(error):
            raise ValueError(
                f"line {start}: a quote that opens in this row is never closed; "
                + ("close it, or write it twice where it belongs to the text")
            ) from None
        if "field limit" in str(error):
            raise ValueError(f"line {start}: {TOO_LONG}") from None
        if "new-line character" in str(error):
            raise ValueError(
                f"line {line}: a line ends in a carriage return alone; end lines as usual "
                "(tr '\\r' '\\n' < OLD > NEW)"
            ) from None
        where = f", in the row that starts in line {start}: is a quote open?" * (start < line)
        if "expected after" in str(error):
            raise ValueError(
                f"line {line}: a quoted cell goes on after its closing quote{where}; write a quote "
                'that belongs to the text twice, ""'
            ) from None
        raise ValueError(f"line {line}: {error}{where}") from None


def blocks(
    rows: Iterable[tuple[int, list[str]]],
    names: Sequence[str],
    features: Sequence[int],
    decimal: str = ".",
) -> Iterator[tuple[list[int], list[list[str]], Array | None]]:
    """(lines, rows, features as numbers) of some rows at a time."""
    at, some, numbers, letters = list[int](), list[list[str]](), list[list[float]](), 0
    for line, row in rows:
        if len(row) != len(names):
            raise ValueError(f"line {line}: expected {len(names)} cells, got {len(row)}")
        cells = [row[place].replace(decimal, ".") for place in features]
        try:
            if "_" in "".join(cells):
                raise ValueError
            numbers.append(list(map(float, cells)))
        except ValueError:  # something is missing or no number: look at each
            each = zip(cells, features, strict=True)
            numbers.append([_number(cell, names[place], line) for cell, place in each])
        at.append(line)
        some.append(row)
        letters += len(names) if len(cells) == len(row) else sum(map(len, row))
        if is_full(len(at), letters):
            yield at, some, np.array(numbers) if features else None
            at, some, numbers, letters = [], [], [], 0
    if at:
        yield at, some, np.array(numbers) if features else None


def _number(cell: str, name: str, line: int) -> float:
    if cell.strip().lower() in MISSING:
        return float("nan")
    try:
        return as_number(cell.strip())
    except ValueError:
        raise ValueError(
            f"line {line}: column {name!r} must hold numbers, got {cell.strip()[:40]!r}; "
            f"{NO_NUMBERS}"
        ) from None
