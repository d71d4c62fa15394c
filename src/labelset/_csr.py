"""Compressed sparse rows: the checks and small steps that `Labels` is made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor


def as_tensor(y: Any) -> Tensor:
    """A real tensor from a tensor, array or nested list."""
    try:
        t = y if isinstance(y, Tensor) else _from_array(np.asarray(y))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"labels must be a tensor, an array or Labels, got {type(y).__name__}: {error}"
        ) from None
    if t.is_complex():
        raise TypeError(f"labels must be bool, whole or floating-point numbers, got {t.dtype}")
    if t.device.type == "meta":
        raise ValueError("labels are on the meta device and hold no values")
    return t


def _from_array(array: np.ndarray[Any, Any]) -> Tensor:
    """Torch shares memory only with writable arrays and knows few unsigned types."""
    if array.dtype.kind == "u":
        array = array.astype(np.int64)
    return torch.as_tensor(np.require(array, requirements=["C", "W"]))


def pointers(rows: Tensor, count: int) -> Tensor:
    return cumulate(torch.bincount(rows, minlength=count))


def cumulate(lengths: Tensor) -> Tensor:
    return torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])


def plain(stored: Tensor) -> Tensor | None:
    """No values are kept when every stored entry is simply on."""
    return None if bool((stored == 1).all()) else stored


def ragged(name: str, rows: Iterable[Sequence[int]]) -> tuple[Tensor, Tensor]:
    lists = [list(row) for row in rows]
    flat = [label for row in lists for label in row]
    for label in flat:
        if isinstance(label, bool) or not isinstance(label, (int, np.integer)):
            raise TypeError(f"{name} must list label numbers, got {type(label).__name__} {label!r}")
    lengths = torch.tensor([len(row) for row in lists], dtype=torch.int64)
    return cumulate(lengths), torch.tensor([int(i) for i in flat], dtype=torch.int64)


def entries(
    pointer_name: str, index_name: str, indptr: Any, indices: Any, n: int
) -> tuple[Tensor, Tensor]:
    """Checked (row, label) pairs of a compressed sparse matrix."""
    starts, columns = as_tensor(indptr), as_tensor(indices)
    for name, t in ((pointer_name, starts), (index_name, columns)):
        if t.ndim != 1 or (t.numel() and (t.is_floating_point() or t.dtype == torch.bool)):
            raise TypeError(f"{name} must be 1-D whole numbers, got {t.dtype} {tuple(t.shape)}")
    starts, columns = starts.long(), columns.long()
    lengths = starts.diff()
    if len(starts) == 0 or starts[0] != 0 or starts[-1] != len(columns):
        raise ValueError(f"{pointer_name} must run from 0 to {len(columns)}, the stored entries")
    if bool((lengths < 0).any()):
        raise ValueError(f"{pointer_name} must never fall")
    rows = torch.repeat_interleave(torch.arange(len(lengths), device=columns.device), lengths)
    bad = (columns < 0) | (columns >= n)
    if bool(bad.any()):
        i = int(bad.nonzero()[0])
        raise ValueError(
            f"label numbers must lie in 0..{n - 1} (n={n}), got {int(columns[i])} "
            f"in row {int(rows[i])}"
        )
    return rows, columns
