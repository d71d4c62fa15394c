"""Train, valid and test: their names, their numbers, and the words that people use for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["PARTS", "part_numbers"]

Array = np.ndarray[Any, Any]

PARTS = ("train", "valid", "test")
WORDS = {
    **dict.fromkeys(("0", "train", "training"), 0),
    **dict.fromkeys(("1", "valid", "validation", "val", "dev"), 1),
    **dict.fromkeys(("2", "test", "testing"), 2),
}
ROWS = 1 << 14
"""Rows of an array that are taken out of it together."""


def part_numbers(
    values: Sequence[Any] | Array | Tensor,
    lines: Sequence[int] | None = None,
    first: int = 0,
) -> Tensor:
    """(rows,) int8: 0 train, 1 valid, 2 test, from numbers or words; `lines`: where they stand,
    or `first`: the number of the first row.

    >>> part_numbers(["train", "dev", "TEST", 0])
    tensor([0, 1, 2, 0], dtype=torch.int8)
    """
    if not isinstance(values, (np.ndarray, Tensor)) or not values.ndim:
        plain = values.tolist() if isinstance(values, (np.ndarray, Tensor)) else list(values)
        return torch.from_numpy(_numbers(plain, lines, first))
    out = np.empty(len(values), dtype=np.int8)
    for start in range(0, len(values), ROWS):  # never all rows as objects
        block = values[start : start + ROWS].tolist()
        where = None if lines is None else lines[start : start + ROWS]
        out[start : start + len(block)] = _numbers(block, where, first + start)
    return torch.from_numpy(out)


def _numbers(given: list[Any], lines: Sequence[int] | None, first: int) -> Array:
    numbers = [_number(value) for value in given]
    if None in numbers:
        at = numbers.index(None)
        where = f"row {first + at}" if lines is None else f"line {lines[at]}"
        raise ValueError(
            f"{where}: split must be train, valid or test (or 0, 1, 2), got {given[at]!r}"
        )
    return np.array(numbers, dtype=np.int8)


def _number(value: Any) -> int | None:
    word = value.decode(errors="replace") if isinstance(value, bytes) else value
    if isinstance(word, float) and word.is_integer():
        word = int(word)
    return None if isinstance(word, bool) else WORDS.get(str(word).strip().lower())
