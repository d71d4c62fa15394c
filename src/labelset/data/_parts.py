"""Train, valid and test: their names, their numbers, and the words that people use for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["PARTS", "part_numbers"]

PARTS = ("train", "valid", "test")
WORDS = {
    **dict.fromkeys(("0", "train", "training"), 0),
    **dict.fromkeys(("1", "valid", "validation", "val", "dev"), 1),
    **dict.fromkeys(("2", "test", "testing"), 2),
}


def part_numbers(
    values: Sequence[Any] | np.ndarray[Any, Any] | Tensor,
    lines: Sequence[int] | None = None,
    first: int = 0,
) -> Tensor:
    """(rows,) int8: 0 train, 1 valid, 2 test, from numbers or words; `lines`: where they stand,
    or `first`: the number of the first row.

    >>> part_numbers(["train", "dev", "TEST", 0])
    tensor([0, 1, 2, 0], dtype=torch.int8)
    """
    given = values.tolist() if isinstance(values, (np.ndarray, Tensor)) else list(values)
    numbers = [_number(value) for value in given]
    if None in numbers:
        at = numbers.index(None)
        where = f"row {first + at}" if lines is None else f"line {lines[at]}"
        raise ValueError(
            f"{where}: split must be train, valid or test (or 0, 1, 2), got {given[at]!r}"
        )
    return torch.tensor(numbers, dtype=torch.int8)


def _number(value: Any) -> int | None:
    word = value.decode(errors="replace") if isinstance(value, bytes) else value
    if isinstance(word, float) and word.is_integer():
        word = int(word)
    return None if isinstance(word, bool) else WORDS.get(str(word).strip().lower())
