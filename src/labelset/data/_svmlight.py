"""svmlight files with several labels per row, and the extreme-classification repository's.

Each line is `1,3 5:0.2 7:1`: labels, then feature:value pairs. A first line of three whole numbers
says how many rows, features and labels there are. Everything after a `#` is a comment.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from labelset.data._description import Description
from labelset.data._piece import Piece
from labelset.data._reading import reading
from labelset.data._sparse import SparseRows
from labelset.data._svmlight_rows import Rows, parsed
from labelset.data._vocabulary import names_in
from labelset.labels import Labels

__all__ = ["read"]


def read(paths: Sequence[Path], ask: Description, role: str) -> list[Piece]:
    """Features and labels; both are numbered from 0 or 1, which all files together show."""
    every = [parsed(path) for path in paths]
    headers = [rows.header for rows in every if rows.header]
    names = names_in(ask.label_names)
    given = len(names) if names else ask.labels if isinstance(ask.labels, int) else None
    width = max((h[1] for h in headers), default=ask.n_features)
    count = max((h[2] for h in headers), default=given)
    features, labels = [r.features for r in every], [r.labels for r in every]
    base, width, said = _numbering(features, ("features", "base", ask.base), width, headers)
    first, count, also = _numbering(
        labels, ("labels", "label_base", ask.label_base), count, headers
    )
    out = []
    for path, rows in zip(paths, every, strict=True):
        with reading(path):
            columns = _from_zero(rows, rows.features, rows.pairs, base, width, "feature")
            on = _from_zero(rows, rows.labels, rows.on, first, count, "label")
        x = SparseRows.from_csr(_starts(rows.pairs), columns, width, np.asarray(rows.values))
        y = Labels.from_csr(_starts(rows.on), on, count)
        kept = None if role == "features" and isinstance(ask.labels, str) else y
        out.append(Piece(path=path, rows=len(y), features=x, labels=kept, notes=(said, also)))
    return out


def _numbering(
    numbers: list[array[int]], key: tuple[str, str, int | None], count: int | None, headers: Any
) -> tuple[int, int, str]:
    """Number of the first one, how many there are, and a sentence that says so."""
    what, flag, forced = key
    held = [np.asarray(part) for part in numbers if len(part)]
    low = min((int(part.min()) for part in held), default=0)
    high = max((int(part.max()) for part in held), default=-1)
    if forced is not None:
        base, why = forced, "as told"
    elif low == 0 or not held:
        base, why = 0, "0 occurs" if held else "there are none"
    elif count is not None and high >= count:
        base, why = 1, f"the largest is {high}, there are {count}"
    elif headers:
        base, why = 0, f"as in files with a first line of sizes; {flag} = 1 forces 1"
    else:
        base, why = 1, f"0 does not occur; {flag} = 0 forces 0"
    total = max(high + 1 - base, 0) if count is None else count
    return base, total, f"{what} count from {base}: {why}"


def _from_zero(
    rows: Rows, numbers: array[int], lengths: list[int], base: int, count: int, what: str
) -> np.ndarray[Any, Any]:
    """Numbers counted from 0; the line of the first one out of range is named."""
    shifted = np.asarray(numbers) - base
    bad = (shifted < 0) | (shifted >= count)
    if bad.any():
        at = int(bad.argmax())
        line = rows.lines[int(np.searchsorted(np.cumsum(lengths), at, side="right"))]
        raise ValueError(
            f"line {line}: {what} numbers must lie in {base}..{count - 1 + base} "
            f"({count} of them, counted from {base}), got {numbers[at]}"
        )
    return shifted


def _starts(lengths: list[int]) -> np.ndarray[Any, Any]:
    return np.concatenate([[0], np.cumsum(np.array(lengths, dtype=np.int64))])
